# SPDX-License-Identifier: MIT
"""The files of the pages: what others made is what the manifest says, and what is ours stays small."""

import gzip
import re
import tomllib
from hashlib import sha256
from pathlib import Path

from redrive.server.console import files

VENDOR = files.FOLDER / "vendor"
MANIFEST = tomllib.loads((VENDOR / "manifest.toml").read_text())
TEMPLATES = Path(files.__file__).parent / "templates"


def test_every_file_of_others_is_the_one_that_the_manifest_names():
    named = {name: each["sha256"] for part in MANIFEST.values() for name, each in part["files"].items()}
    found = {path.name: sha256(path.read_bytes()).hexdigest() for path in VENDOR.iterdir() if path.suffix != ".toml"}
    assert found == named


def test_every_part_of_others_has_its_licence():
    for name, part in MANIFEST.items():
        assert part["licence"] in ("0BSD", "ISC", "OFL-1.1")
        assert part["version"]
        assert f"{name}.LICENSE" in part["files"]


def test_our_own_script_is_small_and_needs_no_eval():
    script = files.files()["console.js"]
    assert len(gzip.compress(script)) <= 6 * 1_024
    assert not re.search(rb"\beval\b|new Function|innerHTML|\.style\b|insertAdjacentHTML", script)


def test_every_icon_that_a_template_names_is_in_the_sprite():
    drawn = set(re.findall(r'<symbol id="([^"]+)"', files.files()["vendor/icons.svg"].decode()))
    assert set(MANIFEST["lucide"]["icons"]) == drawn
    sources = [*TEMPLATES.glob("*.html"), *TEMPLATES.parent.glob("*.py")]
    named = {name for path in sources for name in re.findall(r'icon\("([a-z0-9-]+)"', path.read_text())}
    assert named <= drawn


def test_no_file_names_anything_on_another_host():
    for name, data in files.files().items():
        if name.endswith((".css", ".js")) and not name.startswith("vendor/"):
            assert not re.search(rb"(https?:)?//[a-z0-9-]+\.[a-z]{2,}", data), name
