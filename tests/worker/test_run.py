# SPDX-License-Identifier: MIT
"""Running until there is nothing to do."""

import asyncio

import pytest

from redrive import connect
from redrive.broker import Abandon
from redrive.errors import InvalidSetting, QueueNotFound
from redrive.worker import Context, Recoverability, SlowDown, Worker

EMPTY = {"ready": 0, "locked": 0, "scheduled": 0, "dead": 0}


async def test_it_ends_when_its_queues_are_empty_and_its_handlers_have_ended(lab):
    handled = []
    go_on = asyncio.Event()

    @lab.worker.handler("orders", concurrency=3)
    async def handle(body: bytes):
        await go_on.wait()
        handled.append(int(body))

    await lab.broker.send_many("orders", [str(n) for n in range(10)])
    await lab.start(until_idle=True)
    assert not lab.running.done()
    go_on.set()
    await lab.running
    assert sorted(handled) == list(range(10))
    assert await lab.counts() == EMPTY


async def test_it_ends_at_once_when_there_is_nothing(lab):
    lab.worker.handler("orders")(lambda _body: None)
    await lab.worker.run(lab.broker, until_idle=True)
    assert lab.events == []


async def test_what_one_handler_sends_to_another_is_handled_too(lab):
    handled = []
    for name in ("billing", "shipping"):
        await lab.broker.declare(name)

    @lab.worker.handler("billing")
    async def bill(body: bytes, context: Context):
        context.send("shipping", body)

    @lab.worker.handler("orders", concurrency=5)
    async def order(body: bytes, context: Context):
        context.send("billing", body)

    lab.worker.handler("shipping")(handled.append)
    await lab.broker.send_many("orders", [str(n) for n in range(30)])
    await lab.worker.run(lab.broker, until_idle=True)
    assert sorted(map(int, handled)) == list(range(30))


async def test_immediate_redeliveries_are_handled_and_delayed_ones_are_not_waited_for(lab):
    tried = []

    @lab.worker.handler("orders", recoverability=Recoverability(immediate=2, delayed=[5]))
    async def handle(_body: bytes):
        tried.append(lab.clock.monotonic())
        raise ConnectionError

    await lab.broker.send("orders", b"x")
    await lab.worker.run(lab.broker, until_idle=True)
    assert tried == [0.0] * 3
    assert await lab.counts() == EMPTY | {"scheduled": 1}


async def test_with_a_length_of_time_it_waits_that_long_for_what_comes(lab):
    tried = []

    @lab.worker.handler("orders", recoverability=Recoverability(immediate=0, delayed=[5, 12]))
    async def handle(_body: bytes):
        tried.append(lab.clock.monotonic())
        raise ConnectionError

    await lab.broker.send("orders", b"x")
    await lab.start(until_idle=10)
    await lab.advance(9, step=1)
    assert tried == [0.0, 5.0]
    assert not lab.running.done()
    await lab.advance(6, step=1)
    await lab.running
    assert await lab.counts() == EMPTY | {"scheduled": 1}


async def test_a_worker_that_has_slowed_down_is_not_idle(lab):
    tried = []

    @lab.worker.handler(
        "orders",
        recoverability=Recoverability(immediate=3, delayed=None),
        slow_down=SlowDown(after=2, first=10, longest=10),
    )
    async def handle(_body: bytes):
        tried.append(lab.clock.monotonic())
        raise ConnectionError

    await lab.broker.send("orders", b"x")
    await lab.start(until_idle=True)
    await lab.advance(5)
    assert not lab.running.done()
    assert tried == [0.0, 0.0]
    await lab.advance(30, step=1)
    await lab.running
    assert len(tried) == 4
    assert await lab.counts() == EMPTY | {"dead": 1}


async def test_what_others_hold_is_not_waited_for(lab):
    lab.worker.handler("orders")(lambda _body: None)
    await lab.broker.send("orders", b"x")
    (theirs,) = await lab.broker.receive("orders")
    await lab.worker.run(lab.broker, until_idle=True)
    await theirs.complete()


