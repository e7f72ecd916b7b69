# SPDX-License-Identifier: MIT
"""Who handles messages: workers are known while they run, and forgotten when they are gone."""

import asyncio

import pytest

from redrive.broker.port import Attendance, WorkerReport, find_ability
from redrive.clock import system_clock
from redrive.retry import Exponential, retry
from redrive.worker import Worker
from redrive.worker.handling_times import HandlingTimes
from tests.history.conftest import rows
from tests.patience import PATIENCE_S


def report(session="a", **changes):
    fields = {
        "session": session,
        "name": "billing",
        "host": "here",
        "pid": 7,
        "version": "1",
        "queues": ("orders",),
        "concurrency": 4,
        "in_flight": 1,
        "handled": 10,
        "p95_s": 0.5,
    }
    return WorkerReport(**fields | changes)


async def until(is_so, clock):
    """Move the clock a little, again and again, until something is so."""
    async with asyncio.timeout(PATIENCE_S):
        while not await is_so():
            clock.advance(1.0)
            await system_clock.sleep_async(0.001)


async def test_a_worker_is_known_while_it_runs(broker, history, place):
    worker = Worker("billing")

    @worker.handler("orders", concurrency=3)
    async def handle(_order: bytes) -> None:
        return None

    running = asyncio.create_task(worker.run(broker))
    await until(history.workers, place.clock)
    (found,) = await history.workers()
    assert (found.name, found.queues, found.concurrency, found.in_flight) == ("billing", ("orders",), 3, 0)
    await broker.send("orders", b"1")

    async def has_handled():
        return [each for each in await history.workers() if each.handled]

    await until(has_handled, place.clock)
    (found,) = await history.workers()
    assert found.p95_s is not None
    assert found.since < found.seen_at
    worker.stop()
    await running
    assert await history.workers() == []


async def test_a_worker_is_reported_again_after_an_unexpected_error(broker, history, place, monkeypatch, caplog):
    worker, errors, present = Worker("billing"), [TypeError("a fault of ours")], broker.engine.worker_present
    worker.handler("orders")(print)

    async def failing(*given):
        if errors:
            raise errors.pop()
        return await present(*given)

    monkeypatch.setattr(broker.engine, "worker_present", failing)
    running = asyncio.create_task(worker.run(broker))
    await until(history.workers, place.clock)
    worker.stop()
    await running
    assert "a fault of ours" in caplog.text


async def test_a_worker_that_is_not_heard_of_is_forgotten(broker, history, place):
    await broker.engine.worker_present(report("a"), 20)
    place.clock.advance(10)
    await broker.engine.worker_present(report("b"), 20)
    assert [each.session for each in await history.workers()] == ["a", "b"]
    place.clock.advance(11)
    assert [each.session for each in await history.workers()] == ["b"]
    await broker.engine.worker_present(report("b", handled=11), 20)
    (found,) = await history.workers()
    assert found.handled == 11


async def test_a_worker_is_forgotten_in_time_after_the_clock_was_set_back(broker, history, place):
    await broker.engine.worker_present(report("a"), 20)
    place.clock.jump(-3_600)
    await broker.engine.worker_present(report("b"), 20)
    place.clock.advance(21)
    assert await history.workers() == []


async def test_a_queue_that_none_reads_is_found(broker, history, place):
    await broker.declare("bills")
    await broker.declare("idle")
    await broker.send_many("orders", [b"1", b"2"])
    await broker.send_many("bills", [b"3"])
    place.clock.advance(700)
    assert [queue.name for queue in await history.unread()] == ["bills", "orders"]
    await broker.receive("bills")
    await broker.send("bills", b"4")
    await history.flush()
    await broker.engine.worker_present(report(queues=("orders",)), 20)
    assert await history.unread() == []


async def test_the_health_of_a_destination_says_who_reads_it_and_what_happens_there(broker, history, place):
    place.clock.advance(-place.clock.time() % 60)
    await broker.engine.worker_present(report("a", p95_s=0.5), 600)
    await broker.engine.worker_present(report("b", p95_s=2.0, queues=("orders", "bills")), 600)
    await broker.engine.worker_present(report("c", queues=("bills",)), 600)
    await broker.send_many("orders", [b"x"] * 10)
    for delivery in await broker.receive("orders", max_messages=4):
        await delivery.complete()
    await history.flush()
    place.clock.advance(300)
    health = await history.destination_health("orders", span=300)
    assert (health.workers, health.concurrency, health.in_flight, health.p95_s) == (2, 8, 2, 2.0)
    assert (health.ready, health.sent_per_minute, health.completed_per_minute) == (6, 2.0, 0.8)
    assert health.is_read


async def test_retries_inside_handlers_are_counted_by_call(broker, place):
    worker, tries = Worker(), []

    @retry(on=ConnectionError, policy=Exponential(min=0.001, max_attempts=3), operation="charge", clock=place.clock)
    async def charge():
        tries.append(1)
        if len(tries) < 3:
            raise ConnectionError

    @worker.handler("orders")
    async def handle(_order: bytes) -> None:
        await charge()

    await broker.send("orders", b"1")
    running = asyncio.create_task(worker.run(broker, until_idle=True))

    async def is_done():
        await broker.engine.flush_tallies()
        return running.done()

    await until(is_done, place.clock)
    await broker.engine.flush_tallies()
    assert await rows(broker, "topic = 'call'", "name, metric, n") == [("charge", "retried", 2)]


async def test_an_engine_that_knows_no_workers_works_without(broker):
    class Foreign:
        def __init__(self, engine):
            self._engine = engine

        def __getattr__(self, name):
            if name in ("worker_present", "worker_absent", "tally", "flush_tallies"):
                raise AttributeError(name)
            return getattr(self._engine, name)

    from redrive.broker import Broker

    foreign = Broker(Foreign(broker.engine))
    foreign._opened_by = broker._opened_by
    assert find_ability(foreign.engine, Attendance) is None
    worker, handled = Worker(), []

    @worker.handler("orders")
    async def handle(order: bytes) -> None:
        handled.append(order)

    await broker.send("orders", b"1")
    await worker.run(foreign, until_idle=True)
    assert handled == [b"1"]


@pytest.mark.parametrize(
    ("seconds", "p95"), [([], None), ([3.0], 3.0), ([1.0] * 95 + [9.0] * 5, 1.0), ([1.0] * 94 + [9.0] * 6, 9.0)]
)
def test_95_of_100_are_handled_within_their_p95(seconds, p95):
    times = HandlingTimes()
    for each in seconds:
        times.add(each)
    assert (times.handled, times.p95_s) == (len(seconds), p95)


async def test_several_destinations_are_looked_at_together_without_those_that_do_not_exist(broker, history):
    await broker.declare("bills")
    await broker.send("bills", b"1")
    found = await history.destinations(["orders", "bills", "nowhere"])
    assert sorted((each.queue, each.ready) for each in found) == [("bills", 1), ("orders", 0)]
    assert await history.destinations([]) == []
