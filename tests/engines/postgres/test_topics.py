# SPDX-License-Identifier: MIT
"""Shared bodies on PostgreSQL: they go with their last message, whoever ends it and in whatever transaction."""

import asyncio
from contextlib import AsyncExitStack, nullcontext
from dataclasses import replace

import asyncpg
import pytest

from redrive.broker import Complete, Message, QueueSettings, Rule, Send, TopicSettings, subscription_queue
from redrive.errors import LockLost
from redrive.testing.conformance.verbs import lock_of
from tests.conformance.homes import strays
from tests.engines.postgres.breaking import opened
from tests.postgres.server import run_sql

TOPIC, NAMES = "news", ("one", "two", "three")
QUEUES = tuple(subscription_queue(TOPIC, name) for name in NAMES)


@pytest.fixture
async def engine(postgres_url, emptied_schema):
    async with opened(postgres_url, schema=emptied_schema) as engine:
        await engine.declare_topic(TOPIC, TopicSettings())
        for name in NAMES:
            await engine.subscribe(TOPIC, name, Rule(), QueueSettings())
        yield engine


@pytest.fixture
def stray_rows(postgres_url, emptied_schema):
    """Return a function: the shared bodies and counts that no message has, and messages without their body."""

    def read(text):
        return run_sql(postgres_url, text.replace("@.", f'"{emptied_schema}".'))

    def find():
        counted = (
            "SELECT u.id FROM @.content_uses u WHERE u.uses <> (SELECT count(*) FROM @.messages WHERE content = u.id)"
        )
        return [*strays(read), [row[0] for row in read(counted)]]

    return find


async def publish(engine, count=1):
    await engine.apply([Send(TOPIC, Message(b"body", id=f"{number}")) for number in range(count)])


async def test_the_last_two_messages_of_a_body_end_at_the_same_time(postgres_url, emptied_schema, engine, stray_rows):
    await publish(engine, 100)
    async with AsyncExitStack() as stack:
        engines = [await stack.enter_async_context(opened(postgres_url, schema=emptied_schema)) for _ in QUEUES]
        held = [await each.lock_next(queue, 100) for each, queue in zip(engines, QUEUES, strict=True)]

        async def complete(each, found):
            for one in found:
                await each.apply([Complete(lock_of(one))])

        await asyncio.gather(*(complete(*pair) for pair in zip(engines, held, strict=True)))
    assert stray_rows() == [[], [], []]
    assert await engine._database.read("SELECT id FROM @.contents") == []


async def test_completions_in_opposite_orders_do_not_stop_each_other(postgres_url, emptied_schema, engine, stray_rows):
    await publish(engine, 60)
    async with opened(postgres_url, schema=emptied_schema) as other:
        ours, theirs = await engine.lock_next(QUEUES[0], 100), await other.lock_next(QUEUES[1], 100)
        await asyncio.gather(
            *(engine.apply([Complete(lock_of(one)) for one in ours[place : place + 20]]) for place in (0, 20, 40)),
            *(other.apply([Complete(lock_of(one)) for one in theirs[place : place + 20]]) for place in (40, 20, 0)),
        )
        assert await engine.peek(QUEUES[0], 100) == await engine.peek(QUEUES[1], 100) == []
    assert stray_rows() == [[], [], []]


@pytest.mark.parametrize("isolation", ["read_committed", "repeatable_read", "serializable"])
async def test_a_body_goes_with_its_last_message_in_transactions_of_the_user(
    postgres_url, engine, stray_rows, isolation
):
    await publish(engine)
    locks = [lock_of(one) for queue in QUEUES for one in await engine.lock_next(queue, 1)]
    first, second = await asyncpg.connect(postgres_url), await asyncpg.connect(postgres_url)
    try:
        begun, also_begun = first.transaction(isolation=isolation), second.transaction(isolation=isolation)
        await begun.start()
        await also_begun.start()
        await first.fetchval("SELECT 1")
        await second.fetchval("SELECT 1")
        await engine.apply_within([Complete(locks[0])], first)
        waiting = asyncio.ensure_future(engine.apply_within([Complete(locks[1])], second))
        await asyncio.wait([waiting], timeout=0.3)
        await begun.commit()
        try:
            await waiting
            await also_begun.commit()
        except asyncpg.SerializationError:  # it is the user's transaction, which has to be done again
            await also_begun.rollback()
            assert isolation != "read_committed"
            await engine.apply([Complete(locks[1])])
    finally:
        await first.close()
        await second.close()
    await engine.apply([Complete(locks[2])])
    assert stray_rows() == [[], [], []]


async def test_messages_that_share_a_body_end_in_one_call(engine, stray_rows):
    await publish(engine, 3)
    held = [lock_of(one) for queue in QUEUES for one in await engine.lock_next(queue, 3)]
    await engine.apply([Complete(lock) for lock in held[:7]])  # of one body two messages are left
    assert stray_rows() == [[], [], []]
    await engine.apply([Complete(lock) for lock in held[7:]])
    assert stray_rows() == [[], [], []]
    assert await engine._database.read("SELECT id FROM @.contents") == []


