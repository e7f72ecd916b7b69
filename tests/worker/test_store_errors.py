# SPDX-License-Identifier: MIT
"""A store that does not answer costs no message an attempt."""

import asyncio

import pytest

from redrive.errors import EngineUnavailable, InvalidSetting
from redrive.retry import Exponential, Fixed
from redrive.worker import Context, HandlerFailed, MessageLockLost, Worker, WorkerFault


async def test_a_receive_that_fails_is_retried_for_ever_and_told_after_each_round(lab):
    handled = []

    @lab.worker.handler("orders")
    async def handle(_body: bytes, context: Context):
        handled.append(context.delivery_count)

    await lab.broker.send("orders", b"x")
    lab.engine.broken = {"lock_next"}
    await lab.start()
    assert lab.engine.calls.count("lock_next") == 1
    await lab.advance(0.81)
    assert lab.engine.calls.count("lock_next") == 2
    await lab.advance(1.61)
    await lab.advance(3.21)
    assert lab.engine.calls.count("lock_next") == 4
    assert lab.faults == [("EngineUnavailable", "receive orders")]
    assert [event.doing for event in lab.told(WorkerFault)] == ["receive"]
    await lab.advance(30.1)
    assert lab.engine.calls.count("lock_next") == 5
    lab.engine.broken = set()
    await lab.advance(1)
    await lab.until(lambda: handled)
    assert handled == [1]


async def test_a_settlement_that_fails_is_retried_and_the_handler_does_not_run_again(lab):
    handled = []

    @lab.worker.handler("orders")
    async def handle(_body: bytes, context: Context):
        handled.append(context.delivery_count)
        lab.engine.broken = {"apply"}

    await lab.broker.send("orders", b"x")
    await lab.start()
    await lab.until(lambda: handled)
    await lab.advance(40, step=0.5)
    assert ("EngineUnavailable", "settle orders") in lab.faults
    lab.engine.broken = set()
    await lab.advance(60, step=0.5)
    assert handled == [1]
    assert lab.told(HandlerFailed) == []
    assert lab.told(MessageLockLost) == []
    assert await lab.counts() == {"ready": 0, "locked": 0, "scheduled": 0, "dead": 0}


async def test_a_settlement_that_fails_until_the_lock_has_ended_is_given_up_and_the_message_comes_again(lab):
    handled = []

    @lab.worker.handler("orders")
    async def handle(_body: bytes, context: Context):
        handled.append((context.delivery_count, context.delayed_retries))
        if len(handled) == 1:
            lab.engine.broken = {"apply", "renew", "lock_next"}

    await lab.broker.send("orders", b"x")
    await lab.start()
    await lab.until(lambda: handled)
    await lab.advance(100, step=0.5)
    assert [event.phase for event in lab.told(MessageLockLost)] == ["settling"]
    lab.engine.broken = set()
    await lab.advance(40, step=0.5)
    await lab.until(lambda: len(handled) == 2)
    assert handled == [(1, 0), (2, 0)]
    assert lab.told(HandlerFailed) == []


async def test_a_failure_is_settled_when_the_store_is_back(lab):
    attempts = []

    @lab.worker.handler("orders")
    async def handle(_body: bytes, context: Context):
        attempts.append(context.attempt)
        if len(attempts) == 1:
            lab.engine.broken = {"apply"}
            raise ValueError

    await lab.broker.send("orders", b"x")
    await lab.start()
    await lab.until(lambda: attempts)
    await lab.ticks()
    lab.engine.broken = set()
    await lab.advance(1)
    await lab.until(lambda: len(attempts) == 2)
    assert attempts == [1, 2]
    assert [event.outcome for event in lab.told(HandlerFailed)] == ["redeliver_now"]


async def test_messages_that_cannot_be_given_back_are_reported_and_come_back_by_themselves(lab):
    begun, done = asyncio.Event(), asyncio.Event()

    @lab.worker.handler("orders", prefetch=1)
    async def handle(_body: bytes):
        begun.set()
        await done.wait()

    await lab.broker.send_many("orders", [b"1", b"2"])
    await lab.start()
    await begun.wait()
    lab.engine.broken = {"apply"}
    await lab.stop(now=True)
    assert [doing for _, doing in lab.faults] == ["release orders", "release orders"]
    lab.engine.broken = set()
    await lab.advance(61)
    assert len(await lab.broker.receive("orders", max_messages=10)) == 2


async def test_the_error_handler_may_be_async(lab):
    told = asyncio.get_running_loop().create_future()

    async def on_error(error, doing):
        await lab.clock.sleep_async(0)
        told.set_result((type(error), doing))

    worker = Worker(on_error=on_error)
    worker.handler("orders")(print)
    lab.engine.broken = {"lock_next"}
    running = asyncio.create_task(worker.run(lab.broker))
    await lab.ticks()
    await lab.advance(10, step=0.5)
    assert await told == (EngineUnavailable, "receive orders")
    worker.stop()
    await running


async def test_a_worker_stops_while_the_store_is_away(lab):
    lab.worker.handler("orders")(print)
    lab.engine.broken = {"lock_next", "apply", "renew"}
    await lab.start()
    await lab.stop()


async def test_stopping_does_not_wait_for_a_store_longer_than_the_grace(lab):
    handled = asyncio.Event()

    @lab.worker.handler("orders")
    async def handle(_body: bytes):
        handled.set()
        lab.engine.broken = {"lock_next", "apply", "renew"}

    await lab.broker.send("orders", b"x")
    await lab.start()
    await handled.wait()
    await lab.ticks()
    lab.worker.stop()
    await lab.advance(40, step=0.5)
    assert lab.running.done()
    await lab.running


async def test_the_waits_are_those_of_the_workers_own_policy(lab):
    lab.worker = Worker(on_event=lab.events.append, reconnect=Fixed(2, jitter="none", max_attempts=3))
    begun, done = asyncio.Event(), asyncio.Event()

    @lab.worker.handler("orders")
    async def handle(_body: bytes):
        begun.set()
        await done.wait()

    await lab.broker.send("orders", b"x")
    lab.engine.broken = {"lock_next"}
    await lab.start()
    calls = [lab.engine.calls.count("lock_next")]
    for _ in range(6):
        await lab.advance(2.01)
        calls.append(lab.engine.calls.count("lock_next"))
    assert calls == [1, 2, 3, 4, 5, 6, 7]
    assert len(lab.told(WorkerFault)) == 2, "after the third and the sixth"
    lab.engine.broken = {"renew"}
    await lab.advance(2.01)
    await begun.wait()
    await lab.advance(40, step=0.5)
    assert lab.engine.calls.count("renew") == 6, "after 30 s, and every 2 s from then on"
    done.set()


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (3, r"reconnect=3: must be a policy with max_attempts, such as Exponential\(min=0.8, max_attempts=4\)"),
        (Exponential(max_attempts=None), "with max_attempts"),
        (Exponential, "with max_attempts"),
    ],
    ids=["number", "endless", "class"],
)
def test_a_policy_that_never_tells_is_refused(wrong, says):
    with pytest.raises(InvalidSetting, match=says):
        Worker(reconnect=wrong)
