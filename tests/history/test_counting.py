# SPDX-License-Identifier: MIT
"""What engines count: each thing once, when it is committed, and nothing that was undone."""

import asyncio

import pytest

from redrive.broker import Complete, DeadLetter, Message, Send
from redrive.errors import LockLost
from tests.history.conftest import counted, rows


async def test_what_is_sent_delivered_and_completed_is_counted_by_queue(broker):
    await broker.declare("bills")
    await broker.send_many("orders", [b"1", b"2", b"3"])
    await broker.send("bills", b"4")
    for delivery in await broker.receive("orders", max_messages=2):
        await delivery.complete()
    assert await counted(broker) == {
        ("orders", "sent"): 3,
        ("orders", "delivered"): 2,
        ("orders", "completed"): 2,
        ("bills", "sent"): 1,
    }


async def test_calls_of_many_callers_are_all_counted(broker):
    async def cycle(number):
        await broker.send("orders", str(number).encode())
        for delivery in await broker.receive("orders"):
            await delivery.complete()

    await asyncio.gather(*[cycle(number) for number in range(50)])
    for delivery in await broker.receive("orders", max_messages=100):
        await delivery.complete()
    found = await counted(broker)
    assert {found["orders", metric] for metric in ("sent", "delivered", "completed")} == {50}


async def test_a_message_that_was_given_back_is_redelivered(broker):
    await broker.send("orders", b"1")
    (delivery,) = await broker.receive("orders")
    await delivery.abandon()
    (delivery,) = await broker.receive("orders")
    await delivery.dead_letter("Wrong")
    assert await counted(broker) == {
        ("orders", "sent"): 1,
        ("orders", "delivered"): 2,
        ("orders", "redelivered"): 1,
        ("orders", "abandoned"): 1,
        ("orders", "dead"): 1,
    }


async def test_messages_that_have_had_their_deliveries_are_counted_as_dead(broker, place):
    await broker.update("orders", max_delivery_count=1)
    await broker.send_many("orders", [b"1", b"2"])
    await broker.receive("orders", max_messages=2)
    place.clock.advance(61)
    assert await broker.receive("orders") == []
    assert (await counted(broker))["orders", "dead"] == 2


async def test_messages_whose_time_is_over_are_expired_or_dead(broker, place):
    await broker.declare("short", default_ttl=10)
    await broker.declare("kept", default_ttl=10, dead_letter_on_expiration=True)
    await broker.send("short", b"1")
    await broker.send("kept", b"2")
    place.clock.advance(11)
    await broker.engine.upkeep()
    assert await broker.receive("short") == []
    assert await broker.receive("kept") == []
    found = await counted(broker)
    assert (found["short", "expired"], found["kept", "dead"]) == (1, 1)
    assert ("short", "dead") not in found


async def test_a_message_that_is_taken_out_is_delivered_and_completed(broker):
    await broker.send("orders", b"1")
    await broker.receive("orders", delete=True)
    assert await counted(broker) == {
        ("orders", "sent"): 1,
        ("orders", "delivered"): 1,
        ("orders", "completed"): 1,
    }


async def test_what_is_sent_to_a_topic_is_counted_by_subscription(broker):
    await broker.declare_topic("events")
    for name in ("a", "b", "c"):
        await broker.subscribe("events", name)
    await broker.subscribe("events", "few", {"region": "eu"})
    await broker.send_many("events", [b"1", b"2"])
    assert await counted(broker) == {(f"events/{name}", "sent"): 2 for name in ("a", "b", "c")}


async def test_what_no_subscription_gets_is_a_dead_letter_of_its_topic(broker):
    await broker.declare_topic("events", keep_unmatched=True)
    await broker.send("events", b"1")
    assert await counted(broker) == {("events", "dead"): 1}


async def test_a_duplicate_is_not_counted(broker):
    await broker.declare("once", duplicate_detection=60)
    for _ in range(3):
        await broker.send("once", Message(b"1", id="same"))
    assert await counted(broker) == {("once", "sent"): 1}


async def test_what_was_undone_is_not_counted(broker):
    await broker.send("orders", b"1")
    (delivery,) = await broker.receive("orders")
    await delivery.complete()
    before = await counted(broker)
    with pytest.raises(LockLost):
        await broker.apply(Send("orders", Message(b"x", id="x")), Complete(delivery.lock))
    with pytest.raises(LockLost):
        await broker.apply(DeadLetter(delivery.lock, "x", ""), Send("orders", Message(b"x", id="x")))
    assert await counted(broker) == before


async def test_of_a_group_with_one_bad_lock_the_others_are_counted(broker):
    await broker.send_many("orders", [b"1", b"2", b"3"])
    deliveries = await broker.receive("orders", max_messages=3)
    await deliveries[0].complete()
    results = await asyncio.gather(*[each.complete() for each in deliveries], return_exceptions=True)
    assert [type(result).__name__ for result in results] == ["LockLost", "list", "list"]
    assert (await counted(broker))["orders", "completed"] == 3


async def test_messages_of_sessions_and_deferred_messages_are_counted(broker):
    await broker.declare("talks", requires_session=True)
    await broker.send_many("talks", [Message(b"1", session_id="a"), Message(b"2", session_id="a")])
    session = await broker.accept_session("talks")
    first, second = await session.receive(max_messages=2)
    await first.complete()
    await second.defer()
    (again,) = await broker.receive_deferred("talks", [second.sequence])
    await again.complete()
    found = await counted(broker)
    assert (found["talks", "sent"], found["talks", "delivered"], found["talks", "completed"]) == (2, 3, 2)
    assert found["talks", "redelivered"] == 1


async def test_two_processes_add_to_the_same_numbers(broker, place):
    other = await place.broker()
    await broker.send("orders", b"1")
    await other.send("orders", b"2")
    await other.engine.flush_tallies()
    assert (await counted(broker))["orders", "sent"] == 2


async def test_numbers_are_stored_by_the_minute(broker, place):
    for _ in range(3):
        await broker.send("orders", b"1")
        await broker.engine.flush_tallies()
        place.clock.advance(60)
    minutes = [began for began, n in await rows(broker, columns="began, n") if n == 1]
    assert [later - minutes[0] for later in minutes] == [0, 60, 120]


async def test_a_name_that_no_database_could_store_is_stored_all_the_same(broker):
    broker.engine.tally({("call", "a\0b\ud800", "retried"): 2})
    await broker.engine.flush_tallies()
    assert await rows(broker, "topic = 'call'", "name, n") == [("ab\\ud800", 2)]
