# SPDX-License-Identifier: MIT
"""Locks are renewed while a handler runs, and a lost one ends everybody's business with the message."""

import asyncio
import threading

import pytest

from redrive.worker import (
    BlockingContext,
    Context,
    HandlerFailed,
    MessageLockLost,
    WorkerFault,
)
from tests.patience import PATIENCE_S


async def slow(lab, seconds, step=10):
    await lab.advance(seconds, step)


async def test_a_lock_is_renewed_while_the_handler_runs(lab):
    done = asyncio.Event()

    @lab.worker.handler("orders")
    async def handle(_body: bytes):
        await done.wait()

    await lab.broker.send("orders", b"x")
    await lab.start()
    await slow(lab, 200)
    assert (await lab.counts())["locked"] == 1
    assert lab.engine.renewed
    assert len(lab.engine.renewed) <= 8
    done.set()
    await lab.stop()
    assert await lab.counts() == {"ready": 0, "locked": 0, "scheduled": 0, "dead": 0}
    assert lab.told(MessageLockLost) == []


async def test_all_locks_are_renewed_together(lab):
    done = asyncio.Event()

    @lab.worker.handler("orders", concurrency=5)
    async def handle(_body: bytes):
        await done.wait()

    await lab.broker.send_many("orders", [b"x"] * 5)
    await lab.start()
    await slow(lab, 30)
    assert lab.engine.renewed == [5]
    done.set()


async def test_a_blocking_handler_does_not_hold_up_renewal(lab):
    done = threading.Event()

    @lab.worker.handler("orders")
    def handle(_body: bytes):
        done.wait(PATIENCE_S)

    await lab.broker.send("orders", b"x")
    await lab.start()
    await slow(lab, 200)
    assert (await lab.counts())["locked"] == 1
    done.set()
    await lab.stop()
    assert await lab.counts() == {"ready": 0, "locked": 0, "scheduled": 0, "dead": 0}


async def test_renewal_ends_at_its_maximum_and_the_handler_is_told(lab):
    contexts = []
    done = asyncio.Event()

    @lab.worker.handler("orders", max_lock_renewal=100)
    async def handle(_body: bytes, context: Context):
        contexts.append(context)
        if len(contexts) == 1:
            await done.wait()

    await lab.broker.send("orders", b"x")
    await lab.start()
    await slow(lab, 140)
    assert not contexts[0].is_lock_lost
    await slow(lab, 60)
    assert contexts[0].is_lock_lost
    (lost,) = lab.told(MessageLockLost)
    assert (lost.phase, 120 <= lost.held <= 200) == ("handling", True)
    done.set()
    await lab.until(lambda: len(contexts) == 2)
    assert contexts[1].delivery_count == 2
    await lab.stop()
    assert await lab.counts() == {"ready": 0, "locked": 0, "scheduled": 0, "dead": 0}


async def test_no_renewal_means_none(lab):
    done = asyncio.Event()

    @lab.worker.handler("orders", max_lock_renewal=0)
    async def handle(_body: bytes, context: Context):
        if context.attempt == 1:
            await done.wait()

    await lab.broker.send("orders", b"x")
    await lab.start()
    await slow(lab, 59)
    assert lab.engine.renewed == []
    await slow(lab, 2)
    assert lab.told(MessageLockLost)
    done.set()


async def test_a_lock_lost_to_somebody_else_is_neither_completed_nor_counted_as_failure(lab):
    begun, done = asyncio.Event(), asyncio.Event()

    @lab.worker.handler("orders")
    async def handle(_body: bytes, context: Context):
        if context.attempt > 1:
            return
        context.send("orders", b"must never be sent")
        begun.set()
        await done.wait()

    await lab.broker.send("orders", b"x")
    await lab.start()
    await begun.wait()
    lab.clock.advance(61)  # the machine slept: no renewal had a chance
    (other,) = await lab.broker.receive("orders")
    assert other.delivery_count == 2
    await lab.until(lambda: lab.told(MessageLockLost))
    done.set()
    await lab.ticks()
    await other.complete()
    await lab.stop()
    assert lab.told(HandlerFailed) == []
    assert await lab.counts() == {"ready": 0, "locked": 0, "scheduled": 0, "dead": 0}


async def test_a_failure_after_the_lock_was_lost_is_reported_and_settles_nothing(lab):
    begun, done, again = threading.Event(), threading.Event(), threading.Event()

    @lab.worker.handler("orders")
    def handle(_body: bytes, context: BlockingContext):
        if context.attempt == 1:
            begun.set()
            done.wait(PATIENCE_S)
            raise ValueError("too late")
        again.set()

    await lab.broker.send("orders", b"x")
    await lab.start()
    await lab.until(begun.is_set)
    lab.clock.advance(61)
    await lab.until(lambda: lab.told(MessageLockLost))
    done.set()
    await lab.until(lambda: lab.told(HandlerFailed))
    assert [event.outcome for event in lab.told(HandlerFailed)] == ["lock_lost"]
    await lab.until(again.is_set)
    await lab.stop()
    assert (await lab.counts())["ready"] == 0


