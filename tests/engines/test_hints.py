# SPDX-License-Identifier: MIT
"""Whoever waits is woken, nobody looks while nobody waits, and one failed look is not the last."""

import asyncio

import pytest

from redrive.engines.hints import Hints
from redrive.errors import EngineUnavailable
from redrive.testing import ManualClock
from tests.patience import PATIENCE_S


class World:
    """What a look finds."""

    def __init__(self):
        self.clock = ManualClock()
        self.looks = 0
        self.finds = []
        self.next_due = None
        self.hints = Hints(self.clock, self.look, 0.1)

    async def look(self, queues):
        self.looks += 1
        found = self.finds.pop(0) if self.finds else []
        if isinstance(found, Exception):
            raise found
        if self.next_due is not None and self.next_due <= self.clock.time():
            found, self.next_due = queues, None
        return found, self.next_due

    async def turns(self):
        for _ in range(10):
            await ManualClock(auto_advance=True).sleep_async(0.0)

    async def pass_time(self, seconds, step=0.1):
        for _ in range(round(seconds / step)):
            self.clock.advance(step)
            await self.turns()

    async def waiting(self, queue="orders", seconds=3_600.0):
        task = asyncio.create_task(self.hints.wait(queue, seconds))
        await self.turns()
        return task


@pytest.fixture
async def world():
    world = World()
    yield world
    await world.hints.close()


async def test_a_hint_that_comes_before_its_receiver_waits_is_not_lost(world):
    world.hints.asked("orders")  # it finds nothing, and is about to wait
    world.hints.wake(["orders"])
    early, later = await world.waiting(), await world.waiting()
    assert (early.done(), later.done()) == (True, False)
    later.cancel()


async def test_a_receiver_that_asks_has_heard_all_hints_before(world):
    world.hints.wake(["orders"])
    world.hints.asked("orders")
    waiting = await world.waiting()
    assert not waiting.done()
    waiting.cancel()


async def test_a_hint_wakes_those_who_wait_for_that_queue(world):
    mine, his = await world.waiting(), await world.waiting("billing")
    world.hints.wake(["orders", "nobody's"])
    await world.turns()
    assert (mine.done(), his.done()) == (True, False)


async def test_waiting_ends_with_its_time(world):
    waiting = await world.waiting(seconds=2.0)
    await world.pass_time(1.9)
    assert not waiting.done()
    await world.pass_time(0.2)
    assert waiting.done()


async def test_what_another_process_sends_wakes_the_receivers_of_that_queue_soon(world):
    orders, billing = await world.waiting(), await world.waiting("billing")
    world.finds = [["billing"]]
    await world.pass_time(0.2)
    assert (orders.done(), billing.done()) == (False, True)


async def test_what_comes_due_wakes_on_time(world):
    world.next_due = world.clock.time() + 0.05
    waiting = await world.waiting()
    await world.pass_time(0.04, step=0.01)
    assert not waiting.done()
    await world.pass_time(0.02, step=0.01)
    assert waiting.done()


async def test_nobody_looks_while_nobody_waits(world):
    assert (world.looks, world.clock.sleepers) == (0, 0)
    waiting = await world.waiting()
    world.hints.wake(["orders"])
    await waiting
    await world.turns()
    looks = world.looks
    await world.pass_time(5)
    assert (world.looks, world.clock.sleepers) == (looks, 0)


async def test_a_look_that_fails_is_not_the_last(world):
    world.finds = [EngineUnavailable("for a moment"), EngineUnavailable("and again"), ["orders"]]
    waiting = await world.waiting()
    assert not waiting.done()
    await world.pass_time(1)
    assert waiting.done()
    await waiting


async def test_a_look_with_an_unexpected_error_is_told_and_is_not_the_last(world, caplog):
    world.finds = [TypeError("a fault of ours"), TypeError("a fault of ours"), ["orders"]]
    waiting = await world.waiting()
    await world.pass_time(1)
    assert waiting.done()
    await waiting
    assert [str(record.exc_info[1]) for record in caplog.records] == ["a fault of ours"], "once, not ten times a second"


async def test_whoever_stops_waiting_is_forgotten(world):
    waiting = await world.waiting()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await world.turns()
    assert world.clock.sleepers == 0


async def test_closing_wakes_everybody(world):
    waiting = await world.waiting()
    await world.hints.close()
    await world.turns()
    assert waiting.done()


async def test_a_queue_is_waited_for_a_moment_longer_than_somebody_waits(world):
    waiting = await world.waiting()
    assert world.hints.queues == ["orders"]
    world.hints.wake(["orders"])
    await waiting
    assert world.hints.queues == ["orders"], "who was woken is about to ask"
    world.clock.advance(6)
    assert world.hints.queues == []


async def test_nobody_waits_for_what_is_closed(world):
    waiting = await world.waiting()
    await world.hints.close()
    await asyncio.wait_for(waiting, PATIENCE_S)
    again = await world.waiting()
    assert again.done()


async def test_hints_that_were_closed_can_be_waited_for_again(world):
    await world.waiting()
    await world.hints.close()
    world.hints.open()
    world.finds = [[], ["orders"]]
    waiting = await world.waiting()
    await world.pass_time(1)
    assert waiting.done()
