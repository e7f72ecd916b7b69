# SPDX-License-Identifier: MIT
"""Transactions as generators of statements, so that each is written once for SQLite and for PostgreSQL.

A script yields statements and is sent their rows; whoever runs it has the connection and the transaction. What the two
languages do not share is spelled with a few marks, which each engine replaces:

================  ======================================================================
``?``             the next value
``@.``            what stands before the names of our tables: a schema, or a prefix
``IN @ints``      one of a list of numbers, given as one value
``IN @texts``     one of a list of texts, given as one value
``@lock``         keep others from these rows until the transaction ends
``@contains(x)``  whether a text has the next value in it; only ASCII letters are the same in upper and lower case
``@within(x)``    whether bytes have the UTF-8 of the next value in them, likewise
``@list(x)``      all numbers of a column, as a list in JSON
================  ======================================================================
"""

import json
import re
import sqlite3
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol, TypeAlias, TypeVar

T = TypeVar("T")
Row: TypeAlias = Any
"""A row of an answer: its columns by position."""


@dataclass(frozen=True, slots=True)
class Sql:
    """A statement with its values; its rows are the answer."""

    text: str
    values: Sequence[object] = ()


@dataclass(frozen=True, slots=True)
class Many:
    """A statement that is done once for each row of values; it has no answer."""

    text: str
    rows: Sequence[Sequence[object]]


Statement: TypeAlias = Sql | Many
Script: TypeAlias = Generator[Statement, Sequence[Row], T]


class Scripted(Protocol):
    """An engine that runs scripts."""

    async def open(self) -> None:
        """Connect, and bring the schema up to date."""
        ...

    async def close(self) -> None:
        """Disconnect."""
        ...

    async def run(self, script: Callable[[float], Script[T]]) -> T:
        """Run a script in a transaction, durably; it is given the time, and may be begun again."""
        ...

    async def look(self, script: Callable[[float], Script[T]]) -> T:
        """Run a script that only reads, all of it as it was at one moment."""
        ...


def listed(numbers: Iterable[int]) -> str:
    """Return numbers as a list in SQL."""
    return f"({', '.join(str(int(each)) for each in numbers)})"


def plain(text: str) -> str:
    """Return a text that every database can store."""
    return text.replace("\0", "").encode(errors="backslashreplace").decode()


# --- SQLite

_SQLITE = re.compile(r"@\.|@ints|@texts| @lock|@list|@contains\(([\w.]+)\)|@within\(([\w.]+)\)")
_SQLITE_WORDS = {"@.": "redrive_", " @lock": "", "@list": "json_group_array"}
_SQLITE_HAS = "instr(CAST(lower(CAST(%s AS TEXT)) AS BLOB), CAST(lower(?) AS BLOB)) > 0"


@lru_cache(maxsize=1_000)
def sqlite_text(text: str) -> str:
    """Return a statement as SQLite understands it."""

    def word(found: "re.Match[str]") -> str:
        if column := found[1] or found[2]:
            return _SQLITE_HAS % column
        return _SQLITE_WORDS.get(found[0], "(SELECT value FROM json_each(?))")

    return _SQLITE.sub(word, text)


def run_sqlite(connection: sqlite3.Connection, script: Script[T]) -> T:
    """Run a script on a connection with a transaction."""
    answer: Sequence[Row] = ()
    try:
        statement = next(script)
    except StopIteration as end:  # it asks for nothing
        return end.value  # type: ignore[no-any-return]  # what the script returned
    while True:
        if isinstance(statement, Many):
            connection.executemany(sqlite_text(statement.text), statement.rows)
            answer = ()
        else:
            values = [json.dumps(value) if isinstance(value, list) else value for value in statement.values]
            answer = connection.execute(sqlite_text(statement.text), values).fetchall()
        try:
            statement = script.send(answer)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]  # what the script returned


# --- PostgreSQL

_POSTGRES = re.compile(r"@\.|IN @ints|IN @texts|@lock|@list|\?|@contains\(([\w.]+)\)|@within\(([\w.]+)\)")
_POSTGRES_WORDS = {
    "IN @ints": "= ANY (${0}::bigint[])",
    "IN @texts": "= ANY (${0}::text[])",
    "?": "${0}",
    "contains": """position(lower(${0}::text COLLATE "C") IN lower({1} COLLATE "C")) > 0""",
    # as LATIN1 any byte is a letter, but for 0: bytes that have one are compared in octal, where 303 may be an é
    "within": """CASE WHEN position(decode('00', 'hex') IN {1}) = 0
        THEN position(lower(convert_from(convert_to(${0}::text, 'UTF8'), 'LATIN1') COLLATE "C")
            IN lower(convert_from({1}, 'LATIN1') COLLATE "C")) > 0
        ELSE position(lower(encode(convert_to(${0}::text, 'UTF8'), 'escape') COLLATE "C")
            IN lower(encode({1}, 'escape') COLLATE "C")) > 0 END""",
}


@lru_cache(maxsize=1_000)
def postgres_text(text: str, schema: str) -> str:
    """Return a statement as PostgreSQL understands it."""
    words = {"@.": f"{schema}.", "@lock": "FOR UPDATE", "@list": "json_agg"}
    count = 0

    def word(found: "re.Match[str]") -> str:
        nonlocal count
        if found[0] in words:
            return words[found[0]]
        count += 1
        kind = "contains" if found[1] else "within" if found[2] else found[0]
        return _POSTGRES_WORDS[kind].format(count, found[1] or found[2])

    return _POSTGRES.sub(word, text)


class Driven(Protocol):
    """A connection of asyncpg."""

    def fetch(self, statement: str, *values: object) -> Awaitable[Sequence[Row]]:
        """Do a statement, and return its rows."""
        ...

    def executemany(self, statement: str, rows: Sequence[Sequence[object]]) -> Awaitable[None]:
        """Do a statement once for each row of values."""
        ...


async def run_postgres(connection: Driven, script: Script[T], schema: str) -> T:
    """Run a script on a connection with a transaction."""
    answer: Sequence[Row] = ()
    try:
        statement = next(script)
    except StopIteration as end:  # it asks for nothing
        return end.value  # type: ignore[no-any-return]  # what the script returned
    while True:
        text = postgres_text(statement.text, schema)
        if isinstance(statement, Many):
            await connection.executemany(text, statement.rows)
            answer = ()
        else:
            answer = await connection.fetch(text, *statement.values)
        try:
            statement = script.send(answer)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]  # what the script returned
