# SPDX-License-Identifier: MIT
"""Whatever people can use, catch, set or observe has its place in docs/reference/, in backticks."""

import re
from pathlib import Path

import pytest

from redrive import errors
from tests.contract import surface

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"

HANDED_OUT = {"Attempt", "BlockAttempt", "Policies", "Retry"}
"""Public classes that programs do not construct: their constructors have no settings, only their class methods do."""


def code_words(page: str) -> set[str]:
    """Return the identifiers inside `inline code`; fenced examples show, they do not explain."""
    prose = re.sub(r"^(```+).*?^\1", "", page, flags=re.MULTILINE | re.DOTALL)
    return {word for span in re.findall(r"`([^`\n]+)`", prose) for word in re.findall(r"\w+", span)}


@pytest.fixture(scope="module")
def pages() -> list[set[str]]:
    return [code_words(path.read_text()) for path in sorted(REFERENCE.glob("*.md"))]


def undocumented(pages, owner: str, names) -> list[str]:
    """Return the names that no page mentions together with their owner."""
    mentioned = {word for page in pages if owner in page for word in page}
    return [f"{owner}: {name}" for name in names if name not in mentioned]


def settings(item: surface.Exported) -> list[str]:
    """Return what can be set when calling a public function or building an object, in each of the ways to build it."""
    builders = [] if item.name in HANDED_OUT else [item.value]
    if isinstance(item.value, type):
        builders += [member.__get__(None, item.value) for member in vars(item.value).values() if _is_factory(member)]
    return [parameter.name for builder in builders for parameter in surface.parameters(builder)]


def _is_factory(member: object) -> bool:
    return isinstance(member, classmethod) and not member.__name__.startswith("_")


def test_code_words_reads_inline_code_and_skips_fences():
    page = "Say `retry(on=..., deadline=30)`.\n\n```python\nhidden()\n```\n\nThen `redrive.retry`.\n"
    assert code_words(page) == {"retry", "on", "deadline", "30", "redrive"}


def test_every_public_name_is_in_the_reference(pages):
    names = {item.name for item in surface.exported() if not item.name.startswith("__")}
    assert sorted(names - set().union(*pages)) == []


def test_every_error_is_in_the_reference(pages):
    names = {name for name, value in vars(errors).items() if isinstance(value, type)}
    assert sorted(names - set().union(*pages)) == []


def test_every_setting_of_the_retry_layer_is_in_the_reference(pages):
    missing = [
        line
        for item in surface.exported()
        if item.module == "redrive.retry"
        for line in undocumented(pages, item.name, settings(item))
    ]
    assert missing == []
