# SPDX-License-Identifier: MIT
"""Runs scripts: one loop, and a driver for each database.

The loop is a coroutine, because PostgreSQL's driver is async. SQLite's driver blocks, so on SQLite the loop never
waits, and ends at the first ``send``.
"""

import json
import sqlite3
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, Final, Protocol, TypeVar, assert_never

from redrive.engines.sql.dialects import (
    POSTGRES,
    SQLITE,
    Dialect,
    lists,
    postgres_given,
    sqlite_given,
    sqlite_values,
    statement,
)
from redrive.engines.sql.script import (
    DONE,
    Change,
    Guarded,
    Inserts,
    Keyed,
    Many,
    Now,
    Row,
    Script,
    Sql,
    TableColumns,
)

T = TypeVar("T")
_AT_ONCE: Final = (32, 16, 8, 4, 2, 1)
_INSERTED_AT_ONCE: Final = (500, 250, 125, *_AT_ONCE)
"""Of so many rows SQLite gets one statement: each takes a while to begin, and another thread may run in between.

With triggers, SQLite also copies every page that a statement changes, once for each statement.
"""

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

    async def fetch_each(self, text: str, rows: Sequence[Sequence[object]]) -> Sequence[Row]:
        """Run a statement once for each row of values; return the rows of all answers."""
        ...

    async def change(self, change: Change, values: Sequence[object]) -> bool:
        """Change a row; return whether it was as expected."""
        ...

    async def change_all(self, change: Change, rows: Sequence[Sequence[object]]) -> bool:
        """Make the same change in several rows; return whether all were as expected."""
        ...

    async def insert(self, rows: Mapping[TableColumns, Sequence[Sequence[object]]]) -> None:
        """Insert rows into tables."""
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
            case Sql() | Keyed():
                answer = await driver.fetch(statement(driver.dialect, step.text, driver.prefix), step.values)
            case Many():
                answer = ()
                if step.rows:
                    await driver.execute_many(statement(driver.dialect, step.text, driver.prefix), step.rows)
            case Inserts():
                answer = ()
                await driver.insert(step.rows)
            case Guarded():
                answer = ()
                if await all_changed(step, driver):
                    answer = DONE
                    await driver.insert(step.rows)
            case Now():
                answer = [(await driver.now(),)]
            case _:
                assert_never(step)


async def all_changed(step: Guarded, driver: Driver) -> bool:
    """Make changes one after another, up to the first row that is not as expected; return whether there is none."""
    for change, values in step.changes:
        if not await driver.change(change, values):
            return False
    return True


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

    async def fetch_each(self, text: str, rows: Sequence[Sequence[object]]) -> Sequence[Row]:
        """Run a statement once for each row of values; return the rows of all answers."""
        return [found for values in rows for found in await self.fetch(text, values)]

    async def change(self, change: Change, values: Sequence[object]) -> bool:
        """Change a row; return whether it was as expected."""
        return await self.change_all(change, [values])

    async def change_all(self, change: Change, rows: Sequence[Sequence[object]]) -> bool:
        """Change rows, several with one statement; return whether all were as expected."""
        for page in _pages(rows):
            text = sqlite_given(change.text, _names(change), self.prefix, len(page))
            found = self._connection.execute(text, [*chain.from_iterable(page), self._time]).fetchall()
            if len(found) != len(page) or ("",) in found:
                return False
        return True

    async def insert(self, rows: Mapping[TableColumns, Sequence[Sequence[object]]]) -> None:
        """Insert rows, table by table, several with one statement."""
        for table, values in rows.items():
            time = [self._time] if table.uses_time else []
            for page in _pages(values, _INSERTED_AT_ONCE):
                text = _sqlite_insert(table, self.prefix, len(page))
                self._connection.execute(text, [*chain.from_iterable(page), *time])

    async def now(self) -> float:
        """Return the time at which the transaction began."""
        return self._time


def _pages(rows: Sequence[Sequence[object]], sizes: Sequence[int] = _AT_ONCE) -> Iterator[Sequence[Sequence[object]]]:
    """Divide rows into pages of a few sizes, so that there are few different statements."""
    start = 0
    for size in sizes:
        while len(rows) - start >= size:
            yield rows[start : start + size]
            start += size


def run_sqlite(connection: sqlite3.Connection, script: Script[T], time: float) -> T:
    """Run a script on a connection with a transaction that began at that time."""
    return finished(run(script, SqliteDriver(connection, time)))


