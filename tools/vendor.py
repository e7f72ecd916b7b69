# SPDX-License-Identifier: MIT
"""Fetches what the console's pages and their tests have from others, and writes the checksums: ``make vendor``.

A ``manifest.toml`` beside them says which files of which packages. ``npm pack`` fetches them, from the registry that
npm is set up for. To move one of them, change its version there and run this.
"""

import re
import subprocess
import tarfile
import tomllib
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).parents[1]
FOLDERS = (
    ROOT / "src" / "redrive" / "server" / "console" / "static" / "vendor",
    ROOT / "tests" / "browser" / "vendor",
)
_INNER = re.compile(r"<svg[^>]*>(.*)</svg>", re.DOTALL)
_CHECKSUM = r'(\.files\."{name}"\]\nfrom = "[^"]*"\nsha256 = ")[0-9a-f]*(")'


def sprite(folder: Path, names: list[str]) -> bytes:
    """Return one file with all icons: a page shows one by ``<use href="icons.svg#name">``."""
    symbols = [f'<symbol id="{name}" viewBox="0 0 24 24">{_drawn(folder / f"{name}.svg")}</symbol>' for name in names]
    return ('<svg xmlns="http://www.w3.org/2000/svg">\n' + "\n".join(symbols) + "\n</svg>\n").encode()


def _drawn(icon: Path) -> str:
    found = _INNER.search(icon.read_text())
    assert found is not None, icon
    return re.sub(r"\s+", " ", found[1]).strip().replace(" />", "/>")


def fetch(part: dict[str, Any], folder: Path) -> Path:
    """Return the folder with a package's files."""
    named = f"{part['package']}@{part['version']}"
    ran = subprocess.run(  # noqa: S603 - our own manifest says what
        ["npm", "pack", named, "--silent", "--pack-destination", folder],  # noqa: S607 - whichever npm there is
        check=True,
        capture_output=True,
        text=True,
    )
    with tarfile.open(folder / ran.stdout.split()[-1]) as packed:
        packed.extractall(folder / part["package"], filter="data")
    return folder / part["package"] / "package"


def main() -> None:
    """Fetch everything."""
    for vendor in FOLDERS:
        fetch_all(vendor)


def fetch_all(vendor: Path) -> None:
    """Fetch what the manifest of a folder names."""
    manifest = vendor / "manifest.toml"
    text = manifest.read_text()
    for part in tomllib.loads(text).values():
        with TemporaryDirectory() as folder:
            package = fetch(part, Path(folder))
            for name, file in part["files"].items():
                source = package / file["from"]
                data = sprite(source, part["icons"]) if source.is_dir() else source.read_bytes()
                (vendor / name).write_bytes(data)
                pattern = _CHECKSUM.format(name=re.escape(name))
                text = re.sub(pattern, rf"\g<1>{sha256(data).hexdigest()}\g<2>", text)
                print(f"{name}: {len(data):,} bytes of {part['package']} {part['version']}")
    manifest.write_text(text)


if __name__ == "__main__":
    main()
