# SPDX-License-Identifier: MIT
"""A delivery is settled once, in one of four ways."""

from datetime import timedelta

import pytest

from redrive.broker import Message, Send, State
from redrive.clock import utc
from redrive.errors import InvalidMessage, InvalidSetting, LockLost


@pytest.fixture
async def delivery(broker):
    await broker.send("orders", Message(b"body", id="7", headers={"a": 1}))
    (delivery,) = await broker.receive("orders")
    return delivery


async def test_a_delivery_shows_its_message(delivery, clock):
    assert (delivery.body, delivery.id, delivery.headers, delivery.queue) == (b"body", "7", {"a": 1}, "orders")
    assert (delivery.message, delivery.sequence, delivery.state) == (
        Message(b"body", id="7", headers={"a": 1}),
        delivery.lock.sequence,
        State.LOCKED,
    )
    assert (delivery.delivery_count, delivery.dead_letter_info) == (1, None)
    assert (delivery.enqueued_at, delivery.locked_until) == (utc(clock.time()), utc(clock.time() + 60))
    assert repr(delivery) == "<Delivery 1 of '7' from 'orders'>"


async def test_completing_removes_the_message(broker, delivery):
    assert await delivery.complete() == []
    assert await broker.peek("orders") == []


async def test_what_is_sent_with_a_completion_goes_with_it(broker, delivery):
    await broker.declare("billing")
    numbers = await delivery.complete(Send("billing", Message(b"bill", id="8")), Send("orders", Message(b"x", id="9")))
    assert [seen.sequence for seen in await broker.peek("billing")] == numbers[:1]
    assert len(numbers) == 2


async def test_a_message_sent_with_a_completion_needs_no_id(broker, delivery):
    await delivery.complete(Send("orders", Message(b"first")), Send("orders", Message(b"second")))
    first, second = await broker.peek("orders")
    assert first.id
    assert second.id
    assert first.id != second.id


async def test_abandoning_gives_it_back_with_changed_headers(broker, delivery):
    await delivery.abandon(headers={"b": 2})
    (again,) = await broker.receive("orders")
    assert (again.delivery_count, again.headers) == (2, {"a": 1, "b": 2})


@pytest.mark.parametrize("delay", [30, timedelta(seconds=30)])
async def test_abandoning_with_a_delay_brings_it_later(broker, delivery, clock, delay):
    await delivery.abandon(delay)
    assert await broker.receive("orders") == []
    clock.advance(30)
    assert [again.id for again in await broker.receive("orders")] == ["7"]


@pytest.mark.parametrize("delay", [-1, "1", None, 1e9])
async def test_a_wrong_delay_is_refused_and_nothing_changes(delivery, delay):
    with pytest.raises(InvalidSetting, match="delay"):
        await delivery.abandon(delay)
    await delivery.complete()


async def test_deferring_sets_it_aside(broker, delivery):
    await delivery.defer(headers={"a": None})
    assert await broker.receive("orders") == []
    (again,) = await broker.receive_deferred("orders", [delivery.sequence])
    assert (again.id, again.headers, again.state) == ("7", {}, State.DEFERRED_LOCKED)


async def test_dead_lettering_says_why(broker, delivery):
    await delivery.dead_letter("Broken", "it fell", headers={"b": 2})
    (dead,) = await broker.receive("orders/$dead")
    assert (dead.dead_letter_info.reason, dead.dead_letter_info.description) == ("Broken", "it fell")
    assert dead.headers == {"a": 1, "b": 2}


@pytest.mark.parametrize("headers", [{"a": b"bytes"}, {"a": float("nan")}, {"a": "\ud800"}, {1: "a"}, {"a": [1]}])
@pytest.mark.parametrize("verb", ["abandon", "defer", "dead_letter"])
async def test_a_wrong_header_is_refused_and_nothing_changes(delivery, verb, headers):
    arguments = ("reason",) if verb == "dead_letter" else ()
    with pytest.raises(InvalidMessage):
        await getattr(delivery, verb)(*arguments, headers=headers)
    await delivery.complete()


async def test_renewing_makes_it_yours_for_longer(delivery, clock):
    clock.advance(50)
    assert await delivery.renew() == utc(clock.time() + 60)
    clock.advance(59)
    await delivery.complete()


async def test_what_is_lost_cannot_be_renewed_or_settled(delivery, clock):
    clock.advance(60)
    for verb in (delivery.renew, delivery.complete, delivery.abandon, delivery.defer):
        with pytest.raises(LockLost):
            await verb()


async def test_what_was_deleted_as_it_was_received_cannot_be_settled(broker):
    await broker.send("orders", b"gone")
    (delivery,) = await broker.receive("orders", delete=True)
    assert (delivery.body, delivery.locked_until) == (b"gone", None)
    with pytest.raises(LockLost):
        await delivery.complete()
