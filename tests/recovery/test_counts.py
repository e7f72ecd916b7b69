# SPDX-License-Identifier: MIT
"""Counts of failures that are kept, and whether they are right.

``sites.py`` compares them with the rows after every change of the ledger, in every test of recovery; here they are made
wrong on purpose.
"""

import pytest

from redrive.clock import utc
from redrive.engines.sql import runner
from redrive.recovery import Filter, Kind, Status

NOW = utc(1_000_000_000)
COUNTED = ("", "status:any", "status:resolved", "queue:orders", "type:order.*", "exception:NoStock", "exception:shop.*")
NOT_COUNTED = ("age<1d", "attempts>=1", '"no stock"', "operation:1", "message:message-1", "group:x0")


@pytest.fixture
def statements(monkeypatch):
    """Collect the statements of everything that a test does."""
    seen = []
    real = runner.statement
    monkeypatch.setattr(runner, "statement", lambda *how: seen.append(real(*how)) or real(*how))
    return seen


@pytest.fixture
async def mixed(process):
    """Failures of two kinds in two queues, some of them archived."""
    ids = await process.fail(3)
    await process.fail(2, queue="billing", kind="shop.errors.NoCredit", subject="bill.sent")
    await process.recovery.archive(ids[:1])
    await process.work()
    return process


async def break_counts(process):
    await process.sql("UPDATE @.failure_counts SET n = n + 40 WHERE queue = ?", "orders")


@pytest.mark.parametrize("chosen", COUNTED)
def test_a_filter_about_kinds_is_answered_from_the_counts(chosen):
    assert Filter.parse(chosen, now=NOW).is_about_kinds


@pytest.mark.parametrize("chosen", NOT_COUNTED)
def test_any_other_filter_is_answered_from_the_rows(chosen):
    assert not Filter.parse(chosen, now=NOW).is_about_kinds


@pytest.mark.parametrize("chosen", [*COUNTED, *NOT_COUNTED[:3]])
async def test_counts_and_groups_agree_with_the_list_of_messages(mixed, chosen):
    recovery = mixed.recovery
    listed = await recovery.failed(chosen)
    assert await recovery.count(chosen) == len(listed)
    by_status = await recovery.count_by_status(chosen)
    assert sum(by_status.values()) == len(listed)
    for by, name in (("exception", "group"), ("queue", "queue"), ("type", "message_type")):
        groups = await recovery.groups(chosen, by=by)
        assert {each.id for each in groups} == {getattr(each, name) for each in listed}
        assert sum(each.count for each in groups) == len(listed)


async def test_each_status_is_counted_even_if_there_is_none(mixed):
    counts = await mixed.recovery.count_by_status()
    assert counts == {
        Status.UNRESOLVED: 4,
        Status.RETRY_ISSUED: 0,
        Status.RESOLVED: 0,
        Status.ARCHIVED: 1,
    }
    assert await mixed.recovery.count_by_status("queue:billing") == {Status.UNRESOLVED: 2}


async def test_no_failure_is_read_to_count_them(mixed, statements):
    del statements[:]
    await mixed.recovery.count("queue:orders status:any")
    await mixed.recovery.count_by_status()
    await mixed.recovery.groups("queue:orders", largest_first=True)
    assert statements
    assert [text for text in statements if "failures " in text] == []


async def test_a_group_tells_the_time_of_its_last_failure(process):
    await process.fail(1, id="m")
    (before,) = await process.recovery.groups()
    process.clock.advance(100)
    await process.fail(1, id="m")
    (after,) = await process.recovery.groups()
    assert (after.last_failed_at - before.last_failed_at).total_seconds() >= 100


async def test_a_group_that_was_empty_begins_anew(process):
    """Its times are those of the failures since."""
    ids = await process.fail(1)
    (before,) = await process.recovery.groups()
    await process.recovery.archive(ids)
    await process.work()
    assert await process.recovery.groups() == []
    process.clock.advance(100)
    await process.fail(1)
    (after,) = await process.recovery.groups()
    assert after.first_failed_at > before.last_failed_at


