# SPDX-License-Identifier: MIT
"""A ledger that was made before failures were counted: the migration counts what is there."""

import json

import pytest

from redrive.engines.postgres import PostgresEngine
from redrive.engines.postgres import schema as postgres_schema_module
from redrive.engines.sql.recovery.ledger import SqlLedger
from redrive.engines.sql.script import Many, Sql
from redrive.engines.sqlite import SqliteEngine
from redrive.engines.sqlite import schema as sqlite_schema_module
from redrive.recovery import Filter, Status

BEFORE = "0010_pipelines"
COLUMNS = "number, queue, status, message_type, exception_type, exception_group, attempts, first_failed_at, failed_at"


@pytest.fixture(params=["sqlite", "postgres"])
def new_engine(request, tmp_path):
    """Return a function that returns an engine on a database that has no schema yet at the first time."""
    if request.param == "sqlite":
        return lambda: SqliteEngine(tmp_path / "old.db")
    url, name = request.getfixturevalue("postgres_url"), request.getfixturevalue("postgres_schema")
    return lambda: PostgresEngine(url, schema=name)


def old_failures():
    """Three failures as an older version stored them: of two kinds, one of them resolved after it failed again."""
    kinds = [(1, "orders", 1, "E", "g1"), (2, "orders", 1, "E", "g1"), (3, "billing", 3, "F", "g2")]
    yield Many(
        f"INSERT INTO @.failures ({COLUMNS}, attempt_key, change, bytes, source)"  # noqa: S608 - ours
        " VALUES (?, ?, ?, 'type', ?, ?, 1, ?, ?, 'key', 1, 1, 'error')",
        [
            (number, queue, status, kind, group, float(number), 10.0 + number)
            for number, queue, status, kind, group in kinds
        ],
    )
    details = [
        {"reason": "MaxImmediateRetries", "host": "host-1", "headers": {"host": "wrong"}},
        {"reason": 'a "quoted" one', "stack_trace": '"host": "wrong"', "headers": {"host": "wrong"}},
        {"host": "bad \0 \ud800", "headers": {}},
    ]
    yield Many(
        "INSERT INTO @.failure_contents (number, id, message_id, exception_message, details, search, body)"
        " VALUES (?, ?, 'm', '', ?, '', ?)",
        [(number, f"{number:032x}", json.dumps(each), b"") for number, each in enumerate(details, 1)],
    )
    yield Sql("INSERT INTO @.failure_groups (failure, group_id) VALUES (1, 'x1')")
    parts = [(1, 3, 4), (2, 3, 3), (2, 1, 4)]
    yield Many(
        "INSERT INTO @.parts (operation, failure, batch, is_canary, outcome, reason, at) VALUES (?, ?, 0, 0, ?, '', 0)",
        parts,
    )


def read(text):
    def script():
        return [tuple(row) for row in (yield Sql(text))]

    return script


async def test_failures_of_an_older_ledger_are_counted_when_it_is_opened(new_engine, monkeypatch):
    for module in (sqlite_schema_module, postgres_schema_module):
        names = [name for name, _ in module.MIGRATIONS]
        monkeypatch.setattr(module, "MIGRATIONS", module.MIGRATIONS[: names.index(BEFORE) + 1])
    old = new_engine()
    await old.open()
    await old.run(old_failures)
    await old.close()
    monkeypatch.undo()

    ledger = SqlLedger(new_engine())
    await ledger.open()
    try:
        assert await ledger.check_counts() == []
        assert await ledger.count(Filter(queues="orders")) == 2
        assert await ledger.count_by_status(Filter(status="any", groups="g2")) == {
            status: int(status is Status.RESOLVED) for status in Status
        }
        look = ledger.database.look
        hosts = await look(read("SELECT host, reason FROM @.failures WHERE number < 3 ORDER BY number"))
        assert hosts[0] == ("host-1", "MaxImmediateRetries")
        assert hosts[1][0] == ""
        states = "SELECT id, first_seen_at, succeeded, failed_again FROM @.group_states ORDER BY id"
        assert await look(read(states)) == [("g1", 1.0, 0, 1), ("g2", 3.0, 1, 1), ("x1", 1.0, 0, 0)]
    finally:
        await ledger.close()
