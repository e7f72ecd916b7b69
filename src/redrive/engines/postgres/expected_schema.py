# SPDX-License-Identifier: MIT
"""What the migrations make, read from their scripts, to be compared with what there is. Pure: no I/O."""

import re
from collections.abc import Iterable, Mapping

_STATEMENT = re.compile(r"(CREATE|DROP|ALTER) TABLE (?:IF (?:NOT )?EXISTS )?@\.(\w+)\s*", re.IGNORECASE)
_FUNCTION = re.compile(r"CREATE (?:OR REPLACE )?FUNCTION @\.(\w+)", re.IGNORECASE)
_COLUMN = re.compile(r"(ADD|DROP|RENAME) (?:COLUMN )?(?:IF (?:NOT )?EXISTS )?(\w+)(?: TO (\w+))?", re.IGNORECASE)
_NO_COLUMNS = {"primary", "unique", "constraint", "check", "foreign", "exclude"}


def tables(scripts: Iterable[str]) -> dict[str, set[str]]:
    """Return the columns of the tables that scripts make, one after another."""
    made: dict[str, set[str]] = {}
    for script in scripts:
        text = re.sub(r"--[^\n]*|\$redrive\$.*?\$redrive\$", "", script, flags=re.DOTALL)
        for found in _STATEMENT.finditer(text):
            verb, table, rest = found[1].upper(), found[2], text[found.end() :]
            if verb == "CREATE":
                made[table] = {part.split()[0] for part in _parts(rest) if part.split()[0].lower() not in _NO_COLUMNS}
            elif verb == "DROP":
                made.pop(table, None)
            else:
                _alter(made.setdefault(table, set()), rest.partition(";")[0])
    return made


def functions(scripts: Iterable[str]) -> set[str]:
    """Return the names of the functions that scripts make."""
    return {name for script in scripts for name in _FUNCTION.findall(script)}


def missing(
    wanted: Mapping[str, set[str]], called: set[str], there: Mapping[str, set[str]], known: set[str]
) -> str | None:
    """Say what is not there that should be.

    Args:
        wanted: the columns of the tables there should be.
        called: the functions there should be.
        there: the columns of the tables there are.
        known: the functions there are.
    """
    for table, columns in sorted(wanted.items()):
        if table not in there:
            return f"there is no table {table!r}"
        if lacking := sorted(columns - there[table]):
            return f"table {table!r} has no column {lacking[0]!r}"
    lost = sorted(called - known)
    return f"there is no function {lost[0]!r}" if lost else None


def _parts(text: str) -> list[str]:
    """Return what stands between the brackets with which a text begins, split at its commas."""
    parts, depth = [""], 0
    for letter in text:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if depth == 0:
            break
        if letter == "," and depth == 1:
            parts.append("")
        elif not (letter == "(" and depth == 1 and parts == [""]):
            parts[-1] += letter
    return [part for part in parts if part.strip()]


def _alter(columns: set[str], changes: str) -> None:
    for verb, name, renamed in _COLUMN.findall(changes):
        if verb.upper() == "ADD":
            if name.lower() not in _NO_COLUMNS:
                columns.add(name)
        else:
            columns.discard(name)
            columns.update({renamed} - {""})
