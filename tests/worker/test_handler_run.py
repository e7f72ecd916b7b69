# SPDX-License-Identifier: MIT
"""Stopping: running handlers end or are interrupted, and every message is settled or back in its queue."""

import asyncio
import signal
import threading

import pytest

from redrive.worker import Context, HandlerFailed, Worker
from tests.patience import PATIENCE_S

EMPTY = {"ready": 0, "locked": 0, "scheduled": 0, "dead": 0}


def hanging(lab, **settings):
    """Declare a handler that hangs; return where it says what became of it."""
    told = {"begun": asyncio.Event(), "go_on": asyncio.Event(), "how": []}

    @lab.worker.handler("orders", **settings)
    async def handle(_body: bytes, context: Context):
        told["context"] = context
        told["begun"].set()
        try:
            await told["go_on"].wait()
        except asyncio.CancelledError:
            told["how"].append("cancelled")
            raise
        told["how"].append("finished")

    return told


async def test_a_running_handler_may_finish_and_what_waits_is_given_back_uncounted(lab):
    told = hanging(lab, prefetch=5)
    await lab.broker.send_many("orders", [str(n) for n in range(10)])
    await lab.start()
    await told["begun"].wait()
    lab.worker.stop()
    await lab.ticks()
    assert told["context"].is_stopping
    assert not lab.running.done()
    assert await lab.counts() == {"ready": 9, "locked": 1, "scheduled": 0, "dead": 0}
    assert {each.delivery_count for each in await lab.broker.peek("orders")} == {0, 1}
    told["go_on"].set()
    await lab.running
    assert told["how"] == ["finished"]
    assert (await lab.counts())["ready"] == 9


async def test_nothing_is_received_after_the_stop(lab):
    told = hanging(lab, concurrency=4)
    await lab.broker.send("orders", b"1")
    await lab.start()
    await told["begun"].wait()
    lab.worker.stop()
    await lab.ticks()
    await lab.broker.send("orders", b"2")
    await lab.ticks()
    assert await lab.counts() == {"ready": 1, "locked": 1, "scheduled": 0, "dead": 0}
    told["go_on"].set()


async def test_a_handler_that_does_not_finish_is_cancelled_after_the_grace_and_its_message_given_back(lab):
    told = hanging(lab)
    await lab.broker.send("orders", b"x")
    await lab.start()
    await told["begun"].wait()
    lab.worker.stop()
    await lab.ticks()
    await lab.advance(29.9, step=1)
    assert told["how"] == []
    await lab.advance(0.2)
    await lab.running
    assert told["how"] == ["cancelled"]
    (message,) = await lab.broker.receive("orders")
    assert message.delivery_count == 2
    assert lab.told(HandlerFailed) == []


async def test_a_lock_is_renewed_during_the_grace(lab):
    worker = Worker(grace=200)
    begun, go_on = asyncio.Event(), asyncio.Event()

    @worker.handler("orders")
    async def handle(_body: bytes):
        begun.set()
        await go_on.wait()

    await lab.broker.send("orders", b"x")
    running = asyncio.create_task(worker.run(lab.broker))
    await begun.wait()
    worker.stop()
    await lab.advance(150, step=5)
    go_on.set()
    await running
    assert await lab.counts() == EMPTY


async def test_a_blocking_handler_that_hangs_does_not_keep_the_worker(lab):
    begun, go_on = threading.Event(), threading.Event()

    @lab.worker.handler("orders")
    def handle(_body: bytes):
        begun.set()
        go_on.wait(PATIENCE_S)

    await lab.broker.send("orders", b"x")
    await lab.start()
    await lab.until(begun.is_set)
    lab.worker.stop()
    await lab.ticks()
    await lab.advance(30.1, step=1)
    await lab.running
    assert (await lab.counts())["ready"] == 1
    go_on.set()


async def test_a_handler_that_refuses_to_be_cancelled_does_not_keep_the_worker(lab):
    begun, go_on = asyncio.Event(), asyncio.Event()

    @lab.worker.handler("orders")
    async def handle(_body: bytes):
        begun.set()
        while not go_on.is_set():
            try:
                await go_on.wait()
            except asyncio.CancelledError:
                continue

    await lab.broker.send("orders", b"x")
    await lab.start()
    await begun.wait()
    lab.worker.stop()
    await lab.ticks()
    await lab.advance(30.1, step=1)
    assert not lab.running.done()
    await lab.advance(5.1, step=1)
    await lab.running
    assert (await lab.counts())["ready"] == 1
    go_on.set()
    await lab.ticks()
    assert (await lab.counts())["ready"] == 1, "it is not settled after it was given back"


