# SPDX-License-Identifier: MIT
"""Scripts that run together: each gets its own rows, equal statements are sent once, and one failure is that of all."""

import sqlite3
from contextlib import closing

import pytest

from redrive.engines.sql.runner import PostgresDriver
from redrive.engines.sql.script import Inserts, Keyed, Many, Sql, TableColumns
from redrive.engines.sql.together import SameKey, run_sqlite_together, run_together

ORDERS = TableColumns("orders", (("number", "integer!"), ("state", "text")))
NOTES = TableColumns("notes", (("number", "integer!"),), filled=(("at", "@time"),))


@pytest.fixture
def connection():
    with closing(sqlite3.connect(":memory:")) as made:
        made.execute("CREATE TABLE redrive_orders (number INTEGER, state TEXT)")
        made.execute("CREATE TABLE redrive_notes (number INTEGER, at REAL)")
        yield made


def change(number, state):
    rows = yield Keyed(
        "UPDATE @.orders SET state = ? WHERE number = ? RETURNING number, state", [state, number], str(number)
    )
    if not rows:
        raise LookupError(number)
    yield Inserts({NOTES: [(number,)], ORDERS: []})
    return [row["state"] for row in rows]


def change_text(name, state):
    rows = yield Keyed("UPDATE @.orders SET state = ? WHERE state = ? RETURNING ?, number", [state, name, name], name)
    yield Inserts({NOTES: [(row["number"],) for row in rows]})
    return [row["number"] for row in rows]


def test_each_gets_the_rows_of_its_key_and_no_others(connection):
    connection.executemany("INSERT INTO redrive_orders VALUES (?, ?)", [(1, "a"), (2, "b"), (3, "b")])
    scripts = [change_text("b", "x"), change_text("none", "y"), change_text("a", "z")]
    assert run_sqlite_together(connection, scripts, 5.0) == [[2, 3], [], [1]]
    assert connection.execute("SELECT number, at FROM redrive_notes ORDER BY number").fetchall() == [
        (1, 5.0),
        (2, 5.0),
        (3, 5.0),
    ]


def test_two_with_the_same_key_do_not_run_together(connection):
    with pytest.raises(SameKey):
        run_sqlite_together(connection, [change_text("a", "x"), change_text("a", "y")], 5.0)


def test_one_that_is_alone_runs_as_ever(connection):
    connection.execute("INSERT INTO redrive_orders VALUES (1, 'a')")
    assert run_sqlite_together(connection, [change(1, "b")], 5.0) == [["b"]]
    assert connection.execute("SELECT number, at FROM redrive_notes").fetchall() == [(1, 5.0)]


def test_the_failure_of_one_is_raised_for_all(connection):
    def fails():
        yield Sql("SELECT 1")
        raise LookupError("nothing there")

    with pytest.raises(LookupError):
        run_sqlite_together(connection, [change_text("a", "x"), fails()], 5.0)


def test_other_steps_are_run_for_each(connection):
    def other(number):
        yield Many("INSERT INTO @.orders (number, state) VALUES (?, ?)", [(number, "new")])
        rows = yield Sql("SELECT state FROM @.orders WHERE number = ?", [number])
        return len(rows)

    assert run_sqlite_together(connection, [other(1), other(2)], 5.0) == [1, 1]


class Asyncpg:
    """A connection that notes what is done on it."""

    def __init__(self):
        self.done = []

    async def fetch(self, text, *values):
        self.done.append((text, *values))
        return []

    async def fetchmany(self, text, rows):
        self.done.append((text, rows))
        return [{0: key}.values() for *_, key in rows]


async def test_on_postgresql_there_is_one_round_trip_for_equal_steps_of_all():
    async def time():
        return 5.0

    made = Asyncpg()
    await run_together([change_nothing("a"), change_nothing("b")], PostgresDriver(made, "s", time))
    assert made.done == [
        ("SELECT $1", [["a"], ["b"]]),
        (
            (
                "WITH now AS MATERIALIZED (SELECT $1::float8 AS time),"
                " i0 AS (INSERT INTO s.orders (number, state) SELECT g.number, g.state FROM"
                " (SELECT coalesce(number, ($2::integer[])[1]) AS number, state"
                " FROM unnest($2::integer[], $3::text[]) AS l (number, state)) AS g),"
                " i1 AS (INSERT INTO s.notes (number, at) SELECT g.number, (SELECT now.time FROM now) FROM"
                " (SELECT coalesce(number, ($4::integer[])[1]) AS number"
                " FROM unnest($4::integer[]) AS l (number)) AS g) SELECT"
            ),
            5.0,
            [1, 1],
            ["a", "b"],
            [2, 2],
        ),
    ]


def change_nothing(name):
    yield Keyed("SELECT ?", [name], name)
    yield Inserts({ORDERS: [(1, name)], NOTES: [(2,)]})
