# SPDX-License-Identifier: MIT
"""The names of Redrive's headers and queues are spelled in one file each, and the reference has all of them."""

import ast
from functools import cache
from pathlib import Path

from redrive.broker import headers, rules
from tools.header_table import PAGE, sections, with_tables

SRC = Path(__file__).parents[2] / "src" / "redrive"
NAMED = {
    "Thread",
    "ThreadPoolExecutor",
    "Threads",
    "TemporaryDirectory",
    "create_task",
    "register",
    "hasplugin",
}
"""What these are called begins with ``redrive-`` too, and is no header."""

HEADERS = ["broker/headers.py", "server/console/browser_names.py"]
"""The headers of messages, and what browsers send, which has names of the same kind."""


def strings(tree, *, but_of=frozenset()):
    """Yield the strings that code uses: neither docstrings and help texts, nor arguments of some functions."""
    prose = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        named = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if named in but_of:
            prose |= set(ast.walk(call))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in prose:
            yield node.value


@cache
def tree_of(path):
    """Return the code of a file, parsed once for all tests."""
    return ast.parse(path.read_text())


def spelled(home, part, is_name, but_of=frozenset()):
    """Return where a name, which has some part, is spelled that only one file may spell, or one of these."""
    return [
        f"{path.relative_to(SRC)}: {text!r}"
        for path in sorted(SRC.rglob("*.py"))
        if path not in {SRC / each for each in home} and part in path.read_text()
        for text in strings(tree_of(path), but_of=but_of)
        if is_name(text)
    ]


def test_only_one_file_spells_headers():
    assert spelled(HEADERS, "redrive-", lambda text: text.startswith("redrive-"), NAMED) == []


def test_only_one_file_spells_queues():
    queues = (rules.CONFIRMATIONS, rules.STAGING_QUEUES)
    dead, home = rules.DEAD_LETTER_SUFFIX, ["broker/rules.py"]
    assert all(name.startswith("redrive.") for name in (*queues, rules.RECOVERY_HINTS))
    assert spelled(home, '"redrive.', lambda text: text.startswith(queues) or text == rules.RECOVERY_HINTS) == []
    assert spelled(home, dead, lambda text: dead in text and "\n" not in text) == []


def test_every_header_has_a_name_of_its_own_and_a_place_in_the_reference():
    prefixes = {headers.OWN_HEADERS, headers.FAILED, headers.RECOVERY}
    names = [value for name, value in vars(headers).items() if name.isupper() and value not in prefixes]
    assert sorted(names) == sorted(set(names))
    assert sorted(names) == sorted(name for section in sections().values() for name in section)
    assert all(name.startswith(headers.OWN_HEADERS) for name in names)
    assert PAGE.read_text() == with_tables(PAGE.read_text()), "run: python -m tools.header_table"
