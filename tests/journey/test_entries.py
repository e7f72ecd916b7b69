# SPDX-License-Identifier: MIT
"""What is noted of a message is noted in the transaction of what happens to it: by default only what is trouble."""

import pytest

from redrive.broker import Message
from redrive.broker.headers import PARENT
from redrive.engines.journeys import KEPT_S, is_followed
from redrive.engines.sql.script import Sql
from redrive.errors import InvalidSetting, LockLost
from redrive.retry import Fixed
from redrive.worker import Recoverability, Worker


def all_entries():
    rows = yield Sql(
        "SELECT message_id, parent, at, since, until, event, place, attempt, reason FROM @.journey_entries"
        " ORDER BY number"
    )
    return [tuple(row) for row in rows]


async def noted(broker, *columns):
    """Return some columns of all entries; all of them, if none is named."""
    names = ("message_id", "parent", "at", "since", "until", "event", "place", "attempt", "reason")
    rows = await broker.engine.look(all_entries)
    return [tuple(row[names.index(name)] for name in columns or names) for row in rows]


async def test_a_message_without_trouble_leaves_nothing(broker):
    await broker.declare("orders")
    await broker.send("orders", b"")
    (found,) = await broker.receive("orders")
    await found.complete()
    assert await noted(broker) == []


async def test_failed_attempts_and_the_last_failure_are_noted_with_their_times_and_reasons(broker, clock):
    await broker.declare("orders")
    await broker.declare("error")
    worker = Worker(chance=lambda: 0.5)
    policy = Recoverability(immediate=1, delayed=Fixed(5, jitter="none", max_attempts=2), error_queue="error")

    @worker.handler("orders", recoverability=policy, slow_down=None)
    async def ship(_body: bytes) -> None:
        clock.advance(1)
        raise ConnectionError("no answer")

    await broker.send("orders", Message(b"", id="o-1", headers={PARENT: "cart-1"}))
    for _ in range(2):
        await worker.run(broker, until_idle=True)
        clock.advance(10)
    said = "ConnectionError: no answer"
    first, second, third, last = await noted(broker)
    begin = first[3]
    assert first == ("o-1", "cart-1", begin + 1, begin, None, "abandoned", "orders", 1, said)
    assert second == ("o-1", "cart-1", begin + 2, begin + 1, begin + 7, "abandoned", "orders", 2, said)
    assert third[5:] == ("abandoned", "orders", 1, said)
    assert last[1] == "cart-1"
    assert last[5:] == ("failed", "orders", 4, said)


async def test_a_lock_that_ended_and_a_dead_letter_are_noted(broker, clock):
    await broker.declare("orders", max_delivery_count=2)
    await broker.send("orders", Message(b"", id="o-1"))
    began = clock.time()
    await broker.receive("orders")
    clock.advance(61)
    (again,) = await broker.receive("orders")
    await again.dead_letter("Unreadable", "no JSON")
    lost, dead = await noted(broker)
    assert lost == ("o-1", None, began + 60, began, None, "lock-expired", "orders", 1, "")
    assert dead[5:] == ("dead-lettered", "orders", 2, "Unreadable: no JSON")


async def test_a_message_that_had_its_deliveries_is_noted_once_as_dead(broker, clock):
    await broker.declare("orders", max_delivery_count=1)
    await broker.send("orders", Message(b"", id="o-1"))
    await broker.receive("orders")
    clock.advance(61)
    assert await broker.receive("orders") == []
    assert await noted(broker, "event") == [("lock-expired",), ("dead-lettered",)]


@pytest.mark.parametrize(("is_kept", "event"), [(False, "expired"), (True, "dead-lettered")])
async def test_a_message_that_expires_is_noted(broker, clock, is_kept, event):
    await broker.declare("orders", dead_letter_on_expiration=is_kept)
    await broker.send("orders", Message(b"", id="o-1", ttl=5))
    clock.advance(6)
    assert await broker.receive("orders") == []
    assert await noted(broker, "message_id", "event", "place") == [("o-1", event, "orders")]


