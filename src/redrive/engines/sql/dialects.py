# SPDX-License-Identifier: MIT
"""How SQLite and PostgreSQL spell the marks in scripts and migrations. Pure: no I/O."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

_MARK = re.compile(r"@\.|IN @ints|IN @texts| @lock|@list|\?|@(?P<search>contains|within|header)\((?P<column>[\w.]+)\)")
_GIVEN = re.compile(r"\bg\.(\w+)")
_TAKES_A_VALUE = frozenset({"?", "IN @ints", "IN @texts", "contains", "within", "header"})


@dataclass(frozen=True, eq=False)
class Dialect:
    """How a database spells the marks, for which the two SQL languages differ.

    Attributes:
        marks: the text for each mark in a statement; ``{n}`` is the number of its value, ``{column}`` its column.
        types: the text for each mark in a migration, in the order in which they are replaced.
    """

    marks: Mapping[str, str]
    types: Mapping[str, str]

    def migration(self, script: str) -> str:
        """Return a migration in the database's own SQL; PostgreSQL's keeps ``@.`` for its schema."""
        for mark, replacement in self.types.items():
            script = script.replace(mark, replacement)
        return script


@lru_cache(maxsize=2_000)
def statement(dialect: Dialect, text: str, prefix: str) -> str:
    """Return a statement in a database's own SQL.

    Args:
        dialect: how the database spells it.
        text: the statement with marks.
        prefix: the prefix of Redrive's tables.
    """
    values = 0

    def word(found: "re.Match[str]") -> str:
        nonlocal values
        mark = found["search"] or found[0]
        if mark == "@.":
            return prefix
        values += mark in _TAKES_A_VALUE
        return dialect.marks[mark].format(n=values, column=found["column"])

    return _MARK.sub(word, text)


@lru_cache(maxsize=500)
def sqlite_values(text: str, names: tuple[str, ...], prefix: str, many: int) -> str:
    """Return an insertion of rows of ``@given`` values in SQLite; the value after the last row is the time.

    Args:
        text: the insertion, up to the expressions for one row, in brackets.
        names: the names of the values.
        prefix: the prefix of Redrive's tables.
        many: how many rows there are.
    """
    head, expressions = text.rsplit(" VALUES ", 1)
    rows = [_numbered(expressions, numbers) for numbers in _numbers(names, many)]
    return f"{head} VALUES {', '.join(rows)}".replace("@time", f"?{_time(names, many)}").replace("@.", prefix)


@lru_cache(maxsize=500)
def sqlite_given(text: str, names: tuple[str, ...], prefix: str, many: int = 1) -> str:
    """Return a statement on rows of ``@given`` values in SQLite; the value after the last row is the time.

    Args:
        text: the statement.
        names: the names of the values.
        prefix: the prefix of Redrive's tables.
        many: how many rows there are.
    """
    rows = [
        f"SELECT {', '.join(f'?{number} AS {name}' for name, number in numbers.items())}"
        for numbers in _numbers(names, many)
    ]
    given = text.replace("@given", f"({' UNION ALL '.join(rows)}) AS g")
    return given.replace("@time", f"?{_time(names, many)}").replace("@.", prefix)


def _numbers(names: Sequence[str], many: int) -> list[dict[str, int]]:
    """Return the numbers of values by their names, for each row."""
    return [{name: row * len(names) + place for place, name in enumerate(names, 1)} for row in range(many)]


def _numbered(expressions: str, numbers: Mapping[str, int]) -> str:
    return _GIVEN.sub(lambda found: f"?{numbers[found[1]]}", expressions)


def _time(names: Sequence[str], many: int) -> int:
    return len(names) * many + 1


def postgres_given(text: str, columns: Sequence[tuple[str, str]], prefix: str, first: int) -> str:
    """Return a statement on rows of ``@given`` values in PostgreSQL: a list for each column, as ``lists`` makes them.

    Args:
        text: the statement.
        columns: the names and types of the columns.
        prefix: the prefix of Redrive's tables.
        first: the number of its first value.
    """
    kinds = [f"${number}::{kind.removesuffix('!')}[]" for number, (_, kind) in enumerate(columns, first)]
    rows = [
        f"coalesce({name}, ({values})[1]) AS {name}" if kind.endswith("!") else name
        for (name, kind), values in zip(columns, kinds, strict=True)
    ]
    names = ", ".join(name for name, _ in columns)
    given = f"(SELECT {', '.join(rows)} FROM unnest({', '.join(kinds)}) AS l ({names})) AS g"
    return text.replace("@given", given).replace("@time", "(SELECT now.time FROM now)").replace("@.", prefix)


def lists(columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[object]]) -> list[list[object]]:
    """Return rows as a list for each column, as ``postgres_given`` needs them.

    A column whose values are all equal is a list of one, since most are, and a value of a list takes a while to encode.
    The first column tells how many rows there are. A list that is too short is filled up with NULL.
    """
    first, *others = zip(*rows, strict=True)
    many = len(first)
    found = [list(first)]
    for (_, kind), values in zip(columns[1:], others, strict=True):
        value = values[0]
        is_short = values.count(value) == many and (value is None or kind.endswith("!"))
        found.append([value] if is_short else list(values))
    return found


HEADER_FUNCTION: Final = "redrive_header"
"""The function that connections to SQLite have: a header in the properties of a message, as a text."""

_SQLITE_LIST = "IN (SELECT value FROM json_each(?))"
_SQLITE_SEARCH = "instr(CAST(lower(CAST({column} AS TEXT)) AS BLOB), CAST(lower(?) AS BLOB)) > 0"

SQLITE = Dialect(
    marks={
        "?": "?",
        "IN @ints": _SQLITE_LIST,
        "IN @texts": _SQLITE_LIST,
        " @lock": "",  # a writing transaction locks the whole file
        "@list": "json_group_array",
        "contains": _SQLITE_SEARCH,
        "within": _SQLITE_SEARCH,
        "header": f"{HEADER_FUNCTION}({{column}}, ?)",
    },
    types={
        "@hashed": "",
        "@at(": "datetime(",  # a time for people, as ``@at(column@)``
        "@)": ", 'unixepoch')",
        "@now": "((julianday('now') - 2440587.5) * 86400.0)",
        "@serial": "integer PRIMARY KEY AUTOINCREMENT",
        "@small": "integer",
        "@big": "integer",
        "@time": "real",
        "@bytes": "blob",
        "@rowless": " WITHOUT ROWID",
        "@old_": "redrive_old_",
        "@_": "redrive_",
        "@.": "redrive_",
    },
)

POSTGRES = Dialect(
    marks={
        "?": "${n}",
        "IN @ints": "= ANY (${n}::bigint[])",
        "IN @texts": "= ANY (${n}::text[])",
        " @lock": " FOR UPDATE",
        "@list": "json_agg",
        "contains": """position(lower(${n}::text COLLATE "C") IN lower({column} COLLATE "C")) > 0""",
        # as LATIN1 every byte except 0 is a letter: bytes with a 0 are compared in octal, where 303 may be an é
        "within": """CASE WHEN position(decode('00', 'hex') IN {column}) = 0
            THEN position(lower(convert_from(convert_to(${n}::text, 'UTF8'), 'LATIN1') COLLATE "C")
                IN lower(convert_from({column}, 'LATIN1') COLLATE "C")) > 0
            ELSE position(lower(encode(convert_to(${n}::text, 'UTF8'), 'escape') COLLATE "C")
                IN lower(encode({column}, 'escape') COLLATE "C")) > 0 END""",
        # no text in PostgreSQL has a NUL; it is one only if an even number of backslashes is before it
        "header": r"""(CASE WHEN position(E'\\u0000' IN {column}) = 0 THEN {column}
            ELSE regexp_replace({column}, E'(?<!\\\\)((?:\\\\\\\\)*)\\\\u0000', E'\\1\uFFFD', 'g')
            END::json -> 'headers' ->> ${n}::text)""",
    },
    types={
        "@at(": "to_timestamp(",
        "@)": ")",
        "@now": "extract(epoch FROM clock_timestamp())",
        "@serial": "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "@small": "smallint",
        "@big": "bigint",
        "@time": "float8",
        "@bytes": "bytea",
        "@rowless": "",
        "@hashed": "USING hash ",
        "@old_": "old_",
        "@_": "",
    },
)
