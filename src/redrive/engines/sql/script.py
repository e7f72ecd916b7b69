# SPDX-License-Identifier: MIT
"""Transactions as generators of steps, so that each is written once for SQLite and for PostgreSQL. Pure: no I/O.

A script yields steps and is sent their rows; the runner has the connection and the transaction. Where the two SQL
languages differ, a script has a mark, which ``dialects`` translates:

================  ======================================================================
``?``             the next value
``@.``            the prefix of Redrive's tables: a schema, or a text
``IN @ints``      one of a list of numbers, given as one value
``IN @texts``     one of a list of texts, given as one value
``@lock``         lock these rows until the transaction ends
``@given``        the rows of values of a ``Change`` or of ``TableColumns``, called ``g``
``@time``         the time of the transaction, in a ``Change`` or ``TableColumns``
``@contains(x)``  whether a text contains the next value, ignoring the case of ASCII letters
``@within(x)``    whether bytes contain the UTF-8 of the next value, ignoring the case of ASCII letters
``@header(x)``    the header named by the next value, in the properties of a message, as a text
``@list(x)``      all numbers of a column, as a list in JSON
================  ======================================================================
"""

from collections.abc import Callable, Generator, Mapping, Sequence
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
    """A statement that runs once for each row of values; it has no answer."""

    text: str
    rows: Sequence[Sequence[object]]


@dataclass(frozen=True, slots=True)
class Keyed:
    """A statement about one thing, named by ``key``, which is the first column of every row of its answer.

    So equal statements of several scripts can be run together, and each script gets its own rows.
    """

    text: str
    values: Sequence[object]
    key: str


@dataclass(frozen=True, slots=True, eq=False)
class TableColumns:
    """Columns of a table that rows are inserted into.

    Attributes:
        table: the table.
        columns: the columns that rows have values for, each with its type in PostgreSQL, and an exclamation mark if no
            value is NULL.
        filled: further columns, each with an expression; ``@time`` is the time of the transaction, and ``g`` is the
            row of values.
    """

    table: str
    columns: tuple[tuple[str, str], ...]
    filled: tuple[tuple[str, str], ...] = ()

    @property
    def expressions(self) -> dict[str, str]:
        """What each column is filled with."""
        return {**{name: f"g.{name}" for name, _ in self.columns}, **dict(self.filled)}

    @property
    def uses_time(self) -> bool:
        """Whether a column has the time of the transaction."""
        return any("@time" in expression for _, expression in self.filled)


@dataclass(frozen=True, slots=True)
class Inserts:
    """Rows for several tables; it has no answer. Those of several scripts can be inserted together."""

    rows: Mapping[TableColumns, Sequence[Sequence[object]]]


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """A statement that changes one row, or inserts it, and returns something of it.

    Attributes:
        text: the statement. ``@given`` is a table ``g`` with a row of values, ``@time`` the time of the transaction.
            What it returns is an empty text if there was no such row: then it is to be undone.
        columns: the names of the values, each with its type in PostgreSQL.
    """

    text: str
    columns: tuple[tuple[str, str], ...]


@dataclass(slots=True, eq=False)  # not frozen: one is made for each transaction
class Guarded:
    """Changes of rows, and rows to be inserted if all these were as expected; the answer has a row then.

    If a row was not as expected, what follows it is not done, and the answer is empty. A script that may be run
    together with others has this as its first step, and as its last one if the answer has a row.

    Attributes:
        changes: the changes with their values.
        rows: the rows for several tables.
    """

    changes: Sequence[tuple[Change, Sequence[object]]]
    rows: Mapping[TableColumns, Sequence[Sequence[object]]]


DONE: Sequence[Row] = ((True,),)
"""The answer of ``Guarded`` if everything was as expected."""


@dataclass(frozen=True, slots=True)
class Now:
    """The time of the transaction; the answer is one row with one column."""


Step: TypeAlias = Sql | Many | Keyed | Inserts | Guarded | Now
Script: TypeAlias = Generator[Step, Sequence[Row], T]


@dataclass(slots=True, eq=False)  # not frozen: one is made for each transaction
class Together:
    """A script that may be run in one transaction with others, step by step.

    What it changes must be named by a ``Keyed`` statement: scripts with the same key are not run together. If it only
    reads, it has one statement.

    Attributes:
        begin: returns the script.
    """

    begin: Callable[[], Script[Any]]

    def __call__(self) -> Script[Any]:
        """Return the script."""
        return self.begin()


def now() -> Script[float]:
    """Return the time of the transaction in seconds since 1970; it is the same for the whole script."""
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
    """Return the values of a row by their names; ``read`` replaces stored values by what they were decoded to."""
    return {**dict(zip(row.keys(), row, strict=True)), **read}  # looking up one name after another is slow


def insert(table: str, columns: Sequence[str]) -> str:
    """Return the statement that inserts a row of values for these columns."""
    return f"INSERT INTO @.{table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"


def assigned(columns: Sequence[str]) -> str:
    """Return the assignments of an update that sets these columns to a row of values."""
    return ", ".join(f"{column} = ?" for column in columns)


def plain(text: str) -> str:
    """Return a text in a form that every database can store."""
    if text.isascii() and "\0" not in text:  # as nearly all are
        return text
    return text.replace("\0", "").encode(errors="backslashreplace").decode()
