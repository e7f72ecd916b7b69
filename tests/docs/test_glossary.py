# SPDX-License-Identifier: MIT
"""The glossary is true: its terms are used, its names exist, and the words it advises against get rarer."""

import re
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT

GLOSSARY = ROOT / "docs" / "reference" / "glossary.md"
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in GLOSSARY.read_text().splitlines()
    if line[:2] == "| "
]
TERMS = {row[0]: row[2] for row in ROWS if len(row) == 3 and row[0] not in {"term", "---"}}
AVOIDED = [row[0] for row in ROWS if len(row) == 2 and row[0] not in {"word", "---"}]

MOST = {"told": 3}  # the column of a migration that has landed, and two old names in the changelog
"""How often a word may still occur; one that is not listed may not occur at all."""

OTHER_PAGES = "\n".join(page.read_text() for page in PAGES if page != GLOSSARY)


def written(term: str) -> re.Pattern[str]:
    """Return a pattern for a term as a word of its own, also in plural."""
    return re.compile(rf"\b{re.escape(term)}(e?s)?\b", re.IGNORECASE)


@pytest.mark.parametrize("term", TERMS)
def test_a_term_is_used_on_other_pages(term):
    assert written(term).search(OTHER_PAGES)


@pytest.mark.parametrize("name", sorted({name.strip("`") for name in TERMS.values() if name}))
def test_a_name_in_the_glossary_exists_and_is_public(name):
    module, _, attribute = name.rpartition(".")
    assert attribute in import_module(module).__all__


def test_a_term_is_explained_once():
    explained = [row[0] for row in ROWS if len(row) == 3 and row[0] not in {"term", "---"}]
    assert sorted(explained) == sorted(set(explained))


@cache
def texts() -> dict[Path, str]:
    """Return the code and the pages."""
    code = [
        path for path in sorted((ROOT / "src").rglob("*.py")) if path.name != "schema.py"
    ]  # migrations never change
    return {path: path.read_text() for path in (*code, *(page for page in PAGES if page != GLOSSARY))}


def occurrences(word: str) -> list[str]:
    """Return where a word occurs, as a word of its own or as part of a name, in the code and on the pages."""
    pattern = re.compile(rf"(?<![A-Za-z]){word}(?![A-Za-z])", re.IGNORECASE)
    return [
        f"{path.relative_to(ROOT)}:{place(text, found.start())}"
        for path, text in texts().items()
        for found in pattern.finditer(text)
    ]


def place(text: str, at: int) -> str:
    """Return the number of a line and what it says."""
    line = text[text.rfind("\n", 0, at) + 1 :].partition("\n")[0]
    return f"{text.count(chr(10), 0, at) + 1}: {line.strip()}"


@pytest.mark.parametrize("word", AVOIDED)
def test_a_word_that_is_not_used_gets_rarer(word):
    found = occurrences(word)
    assert len(found) <= MOST.get(word, 0), "\n".join(found)
