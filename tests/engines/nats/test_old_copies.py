# SPDX-License-Identifier: MIT
"""Answers that are older than they look: from a copy of the stream that is behind, or to an earlier request."""

import pytest

from redrive.broker import Complete, DeadLetter, Message, QueueSettings, Send
from redrive.engines.nats import NatsEngine
from redrive.engines.nats.consumers import PullEnd

pytestmark = pytest.mark.asyncio

ORDERS = "orders"


@pytest.fixture
async def engine(engine_server, nats_namespace):
    made = NatsEngine([engine_server.url], namespace=nats_namespace, replicas=1)
    await made.open()
    await made.declare(ORDERS, QueueSettings())
    yield made
    await made.close()


def answering_again(engine, monkeypatch):
    """Let every page of messages be answered as the first one is, whatever has changed since."""
    ask, answers = engine._connection.many, []

    async def many(subject, body, most):
        if ".DIRECT.GET." not in subject:
            return await ask(subject, body, most)
        answers.append(await ask(subject, body, most))
        return answers[0]

    monkeypatch.setattr(engine._connection, "many", many)


async def test_messages_are_read_from_the_leader_if_the_copy_is_behind(engine, monkeypatch):
    await engine.apply([Send(ORDERS, Message(b"", id="first"))])
    answering_again(engine, monkeypatch)
    assert [one.id for one in await engine.peek(ORDERS, 10)] == ["first"]
    await engine.apply([Send(ORDERS, Message(b"", id="second"))])
    assert [one.id for one in await engine.peek(ORDERS, 10)] == ["first", "second"]
    assert (await engine.inspect(ORDERS))[0].ready == 2


async def test_a_dead_letter_is_found_though_the_copy_has_nothing(engine, monkeypatch):
    await engine.apply([Send(ORDERS, Message(b"", id="first"))])
    (found,) = await engine.lock_next(ORDERS, 1)
    answering_again(engine, monkeypatch)
    await engine._connection.last_of_each(engine._subjects.stream, [engine._subjects.receipt("none")])
    await engine.apply([DeadLetter(found.lock, "broken")])
    assert [one.id for one in await engine.lock_next(f"{ORDERS}/$dead", 1)] == ["first"]


async def test_a_consumer_that_is_behind_is_asked_again(engine, monkeypatch):
    ask, left = engine._consumers.next, [1, 2, 3]

    async def next_(*values):
        return ([], PullEnd.EMPTY) if left and left.pop() else await ask(*values)

    await engine.apply([Send(ORDERS, Message(b"", id="first"))])
    monkeypatch.setattr(engine._consumers, "next", next_)
    (found,) = await engine.lock_next(ORDERS, 1)
    await engine.apply([Complete(found.lock)])
    assert await engine.lock_next(ORDERS, 1) == []


async def test_what_others_have_received_or_removed_is_not_waited_for(engine, engine_server, nats_namespace):
    other = NatsEngine([engine_server.url], namespace=nats_namespace, replicas=1)
    await other.open()
    await other.apply([Send(ORDERS, Message(b"", id=name)) for name in ("first", "second")])
    await engine.lock_next(ORDERS, 2)
    assert await other._consumers.is_behind(await other._catalog.queue(ORDERS)) is False
    await other.close()


async def test_what_comes_late_is_no_answer_to_the_next_request(engine, monkeypatch):
    """A server may send a status after the last message of a receive."""
    client = await engine._connection.client()
    publish, addresses = client.publish, []

    async def published(subject, body=b"", reply="", headers=None):
        addresses.append(reply)
        await publish(subject, body, reply=reply, headers=headers)

    monkeypatch.setattr(client, "publish", published)
    await engine.apply([Send(ORDERS, Message(b"", id=name)) for name in ("first", "second")])
    await engine.lock_next(ORDERS, 1)
    await publish(next(filter(None, reversed(addresses))), headers={"Status": "404"})
    await client.flush()
    assert [one.id for one in await engine.peek(ORDERS, 10)] == ["first", "second"]
    assert [one.id for one in await engine.lock_next(ORDERS, 1)] == ["second"]


async def test_a_change_that_a_leader_cut_off_has_under_way_is_made_again(engine, monkeypatch):
    """A leader that is cut off says of a change that is made again that the first is under way."""
    ask, answers = engine._connection.ask, [b'{"error": {"code": 409, "err_code": 10158, "description": "in process"}}']

    async def asked(subject, *values):
        return answers.pop() if ".q." in subject and answers else await ask(subject, *values)

    monkeypatch.setattr(engine._connection, "ask", asked)
    await engine.apply([Send(ORDERS, Message(b"", id="first"))])
    assert answers == []
    assert [one.id for one in await engine.peek(ORDERS, 10)] == ["first"]
