# SPDX-License-Identifier: MIT
"""Receives share a pull, and a completion whose answer is lost is done once."""

import asyncio
from collections import Counter

import pytest

from redrive.broker import Abandon, Complete, Message, QueueSettings, Send
from redrive.engines.nats import NatsEngine, errors
from redrive.errors import LockLost

pytestmark = pytest.mark.asyncio

ORDERS = "orders"


@pytest.fixture
async def engine(engine_server, nats_namespace):
    made = NatsEngine([engine_server.url], namespace=nats_namespace, replicas=1)
    await made.open()
    await made.declare(ORDERS, QueueSettings())
    yield made
    await made.close()


@pytest.fixture
def pulls(engine, monkeypatch):
    """How many messages each pull asks for."""
    asked, many = [], engine._connection.many

    async def counting(subject, body, most):
        if ".CONSUMER.MSG.NEXT." in subject:
            asked.append(most)
        return await many(subject, body, most)

    monkeypatch.setattr(engine._connection, "many", counting)
    return asked


def orders(count):
    return [Send(ORDERS, Message(b"", id=f"{number}")) for number in range(count)]


async def test_receives_at_the_same_time_share_a_pull_and_each_gets_its_own(engine, pulls):
    await engine.apply(orders(20))
    found = await asyncio.gather(*(engine.lock_next(ORDERS, limit) for limit in (1, 3, 1, 5, 2)))
    assert [len(each) for each in found] == [1, 3, 1, 5, 2]
    assert [one.id for each in found for one in each] == [f"{number}" for number in range(12)], "in turn"
    assert pulls == [12]


async def test_those_who_come_too_late_for_a_message_get_none(engine):
    await engine.apply(orders(3))
    found = await asyncio.gather(*(engine.lock_next(ORDERS, 2) for _ in range(4)))
    assert Counter(len(each) for each in found) == {2: 1, 1: 1, 0: 2}


async def test_a_receive_that_fails_fails_all_who_share_it_and_no_other(engine, monkeypatch):
    await engine.apply(orders(4))
    pull, failures = engine._consumers.next, [errors.StreamRefusal(1, "no")]

    async def failing(*values):
        if failures:
            raise failures.pop()
        return await pull(*values)

    monkeypatch.setattr(engine._consumers, "next", failing)
    found = await asyncio.gather(*(engine.lock_next(ORDERS, 1) for _ in range(2)), return_exceptions=True)
    assert [type(each) for each in found] == [errors.StreamRefusal] * 2
    assert len(await engine.lock_next(ORDERS, 4)) == 4, "nothing was locked"


@pytest.mark.parametrize("is_asking", [True, False], ids=["and asks", "only"])
async def test_who_waits_for_an_empty_queue_is_woken_twice_a_second(engine, is_asking):
    """A hint tells of messages that are sent; it is woken for locks that end, of which no one tells."""
    loop, woken = asyncio.get_running_loop(), 0
    end = loop.time() + 1.1
    while loop.time() < end:
        if is_asking:
            assert await engine.lock_next(ORDERS, 1) == []
        await engine.wait(ORDERS, 5.0)
        woken += 1
    assert woken <= 3


async def test_a_receive_after_many_completions_is_one_pull(engine, pulls):
    """What is left of settled messages is removed, so that no receive has to skip it."""
    await engine.apply(orders(200))
    await engine.apply([Complete(one.lock) for one in await engine.lock_next(ORDERS, 200)])
    await engine._commits.cleaned()
    await engine.apply([Send(ORDERS, Message(b"", id="new"))])
    pulls.clear()
    assert [one.id for one in await engine.lock_next(ORDERS, 1)] == ["new"]
    assert pulls == [1]


# --- completing


def is_settling(subject):
    """Say whether a request settles a message: it replaces or removes it."""
    return ".q." in subject or ".MSG.DELETE." in subject


def losing_the_answer(engine, monkeypatch, *, is_done=True):
    """Let the first settlement have no answer."""
    ask, lost = engine._connection.ask, []

    async def asked(subject, *values):
        if is_settling(subject) and not lost:
            lost.append(await ask(subject, *values) if is_done else b"")
            raise errors.unanswered("the answer was lost")
        return await ask(subject, *values)

    monkeypatch.setattr(engine._connection, "ask", asked)


@pytest.mark.parametrize("is_done", [True, False])
async def test_a_completion_whose_answer_is_lost_is_done_once(engine, monkeypatch, is_done):
    await engine.apply(orders(1))
    (found,) = await engine.lock_next(ORDERS, 1)
    losing_the_answer(engine, monkeypatch, is_done=is_done)
    await engine.apply([Complete(found.lock)])
    assert await engine.peek(ORDERS, 10) == []
    with pytest.raises(LockLost):
        await engine.apply([Complete(found.lock)])


async def test_a_completion_whose_answer_is_lost_is_none_if_another_has_given_it_back(
    engine, engine_server, nats_namespace, monkeypatch
):
    """The version that was locked is not the last one: it was not this that has replaced it."""
    other = NatsEngine([engine_server.url], namespace=nats_namespace, replicas=1)
    await other.open()
    await engine.apply(orders(1))
    (found,) = await engine.lock_next(ORDERS, 1)
    losing_the_answer(engine, monkeypatch, is_done=False)
    ask, effects = engine._connection.ask, [Abandon(found.lock, 3_600.0)]

    async def asked(subject, *values):
        if is_settling(subject) and effects:
            await other.apply([effects.pop()])
        return await ask(subject, *values)

    monkeypatch.setattr(engine._connection, "ask", asked)
    with pytest.raises(LockLost):
        await engine.apply([Complete(found.lock)])
    await other.close()
    assert [one.id for one in await engine.peek(ORDERS, 10)] == ["0"]
