# SPDX-License-Identifier: MIT
"""Topics: what is sent to one goes to every subscription whose rule matches, and a subscription is a queue."""

import asyncio
from typing import Any

import pytest

from redrive.broker import (
    Abandon,
    Complete,
    DeadLetter,
    QueueSettings,
    Rule,
    RuleLike,
    Send,
    TopicSettings,
    dead_letter_queue,
    rules,
    subscription_queue,
)
from redrive.errors import (
    LockLost,
    MessageTooLarge,
)
from redrive.testing.conformance.fixtures import EngineFixtures, FullEngine, has_sessions, needs
from redrive.testing.conformance.verbs import (
    ORDERS,
    bodies,
    declare,
    inspect,
    lock,
    lock_of,
    lock_one,
    message,
    refused,
    send,
    send_one,
)
from redrive.testing.manual_clock import ManualClock

BILLING, AUDIT, SHIPPING = (subscription_queue(ORDERS, name) for name in ("billing", "audit", "shipping"))
LARGE = b"x" * 100_000
"""A body that engines store apart from its message."""

sizes = pytest.mark.parametrize("body", [b"", b"small", LARGE], ids=["empty", "small", "large"])


async def subscribe(engine: FullEngine, name: str, rule: RuleLike = None, **settings: Any) -> str:
    """Subscribe to the topic; return the name of the queue."""
    if settings.get("requires_session"):
        needs(has_sessions(engine), "it has no sessions")
    assert await engine.subscribe(ORDERS, name, Rule.of(rule), QueueSettings(**settings))
    return subscription_queue(ORDERS, name)


async def declare_topic(engine: FullEngine, *names: str, **settings: Any) -> None:
    """Declare the topic, and subscriptions to all of it."""
    assert await engine.declare_topic(ORDERS, TopicSettings(**settings))
    for name in names:
        await subscribe(engine, name)


