# SPDX-License-Identifier: MIT
"""The loop that runs scripts: the same steps on a driver that blocks, and on one that waits."""

import asyncio
import sqlite3
from contextlib import closing

import pytest

from redrive.engines.sql.runner import PostgresDriver, run, run_sqlite
from redrive.engines.sql.script import Inserts, Many, Sql, TableColumns, now


@pytest.fixture
def connection():
    with closing(sqlite3.connect(":memory:")) as made:
        made.execute("CREATE TABLE redrive_orders (number INTEGER, state TEXT)")
        yield made


async def a_turn():
    """Let the event loop have its turn."""
    turn = asyncio.get_running_loop().create_future()
    turn.get_loop().call_soon(turn.set_result, None)
    await turn


class Asyncpg:
    """A connection that notes what is done on it; the event loop has its turn before each answer."""

    def __init__(self):
        self.done = []

    async def fetch(self, text, *values):
        await a_turn()
        self.done.append((text, *values))
        return [{"number": 1}]

    async def executemany(self, text, rows):
        await a_turn()
        self.done.append((text, rows))

    async def copy_records_to_table(self, table, **how):
        await a_turn()
        self.done.append((table, how))


def store(numbers):
    yield Many("INSERT INTO @.orders (number, state) VALUES (?, ?)", [(number, "new") for number in numbers])
    rows = yield Sql("SELECT number, state FROM @.orders WHERE number IN @ints ORDER BY number", [numbers])
    return [row["number"] for row in rows]


def test_a_script_on_sqlite_reads_its_rows_by_name_and_in_order(connection):
    def script():
        rows = yield Sql("SELECT 7 AS number, 'new' AS state")
        ((number, state),) = rows
        return number, state, rows[0]["state"]

    assert run_sqlite(connection, store([3, 4]), 0.0) == [3, 4]
    assert run_sqlite(connection, script(), 0.0) == (7, "new", "new")


async def test_the_same_script_on_postgresql_has_its_own_spelling():
    driver = Asyncpg()
    assert await run(store([3]), PostgresDriver(driver, '"s"', None)) == [1]
    assert driver.done == [
        ('INSERT INTO "s".orders (number, state) VALUES ($1, $2)', [(3, "new")]),
        ('SELECT number, state FROM "s".orders WHERE number = ANY ($1::bigint[]) ORDER BY number', [3]),
    ]


def test_a_statement_for_no_rows_is_not_done(connection):
    def script():
        return (yield Many("this is no SQL", []))

    assert run_sqlite(connection, script(), 0.0) == ()


def test_a_script_without_steps_has_a_result(connection):
    def script():
        return 5
        yield

    assert run_sqlite(connection, script(), 0.0) == 5


def test_an_error_of_a_statement_is_the_callers(connection):
    def script():
        yield Sql("SELECT * FROM @.nothing")

    with pytest.raises(sqlite3.OperationalError, match="redrive_nothing"):
        run_sqlite(connection, script(), 0.0)


def twice():
    return (yield from now()), (yield from now())


def test_the_time_on_sqlite_is_that_of_the_transaction(connection):
    assert run_sqlite(connection, twice(), 17.5) == (17.5, 17.5)


async def test_the_database_is_asked_for_the_time_once_and_only_if_a_script_wants_it():
    asked = []

    async def time():
        asked.append(None)
        return 17.5

    await run(store([3]), PostgresDriver(Asyncpg(), '"s"', time))
    assert asked == []
    assert await run(twice(), PostgresDriver(Asyncpg(), '"s"', time)) == (17.5, 17.5)
    assert asked == [None]


async def test_a_driver_of_sqlite_that_waited_would_be_found_out(connection, monkeypatch):
    async def fetch(*_):
        await a_turn()

    monkeypatch.setattr("redrive.engines.sql.runner.SqliteDriver.fetch", fetch)
    with pytest.raises(AssertionError, match="nothing to wait for"):
        run_sqlite(connection, store([]), 0.0)


@pytest.mark.parametrize("many", [0, 1, 7, 8, 33, 75, 523])
@pytest.mark.parametrize(
    ("filled", "stored"), [((), "new"), ((("state", "g.state || ' at ' || @time"),), "new at 5.0")]
)
def test_rows_are_inserted_once_each_however_many_a_statement_takes(connection, many, filled, stored):
    orders = TableColumns("orders", (("number", "bigint"), ("state", "text")), filled=filled)

    def script():
        yield Inserts({orders: [(number, "new") for number in range(many)]})

    run_sqlite(connection, script(), 5.0)
    found = connection.execute("SELECT number, state FROM redrive_orders ORDER BY number").fetchall()
    assert found == [(number, stored) for number in range(many)]


@pytest.mark.parametrize(("many", "is_copied"), [(3, False), (50, True)])
async def test_many_rows_are_copied_into_a_table_of_postgresql(many, is_copied):
    orders = TableColumns("orders", (("number", "bigint"), ("state", "text")))
    rows = [(number, "new") for number in range(many)]

    def script():
        yield Inserts({orders: rows})

    async def time():
        return 17.5

    driver = Asyncpg()
    await run(script(), PostgresDriver(driver, '"my ""own"""', time))
    ((text, *_),) = driver.done
    if is_copied:
        assert driver.done == [("orders", {"records": rows, "columns": ("number", "state"), "schema_name": 'my "own"'})]
    else:
        assert text.startswith("WITH now AS")
