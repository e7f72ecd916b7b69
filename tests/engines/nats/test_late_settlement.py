# SPDX-License-Identifier: MIT
"""A process is frozen between its last look at its lock and its request, and goes on when another has the message."""

import asyncio

import pytest

from redrive.broker import Abandon, Complete, DeadLetter, Defer, Message, QueueSettings, Send
from redrive.engines.nats import NatsEngine
from redrive.engines.nats.group_commit import removing
from redrive.errors import LockLost
from redrive.testing import PassingClock
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.asyncio

ORDERS, DEAD = "orders", "orders/$dead"
PACE = 1 / 30
LOCK_S = 9.0
SETTLEMENTS = {
    "abandon": Abandon,
    "abandon with headers": lambda lock: Abandon(lock, headers={"tried": 1}),
    "abandon with delay": lambda lock: Abandon(lock, 30.0),
    "defer": Defer,
    "dead-letter": lambda lock: DeadLetter(lock, "broken"),
}


@pytest.fixture
def clock():
    return PassingClock(PACE, 0.35)


@pytest.fixture
async def engines(engine_server, nats_namespace, clock):
    """Two processes that are open, and a queue with a message."""
    made = [
        NatsEngine([engine_server.url], namespace=nats_namespace, replicas=1, clock=clock, pace=PACE) for _ in range(2)
    ]
    for engine in made:
        await engine.open()
    await made[0].declare(ORDERS, QueueSettings(lock_duration=LOCK_S))
    await made[0].apply([Send(ORDERS, Message(b"", id="order"))])
    yield made
    for engine in made:
        await engine.close()


class Freezing:
    """Lets an engine ask for nothing more, until it is thawed."""

    def __init__(self, engine, monkeypatch):
        self._ask = engine._connection.ask
        self.is_frozen = asyncio.Event()
        self.thawed = asyncio.Event()
        monkeypatch.setattr(engine._connection, "ask", self.ask)

    async def ask(self, *values):
        self.is_frozen.set()
        await self.thawed.wait()
        return await self._ask(*values)


async def late(engines, clock, monkeypatch, settlement, meanwhile):
    """Begin to settle with the first engine, lose the lock to the second, and go on; return the second's message."""
    first, second = engines
    (held,) = await first.lock_next(ORDERS, 1)
    freezing = Freezing(first, monkeypatch)
    settling = asyncio.create_task(first.apply([settlement(held.lock)]))
    try:
        await freezing.is_frozen.wait()
        taken = await taken_over(second, clock)
        await meanwhile(second, taken)
    finally:
        freezing.thawed.set()  # to close the engine, it must be able to ask
    with pytest.raises(LockLost):
        await settling
    return taken


async def taken_over(engine, clock):
    """Return the message when the lock of another engine has ended, which the server may notice late."""
    clock.advance(LOCK_S + 1)
    async with asyncio.timeout(PATIENCE_S):
        while not (found := await engine.lock_next(ORDERS, 1)):
            pass
    (taken,) = found
    return taken


@pytest.mark.parametrize("name", SETTLEMENTS)
async def test_a_late_settlement_changes_nothing_while_another_has_the_message(engines, clock, monkeypatch, name):
    async def hold(_, __):
        pass

    taken = await late(engines, clock, monkeypatch, SETTLEMENTS[name], hold)
    first, second = engines
    assert taken.delivery_count == 2
    assert [await first.lock_next(queue, 1) for queue in (ORDERS, DEAD)] == [[], []]
    await second.apply([Complete(taken.lock)])
    assert [await first.peek(queue, 1) for queue in (ORDERS, DEAD)] == [[], []]


@pytest.mark.parametrize("name", ["abandon"])
async def test_a_late_settlement_changes_nothing_when_another_has_settled(engines, clock, monkeypatch, name):
    async def complete(engine, taken):
        await engine.apply([Complete(taken.lock)])

    await late(engines, clock, monkeypatch, SETTLEMENTS[name], complete)
    assert [await engines[0].peek(queue, 1) for queue in (ORDERS, DEAD)] == [[], []]


