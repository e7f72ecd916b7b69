# SPDX-License-Identifier: MIT
"""Messages whose handlers end together are completed together, and each is still settled for itself."""

import asyncio
from dataclasses import replace

import pytest

from redrive.broker import Complete, Message, Send
from redrive.errors import EngineUnavailable
from redrive.worker import Context, HandlerFailed, MessageLockLost, WorkerFault
from redrive.worker.completions import Completions
from redrive.worker.held_message import HeldMessage

EMPTY = {"ready": 0, "locked": 0, "scheduled": 0, "dead": 0}


@pytest.fixture
def applied(lab, monkeypatch):
    """The requests that reach the engine while the worker runs, each as a list of effects."""
    requests = []
    apply = lab.engine.apply

    async def noted(effects):
        requests.append(list(effects))
        return await apply(effects)

    monkeypatch.setattr(lab.engine, "apply", noted)
    return requests


async def send(lab, count, **how):
    await lab.broker.send_many("orders", [Message(str(number).encode(), **how) for number in range(count)])


async def test_what_ends_together_is_completed_in_one_request(lab, applied):
    @lab.worker.handler("orders", concurrency=8)
    async def handle(_body: bytes):
        pass

    await send(lab, 20)
    applied.clear()
    await lab.start()
    await lab.ticks()
    assert await lab.counts() == EMPTY
    assert [len(request) for request in applied] == [8, 8, 4]
    assert {type(effect) for request in applied for effect in request} == {Complete}


async def test_blocking_handlers_are_completed_too(lab):
    handled = []

    @lab.worker.handler("orders", concurrency=4)
    def handle(body: bytes):
        handled.append(int(body))

    await send(lab, 10)
    await lab.start()
    await lab.until(lambda: len(handled) == 10)
    await lab.stop()
    assert sorted(handled) == list(range(10))
    assert await lab.counts() == EMPTY


async def test_one_lost_lock_costs_the_others_nothing(lab, monkeypatch):
    """The group is refused as a whole; then each is completed by itself."""
    lock_next, received, ready = lab.engine.lock_next, [], asyncio.Event()

    async def noted(*values, **how):
        received.extend(found := await lock_next(*values, **how))
        return found

    @lab.worker.handler("orders", concurrency=4)
    async def handle(_body: bytes):
        await ready.wait()

    await send(lab, 4)
    monkeypatch.setattr(lab.engine, "lock_next", noted)
    await lab.start()
    await lab.until(lambda: len(received) == 4)
    await lab.engine.apply([Complete(received[2].lock)])
    ready.set()
    await lab.ticks()
    assert [event.message_id for event in lab.told(MessageLockLost)] == [received[2].id]
    assert lab.told(HandlerFailed) == []
    assert await lab.counts() == EMPTY


async def test_a_store_that_is_away_is_waited_for_and_no_handler_runs_again(lab):
    handled = []

    @lab.worker.handler("orders", concurrency=4)
    async def handle(body: bytes):
        handled.append(int(body))
        lab.engine.broken = {"apply"}

    await send(lab, 4)
    await lab.start()
    await lab.until(lambda: len(handled) == 4)
    await lab.advance(40, step=0.5)
    assert ("EngineUnavailable", "settle orders") in lab.faults
    lab.engine.broken = set()
    await lab.advance(60, step=0.5)
    assert handled == [0, 1, 2, 3]
    assert lab.told(HandlerFailed) == lab.told(MessageLockLost) == []
    assert await lab.counts() == EMPTY


async def test_a_worker_stops_when_what_is_being_completed_is_done(lab, monkeypatch):
    """A stop in the middle of a group waits for it: what was handled is not handled again."""
    apply, may_go_on = lab.engine.apply, asyncio.Event()
    handled = []

    async def slow(effects):
        await may_go_on.wait()
        return await apply(effects)

    @lab.worker.handler("orders", concurrency=4)
    async def handle(body: bytes):
        handled.append(int(body))

    await send(lab, 4)
    monkeypatch.setattr(lab.engine, "apply", slow)
    await lab.start()
    await lab.until(lambda: len(handled) == 4)
    lab.worker.stop()
    await lab.ticks()
    assert not lab.running.done()
    may_go_on.set()
    await lab.running
    assert await lab.counts() == EMPTY


