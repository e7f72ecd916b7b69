# SPDX-License-Identifier: MIT
"""Answers that are older than they look: from a copy of the stream that is behind, or to an earlier request."""

import asyncio
import json

import pytest

from redrive.broker import Complete, DeadLetter, Lock, Message, QueueSettings, Send
from redrive.engines.nats import NatsEngine, errors
from redrive.engines.nats.connection import _Inbox
from redrive.engines.nats.consumers import PullEnd
from redrive.errors import LockLost, UsageError

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


async def test_a_send_whose_first_try_is_still_under_way_is_not_made_under_another_number(engine, monkeypatch):
    """The answer to the first try is lost; the leader refuses the second while it does not know of the first's end."""
    ask, tries = engine._connection.ask, []

    async def asked(subject, *values):
        if ".q." not in subject:
            return await ask(subject, *values)
        tries.append((subject, *values))
        if len(tries) == 1:
            raise errors.unanswered("the answer is lost")
        if len(tries) == 2:
            return b'{"error": {"code": 400, "err_code": 10164, "description": "wrong last sequence"}}'
        if len(tries) == 3:
            await ask(*tries[0])  # it comes to its end now
        return await ask(subject, *values)

    monkeypatch.setattr(engine._connection, "ask", asked)
    await engine.apply([Send(ORDERS, Message(b"", id="first"))])
    assert [one.id for one in await engine.peek(ORDERS, 10)] == ["first"]
    assert len(tries) == 3


async def test_a_stream_is_not_made_with_fewer_replicas_while_a_server_restarts(
    engine_server, nats_namespace, monkeypatch
):
    """A cluster whose server is away for a moment has servers enough: it is asked again, and not for one replica."""
    engine = NatsEngine([engine_server.url], namespace=nats_namespace)
    asked, ask = [], engine._connection.ask
    away = {"err_code": 10005, "description": "no suitable peers for placement, peer offline"}

    async def asking(subject, body=b"", headers=None):
        if "STREAM.CREATE" not in subject:
            return await ask(subject, body, headers)
        wanted = json.loads(body)
        asked.append(wanted["num_replicas"])
        if len(asked) < 3:
            return json.dumps({"error": away}).encode()
        return await ask(subject, json.dumps(wanted | {"num_replicas": 1}).encode(), headers)

    monkeypatch.setattr(engine._connection, "ask", asking)
    with pytest.warns(UserWarning, match="keeps everything once"):
        await engine.open()
    await engine.close()
    assert asked == [3, 3, 3]


def refusing(engine, monkeypatch, refusals):
    """Let the last messages of batches be refused, with these numbers and texts."""
    ask = engine._connection.ask

    async def asked(subject, *values):
        if ".b." not in subject or not refusals:
            return await ask(subject, *values)
        code, text = refusals.pop()
        return json.dumps({"error": {"err_code": code, "description": text}}).encode()

    monkeypatch.setattr(engine._connection, "ask", asked)


async def test_a_batch_is_made_again_while_an_earlier_try_is_under_way(engine, monkeypatch):
    """A leader that has not stored the first try yet refuses the second: a roll-up of a subject that is under way."""
    await engine.apply([Send(ORDERS, Message(b"", id="order"))])
    (found,) = await engine.lock_next(ORDERS, 1)
    refusing(engine, monkeypatch, refusals := [(10111, "batch rollup sub invalid")] * 2)
    await engine.apply([Complete(found.lock), Send(ORDERS, Message(b"", id="bill"))])
    assert refusals == []
    assert [one.id for one in await engine.peek(ORDERS, 10)] == ["bill"]


async def test_callers_who_share_a_batch_all_hear_that_it_is_refused(engine, monkeypatch):
    refusing(engine, monkeypatch, [(99_999, "for a reason that no one knows")])
    sending = [engine.apply([Send(ORDERS, Message(b"", id=f"{number}"))]) for number in range(3)]
    async with asyncio.timeout(20):
        found = await asyncio.gather(*sending, return_exceptions=True)
    refused = [each for each in found if isinstance(each, UsageError)]
    assert 2 <= len(refused) <= 3, "the first may be alone"
    assert "for a reason that no one knows" in str(refused[0])


async def test_two_who_settle_the_same_message_at_the_same_time_are_not_one_batch(
    engine, engine_server, nats_namespace
):
    other = NatsEngine([engine_server.url], namespace=nats_namespace, replicas=1)
    await other.open()
    await engine.apply([Send(ORDERS, Message(b"", id="order"))])
    (found,) = await engine.lock_next(ORDERS, 1)
    again = Lock(ORDERS, found.sequence, found.lock.token.replace(found.lock.token[:8], "0" * 8, 1))
    bills = [Send(ORDERS, Message(b"", id=f"bill {number}")) for number in range(2)]
    async with asyncio.timeout(20):
        results = await asyncio.gather(
            *(other.apply([Complete(lock), bill]) for lock, bill in zip((found.lock, again), bills, strict=True)),
            return_exceptions=True,
        )
    left = [one.id for one in await other.peek(ORDERS, 10)]
    await other.close()
    assert {type(each) for each in results} == {list, LockLost}, "either may be first"
    assert left == [f"bill {number}" for number in range(2) if isinstance(results[number], list)]


async def test_messages_that_come_after_the_end_of_a_pull_are_received(engine, monkeypatch):
    """On a cluster the status that ends a pull may be faster than its last messages."""
    await engine.apply([Send(ORDERS, Message(b"", id=f"{number}")) for number in range(5)])
    take, late = _Inbox._take, []

    async def taken(inbox, message):
        if "Status" not in (message.headers or {}):
            late.append(message)
            return
        await take(inbox, message)
        for each in late:
            await take(inbox, each)

    monkeypatch.setattr(_Inbox, "_take", taken)
    found = await engine.lock_next(ORDERS, 5, max_bytes=1_000_000)
    assert [one.id for one in found] == ["0", "1", "2", "3", "4"]
