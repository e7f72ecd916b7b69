# SPDX-License-Identifier: MIT
"""Prefetching: messages wait locked, and none is handed out whose lock is about to end."""

import asyncio

from redrive.broker import Abandon
from redrive.worker import Context, MessageLockLost, PrefetchTooLarge


async def test_a_prefetched_message_that_waits_too_long_is_given_back_uncounted(lab):
    handled = []
    done = asyncio.Event()

    @lab.worker.handler("orders", prefetch=1)
    async def handle(body: bytes, context: Context):
        handled.append((body, context.delivery_count))
        await done.wait()

    await lab.broker.send_many("orders", [b"1", b"2"])
    await lab.start()
    await lab.until(lambda: handled)
    assert (await lab.counts())["locked"] == 2
    lab.engine.broken = {"lock_next"}
    await lab.advance(55, step=5)  # 54 s: a tenth of the lock is left
    assert await lab.counts() == {"ready": 1, "locked": 1, "scheduled": 0, "dead": 0}
    lab.engine.broken = set()
    done.set()
    await lab.advance(31, step=1)
    await lab.until(lambda: len(handled) == 2)
    assert handled == [(b"1", 1), (b"2", 1)]


async def test_a_prefetched_message_whose_lock_has_ended_is_never_handed_out(lab):
    handled = []
    done = asyncio.Event()

    @lab.worker.handler("orders", prefetch=1)
    async def handle(body: bytes, context: Context):
        handled.append((body, context.delivery_count))
        await done.wait()

    await lab.broker.send_many("orders", [b"1", b"2"])
    await lab.start()
    await lab.until(lambda: handled)
    lab.clock.advance(61)  # all at once: nobody could react
    done.set()
    await lab.until(lambda: len(handled) >= 3)
    await lab.stop()
    assert sorted(event.phase == "prefetched" for event in lab.told(MessageLockLost)) == [False, True]
    assert sorted(handled) == [(b"1", 1), (b"1", 2), (b"2", 2)]
    assert await lab.counts() == {"ready": 0, "locked": 0, "scheduled": 0, "dead": 0}


async def test_a_message_that_waited_for_long_is_renewed_as_soon_as_it_is_handled(lab):
    handled = []
    first, second = asyncio.Event(), asyncio.Event()

    @lab.worker.handler("orders", prefetch=1)
    async def handle(body: bytes):
        handled.append(body)
        await (first if body == b"1" else second).wait()

    await lab.broker.send_many("orders", [b"1", b"2"])
    await lab.start()
    await lab.advance(50, step=5)
    renewals = len(lab.engine.renewed)
    first.set()
    await lab.until(lambda: handled == [b"1", b"2"])
    await lab.ticks()
    assert len(lab.engine.renewed) == renewals + 1
    second.set()


async def test_prefetch_that_cannot_be_worked_off_is_reported_once_with_the_figures(lab):
    @lab.worker.handler("orders", concurrency=2, prefetch=30)
    async def handle(_body: bytes):
        await lab.clock.sleep_async(5)

    await lab.broker.send_many("orders", [b"x"] * 40)
    await lab.start()
    await lab.advance(30, step=1)
    (warning,) = lab.told(PrefetchTooLarge)
    assert (warning.prefetch, warning.concurrency, warning.lock_duration) == (30, 2, 60.0)
    assert warning.handler_seconds >= 5
    assert warning.fits <= 24
    assert "set it to" in str(warning)


async def test_prefetch_that_can_be_worked_off_is_not_reported(lab):
    @lab.worker.handler("orders", concurrency=2, prefetch=10)
    async def handle(_body: bytes):
        await lab.clock.sleep_async(5)

    await lab.broker.send_many("orders", [b"x"] * 20)
    await lab.start()
    await lab.advance(60, step=1)
    assert lab.told(PrefetchTooLarge) == []


async def test_an_idle_worker_asks_rarely(lab):
    lab.worker.handler("orders", concurrency=8)(lambda _body: None)
    await lab.start()
    before = lab.engine.calls.count("lock_next")
    await lab.advance(60, step=0.5)
    assert lab.engine.calls.count("lock_next") - before <= 8


async def test_giving_back_uncounted_undoes_the_delivery(lab):
    await lab.broker.send("orders", b"x")
    for _ in range(20):  # more often than max_delivery_count
        (received,) = await lab.engine.lock_next("orders", 1)
        assert received.delivery_count == 1
        await lab.engine.apply([Abandon(received.lock, uncount=True)])


async def test_a_receive_cancelled_in_the_moment_it_succeeds_gives_its_messages_back(lab, monkeypatch):
    await lab.broker.send("orders", b"x")
    receiving = asyncio.create_task(lab.engine.lock_next("orders", 1))
    writer = lab.engine._writer
    deliver = writer._deliver
    monkeypatch.setattr(writer, "_deliver", lambda group: (deliver(group), receiving.cancel()))
    await asyncio.wait([receiving])
    assert receiving.cancelled()
    await lab.ticks()
    (again,) = await lab.broker.receive("orders")
    assert again.delivery_count == 1
