# SPDX-License-Identifier: MIT
"""Scripts that run together: each gets its own rows, equal statements are sent once, and one failure is that of all."""

import sqlite3
from contextlib import closing

import pytest

from redrive.engines.sql.runner import PostgresDriver
from redrive.engines.sql.script import Change, Guarded, Inserts, Keyed, Many, Sql, TableColumns
from redrive.engines.sql.together import OtherRow, SameKey, run_sqlite_together, run_together

ORDERS = TableColumns("orders", (("number", "integer!"), ("state", "text")))
NOTES = TableColumns("notes", (("number", "integer!"),), filled=(("at", "@time"),))
CHANGE = Change(
    "INSERT INTO @.orders AS o (number, state) SELECT g.number, g.before FROM @given WHERE true"
    " ON CONFLICT (number) DO UPDATE SET state = 'changed at ' || @time WHERE o.state = excluded.state"
    " RETURNING CASE state WHEN 'new' THEN '' ELSE state END",
    (("number", "integer!"), ("before", "text!")),
)


@pytest.fixture
def connection():
    with closing(sqlite3.connect(":memory:")) as made:
        made.execute("CREATE TABLE redrive_orders (number INTEGER PRIMARY KEY, state TEXT)")
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


def guarded(number, before):
    """Change an order that is as expected, and note it."""
    done = yield Guarded([(CHANGE, (number, before))], {NOTES: [(number,)]})
    return bool(done)


@pytest.mark.parametrize("many", [2, 45])
def test_equal_changes_of_all_are_made_with_few_statements(connection, many):
    connection.executemany("INSERT INTO redrive_orders VALUES (?, 'new')", [(number,) for number in range(many)])
    said = []
    connection.set_trace_callback(said.append)
    assert run_sqlite_together(connection, [guarded(number, "new") for number in range(many)], 5.0) == [True] * many
    connection.set_trace_callback(None)
    assert len(said) <= 2 * 4  # of 32, 8, 4 and 1, for the changes and for the notes
    found = connection.execute("SELECT state, count(*) FROM redrive_orders GROUP BY state").fetchall()
    assert found == [("changed at 5.0", many)]
    assert connection.execute("SELECT count(*), min(at) FROM redrive_notes").fetchone() == (many, 5.0)


@pytest.mark.parametrize("other", [(3, "old"), (9, "new"), (1, "new")])
def test_if_a_row_is_not_as_expected_each_has_to_be_run_by_itself(connection, other):
    connection.executemany("INSERT INTO redrive_orders VALUES (?, 'new')", [(number,) for number in (1, 2, 3)])
    with pytest.raises(OtherRow):
        run_sqlite_together(connection, [guarded(1, "new"), guarded(2, "new"), guarded(*other)], 5.0)


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