async def test_a_lock_that_somebody_broke_is_noticed_by_the_renewal(lab):
    contexts = []
    done = asyncio.Event()

    @lab.worker.handler("orders")
    async def handle(_body: bytes, context: Context):
        contexts.append(context)
        await done.wait()

    await lab.broker.send("orders", b"x")
    await lab.start()
    await lab.until(lambda: contexts)
    await lab.broker.delete("orders")
    await lab.broker.declare("orders")
    await slow(lab, 31)
    assert contexts[0].is_lock_lost
    done.set()


async def test_a_lock_is_renewed_by_hand(lab):
    renewed = []

    @lab.worker.handler("orders", max_lock_renewal=0)
    async def handle(_body: bytes, context: Context):
        for _ in range(5):
            await lab.clock.sleep_async(50)
            await context.renew()
            renewed.append(lab.clock.monotonic())

    await lab.broker.send("orders", b"x")
    await lab.start()
    await slow(lab, 255)
    assert len(renewed) == 5
    await lab.stop()
    assert lab.told(MessageLockLost) == []


async def test_renewing_a_lost_lock_by_hand_is_an_error(lab):
    errors, done = [], threading.Event()

    @lab.worker.handler("orders", max_lock_renewal=0)
    def handle(_body: bytes, context: BlockingContext):
        if context.attempt > 1:
            return
        done.wait(PATIENCE_S)
        try:
            context.renew()
        except Exception as error:
            errors.append(type(error).__name__)
            raise

    await lab.broker.send("orders", b"x")
    await lab.start()
    await lab.advance(61, step=1)
    done.set()
    await lab.until(lambda: errors)
    assert errors == ["LockLost"]


async def test_a_blocking_handler_renews_by_hand(lab):
    gone_on = threading.Event()
    told = []

    @lab.worker.handler("orders", max_lock_renewal=0)
    def handle(_body: bytes, context: BlockingContext):
        gone_on.wait(PATIENCE_S)
        context.renew()
        told.append(context.is_lock_lost)

    await lab.broker.send("orders", b"x")
    await lab.start()
    await lab.advance(50)
    gone_on.set()
    await lab.until(lambda: told)
    assert told == [False]
    assert lab.engine.renewed == [1]


async def test_a_renewal_that_fails_is_tried_again_until_the_lock_ends(lab):
    done = asyncio.Event()

    @lab.worker.handler("orders")
    async def handle(_body: bytes):
        await done.wait()

    await lab.broker.send("orders", b"x")
    await lab.start()
    await lab.ticks()
    lab.engine.broken = {"renew"}
    await lab.advance(35, step=0.5)
    assert [event.doing for event in lab.told(WorkerFault)][:3] == ["renew", "renew", "renew"]
    assert ("EngineUnavailable", "renew orders") in lab.faults
    lab.engine.broken = set()
    await lab.advance(60, step=0.5)
    assert lab.told(MessageLockLost) == []
    done.set()
    await lab.stop()
    assert (await lab.counts())["ready"] == 0


@pytest.mark.parametrize("fails", [False, True])
async def test_a_lock_found_lost_when_it_is_settled_is_reported_and_nothing_changes(lab, fails):
    @lab.worker.handler("orders")
    async def handle(_body: bytes):
        await lab.broker.delete("orders")
        await lab.broker.declare("orders")
        if fails:
            raise ValueError

    await lab.broker.send("orders", b"x")
    await lab.start()
    await lab.until(lambda: lab.told(MessageLockLost))
    await lab.ticks()
    assert [event.phase for event in lab.told(MessageLockLost)] == ["settling"]
    assert lab.told(HandlerFailed) == []


async def test_a_lock_that_ends_by_being_settled_during_its_renewal_is_not_lost(lab, monkeypatch):
    renewing, done = asyncio.Event(), asyncio.Event()
    real = lab.engine.renew

    async def slow_renew(locks):
        renewing.set()
        await done.wait()
        return await real(locks)

    monkeypatch.setattr(lab.engine, "renew", slow_renew)

    @lab.worker.handler("orders")
    async def handle(_body: bytes):
        await renewing.wait()

    await lab.broker.send("orders", b"x")
    await lab.start()
    await slow(lab, 31)
    assert await lab.counts() == {"ready": 0, "locked": 0, "scheduled": 0, "dead": 0}
    done.set()
    await lab.ticks()
    assert lab.told(MessageLockLost) == []
