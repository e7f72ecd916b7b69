# SPDX-License-Identifier: MIT
"""However many messages have failed, what is wanted of them is found by an index."""

import sqlite3

import pytest

from redrive.engines.sql import runner
from redrive.recovery import Canary, Status
from tests.recovery.sites import one_file

CHECK = "FROM redrive_failure_counts) kinds"
"""What compares the counts with all rows; these tests do that all the time, and people on request."""

LARGE_TABLES = ("failures", "failure_contents", "failure_attempts", "failure_groups", "parts", "operation_members")


@pytest.fixture
def homes(request):
    """SQLite alone: other databases choose by statistics, and are asked by the benchmark."""
    return one_file(request)


@pytest.fixture
def statements(monkeypatch):
    """Collect the statements of everything that a test does."""
    seen = set()
    real = runner.statement
    monkeypatch.setattr(runner, "statement", lambda *how: seen.add(real(*how)) or real(*how))
    return seen


async def everything(process):
    """Do all that is done with a ledger, but for looking for words, which reads every message."""
    recovery = process.recovery
    ids = await process.fail(12)
    await process.recovered(ids[:2])
    first, second = await process.arrived()
    await process.succeed(first)
    await process.fail_again(second)
    await process.recovered(limit=2, canary=Canary(count=1))
    await process.recovered("status:retry-issued", again=True)
    ids += await process.fail(4)
    paused = await recovery.recover("queue:orders exception:NoStock")
    await recovery.pause(paused.number)
    await process.site.play(recovery.cancel(paused.number))
    await process.arrived()
    for verb in (recovery.archive, recovery.restore, recovery.resolve):
        await verb(ids[-2:] if verb != recovery.restore else "status:archived")
        await process.work()
    group = (await recovery.groups())[0].id
    for chosen in ("", f"group:{group}", f"group:x{group}", "queue:orders", "exception:NoStock", "status:resolved"):
        await recovery.failed(chosen)
        await recovery.count(chosen)
        await recovery.dry_run(chosen)
    await recovery.groups("queue")
    await recovery.failed(f"operation:{paused.number} outcome:cancelled")
    for each in await recovery.operations():
        await recovery.operation(each.number, newcomers=True)
        await recovery.outcomes(each.number)
    assert (await recovery.show(ids[0])).summary.status is Status.RESOLVED
    process.clock.advance(1_000_000)
    assert await recovery.sweep(1_000)


def scans(connection, statement):
    """Return the large tables that a statement reads from beginning to end, for want of an index."""
    plan = connection.execute(f"EXPLAIN QUERY PLAN {statement}", [None] * statement.count("?")).fetchall()
    tables = {"f": "failures", "c": "failure_contents", "p": "parts", "g": "failure_groups", "m": "operation_members"}
    found = [line[3].split() for line in plan if line[3].startswith("SCAN ") and " INDEX " not in line[3]]
    names = [tables.get(words[1], words[1].removeprefix("redrive_")) for words in found]
    return [name for name in names if name in LARGE_TABLES]


async def test_no_statement_reads_a_large_table_from_beginning_to_end(process, statements):
    await everything(process)
    assert len(statements) > 80
    path = (await process.sql("PRAGMA database_list"))[0][2]
    asked = {text for text in statements if CHECK not in text}
    with sqlite3.connect(path) as connection:
        wrong = {statement: found for statement in asked if (found := scans(connection, statement))}
    assert wrong == {}


INDEXES = {"unresolved": "redrive_failures_newest", "archived": "redrive_failures_settled_newest"}
"""What has the failed messages of a status in the order of their last failures."""

of_a_status = pytest.mark.parametrize(("status", "index"), INDEXES.items())


async def fail_as(process, status):
    ids = await process.fail(2)
    if status == "archived":
        await process.recovery.archive(ids)
        await process.work()


@of_a_status
async def test_the_newest_failures_are_read_in_their_order(process, statements, status, index):
    """Without a sort of all of them."""
    await fail_as(process, status)
    statements.clear()
    page = await process.recovery.failed(f"status:{status}", order="last-failed")
    await process.recovery.failed(f"status:{status}", order="last-failed", after=page[0].place)
    asked = [text for text in statements if "ORDER BY f.failed_at DESC" in text]
    assert len(asked) == 2
    path = (await process.sql("PRAGMA database_list"))[0][2]
    with sqlite3.connect(path) as connection:
        for each in asked:
            plan = str(connection.execute(f"EXPLAIN QUERY PLAN {each}", [0] * each.count("?")).fetchall())
            assert index in plan
            assert "TEMP B-TREE" not in plan


@of_a_status
async def test_the_newest_failures_of_a_group_are_read_in_their_order(process, statements, status, index):
    """Neither is the whole group sorted, nor is a message read that is not shown."""
    await fail_as(process, status)
    group = (await process.recovery.groups(f"status:{status}"))[0].id
    statements.clear()
    chosen = f"status:{status} group:{group}"
    page = await process.recovery.failed(chosen, order="last-failed", limit=1)
    await process.recovery.failed(chosen, order="last-failed", after=page[0].place)
    path = (await process.sql("PRAGMA database_list"))[0][2]
    with sqlite3.connect(path) as connection:
        plans = {
            each: str(connection.execute(f"EXPLAIN QUERY PLAN {each}", [0] * each.count("?")).fetchall())
            for each in statements
            if "redrive_failures f" in each
        }
    ordered = {text: plan for text, plan in plans.items() if "IN (SELECT value FROM json_each(?))" not in text}
    assert len(ordered) == 4
    assert [text for text, plan in ordered.items() if index not in plan or "TEMP" in plan] == []
    assert [text for text in ordered if "redrive_failure_contents" in text] == []


async def test_a_dry_run_by_kinds_reads_no_message_that_is_free(process, statements):
    await process.fail(3)
    group = (await process.recovery.groups())[0].id
    statements.clear()
    for chosen in ("", "queue:orders", f"group:{group}", "exception:NoStock"):
        assert (await process.recovery.dry_run(chosen)).free == 3
    readers = [text for text in statements if "redrive_failures" in text]
    assert [text for text in readers if "FROM redrive_parts p JOIN redrive_failures f" not in text] == []


async def test_a_statement_without_an_index_is_noticed(process):
    path = (await process.sql("PRAGMA database_list"))[0][2]
    with sqlite3.connect(path) as connection:
        assert scans(connection, "SELECT 1 FROM redrive_parts p WHERE p.reason = ?") == ["parts"]
