# SPDX-License-Identifier: MIT
"""Writes the tables in docs/reference/headers.md from ``redrive.broker.headers``, the texts below the names included.

Run it after a change to that file: ``python -m tools.header_table``. A test compares.
"""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "redrive" / "broker" / "headers.py"
PAGE = ROOT / "docs" / "reference" / "headers.md"
BEGIN, END = "<!-- headers:begin -->", "<!-- headers:end -->"

_SECTION = re.compile(r"^# --- (.+)$", re.MULTILINE)
_HEADER = re.compile(r'^\w+: Final = "(redrive-[a-z-]*[a-z])"\n"""(.+?)"""$', re.MULTILINE | re.DOTALL)


def sections() -> dict[str, dict[str, str]]:
    """Return what each header means, by where it is found and by its name."""
    _, *parts = _SECTION.split(SOURCE.read_text())
    return {title: dict(_HEADER.findall(part)) for title, part in zip(parts[::2], parts[1::2], strict=True)}


def tables() -> str:
    """Return a table for each section."""
    return "".join(_table(title, headers) for title, headers in sections().items())


def _table(title: str, headers: dict[str, str]) -> str:
    rows = [f"| `{name}` | {' '.join(text.split()).replace('``', '`')} |\n" for name, text in headers.items()]
    return f"\n**{title}**\n\n| header | meaning |\n| --- | --- |\n{''.join(rows)}"


def with_tables(page: str) -> str:
    """Return the page with the tables between their marks."""
    written = f"{BEGIN}\n{tables()}\n{END}"
    return re.sub(f"{re.escape(BEGIN)}.*?{re.escape(END)}", lambda _: written, page, flags=re.DOTALL)


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text()))
