# SPDX-License-Identifier: MIT
"""The pages of the documentation, and the blocks of code on them."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])

FENCE = re.compile(r"^(?P<fence>```+)(?P<info>[^\n`]*)\n(?P<text>.*?)^(?P=fence)[ ]*$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A fenced block of a page."""

    page: Path
    line: int  # of its opening fence
    info: str
    text: str
    follows: bool  # nothing but blank lines since the block before

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path, text: str) -> Iterator[Block]:
    end = 0
    for found in FENCE.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        yield Block(page, line, found["info"].strip(), found["text"], not text[end : found.start()].strip())
        end = found.end()
