# SPDX-License-Identifier: MIT
"""Calling handlers: in threads, within their time, again while the lock is held."""

import asyncio
import contextvars
import threading

from redrive.retry import Fixed
from redrive.worker import Context, HandlerFailed, HandlerOverdue, MessageMoved, Recoverability
from tests.patience import PATIENCE_S

NO_RETRIES = Recoverability(immediate=0, delayed=None)


async def test_an_async_handler_that_takes_too_long_is_cancelled_and_has_failed(lab):
    ended = []

    @lab.worker.handler("orders", timeout=5, recoverability=NO_RETRIES)
    async def handle(_body: bytes):
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(lab.clock.monotonic())

    await lab.broker.send("orders", b"x")
    await lab.start()
    await lab.advance(5)
    await lab.until(lambda: lab.told(MessageMoved))
    assert ended == [5.0]
    (dead,) = await lab.dead()
    assert dead.headers["redrive-failed-exception-type"] == "TimeoutError"
    assert "took longer than its timeout of 5 s" in dead.headers["redrive-failed-exception-message"]


async def test_a_time_out_of_the_handlers_own_is_left_alone(lab):
    @lab.worker.handler("orders", timeout=5, recoverability=NO_RETRIES)
    async def handle(_body: bytes):
        raise TimeoutError("mine")

    await lab.broker.send("orders", b"x")
    await lab.start()
    await lab.until(lambda: lab.told(HandlerFailed))
    assert lab.told(HandlerFailed)[0].exception_message == "mine"


async def test_a_handler_within_its_time_is_completed(lab):
    @lab.worker.handler("orders", timeout=5)
    async def handle(_body: bytes):
        lab.worker.stop()

    await lab.broker.send("orders", b"x")
    await lab.start()
    await lab.running
    assert (await lab.counts())["ready"] == 0


async def test_a_blocking_handler_that_takes_too_long_is_reported_and_has_failed_when_it_ends(lab):
    gone_on = threading.Event()

    @lab.worker.handler("orders", timeout=5, recoverability=NO_RETRIES)
    def handle(_body: bytes):
        gone_on.wait(PATIENCE_S)

    await lab.broker.send("orders", b"x")
    await lab.start()
    await lab.advance(5)
    await lab.until(lambda: lab.told(HandlerOverdue))
    assert lab.told(HandlerFailed) == []
    assert (await lab.counts())["locked"] == 1
    gone_on.set()
    await lab.until(lambda: lab.told(MessageMoved))
    assert "took longer than its timeout" in lab.told(HandlerFailed)[0].exception_message


async def test_a_blocking_handler_with_a_time_out_of_its_own_has_failed_with_that(lab):
    @lab.worker.handler("orders", timeout=5, recoverability=NO_RETRIES)
    def handle(_body: bytes):
        raise TimeoutError("mine")

    await lab.broker.send("orders", b"x")
    await lab.start()
    await lab.until(lambda: lab.told(HandlerFailed))
    assert lab.told(HandlerFailed)[0].exception_message == "mine"
    assert lab.told(HandlerOverdue) == []


async def test_blocking_handlers_run_side_by_side_in_threads_with_the_callers_context(lab):
    tenant = contextvars.ContextVar("tenant", default="nobody")
    together = threading.Barrier(4)
    seen = []

    @lab.worker.handler("orders", concurrency=4)
    def handle(_body: bytes):
        together.wait(PATIENCE_S)
        seen.append((threading.current_thread().name.startswith("redrive-orders-"), tenant.get()))

    await lab.broker.send_many("orders", [b"x"] * 8)
    tenant.set("acme")
    await lab.start()
    await lab.until(lambda: len(seen) == 8)
    assert seen == [(True, "acme")] * 8


async def test_a_blocking_function_that_returns_something_to_await_is_told_to_be_async(lab):
    async def inner(): ...

    lab.worker.handler("orders", recoverability=NO_RETRIES)(lambda _body: inner())
    await lab.broker.send("orders", b"x")
    await lab.start()
    await lab.until(lambda: lab.told(HandlerFailed))
    assert "declare it with async def" in lab.told(HandlerFailed)[0].exception_message


async def test_a_blocking_handlers_failure_has_its_own_traceback(lab):
    @lab.worker.handler("orders", recoverability=NO_RETRIES)
    def handle(_body: bytes):
        raise StopIteration

    await lab.broker.send("orders", b"x")
    await lab.start()
    await lab.until(lambda: lab.told(MessageMoved))
    assert "StopIteration" in lab.told(HandlerFailed)[0].exception_message


async def test_retries_in_place_use_no_deliveries_and_send_only_once(lab):
    await lab.broker.declare("receipts")
    attempts = []

    @lab.worker.handler("orders", retry_in_place=Fixed(1, max_attempts=3), timeout=10)
    async def handle(_body: bytes, context: Context):
        attempts.append((context.delivery_count, lab.clock.monotonic()))
        context.send("receipts", f"{len(attempts)}")
        if len(attempts) < 3:
            raise ConnectionError

    await lab.broker.send("orders", b"x")
    await lab.start()
    await lab.advance(2, step=1)
    await lab.until(lambda: len(attempts) == 3)
    await lab.stop()
    assert attempts == [(1, 0.0), (1, 1.0), (1, 2.0)]
    assert [each.body for each in await lab.broker.peek("receipts")] == [b"3"]
    assert lab.told(HandlerFailed) == []


async def test_retries_in_place_end_and_redelivery_begins(lab):
    attempts = []

    @lab.worker.handler("orders", retry_in_place=Fixed(0, max_attempts=2), recoverability=NO_RETRIES)
    def handle(body: bytes):
        attempts.append(body)
        raise ConnectionError

    await lab.broker.send("orders", b"x")
    await lab.start()
    await lab.until(lambda: lab.told(MessageMoved))
    assert len(attempts) == 2


async def test_poison_and_settled_messages_are_not_retried_in_place(lab):
    attempts = []

    @lab.worker.handler(
        "orders",
        retry_in_place=Fixed(0, max_attempts=5),
        recoverability=Recoverability(poison=[KeyError]),
        auto_complete=False,
    )
    async def handle(body: bytes, context: Context):
        attempts.append(body)
        if body == b"poison":
            raise KeyError
        await context.complete()
        raise ConnectionError

    await lab.broker.send_many("orders", [b"poison", b"settled"])
    await lab.start()
    await lab.until(lambda: len(lab.told(HandlerFailed)) == 2)
    assert attempts == [b"poison", b"settled"]
    assert [event.outcome for event in lab.told(HandlerFailed)] == ["moved", "settled"]


async def test_with_a_decision_of_your_own_every_failure_is_retried_in_place(lab):
    attempts = []

    @lab.worker.handler("orders", retry_in_place=Fixed(0, max_attempts=3), recoverability=lambda _failure: None)
    async def handle(body: bytes):
        attempts.append(body)
        if len(attempts) < 3:
            raise ValueError
        lab.worker.stop()

    await lab.broker.send("orders", b"x")
    await lab.start()
    await lab.running
    assert len(attempts) == 3
