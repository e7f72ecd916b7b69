# SPDX-License-Identifier: MIT
"""Transactions as generators of steps, so that each is written once for SQLite and for PostgreSQL. Pure: no I/O.

A script yields steps and is sent their rows; the runner has the connection and the transaction. What the two SQL
languages do not share is spelled with a few marks, which ``dialects`` translates:

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

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")
Row: TypeAlias = Any
"""A row of an answer: its columns by name, and in order when it is unpacked."""


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


@dataclass(frozen=True, slots=True)
class Now:
    """The time of the transaction; the answer is one row with one column."""


Step: TypeAlias = Sql | Many | Now
Script: TypeAlias = Generator[Step, Sequence[Row], T]


def now() -> Script[float]:
    """Return the time of the transaction in seconds since 1970; it is the same however often a script asks."""
    ((time,),) = yield Now()
    return float(time)


def scalar(statement: Sql) -> Script[Any]:
    """Return the only column of the only row of an answer; None if there is no row."""
    for (value,) in (yield statement):
        return value
    return None


def scalars(statement: Sql) -> Script[list[Any]]:
    """Return the only column of all rows of an answer."""
    return [value for (value,) in (yield statement)]


def values_of(row: Row, **read: object) -> dict[str, Any]:
    """Return the values of a row by their names, with those that were read from the stored ones."""
    return {**dict(zip(row.keys(), row, strict=True)), **read}  # not by one name after another: that is slow


def insert(table: str, columns: Sequence[str]) -> str:
    """Return the statement that inserts a row of values for these columns."""
    return f"INSERT INTO @.{table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"


def assigned(columns: Sequence[str]) -> str:
    """Return what an update sets these columns to: a row of values."""
    return ", ".join(f"{column} = ?" for column in columns)


def plain(text: str) -> str:
    """Return a text that every database can store."""
    return text.replace("\0", "").encode(errors="backslashreplace").decode()