@pytest.mark.parametrize("turns", range(6))
async def test_a_worker_that_stops_at_once_waits_for_no_store(lab, monkeypatch, turns):
    """Whether the group has begun or not: its messages come again when their locks have ended."""

    async def never(_effects):
        await asyncio.Event().wait()

    handled = []

    @lab.worker.handler("orders", concurrency=4)
    async def handle(body: bytes):
        handled.append(int(body))

    await send(lab, 4)
    monkeypatch.setattr(lab.engine, "apply", never)
    await lab.start()
    await lab.until(lambda: handled)
    for _ in range(turns):
        await lab.clock.sleep_async(0)
    await lab.stop(now=True)
    monkeypatch.undo()
    await lab.advance(61)
    assert (await lab.counts())["ready"] + (await lab.counts())["locked"] == 4


async def test_what_a_handler_sends_goes_with_its_own_completion(lab, applied):
    """A refused send fails its own message only, so it is not part of a group."""
    await lab.broker.declare("invoices")

    @lab.worker.handler("orders", concurrency=4)
    async def handle(body: bytes, context: Context):
        if body == b"1":
            context.send("invoices", b"for 1")

    await send(lab, 4)
    applied.clear()
    await lab.start()
    await lab.ticks()
    assert sorted([type(effect) for effect in request] for request in applied if len(request) == 2) == [
        [Complete, Send]
    ]
    assert await lab.counts() == EMPTY
    assert [each.body for each in await lab.broker.peek("invoices")] == [b"for 1"]


async def test_an_unforeseen_error_of_the_engine_reaches_the_message_it_concerns(lab, monkeypatch):
    """The group fails, each is tried by itself, and only the one that fails again is a failure."""
    apply = lab.engine.apply

    async def odd(effects):
        if any(isinstance(effect, Complete) and effect.lock.sequence == 3 for effect in effects):
            raise RuntimeError("not that one")
        return await apply(effects)

    @lab.worker.handler("orders", concurrency=4)
    async def handle(_body: bytes):
        pass

    await send(lab, 4)
    monkeypatch.setattr(lab.engine, "apply", odd)
    await lab.start()
    await lab.until(lambda: lab.told(HandlerFailed))
    assert {event.exception_message for event in lab.told(HandlerFailed)} == {"not that one"}
    assert len({event.message_id for event in lab.told(HandlerFailed)}) == 1
    assert lab.told(WorkerFault) == []


async def test_an_engine_that_is_not_transactional_completes_one_by_one(lab, applied, monkeypatch):
    limited = replace(lab.engine.capabilities, is_transactional=False)
    monkeypatch.setattr(type(lab.engine), "capabilities", limited)

    @lab.worker.handler("orders", concurrency=4)
    async def handle(_body: bytes):
        pass

    await send(lab, 4)
    applied.clear()
    await lab.start()
    await lab.ticks()
    assert [len(request) for request in applied] == [1, 1, 1, 1]
    assert await lab.counts() == EMPTY


async def test_an_idle_worker_has_completed_everything(lab):
    @lab.worker.handler("orders", concurrency=4)
    async def handle(_body: bytes):
        pass

    await send(lab, 30)
    await lab.worker.run(lab.broker, until_idle=True)
    assert await lab.counts() == EMPTY


async def test_an_error_of_the_store_is_no_failure_of_a_group(lab, monkeypatch):
    """EngineUnavailable once: each message is completed at the second try, and nothing is reported as failed."""
    apply = lab.engine.apply
    errors = [EngineUnavailable("once")]

    async def once(effects):
        if errors:
            raise errors.pop()
        return await apply(effects)

    @lab.worker.handler("orders", concurrency=4)
    async def handle(_body: bytes):
        pass

    await send(lab, 4)
    monkeypatch.setattr(lab.engine, "apply", once)
    await lab.start()
    await lab.ticks()
    assert await lab.counts() == EMPTY
    assert lab.told(HandlerFailed) == lab.told(WorkerFault) == []


async def test_a_group_that_is_cancelled_before_it_begins_takes_no_more(lab):
    """A handler that outlives the cancellation is completed with the next group."""
    done = []
    completions = Completions(lab.engine, alone=pytest.fail, on_done=lambda leases, _task: done.append(leases))
    await send(lab, 2)
    first, second = [HeldMessage(each, 0.0, 60.0) for each in await lab.engine.lock_next("orders", 2)]
    completions.add(first)
    first.task.cancel()
    await lab.ticks()
    completions.add(second)
    await lab.ticks()
    assert done == [[first], [second]]
    assert (first.phase, second.phase) == ("settling", "settled")
    assert [each.body for each in await lab.broker.peek("orders")] == [b"0"]