async def test_a_settlement_that_is_refused_notes_nothing(broker, clock):
    await broker.declare("orders", journey="all")
    await broker.send("orders", b"")
    (late,) = await broker.receive("orders")
    clock.advance(61)
    for settle in (late.complete, late.abandon):
        with pytest.raises(LockLost):
            await settle()
    assert [event for (event,) in await noted(broker, "event")].count("completed") == 0
    assert ("abandoned",) not in await noted(broker, "event")


async def test_what_no_handler_has_seen_is_no_trouble(broker):
    await broker.declare("orders")
    worker = Worker()

    @worker.handler("orders", concurrency=1, prefetch=5)
    async def stop(_body: bytes) -> None:
        worker.stop()

    await broker.send_many("orders", [b"1", b"2", b"3"])
    await worker.run(broker)
    assert await noted(broker) == []


async def test_a_queue_that_follows_all_notes_what_succeeds_too(broker, clock):
    await broker.declare("orders", journey="all")
    await broker.send_many("orders", [Message(b"", id="o-1"), Message(b"", id="o-2", headers={PARENT: "cart"})])
    found = await broker.receive("orders", max_messages=2)
    clock.advance(2)
    for each in found:
        await each.complete()
    at = clock.time()
    rows = await noted(broker, "message_id", "parent", "event", "at")
    assert rows == [
        ("o-1", None, "sent", at - 2),
        ("o-2", "cart", "sent", at - 2),
        ("o-1", None, "completed", at),
        ("o-2", "cart", "completed", at),
    ]


async def test_each_subscription_that_follows_notes_what_a_topic_gave_it(broker):
    await broker.declare_topic("events")
    for name, journey in (("a", "all"), ("b", "trouble"), ("c", "all")):
        await broker.subscribe("events", name, journey=journey)
    await broker.send("events", Message(b"", id="e-1"))
    assert await noted(broker, "message_id", "event", "place") == [
        ("e-1", "sent", "events/a"),
        ("e-1", "sent", "events/c"),
    ]


async def test_a_sample_is_the_same_messages_wherever_they_go(broker):
    await broker.declare("orders", journey=0.5)
    await broker.declare("bills", journey=0.5)
    ids = [f"o-{number}" for number in range(40)]
    for queue in ("orders", "bills"):
        await broker.send_many(queue, [Message(b"", id=each) for each in ids])
    followed = {each for each in ids if is_followed(each, 0.5)}
    assert 5 < len(followed) < 35
    assert set(await noted(broker, "message_id", "place")) == {
        (each, queue) for each in followed for queue in ("orders", "bills")
    }


async def test_a_queue_that_notes_nothing_notes_no_trouble(broker):
    await broker.declare("orders", journey="none")
    await broker.send("orders", b"")
    (found,) = await broker.receive("orders")
    await found.abandon()
    (found,) = await broker.receive("orders")
    await found.dead_letter("Bad")
    assert await noted(broker) == []


async def test_a_setting_can_be_changed_while_messages_flow(broker):
    await broker.declare("orders")
    await broker.send("orders", b"")
    await broker.update("orders", journey="all")
    await broker.send("orders", Message(b"", id="o-2"))
    assert await noted(broker, "message_id", "event") == [("o-2", "sent")]


@pytest.mark.parametrize("wrong", ["some", "", 0, -1, 1.5, True, None, float("nan"), "2"])
async def test_a_setting_that_is_none_is_refused(broker, wrong):
    with pytest.raises(InvalidSetting, match="must be 'trouble', 'all', 'none', or a share"):
        await broker.declare("orders", journey=wrong)


async def test_old_entries_are_removed_a_bounded_number_at_a_time(broker, clock):
    await broker.declare("orders", journey="all")
    await broker.send_many("orders", [b"1", b"2", b"3"])
    clock.advance(KEPT_S - 1)
    await broker.engine.upkeep(2)
    assert len(await noted(broker)) == 3
    clock.advance(2)
    await broker.engine.upkeep(2)
    assert len(await noted(broker)) == 1


async def test_an_id_as_long_as_ids_can_be_is_noted(broker):
    await broker.declare("orders", journey="all")
    await broker.send("orders", Message(b"", id="ü" * 1_024, headers={"a": "\0", PARENT: "p" * 1_024}))
    assert [row[0] for row in await noted(broker)] == ["ü" * 1_024]
