# SPDX-License-Identifier: MIT
"""Streams hear of every change, however slow their clients are, and cost one row a second together."""

import asyncio
import sys

import pytest

from redrive.access.store import LastChanges
from redrive.engines.registry import access_store_in
from redrive.errors import EngineUnavailable, TooManyStreams
from redrive.pipeline.events import TasksExpired
from redrive.recovery import MessageFailed, OperationChanged
from redrive.server.topics import EVERYTHING, TopicHub, changed_topics, topics_of
from redrive.telemetry import Event
from redrive.testing import ManualClock
from tests.server.api.conftest import make_failures
from tests.server.conftest import until_asleep


def hears(_):
    return True


@pytest.mark.parametrize(
    ("event", "topics"),
    [
        (MessageFailed("1", "m", "orders", "E", "g", None), ("failed", "queue:orders")),
        (OperationChanged(128, "recover", "running", "", ""), ("operations", "operation:128")),
        (TasksExpired("reports", 1), ("pipelines", "pipeline:reports")),
        (Event(), ()),
    ],
)
def test_an_event_is_a_hint_for_its_topics(event, topics):
    assert topics_of(event) == topics


def test_a_number_that_has_changed_is_named_by_its_topics():
    before = LastChanges(1, 1, 1, 1)
    assert changed_topics(before, before) == ()
    assert changed_topics(None, before) == ()
    assert changed_topics(before, LastChanges(2, 2, 1, 2)) == ("failed", "operations", "audit", "pipelines")


def test_operations_change_as_long_as_messages_are_being_sent_although_no_number_does():
    sending = LastChanges(1, 1, 1, 1, is_sending=True)
    assert changed_topics(sending, sending) == ("operations",)
    assert changed_topics(sending, LastChanges(2, 1, 1, 1, is_sending=True)) == ("failed", "operations")
    assert changed_topics(sending, LastChanges(1, 1, 1, 1)) == ()


async def test_what_is_told_before_a_client_asks_waits_for_it_once():
    clock, hub = ManualClock(), TopicHub(ManualClock())
    stream = hub.open(hears)
    for _ in range(1_000):
        hub.tell("failed", "operation:1")
    assert await stream.next(clock, 1.0) == ["failed", "operation:1"]
    waiting = asyncio.create_task(stream.next(clock, 1.0))
    await until_asleep(clock)
    clock.advance(1.0)
    assert await waiting == []


async def test_a_client_that_never_reads_costs_a_bounded_set():
    hub = TopicHub(ManualClock())
    stream = hub.open(hears)
    for number in range(100_000):
        hub.tell(f"operation:{number}")
    assert sys.getsizeof(stream._waiting) < 50_000
    assert EVERYTHING in await stream.next(ManualClock(), 1.0)


async def test_a_stream_hears_only_of_what_its_client_may():
    hub = TopicHub(ManualClock())
    stream = hub.open(lambda topic: topic == "queue:orders")
    hub.tell("queue:billing", "queue:orders")
    assert await stream.next(ManualClock(), 1.0) == ["queue:orders"]


async def test_there_are_only_so_many_streams_and_one_that_is_closed_makes_room():
    hub = TopicHub(ManualClock(), most=2)
    first = hub.open(hears)
    hub.open(hears)
    with pytest.raises(TooManyStreams):
        hub.open(hears)
    hub.close(first)
    hub.open(hears)
    assert hub.streams == 2


async def test_at_the_end_every_stream_ends_also_one_that_comes_then():
    hub = TopicHub(ManualClock())
    before = hub.open(hears)
    hub.end()
    assert await before.next(ManualClock(), 1.0) == []
    assert before.is_over
    assert hub.open(hears).is_over


class Row:
    def __init__(self):
        self.read = 0
        self.numbers = LastChanges(1, 1, 1, 1)
        self.error = None

    async def __call__(self):
        self.read += 1
        if self.error:
            raise self.error
        return self.numbers


async def test_one_row_is_read_a_second_for_any_number_of_streams_and_none_without():
    clock, row = ManualClock(), Row()
    hub = TopicHub(clock)
    watching = asyncio.create_task(hub.watch(row))
    await until_asleep(clock)
    assert row.read == 0
    streams = [hub.open(hears) for _ in range(500)]
    for _ in range(3):
        clock.advance(1.0)
        await until_asleep(clock)
    assert row.read == 3
    assert [await each.next(clock, 1.0) for each in streams] == [[EVERYTHING]] * 500  # since when is not known
    row.numbers = row.numbers._replace(routes=2)
    clock.advance(1.0)
    await until_asleep(clock)
    assert [await each.next(clock, 1.0) for each in streams] == [["routes"]] * 500
    watching.cancel()


@pytest.mark.parametrize("error", [EngineUnavailable("away"), TypeError("a fault of ours")])
async def test_after_an_outage_everything_may_have_changed(error):
    clock, row = ManualClock(), Row()
    hub = TopicHub(clock)
    stream = hub.open(hears)
    watching = asyncio.create_task(hub.watch(row))
    await until_asleep(clock)
    row.error = error
    clock.advance(1.0)
    await until_asleep(clock)
    row.error = None
    clock.advance(1.0)
    await until_asleep(clock)
    assert await stream.next(clock, 1.0) == [EVERYTHING]
    watching.cancel()


async def test_the_row_changes_with_what_it_is_about(desk):
    store = access_store_in(desk.broker.engine, is_shared=True)
    first = await store.changes()
    await desk.recovery.note("group:1", "a note", actor="ann")
    second = await store.changes()
    assert second.audit > first.audit
    assert second._replace(audit=first.audit) == first


async def test_the_row_says_that_messages_are_being_sent(desk):
    store = access_store_in(desk.broker.engine, is_shared=True)
    await make_failures(desk)
    assert not (await store.changes()).is_sending
    await desk.recovery.recover("status:unresolved", rate=1.0, actor="ann")
    await desk.recovery.step()  # the first leaves, the others wait for their second
    assert (await store.changes()).is_sending
    await desk.recovery.cancel(1, actor="ann")
    await desk.recovery.step()
    assert not (await store.changes()).is_sending