async def test_a_sweep_forgets_kinds_that_are_gone(mixed):
    await mixed.recovery.resolve("status:any")
    await mixed.work()
    mixed.clock.advance(1_000)
    await mixed.recovery.sweep(1)
    assert await mixed.sql("SELECT 1 FROM @.failure_counts") == []


# --- when they are wrong


async def test_a_count_that_is_wrong_is_told_with_both_figures(mixed):
    assert await mixed.recovery.check_counts() == []
    await break_counts(mixed)
    found = {(each.status, each.queue, each.counted, each.rows) for each in await mixed.recovery.check_counts()}
    assert found == {(Status.UNRESOLVED, "orders", 42, 2), (Status.ARCHIVED, "orders", 41, 1)}


async def test_a_count_that_is_missing_or_of_nothing_is_told(mixed):
    await mixed.sql("DELETE FROM @.failure_counts WHERE queue = ?", "billing")
    await mixed.sql("UPDATE @.failure_counts SET queue = ? WHERE queue = ?", "nowhere", "orders")
    found = {(each.queue, each.counted, each.rows) for each in await mixed.recovery.check_counts()}
    assert found == {("billing", 0, 2), ("nowhere", 2, 0), ("nowhere", 1, 0), ("orders", 0, 2), ("orders", 0, 1)}


async def test_a_time_that_is_too_early_is_told(mixed):
    await mixed.sql("UPDATE @.failure_counts SET last_failed_at = 1 WHERE queue = ?", "billing")
    (found,) = await mixed.recovery.check_counts()
    assert (found.queue, found.counted, found.rows) == ("billing", 2, 2)


async def test_wrong_counts_are_made_right_on_request_which_is_audited(mixed):
    await break_counts(mixed)
    assert len(await mixed.recovery.check_counts(repair=True, actor="ann")) == 2
    assert await mixed.recovery.check_counts() == []
    assert await mixed.recovery.count() == 4
    (entry, *_) = await mixed.recovery.trail()
    assert (entry.actor, entry.action, entry.outcome) == ("ann", "repair-counts", "2 differed")


async def test_names_that_are_too_long_for_an_index_are_counted(process):
    """PostgreSQL's indexes take 2,704 bytes, and these are not compressible."""
    kinds = ["".join(chr(0x4E00 + (n * n * 7 + seed * n) % 20_000) for n in range(850)) for seed in range(1, 4)]
    for kind in kinds:
        await process.fail(1, kind=kind, subject=kind[::-1])
    assert sorted(each.count for each in await process.recovery.groups(by="type")) == [1, 1, 1]
    assert await process.recovery.check_counts() == []


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE @.failures SET status = 4",
        "UPDATE @.failures SET queue = 'other', message_type = 'x', exception_type = 'y', exception_group = 'z'",
        "UPDATE @.failures SET failed_at = failed_at + 1",
        "UPDATE @.failures SET attempts = 7",
        "UPDATE @.failures SET status = status",
        "DELETE FROM @.failures WHERE number > 2",
    ],
)
async def test_no_statement_can_forget_the_counts(mixed, statement):
    await mixed.sql(statement)
    assert await mixed.raw_ledger.check_counts() == []


async def test_a_dry_run_from_counts_is_that_of_the_messages_themselves(process):
    """Whatever state they are in, and whoever has them: a term that all match lets it read them."""
    ids = await process.fail(6)
    ids += await process.fail(4, queue="billing", kind="shop.errors.NoCredit")
    await process.recovery.archive(ids[:1])
    await process.recovery.resolve(ids[6:7])
    await process.work()
    await process.recovered(ids[1:3])
    async with process.busy_lane("orders"):
        await process.recovery.recover(ids[3:5])
        await process.recovery.step()
        for kind in (Kind.RECOVER, Kind.ARCHIVE, Kind.RESTORE):
            for chosen in ("", "status:any", "queue:orders", "exception:NoCredit", "status:retry-issued"):
                for how in ({}, {"again": True}, {"redirect": "billing"}):
                    counted = await process.recovery.dry_run(chosen, kind, **how)
                    assert counted == await process.recovery.dry_run(f"{chosen} attempts>=0", kind, **how)
