# SPDX-License-Identifier: MIT
"""When everything fails the worker slows down, and recovers by itself."""

import asyncio

from redrive.worker import HandlerFailed, Recoverability, SlowDown, WorkerAtFullSpeed, WorkerSlowed


async def test_when_everything_fails_messages_are_tried_one_at_a_time_until_one_succeeds(lab):
    is_down = True
    handled = []

    @lab.worker.handler(
        "orders",
        concurrency=4,
        prefetch=8,
        slow_down=SlowDown(after=6, first=10, longest=30),
        recoverability=Recoverability(immediate=100),
    )
    async def handle(body: bytes):
        if is_down:
            raise ConnectionError
        handled.append(body)

    await lab.broker.declare("calm")
    await lab.broker.update("orders", max_delivery_count=2_000)
    await lab.broker.send_many("orders", [str(n) for n in range(100)])
    await lab.start()
    await lab.until(lambda: lab.told(WorkerSlowed))
    await lab.ticks(50)
    failures = len(lab.told(HandlerFailed))
    assert failures <= 6 + 4
    assert await lab.counts() == {"ready": 100, "locked": 0, "scheduled": 0, "dead": 0}
    counts = [each.delivery_count for each in await lab.broker.peek("orders", max_messages=100)]
    assert sum(counts) == failures, "what nobody tried was not counted"
    for pause in (10, 20, 30, 30):
        await lab.advance(pause - 0.1)
        assert len(lab.told(HandlerFailed)) == failures
        await lab.advance(0.2)
        await lab.until(lambda wanted=failures + 1: len(lab.told(HandlerFailed)) == wanted)
        await lab.ticks(50)
        failures += 1
        assert len(lab.told(HandlerFailed)) == failures
    assert [event.pause for event in lab.told(WorkerSlowed)] == [10, 20, 30, 30, 30]
    is_down = False
    await lab.advance(30.1)
    await lab.until(lambda: len(handled) == 100)
    (recovered,) = lab.told(WorkerAtFullSpeed)
    assert recovered.failures == failures
    assert "full speed" in str(recovered)


async def test_failures_that_are_not_in_a_row_slow_nothing_down(lab):
    @lab.worker.handler("orders", slow_down=SlowDown(after=2), recoverability=Recoverability(immediate=0, delayed=None))
    async def handle(body: bytes):
        if int(body) % 2:
            raise ConnectionError

    await lab.broker.send_many("orders", [str(n) for n in range(20)])
    await lab.start()
    await lab.until(lambda: len(lab.told(HandlerFailed)) == 10)
    assert lab.told(WorkerSlowed) == []


async def test_a_worker_told_not_to_slow_down_does_not(lab):
    @lab.worker.handler("orders", slow_down=None, recoverability=Recoverability(immediate=0, delayed=None))
    async def handle(_body: bytes):
        raise ConnectionError

    await lab.broker.send_many("orders", [b"x"] * 50)
    await lab.start()
    await lab.until(lambda: len(lab.told(HandlerFailed)) == 50)
    assert (await lab.counts())["dead"] == 50
    assert lab.told(WorkerSlowed) == []


async def test_a_slow_worker_stops_like_any_other(lab):
    @lab.worker.handler("orders", slow_down=SlowDown(after=1, first=60))
    async def handle(_body: bytes):
        raise ConnectionError

    await lab.broker.send("orders", b"x")
    await lab.start()
    await lab.until(lambda: lab.told(WorkerSlowed))
    await lab.stop()
    assert (await lab.counts())["ready"] == 1


async def test_while_one_message_is_tried_no_other_is_taken(lab):
    go_on = asyncio.Event()
    begun = []

    @lab.worker.handler("orders", concurrency=4, slow_down=SlowDown(after=1, first=10))
    async def handle(body: bytes):
        begun.append(body)
        if len(begun) == 1:
            raise ConnectionError
        await go_on.wait()

    await lab.broker.send("orders", b"1")
    await lab.start()
    await lab.until(lambda: lab.told(WorkerSlowed))
    await lab.broker.send_many("orders", [b"2", b"3", b"4"])
    await lab.advance(10.1)
    await lab.until(lambda: len(begun) == 2)
    await lab.ticks()
    assert await lab.counts() == {"ready": 3, "locked": 1, "scheduled": 0, "dead": 0}
    go_on.set()
    await lab.until(lambda: len(begun) == 5)