class TopicBehaviours(EngineFixtures):
    """What a topic does with a message."""

    # --- fan-out

    @sizes
    async def test_every_subscription_gets_a_message(self, engine: FullEngine, body: bytes) -> None:
        await declare_topic(engine, "billing", "audit", "shipping")
        number = await send_one(engine, body, subject="order.placed", headers={"region": "eu"})
        assert number is not None
        for queue in (BILLING, AUDIT, SHIPPING):
            found = await lock_one(engine, queue)
            assert (found.body, found.message.subject, found.message.headers["region"]) == (body, "order.placed", "eu")
            assert (found.queue, found.delivery_count) == (queue, 1)

    @sizes
    async def test_a_message_is_there_until_its_last_subscription_is_done_with_it(
        self, engine: FullEngine, body: bytes
    ) -> None:
        await declare_topic(engine, "billing", "audit", "shipping")
        await send(engine, body, b"other")
        for queue in (AUDIT, SHIPPING, BILLING):
            assert await bodies(engine, queue) == [body, b"other"]
            await engine.apply([Complete(lock_of(await lock_one(engine, queue)))])
            assert await bodies(engine, queue) == [b"other"]

    @sizes
    async def test_a_message_can_be_taken_out_for_good(self, engine: FullEngine, body: bytes) -> None:
        await declare_topic(engine, "billing", "audit")
        await send(engine, body)
        for queue in (BILLING, AUDIT):
            (taken,) = await engine.lock_next(queue, 1, delete=True)
            assert taken.body == body
        assert await engine.lock_next(BILLING, 1) == []

    async def test_the_numbers_of_a_subscription_go_with_the_order_of_sending(self, engine: FullEngine) -> None:
        await declare_topic(engine, "billing", "audit")
        await engine.apply([Send(ORDERS, message(b"%d" % number)) for number in range(50)])
        for queue in (BILLING, AUDIT):
            found = await lock(engine, queue)
            assert [one.body for one in found] == [b"%d" % number for number in range(50)]

    @pytest.mark.parametrize("rule", [None, "body.total > 1"], ids=["everything", "rule"])
    @pytest.mark.parametrize("names", [("billing",), ("billing", "audit", "shipping")], ids=["one", "three"])
    async def test_a_topic_that_remembers_ids_stores_an_event_once(
        self, engine: FullEngine, clock: ManualClock, names: tuple[str, ...], rule: str | None
    ) -> None:
        await declare_topic(engine, duplicate_detection=10)
        for name in names:
            await subscribe(engine, name, rule)
        event = message(b'{"total": 2}', id="e-1")
        other = message(b'{"total": 3}', id="e-2")
        first, again, second = await engine.apply([Send(ORDERS, event), Send(ORDERS, event), Send(ORDERS, other)])
        assert again is None
        assert first is not None
        assert second is not None
        assert (await engine.apply([Send(ORDERS, event)])) == [None]
        clock.advance(10)
        assert (await engine.apply([Send(ORDERS, event)])) != [None]
        assert (await engine.apply([Send(ORDERS, event, even_if_seen=True)])) != [None]
        for name in names:
            found = await bodies(engine, subscription_queue(ORDERS, name))
            assert found == [event.body, other.body, event.body, event.body]

    async def test_a_topic_remembers_ids_for_all_its_subscriptions(self, engine: FullEngine) -> None:
        await declare_topic(engine, duplicate_detection=10)
        await subscribe(engine, "billing", {"region": "eu"})
        await subscribe(engine, "audit")
        await subscribe(engine, "shipping", requires_session=True)
        await subscribe(engine, "large", max_message_bytes=1, default_ttl=5)
        event = message(b"event", id="e-1", session_id="s")
        await engine.apply([Send(ORDERS, event)])
        await subscribe(engine, "late")
        assert (await engine.apply([Send(ORDERS, event)])) == [None]
        assert await bodies(engine, AUDIT) == [b"event"]
        assert await bodies(engine, SHIPPING) == [b"event"]
        assert await bodies(engine, dead_letter_queue(subscription_queue(ORDERS, "large"))) == [b"event"]
        assert await bodies(engine, subscription_queue(ORDERS, "late")) == []

    async def test_numbers_keep_their_order_where_rules_differ(self, engine: FullEngine) -> None:
        await declare_topic(engine)
        await subscribe(engine, "billing", {"region": "eu"})
        await subscribe(engine, "audit")
        await subscribe(engine, "shipping")
        sent = [message(b"%d" % n, headers={"region": "eu" if n % 3 else "us"}) for n in range(30)]
        await engine.apply([Send(ORDERS, one) for one in sent])
        for queue in (AUDIT, SHIPPING):
            assert [one.body for one in await lock(engine, queue)] == [b"%d" % n for n in range(30)]
        assert [one.body for one in await lock(engine, BILLING)] == [b"%d" % n for n in range(30) if n % 3]

    async def test_a_subscription_gets_what_is_sent_from_then_on(self, engine: FullEngine) -> None:
        await declare_topic(engine, "billing")
        await send(engine, b"before")
        await subscribe(engine, "audit")
        await send(engine, b"after")
        assert await bodies(engine, BILLING) == [b"before", b"after"]
        assert await bodies(engine, AUDIT) == [b"after"]

    async def test_another_process_sees_a_new_subscription_at_once(self, engine: FullEngine, other: FullEngine) -> None:
        await declare_topic(engine, "billing")
        await send(other, b"one")
        await subscribe(engine, "audit")
        await send(other, b"two")
        await engine.unsubscribe(ORDERS, "billing")
        await send(other, b"three")
        assert await engine.subscribe(ORDERS, "audit", Rule.of({"region": "eu"}), QueueSettings()) is False
        await send(other, b"four")
        assert await bodies(other, AUDIT) == [b"two", b"three"]

    async def test_a_message_can_be_sent_to_one_subscription_alone(self, engine: FullEngine) -> None:
        await declare_topic(engine, "billing", "audit")
        await send(engine, b"again", queue=BILLING)
        assert (await bodies(engine, BILLING), await bodies(engine, AUDIT)) == ([b"again"], [])

    async def test_sending_is_an_effect_like_any_other(self, engine: FullEngine) -> None:
        await declare(engine, "work")
        await declare_topic(engine, "billing", "audit")
        await send(engine, b"work", queue="work")
        held = lock_of(await lock_one(engine, "work"))
        done = await engine.apply([Complete(held), Send(ORDERS, message(b"news")), Send("work", message(b"more"))])
        assert done[0] is None
        assert done[1] is not None
        assert done[2] is not None
        await refused(engine, Send(ORDERS, message(b"lost")), Complete(held), error=LockLost)
        assert (await bodies(engine, BILLING), await bodies(engine, AUDIT)) == ([b"news"], [b"news"])

    async def test_sending_together_with_other_kinds_of_settling(self, engine: FullEngine) -> None:
        await declare(engine, "work")
        await declare_topic(engine, "billing", "audit")
        await send(engine, b"one", b"two", queue="work")
        one, two = await lock(engine, "work")
        await engine.apply([Abandon(lock_of(one)), Send(ORDERS, message(b"first"))])
        await engine.apply([DeadLetter(lock_of(two), "Broken"), Send(ORDERS, message(b"second"))])
        assert await bodies(engine, BILLING) == await bodies(engine, AUDIT) == [b"first", b"second"]

    async def test_many_senders_at_once(self, engine: FullEngine) -> None:
        await declare_topic(engine, "billing", "audit")
        await asyncio.gather(*(engine.apply([Send(ORDERS, message(b"%d" % number))]) for number in range(40)))
        for queue in (BILLING, AUDIT):
            assert {*await bodies(engine, queue)} == {b"%d" % number for number in range(40)}

    # --- rules

    async def test_a_rule_compares_properties_and_headers(self, engine: FullEngine) -> None:
        await declare_topic(engine)
        await subscribe(engine, "billing", {"subject": "placed", "region": "eu"})
        await subscribe(engine, "audit", {"headers.subject": "inner", "count": 3})
        await subscribe(engine, "shipping", {"urgent": True})
        await send(engine, b"1", subject="placed", headers={"region": "eu"})
        await send(engine, b"2", subject="placed", headers={"region": "us"})
        await send(engine, b"3", headers={"subject": "inner", "count": 3})
        await send(engine, b"4", subject="inner", headers={"count": 3})
        await send(engine, b"5", headers={"urgent": True})
        await send(engine, b"6", headers={"urgent": 1})
        assert await bodies(engine, BILLING) == [b"1"]
        assert await bodies(engine, AUDIT) == [b"3"]
        assert await bodies(engine, SHIPPING) == [b"5"]

    async def test_a_rule_is_an_expression(self, engine: FullEngine) -> None:
        await declare_topic(engine)
        await subscribe(engine, "billing", "body.total > 100")
        await subscribe(engine, "audit", "headers.region == 'eu' || subject == 'all'")
        await send(engine, b'{"total": 100.5}', headers={"region": "us"})
        await send(engine, b'{"total": 99}', headers={"region": "eu"})
        assert await bodies(engine, BILLING) == [b'{"total": 100.5}']
        assert await bodies(engine, AUDIT) == [b'{"total": 99}']

    async def test_a_rule_that_fails_makes_a_dead_letter_of_that_subscription_alone(self, engine: FullEngine) -> None:
        await declare_topic(engine, "audit")
        await subscribe(engine, "billing", "body.total > 100")
        number = await send_one(engine, b"no JSON")
        assert number is not None
        assert (await bodies(engine, BILLING), await bodies(engine, AUDIT)) == ([], [b"no JSON"])
        (dead,) = await lock(engine, dead_letter_queue(BILLING))
        assert (dead.body, dead.delivery_count) == (b"no JSON", 1)
        assert dead.dead_letter_info is not None
        assert (dead.dead_letter_info.reason, dead.dead_letter_info.source) == (rules.RULE_FAILED, BILLING)
        assert "body.total > 100" in dead.dead_letter_info.description

    async def test_a_subscription_with_another_rule_has_it_from_then_on(self, engine: FullEngine) -> None:
        await declare_topic(engine)
        await subscribe(engine, "billing", {"region": "eu"})
        await send(engine, b"1", headers={"region": "eu"})
        assert await engine.subscribe(ORDERS, "billing", Rule.of({"region": "us"}), QueueSettings()) is False
        await send(engine, b"2", headers={"region": "eu"})
        await send(engine, b"3", headers={"region": "us"})
        assert await bodies(engine, BILLING) == [b"1", b"3"]

    # --- what a subscription does not take

    async def test_what_one_queue_does_not_take_is_its_dead_letter_and_no_concern_of_the_others(
        self, engine: FullEngine
    ) -> None:
        await declare_topic(engine, "audit")
        await subscribe(engine, "billing", max_message_bytes=10)
        await subscribe(engine, "shipping", requires_session=True)
        await send(engine, b"more than ten bytes")
        assert await bodies(engine, AUDIT) == [b"more than ten bytes"]
        for queue in (BILLING, SHIPPING):
            assert await bodies(engine, queue) == []
            (dead,) = await engine.peek(dead_letter_queue(queue), 10)
            assert dead.dead_letter_info is not None
            assert dead.dead_letter_info.reason == rules.REFUSED

    async def test_what_the_topic_does_not_take_is_refused(self, engine: FullEngine) -> None:
        await declare_topic(engine, "billing", max_message_bytes=10)
        await refused(engine, Send(ORDERS, message(b"more than ten bytes")), error=MessageTooLarge)

    # --- no subscription

    async def test_a_message_that_no_subscription_gets_is_counted(self, engine: FullEngine) -> None:
        await declare_topic(engine)
        assert await engine.apply([Send(ORDERS, message(b"1"))]) == [None]
        await subscribe(engine, "billing", {"region": "eu"})
        done = await engine.apply([Send(ORDERS, message(b"2")), Send(ORDERS, message(b"3", headers={"region": "eu"}))])
        assert done[0] is None
        assert done[1] is not None
        (topic,) = await engine.topics(ORDERS)
        assert topic.unmatched == 2
        assert await bodies(engine, dead_letter_queue(ORDERS)) == []

    async def test_a_message_that_no_subscription_gets_is_kept_if_the_topic_says_so(self, engine: FullEngine) -> None:
        await declare_topic(engine, keep_unmatched=True)
        await subscribe(engine, "billing", {"region": "eu"})
        await send(engine, b"kept")
        (dead,) = await lock(engine, dead_letter_queue(ORDERS))
        assert dead.body == b"kept"
        assert dead.dead_letter_info is not None
        assert (dead.dead_letter_info.reason, dead.dead_letter_info.source) == (rules.NO_SUBSCRIPTION, ORDERS)
        assert (await inspect(engine)).dead == 1
        assert (await engine.topics(ORDERS))[0].unmatched == 1

    async def test_a_topic_can_change_its_mind(self, engine: FullEngine) -> None:
        await declare_topic(engine)
        await send(engine, b"dropped")
        await engine.update_topic(ORDERS, TopicSettings(keep_unmatched=True))
        await send(engine, b"kept")
        assert await bodies(engine, dead_letter_queue(ORDERS)) == [b"kept"]