async def test_who_has_taken_a_message_over_can_give_it_back_in_any_process(engines, clock):
    first, second = engines
    await first.lock_next(ORDERS, 1)
    taken = await taken_over(second, clock)
    await first.apply([Abandon(taken.lock)])
    (again,) = await second.lock_next(ORDERS, 1)
    assert again.delivery_count == 3
    await second.apply([Abandon(again.lock)])
    (last,) = await first.lock_next(ORDERS, 1)
    await first.apply([Complete(last.lock)])
    assert await first.peek(ORDERS, 1) == []


@pytest.mark.parametrize("settlement", [Complete, Abandon, Defer], ids=lambda each: each.__name__)
async def test_a_lock_that_was_used_is_not_renewed_in_another_process(engines, settlement):
    first, second = engines
    (held,) = await first.lock_next(ORDERS, 1)
    assert await second.renew([held.lock]) != [None], "before it is used, whoever has it may"
    await first.apply([settlement(held.lock)])
    assert await second.renew([held.lock]) == [None]


async def test_a_message_that_is_settled_in_the_last_moment_is_not_handed_on(engines, clock, monkeypatch):
    first, second = engines
    (held,) = await first.lock_next(ORDERS, 1)
    locked, pull = first._locks.find(held.lock), second._consumers.next
    clock.advance(LOCK_S + 1)

    async def next_(*values):
        found, end = await pull(*values)
        if found:
            await first._commits.commit([removing(locked.subject, locked.sequence)])
        return found, end

    monkeypatch.setattr(second._consumers, "next", next_)
    assert await second.lock_next(ORDERS, 1) == []


@pytest.mark.parametrize("is_cleaned", [True, False], ids=["removed", "still there"])
@pytest.mark.parametrize("name", ["abandon", "abandon with delay", "defer", "dead-letter"])
async def test_a_late_completion_is_none_when_another_has_stored_the_message_anew(
    engines, clock, monkeypatch, name, is_cleaned
):
    second = engines[1]
    if not is_cleaned:  # it dies before it removes the version that it has replaced
        monkeypatch.setattr(second._commits, "_clean_after", lambda _: None)

    async def store_anew(engine, taken):
        await engine.apply([SETTLEMENTS[name](taken.lock)])

    await late(engines, clock, monkeypatch, Complete, store_anew)
    assert len([*await second.peek(ORDERS, 2), *await second.peek(DEAD, 2)]) == 1


async def test_a_message_that_no_one_had_before_is_completed_by_one_request(engines, monkeypatch):
    engine = engines[0]
    (held,) = await engine.lock_next(ORDERS, 1)
    asked, ask = [], engine._connection.ask

    async def listen(subject, *values):
        asked.append(subject)
        return await ask(subject, *values)

    monkeypatch.setattr(engine._connection, "ask", listen)
    await engine.apply([Complete(held.lock)])
    changes = [each for each in asked if ".MSG.GET." not in each]  # it may look what its queue is
    assert [".".join(each.split(".")[2:5]) for each in changes] == ["STREAM.MSG.DELETE"]
    monkeypatch.undo()
    assert await engine.peek(ORDERS, 1) == []


@pytest.mark.parametrize("name", ["abandon", "abandon with headers"])
async def test_an_older_version_that_a_process_has_left_does_not_come_back(engines, clock, monkeypatch, name):
    first, second = engines
    (held,) = await first.lock_next(ORDERS, 1)
    monkeypatch.setattr(first._commits, "_clean_after", lambda _: None)  # it dies before that
    await first.apply([SETTLEMENTS[name](held.lock)])
    (again,) = await second.lock_next(ORDERS, 1)
    await second.apply([Complete(again.lock)])
    clock.advance(2 * LOCK_S)
    for _ in range(3):
        assert await second.lock_next(ORDERS, 1) == []
    assert await second.peek(ORDERS, 1) == []
