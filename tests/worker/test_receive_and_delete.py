# SPDX-License-Identifier: MIT
"""Messages that are taken out of their queue before they are handled: at most once."""

import asyncio
import threading

import pytest

from redrive.errors import InvalidSetting
from redrive.retry import Fixed
from redrive.worker import (
    BlockingContext,
    Context,
    HandlerFailed,
    HandlerHung,
    Recoverability,
    SlowDown,
    Worker,
    WorkerSlowed,
)
from tests.patience import PATIENCE_S

EMPTY = {"ready": 0, "locked": 0, "scheduled": 0, "dead": 0}


async def test_a_message_is_out_of_its_queue_before_it_is_handled(lab):
    counts = []

    @lab.worker.handler("orders", receive_and_delete=True)
    async def handle(_body: bytes, context: Context):
        counts.append((await lab.counts(), context.delivery_count, context.attempt))

    await lab.broker.send("orders", b"x")
    await lab.start()
    await lab.until(lambda: counts)
    assert counts == [(EMPTY, 1, 1)]
    await lab.advance(400, step=20)
    assert lab.engine.renewed == []
    assert lab.events == []


async def test_a_message_whose_handler_fails_is_gone_and_that_is_told(lab):
    handled = []

    @lab.worker.handler("orders", receive_and_delete=True)
    async def handle(body: str):
        handled.append(body)
        if body == "bad":
            raise ValueError("no")

    await lab.broker.send_many("orders", ["bad", "good"])
    await lab.start()
    await lab.until(lambda: len(handled) == 2)
    await lab.advance(120, step=10)
    assert handled == ["bad", "good"]
    assert [(event.outcome, event.delay) for event in lab.told(HandlerFailed)] == [("dropped", None)]
    assert await lab.counts() == EMPTY


async def test_a_worker_that_only_fails_slows_down_and_takes_nothing_meanwhile(lab):
    @lab.worker.handler("orders", receive_and_delete=True, slow_down=SlowDown(after=2, first=10))
    async def handle(_body: bytes):
        raise ValueError

    await lab.broker.send_many("orders", [b"x"] * 5)
    await lab.start()
    await lab.until(lambda: lab.told(WorkerSlowed))
    assert (await lab.counts())["ready"] == 3


async def test_retries_in_place_are_still_possible_and_need_not_fit_a_lock(lab):
    attempts = []

    @lab.worker.handler("orders", receive_and_delete=True, retry_in_place=Fixed(100, max_attempts=3))
    async def handle(_body: bytes):
        attempts.append(lab.clock.monotonic())
        if len(attempts) < 3:
            raise ConnectionError

    await lab.broker.send("orders", b"x")
    await lab.start()
    await lab.advance(200, step=50)
    await lab.until(lambda: len(attempts) == 3)
    assert lab.told(HandlerFailed) == []


@pytest.mark.parametrize("act", ["complete", "abandon", "defer", "renew", "send"])
async def test_there_is_nothing_to_settle_nor_to_send_with(lab, act):
    @lab.worker.handler("orders", receive_and_delete=True)
    def handle(_body: bytes, context: BlockingContext):
        getattr(context, act)(*(("orders", b"y") if act == "send" else ()))

    await lab.broker.send("orders", b"x")
    await lab.start()
    await lab.until(lambda: lab.told(HandlerFailed))
    (failed,) = lab.told(HandlerFailed)
    assert failed.exception_type == "redrive.errors.UsageError"
    assert "was deleted when it was received" in failed.exception_message


async def test_what_is_received_in_the_moment_of_the_stop_is_handled(lab, monkeypatch):
    handled, asked, go_on = [], asyncio.Event(), asyncio.Event()
    real = lab.engine.lock_next

    async def slow(queue, limit, **how):
        found = await real(queue, limit, **how)
        if found:
            asked.set()
            await go_on.wait()
        return found

    monkeypatch.setattr(lab.engine, "lock_next", slow)

    @lab.worker.handler("orders", receive_and_delete=True)
    async def handle(body: str):
        handled.append(body)

    await lab.broker.send_many("orders", ["1", "2"])
    await lab.start()
    await asked.wait()
    lab.worker.stop()
    await lab.ticks()
    assert not lab.running.done()
    go_on.set()
    await lab.running
    assert handled == ["1"]
    assert (await lab.counts())["ready"] == 1


async def test_a_handler_that_does_not_end_in_time_is_cancelled_and_its_message_is_told_as_dropped(lab):
    begun = asyncio.Event()

    @lab.worker.handler("orders", receive_and_delete=True)
    async def handle(_body: bytes):
        begun.set()
        await asyncio.Event().wait()

    await lab.broker.send("orders", b"x")
    await lab.start()
    await begun.wait()
    await lab.stop(now=True)
    await lab.ticks()
    (failed,) = lab.told(HandlerFailed)
    assert failed.outcome == "dropped"
    assert "the worker stopped before the handler ended" in failed.exception_message


async def test_a_blocking_handler_that_outlasts_its_timeout_hangs(lab):
    go_on, handled = threading.Event(), []

    @lab.worker.handler("orders", receive_and_delete=True, timeout=5)
    def handle(body: str):
        handled.append(body)
        if body == "1":
            go_on.wait(PATIENCE_S)

    await lab.broker.send_many("orders", ["1", "2"])
    await lab.start()
    await lab.until(lambda: handled)
    await lab.advance(11, step=1)
    await lab.until(lambda: handled == ["1", "2"])
    assert lab.told(HandlerHung)
    go_on.set()


async def test_dead_letters_can_be_taken_without_an_error_queue(lab):
    handled = []

    @lab.worker.handler("orders/$dead", receive_and_delete=True)
    async def handle(body: str):
        handled.append(body)

    await lab.broker.send("orders", "x")
    (message,) = await lab.broker.receive("orders")
    await message.dead_letter("Test")
    await lab.start()
    await lab.until(lambda: handled == ["x"])


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"auto_complete": False}, "cannot be combined with auto_complete=False"),
        ({"prefetch": 1}, "cannot be combined with prefetch"),
        ({"recoverability": Recoverability()}, "cannot be combined with recoverability"),
    ],
)
def test_what_needs_a_lock_is_refused(settings, says):
    with pytest.raises(InvalidSetting, match=says):
        Worker().handler("orders", receive_and_delete=True, **settings)(ignore)
    with pytest.raises(InvalidSetting, match="must be True or False"):
        Worker().handler("orders", receive_and_delete="yes")(ignore)


async def ignore(_body: bytes): ...