async def test_what_is_deleted_when_it_is_received_is_handled_before_the_end(lab):
    handled = []
    lab.worker.handler("orders", receive_and_delete=True)(handled.append)
    await lab.broker.send_many("orders", [str(n) for n in range(10)])
    await lab.worker.run(lab.broker, until_idle=True)
    assert sorted(map(int, handled)) == list(range(10))


async def test_a_store_that_does_not_answer_is_no_idle_queue(lab):
    handled = []
    lab.worker.handler("orders")(handled.append)
    await lab.broker.send("orders", b"x")
    lab.engine.broken.add("lock_next")
    await lab.start(until_idle=True)
    await lab.advance(60, step=1)
    assert not lab.running.done()
    lab.engine.broken.clear()
    await lab.advance(60, step=1)
    await lab.running
    assert handled == [b"x"]


async def test_a_queue_that_is_deleted_ends_it_with_that_error(lab):
    lab.worker.handler("orders")(lambda _body: None)
    await lab.start(until_idle=20)
    await lab.broker.delete("orders")
    await lab.advance(30, step=5)
    with pytest.raises(QueueNotFound):
        await lab.running


async def test_it_can_be_stopped_before(lab):
    lab.worker.handler("orders")(lambda _body: None)
    await lab.start(until_idle=3_600)
    await lab.stop()


@pytest.mark.parametrize("value", [-1, "soon", None])
async def test_what_is_no_length_of_time_is_refused(lab, value):
    lab.worker.handler("orders")(lambda _body: None)
    with pytest.raises(InvalidSetting, match="until_idle"):
        await lab.worker.run(lab.broker, until_idle=value)


def test_a_program_without_asyncio_runs_until_idle(tmp_path):
    worker, handled = Worker(), []

    @worker.handler("orders")
    def handle(body: bytes):
        handled.append(body)

    async def prepare():
        async with connect(f"sqlite:///{tmp_path}/orders.db") as broker:
            await broker.declare("orders")
            await broker.send("orders", b"x")

    asyncio.run(prepare())
    worker.run_blocking(connect(f"sqlite:///{tmp_path}/orders.db"), until_idle=True)
    assert handled == [b"x"]


class ScriptedHandlerRun:
    """A handler that looks several times: finds something, or takes something meanwhile, or nothing."""

    idle_since = 0.0
    is_idle = True

    def __init__(self, *looks):
        self.taken = 0
        self.looks = list(looks)

    async def idle(self):
        """Wait for nothing."""

    async def look(self):
        look = self.looks.pop(0)
        self.taken += look == "taken meanwhile"
        return look == "found"


async def test_it_is_idle_only_if_nothing_was_found_and_nothing_was_taken_meanwhile(lab, monkeypatch):
    from redrive.worker import run

    monkeypatch.setattr(run, "HandlerRun", ScriptedHandlerRun)
    worker_run = run.WorkerRun(lab.broker, 0.0)
    handler = ScriptedHandlerRun("found", "taken meanwhile", "found", "nothing", "too late")
    worker_run._handlers = [handler]
    await worker_run._stop_when_idle(0.0)
    assert handler.looks == ["too late"]
    assert worker_run.is_stopping


async def test_a_worker_is_not_idle_while_a_message_is_on_its_way_back_to_its_queue(lab, monkeypatch):
    apply, is_free, first = lab.engine.apply, asyncio.Event(), asyncio.Event()

    async def slow(effects):
        if any(isinstance(each, Abandon) for each in effects):
            await is_free.wait()
        return await apply(effects)

    monkeypatch.setattr(lab.engine, "apply", slow)
    handled = []

    @lab.worker.handler("orders", concurrency=1, prefetch=1)
    async def handle(body: bytes):
        handled.append(body)
        await first.wait()

    await lab.broker.send_many("orders", [b"1", b"2"])
    await lab.start(until_idle=True)
    await lab.until(lambda: handled == [b"1"])
    await lab.advance(55, step=5)  # what was prefetched has waited too long, and is given back
    first.set()
    await lab.ticks(200)
    assert not lab.running.done()
    is_free.set()
    await lab.running
    assert handled == [b"1", b"2"]