async def test_stopping_now_gives_everything_back_at_once(lab):
    told = hanging(lab, concurrency=2, prefetch=2)
    await lab.broker.send_many("orders", [str(n) for n in range(6)])
    await lab.start()
    await told["begun"].wait()
    await lab.stop(now=True)
    assert await lab.counts() == {**EMPTY, "ready": 6}
    await lab.ticks()
    assert told["how"] == ["cancelled", "cancelled"]


async def test_stopping_now_ends_the_grace(lab):
    told = hanging(lab)
    await lab.broker.send("orders", b"x")
    await lab.start()
    await told["begun"].wait()
    lab.worker.stop()
    await lab.ticks()
    await lab.stop(now=True)
    assert (await lab.counts())["ready"] == 1


async def test_stopping_now_does_not_wait_for_a_handler_that_is_already_cancelled(lab):
    begun, go_on = asyncio.Event(), asyncio.Event()

    @lab.worker.handler("orders")
    async def handle(_body: bytes):
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await go_on.wait()

    await lab.broker.send("orders", b"x")
    await lab.start()
    await begun.wait()
    lab.worker.stop()
    await lab.ticks()
    await lab.advance(31, step=1)
    assert (await lab.counts())["locked"] == 1
    await lab.stop(now=True)
    assert (await lab.counts())["ready"] == 1
    go_on.set()


async def test_cancelling_the_run_gives_everything_back(lab):
    told = hanging(lab, prefetch=1)
    await lab.broker.send_many("orders", [b"1", b"2"])
    await lab.start()
    await told["begun"].wait()
    lab.running.cancel()
    await asyncio.wait([lab.running])
    assert lab.running.cancelled()
    assert (await lab.counts())["ready"] == 2


async def test_a_signal_stops_and_a_second_one_stops_at_once(lab):
    before = signal.getsignal(signal.SIGTERM)
    told = hanging(lab)
    await lab.broker.send("orders", b"x")
    await lab.start(handle_signals=True)
    await told["begun"].wait()
    signal.raise_signal(signal.SIGTERM)
    await lab.until(lambda: told["context"].is_stopping)
    assert not lab.running.done()
    signal.raise_signal(signal.SIGINT)
    await lab.running
    assert (await lab.counts())["ready"] == 1
    assert signal.getsignal(signal.SIGTERM) is before


async def test_a_signal_stops_gracefully(lab):
    told = hanging(lab)
    await lab.broker.send("orders", b"x")
    await lab.start(handle_signals=True)
    await told["begun"].wait()
    signal.raise_signal(signal.SIGTERM)
    await lab.until(lambda: told["context"].is_stopping)
    told["go_on"].set()
    await lab.running
    assert await lab.counts() == EMPTY


async def test_stop_may_come_from_a_handler_or_from_another_thread(lab):
    @lab.worker.handler("orders")
    def handle(_body: bytes):
        lab.worker.stop()

    await lab.broker.send("orders", b"x")
    await lab.start()
    await lab.running
    assert await lab.counts() == EMPTY


def test_stopping_a_worker_that_does_not_run_does_nothing():
    Worker().stop()


def test_run_blocking_opens_the_broker_and_runs_until_a_signal(tmp_path):
    from redrive import connect

    worker = Worker()
    handled = []

    @worker.handler("orders")
    async def handle(body: bytes):
        handled.append(body)
        signal.raise_signal(signal.SIGTERM)

    async def prepare():
        async with connect(f"sqlite:///{tmp_path}/orders.db") as broker:
            await broker.declare("orders")
            await broker.send("orders", b"x")

    asyncio.run(prepare())
    worker.run_blocking(connect(f"sqlite:///{tmp_path}/orders.db"))
    assert handled == [b"x"]


async def test_an_error_inside_the_worker_ends_it_with_that_error(lab, monkeypatch):
    from redrive.worker.handler_run import HandlerRun

    def broken(*_):
        raise RuntimeError("a bug")

    monkeypatch.setattr(HandlerRun, "_note_time", broken)
    lab.worker.handler("orders")(lambda _body: None)
    await lab.broker.send("orders", b"x")
    await lab.start()
    with pytest.raises(RuntimeError, match="a bug"):
        await lab.running
