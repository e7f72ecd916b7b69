# SPDX-License-Identifier: MIT
"""What needs a person, from real failures, queues, routes and operations."""

import pytest

from redrive import open_attention, open_recovery, open_routes
from redrive.attention import attention as attention_module
from redrive.notifications.notices import notices_of
from redrive.routes import from_topic, route, to_queue
from redrive.worker import Recoverability, Worker


@pytest.fixture
def worker():
    worker = Worker()

    @worker.handler(
        "orders", recoverability=Recoverability(immediate=0, delayed=None, error_queue="error"), slow_down=None
    )
    async def handle(_order: bytes) -> None:
        raise ConnectionError("no answer")

    return worker


async def fail(broker, worker, count):
    await broker.send_many("orders", [b"x"] * count)
    while (await broker.inspect("orders")).ready:
        await worker.run(broker, until_idle=True)


async def said(broker):
    async with open_attention(broker) as attention:
        return [(item.rule, item.subject.partition(":")[0]) for item in await attention.items()]


async def test_a_store_in_which_nothing_happened_needs_no_person(broker):
    assert await said(broker) == []


async def test_a_new_group_is_named_and_rises_a_day_later(broker, worker, place):
    await broker.declare("error")
    async with open_recovery(broker) as recovery:
        await fail(broker, worker, 3)
        await recovery.ingest()
        assert await said(broker) == [("new-group", "group")]
        place.clock.advance(7_200)
        assert await said(broker) == []
        await fail(broker, worker, 25)
        await recovery.ingest()
        assert await said(broker) == [("group-rises", "group")]


async def test_a_group_that_is_snoozed_needs_no_person_until_it_grows(broker, worker):
    await broker.declare("error")
    async with open_recovery(broker) as recovery:
        await fail(broker, worker, 2)
        await recovery.ingest()
        (group,) = await recovery.groups()
        await recovery.set_group_state(group.id, snoozed_until=3_600, wake_above=2)
        assert await said(broker) == []
        await fail(broker, worker, 1)
        await recovery.ingest()
        assert await said(broker) == [("new-group", "group")]


async def test_an_operation_whose_canaries_failed_waits_for_a_person(broker, worker, place):
    await broker.declare("error")
    async with open_recovery(broker) as recovery:
        await fail(broker, worker, 10)
        await recovery.ingest()
        place.clock.advance(7_200)
        await recovery.recover("status:unresolved", canary=2)
        assert ("unserved", "services") in await said(broker)
        await recovery.step()
        while (await broker.inspect("orders")).ready:
            await worker.run(broker, until_idle=True)
        await recovery.step()
        await recovery.step()
        assert await said(broker) == [("canaries-failed", "operation")]


async def test_a_queue_that_none_reads_and_a_route_that_is_paused_are_named(broker, place):
    await broker.declare_topic("events")
    async with open_routes(broker) as routes:
        await routes.add(route("copy", source=from_topic("events")) >> to_queue("orders"))
        await routes.pause("copy", reason="maintenance")
    await broker.send("orders", b"1")
    await broker.send("events", b"2")
    place.clock.advance(700)
    found = await said(broker)
    assert ("queue-unread", "queue") in found
    assert ("route-parked", "route") in found


async def test_figures_count_what_is_there_and_what_happened_today(broker, worker):
    await broker.declare("error")
    async with open_recovery(broker) as recovery:
        await fail(broker, worker, 3)
        await recovery.ingest()
    await broker.send("orders", b"1")
    async with open_attention(broker) as attention:
        figures = await attention.figures()
    assert (figures.unresolved, figures.failed_today, figures.recovered_today) == (3, 3, 0)
    assert (figures.waiting, figures.dead_letters, figures.operations, figures.workers) == (1, 0, 0, 0)


async def test_an_old_operation_that_ends_after_many_newer_ones_is_a_fact(broker, worker, monkeypatch):
    monkeypatch.setattr(attention_module, "_OPERATIONS", 2)
    await broker.declare("error")
    await fail(broker, worker, 1)
    async with open_recovery(broker) as recovery, open_attention(broker) as attention:
        await recovery.ingest()
        first = await recovery.recover("status:unresolved", at=3_600)
        newer = [await recovery.archive("queue:nowhere") for _ in range(5)]
        assert all(each.is_over for each in newer)
        await recovery.cancel(first.number)
        facts = await attention.facts()
        ended = [each.number for each in facts.operations if each.is_over]
        assert sorted(ended) == [first.number, *(each.number for each in newer)]
        assert f"operation:{first.number}" in {each.subject for each in notices_of(facts)}
