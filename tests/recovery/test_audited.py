# SPDX-License-Identifier: MIT
"""The audit trail: what is written to it about changes that are not recovery's own, and how entries are found."""

from datetime import datetime, timedelta

import pytest

from redrive.clock import utc
from redrive.errors import InvalidSetting, QueueNotFound
from redrive.recovery import TrailFilter, audited

NO_ZONE = datetime(2026, 1, 1)  # noqa: DTZ001 - that is the point


@pytest.fixture
async def trail(process):
    """A trail of three entries, an hour apart."""
    for action, subject, actor in (
        ("declare", "queue:a", "ann"),
        ("delete", "queue:a", "bob"),
        ("delete", "queue:b", "ann"),
    ):
        await process.recovery.audit(action, subject, actor=actor)
        process.clock.advance(3_600)
    return process


async def found(process, **asked):
    return [(each.action, each.subject, each.actor) for each in await process.recovery.trail(**asked)]


async def test_entries_are_found_by_who_what_and_about_what(trail):
    assert await found(trail, actor="ann") == [("delete", "queue:b", "ann"), ("declare", "queue:a", "ann")]
    assert await found(trail, action="delete") == [("delete", "queue:b", "ann"), ("delete", "queue:a", "bob")]
    assert await found(trail, action="delete", actor="ann", subject="queue:b") == [("delete", "queue:b", "ann")]
    assert await found(trail, actor="carl") == []


async def test_entries_are_found_by_time_and_page_by_page(trail):
    now = utc(await trail.recovery.ledger.now())
    assert len(await found(trail, since=now - timedelta(hours=2))) == 2
    assert len(await found(trail, until=now - timedelta(hours=2))) == 1
    middle = now - timedelta(hours=2)
    assert await found(trail, since=middle, until=middle + timedelta(minutes=1)) == [("delete", "queue:a", "bob")]
    (newest, *_) = await trail.recovery.trail(actor="ann")
    assert await found(trail, actor="ann", before=newest.number) == [("declare", "queue:a", "ann")]


@pytest.mark.parametrize("wrong", [{"since": NO_ZONE}, {"until": "today"}, {"actor": "a\0"}, {"action": 5}])
def test_what_cannot_be_asked_is_refused(wrong):
    with pytest.raises(InvalidSetting):
        TrailFilter(**wrong)


async def test_an_entry_says_why_and_what_came_of_it(process):
    await process.recovery.audit("queues.delete", "queue:a\0", actor="ann", reason="old", outcome="x" * 20_000)
    (entry,) = await process.recovery.trail()
    assert (entry.subject, entry.reason, len(entry.outcome)) == ("queue:a\ufffd", "old", 10_000)


async def test_a_change_is_written_down_before_and_after_it(process):
    async def change():
        assert [each.outcome for each in await process.recovery.trail()] == ["begun"]
        return 5

    assert await audited(process.recovery, "queues.update", "queue:a", change, actor="ann", reason="why") == 5
    entries = await process.recovery.trail()
    assert [(each.outcome, each.actor, each.reason) for each in entries] == [
        ("done", "ann", "why"),
        ("begun", "ann", "why"),
    ]


async def test_a_change_that_is_refused_is_written_down_with_the_reason(process):
    with pytest.raises(QueueNotFound):
        await audited(process.recovery, "queues.read", "queue:none", lambda: process.broker.inspect("none"))
    newest, _ = await process.recovery.trail()
    assert newest.outcome.startswith("refused: there is no queue 'none'")


async def test_of_a_change_that_was_interrupted_only_the_beginning_is_known(process):
    async def change():
        raise ConnectionError("gone")

    with pytest.raises(ConnectionError):
        await audited(process.recovery, "queues.update", "queue:a", change)
    assert [each.outcome for each in await process.recovery.trail()] == ["begun"]