@pytest.mark.parametrize("is_lock_good", [True, False])
async def test_what_else_removes_messages_after_a_completion_releases_their_body(
    postgres_url, emptied_schema, engine, stray_rows, is_lock_good
):
    await publish(engine)
    (one,) = await engine.lock_next(QUEUES[0], 1)
    lock = lock_of(one) if is_lock_good else replace(lock_of(one), token=1)
    connection = await asyncpg.connect(postgres_url)
    try:
        async with connection.transaction():
            with nullcontext() if is_lock_good else pytest.raises(LockLost):
                async with connection.transaction():
                    await engine.apply_within([Complete(lock)], connection)
            await connection.execute(f'DELETE FROM "{emptied_schema}".messages')  # noqa: S608
    finally:
        await connection.close()
    assert stray_rows() == [[], [], []]
    assert await engine._database.read("SELECT id FROM @.contents") == []


async def test_messages_keep_their_order_whoever_else_gets_them(engine, stray_rows):
    for name in NAMES:
        await engine.subscribe(TOPIC, name, Rule({name: True}), QueueSettings())
    wanted = ["one two three", "two", "three one", "two three", "one", "three two one", "nobody", "three"]
    messages = [
        Message(b"", id=f"{place}", subject=names, headers=dict.fromkeys(names.split(), True))
        for place, names in enumerate(wanted)
    ]
    numbers = await engine.apply([Send(TOPIC, message) for message in messages])
    for name, queue in zip(NAMES, QUEUES, strict=True):
        found = await engine.peek(queue, 100)
        assert [one.message.subject for one in found] == [names for names in wanted if name in names]
        assert [one.sequence for one in found] == sorted(one.sequence for one in found)
    assert numbers[:6] == sorted(numbers[:6])
    assert stray_rows() == [[], [], []]


async def test_events_that_all_subscriptions_get_are_stored_as_if_each_was_sent_alone(engine, stray_rows):
    await engine.update_topic(TOPIC, TopicSettings(duplicate_detection=60))
    await engine.apply([Send(TOPIC, Message(b"0", id="0"))])
    again = [0, *range(1, 30), 7]  # the first and the last were seen before
    sent = [Message(f"{number}".encode(), id=f"{number}", subject="s", ttl=number or None) for number in again]
    numbers = await engine.apply([Send(TOPIC, message) for message in sent])
    assert [place for place, number in enumerate(numbers) if number is None] == [0, 30]
    found = {queue: await engine.peek(queue, 100) for queue in QUEUES}
    for messages in found.values():
        assert [one.message.id for one in messages] == [f"{number}" for number in range(30)]
        assert [one.message.body for one in messages] == [f"{number}".encode() for number in range(30)]
        assert [one.message.subject for one in messages] == [None, *["s"] * 29]
        lives = [one.expires_at - one.enqueued_at for one in messages if one.expires_at is not None]
        assert [each.total_seconds() for each in lives] == pytest.approx(range(1, 30))
    assert [one.sequence for one in found[QUEUES[0]][1:]] == numbers[1:-1]
    assert len({one.sequence for messages in found.values() for one in messages}) == 90
    assert stray_rows() == [[], [], []]


async def test_a_topic_in_a_transaction_of_the_user(postgres_url, engine, stray_rows):
    connection = await asyncpg.connect(postgres_url)
    try:
        transaction = connection.transaction()
        await transaction.start()
        (number,) = await engine.apply_within([Send(TOPIC, Message(b"undone", id="1"))], connection)
        assert number is not None
        await transaction.rollback()
        async with connection.transaction():
            numbers = await engine.apply_within([Send(TOPIC, Message(b"kept", id="2"))], connection)
        assert numbers[0] > number
    finally:
        await connection.close()
    for queue in QUEUES:
        assert [one.body for one in await engine.peek(queue, 10)] == [b"kept"]
    assert stray_rows() == [[], [], []]


async def test_a_message_that_matches_no_rule_in_a_transaction_of_the_user_is_counted(postgres_url, engine):
    await engine.declare_topic("quiet", TopicSettings())
    connection = await asyncpg.connect(postgres_url)
    try:
        async with connection.transaction():
            sends = [Send("quiet", Message(b"", id="1")), Send(TOPIC, Message(b"", id="2"))]
            first, second = await engine.apply_within(sends, connection)
        assert first is None
        assert second is not None
        async with connection.transaction():
            assert await engine.apply_within([Send("quiet", Message(b"", id="3"))], connection) == [None]
    finally:
        await connection.close()
    assert (await engine.topics("quiet"))[0].unmatched == 2


async def test_a_subscription_that_is_made_while_others_send_misses_nothing_that_is_sent_later(
    postgres_url, emptied_schema, engine
):
    async with opened(postgres_url, schema=emptied_schema) as other:
        await publish(other)  # it knows the topic now
        await engine.subscribe(TOPIC, "four", Rule(), QueueSettings())
        await publish(other)
        await engine.unsubscribe(TOPIC, "one")
        await publish(other)
    assert [len(await engine.peek(queue, 10)) for queue in (*QUEUES[1:], f"{TOPIC}/four")] == [3, 3, 2]