def finished(running: Coroutine[Any, Any, T]) -> T:
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

    def fetchmany(self, statement: str, rows: Sequence[Sequence[object]]) -> Awaitable[Sequence[Row]]:
        """Run a statement once for each row of values; return the rows of all answers."""
        ...

    def executemany(self, statement: str, rows: Sequence[Sequence[object]]) -> Awaitable[None]:
        """Run a statement once for each row of values."""
        ...

    def copy_records_to_table(
        self, table_name: str, *, records: Sequence[Sequence[object]], columns: Sequence[str], schema_name: str
    ) -> Awaitable[object]:
        """Insert rows by COPY."""
        ...


_WORTH_A_COPY = 50
"""From how many rows on COPY is cheaper for the server and for the driver than lists that become rows there."""


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
        self._schema = schema.removeprefix('"').removesuffix('"').replace('""', '"')
        self._connection = connection
        self._ask = time
        self._time: float | None = None

    async def fetch(self, text: str, values: Sequence[object]) -> Sequence[Row]:
        """Run a statement."""
        return await self._connection.fetch(text, *values)

    async def execute_many(self, text: str, rows: Sequence[Sequence[object]]) -> None:
        """Run a statement once for each row of values."""
        await self._connection.executemany(text, rows)

    async def fetch_each(self, text: str, rows: Sequence[Sequence[object]]) -> Sequence[Row]:
        """Run a statement once for each row of values, in one round trip; return the rows of all answers."""
        return await self._connection.fetchmany(text, rows)

    async def change(self, change: Change, values: Sequence[object]) -> bool:
        """Change a row; return whether it was as expected."""
        text = f"WITH {NOW}, c AS ({postgres_given(change.text, change.columns, self.prefix, 2)}) SELECT * FROM c"
        found = await self._connection.fetch(text, await self.now(), *([value] for value in values))
        return bool(found) and found[0][0] != ""

    async def change_all(self, change: Change, rows: Sequence[Sequence[object]]) -> bool:
        """Make the same change in several rows, one after another; return whether all were as expected."""
        for values in rows:
            if not await self.change(change, values):
                return False
        return True

    async def insert(self, rows: Mapping[TableColumns, Sequence[Sequence[object]]]) -> None:
        """Insert rows into all tables with one statement; copy many into a table."""
        given = {table: values for table, values in rows.items() if values}
        for table in [one for one, values in given.items() if len(values) >= _WORTH_A_COPY and not one.filled]:
            await self._connection.copy_records_to_table(
                table.table, records=given.pop(table), columns=_names(table), schema_name=self._schema
            )
        if given:
            columns = [column for table, values in given.items() for column in lists(table.columns, values)]
            await self._connection.fetch(_inserting(tuple(given), self.prefix), await self.now(), *columns)

    async def now(self) -> float:
        """Return the database's time at the script's first request for it."""
        if self._time is None:
            self._time = await self._ask()
        return self._time


NOW: Final = "now AS MATERIALIZED (SELECT $1::float8 AS time)"
"""The time of the transaction, if it is the first value."""


@lru_cache(maxsize=100)
def _inserting(tables: tuple[TableColumns, ...], prefix: str) -> str:
    """Return the statement that inserts rows into tables; it is given the time, and a list for each column."""
    parts, _ = parts_inserting(tables, prefix, 2)
    return f"WITH {NOW}, {', '.join(parts)} SELECT"


def parts_inserting(tables: Iterable[TableColumns], prefix: str, first: int) -> tuple[list[str], int]:
    """Return the parts of a statement that insert into tables, and the number of the value after theirs."""
    parts: list[str] = []
    for place, table in enumerate(tables):
        named = table.expressions
        text = f"INSERT INTO @.{table.table} ({', '.join(named)}) SELECT {', '.join(named.values())} FROM @given"
        parts.append(f"i{place} AS ({postgres_given(text, table.columns, prefix, first)})")
        first += len(table.columns)
    return parts, first


@lru_cache(maxsize=500)
def _sqlite_insert(table: TableColumns, prefix: str, many: int) -> str:
    named = table.expressions
    text = f"INSERT INTO @.{table.table} ({', '.join(named)}) VALUES "
    if not table.filled:  # without numbers: SQLite compares each with all others, and there are thousands
        row = f"({', '.join('?' * len(named))})"
        return text.replace("@.", prefix) + ", ".join([row] * many)
    return sqlite_values(f"{text}({', '.join(named.values())})", _names(table), prefix, many)


@lru_cache(maxsize=200)
def _names(given: Change | TableColumns) -> tuple[str, ...]:
    return tuple(name for name, _ in given.columns)
