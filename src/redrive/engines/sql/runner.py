# SPDX-License-Identifier: MIT
"""Runs scripts: one loop, and a driver for each database.

The loop is a coroutine, because PostgreSQL's driver is async. SQLite's driver blocks, so on SQLite the loop never
waits, and ends at the first ``send``.
"""

import json
import sqlite3
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Protocol, TypeVar, assert_never

from redrive.engines.sql.dialects import POSTGRES, SQLITE, Dialect, statement
from redrive.engines.sql.script import Many, Now, Row, Script, Sql

T = TypeVar("T")
SQLITE_PREFIX = "redrive_"
"""The prefix of Redrive's tables in SQLite, where a program's own tables may be in the same file."""


class Driver(Protocol):
    """A connection that runs the statements of a transaction.

    Attributes:
        dialect: how its database spells them.
        prefix: the prefix of Redrive's tables.
    """

    dialect: Dialect
    prefix: str

    async def fetch(self, text: str, values: Sequence[object]) -> Sequence[Row]:
        """Run a statement, and return its rows."""
        ...

    async def execute_many(self, text: str, rows: Sequence[Sequence[object]]) -> None:
        """Run a statement once for each row of values."""
        ...

    async def now(self) -> float:
        """Return the time of the transaction."""
        ...


async def run(script: Script[T], driver: Driver) -> T:
    """Run a script inside a transaction."""
    answer: Sequence[Row] | None = None
    while True:
        try:
            step = next(script) if answer is None else script.send(answer)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]  # what the script returned
        match step:
            case Sql():
                answer = await driver.fetch(statement(driver.dialect, step.text, driver.prefix), step.values)
            case Many():
                answer = ()
                if step.rows:
                    await driver.execute_many(statement(driver.dialect, step.text, driver.prefix), step.rows)
            case Now():
                answer = [(await driver.now(),)]
            case _:
                assert_never(step)


# --- SQLite


class SqliteDriver:
    """A connection of sqlite3 with a transaction."""

    dialect = SQLITE
    prefix = SQLITE_PREFIX

    def __init__(self, connection: sqlite3.Connection, time: float) -> None:
        self._connection = connection
        self._time = time

    async def fetch(self, text: str, values: Sequence[object]) -> Sequence[Row]:
        """Run a statement; a list of values is one value in JSON."""
        cursor = self._connection.cursor()
        cursor.row_factory = sqlite3.Row
        given = [json.dumps(value) if isinstance(value, list) else value for value in values]
        return cursor.execute(text, given).fetchall()

    async def execute_many(self, text: str, rows: Sequence[Sequence[object]]) -> None:
        """Run a statement once for each row of values."""
        self._connection.executemany(text, rows)

    async def now(self) -> float:
        """Return the time at which the transaction began."""
        return self._time


def run_sqlite(connection: sqlite3.Connection, script: Script[T], time: float) -> T:
    """Run a script on a connection with a transaction that began at that time."""
    return _finished(run(script, SqliteDriver(connection, time)))


def _finished(running: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that never waits."""
    try:
        running.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]  # what the coroutine returned
    running.close()
    raise AssertionError("a script on SQLite has nothing to wait for")


# --- PostgreSQL


class AsyncpgConnection(Protocol):
    """A connection of asyncpg with a transaction."""

    def fetch(self, statement: str, *values: object) -> Awaitable[Sequence[Row]]:
        """Run a statement, and return its rows."""
        ...

    def executemany(self, statement: str, rows: Sequence[Sequence[object]]) -> Awaitable[None]:
        """Run a statement once for each row of values."""
        ...


class PostgresDriver:
    """A connection of asyncpg with a transaction.

    Args:
        connection: the connection.
        schema: the schema of Redrive's tables, quoted.
        time: reads the time; called once at most, because it may cost a round trip.
    """

    dialect = POSTGRES

    def __init__(self, connection: AsyncpgConnection, schema: str, time: Callable[[], Awaitable[float]]) -> None:
        self.prefix = f"{schema}."
        self._connection = connection
        self._ask = time
        self._time: float | None = None

    async def fetch(self, text: str, values: Sequence[object]) -> Sequence[Row]:
        """Run a statement."""
        return await self._connection.fetch(text, *values)

    async def execute_many(self, text: str, rows: Sequence[Sequence[object]]) -> None:
        """Run a statement once for each row of values."""
        await self._connection.executemany(text, rows)

    async def now(self) -> float:
        """Return the database's time at the script's first request for it."""
        if self._time is None:
            self._time = await self._ask()
        return self._time
