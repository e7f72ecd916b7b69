# SPDX-License-Identifier: MIT
"""Subscriptions: each is a queue of its own, and they come and go."""

import pytest

from redrive.broker import (
    Abandon,
    Cancel,
    Complete,
    DeadLetter,
    QueueSettings,
    Rule,
    Send,
    State,
    TopicSettings,
    dead_letter_queue,
)
from redrive.clock import utc
from redrive.errors import (
    InvalidSetting,
    MessageNotFound,
    NotAQueue,
    QueueNotFound,
    SubscriptionNotFound,
    TopicNotFound,
)
from redrive.testing.conformance.fixtures import EngineFixtures, FullEngine
from redrive.testing.conformance.topics import AUDIT, BILLING, LARGE, SHIPPING, declare_topic, sizes, subscribe
from redrive.testing.conformance.verbs import (
    LOCK_S,
    ORDERS,
    accept,
    bodies,
    declare,
    keep_up,
    lock,
    lock_of,
    lock_one,
    message,
    refused,
    send,
)
from redrive.testing.manual_clock import ManualClock


class SubscriptionBehaviours(EngineFixtures):
    """What happens to a message in one subscription, and what does not happen in the others."""

    # --- a subscription is a queue

    async def test_one_subscription_fails_and_the_others_do_not_notice(
        self, engine: FullEngine, clock: ManualClock
    ) -> None:
        await declare_topic(engine, "audit")
        await subscribe(engine, "billing", max_delivery_count=2)
        await send(engine, b"poison")
        await engine.apply([Complete(lock_of(await lock_one(engine, AUDIT)))])
        for _ in range(2):
            await lock_one(engine, BILLING)
            clock.advance(LOCK_S)
            await keep_up(engine)
        assert await bodies(engine, AUDIT) == await bodies(engine, BILLING) == []
        (dead,) = await lock(engine, dead_letter_queue(BILLING))
        assert (dead.body, await bodies(engine, dead_letter_queue(AUDIT))) == (b"poison", [])
        await engine.apply([Complete(lock_of(dead))])

    @pytest.mark.parametrize("kept", [[], [b"news"]], ids=["dropped", "dead-lettered"])
    async def test_messages_expire_in_each_subscription_by_its_own_settings(
        self, engine: FullEngine, clock: ManualClock, kept: list[bytes]
    ) -> None:
        await declare_topic(engine, "audit")
        await subscribe(engine, "billing", default_ttl=10, dead_letter_on_expiration=bool(kept))
        await send(engine, b"news")
        clock.advance(11)
        await keep_up(engine)
        assert (await bodies(engine, BILLING), await bodies(engine, AUDIT)) == ([], [b"news"])
        assert await bodies(engine, dead_letter_queue(BILLING)) == kept

    async def test_duplicates_are_recognised_by_each_subscription(self, engine: FullEngine) -> None:
        await declare_topic(engine, "audit")
        await subscribe(engine, "billing", duplicate_detection=60)
        await send(engine, b"one", b"two", id="same")
        assert await bodies(engine, BILLING) == [b"one"]
        assert await bodies(engine, AUDIT) == [b"one", b"two"]

    async def test_a_message_that_is_a_duplicate_everywhere_has_no_number(self, engine: FullEngine) -> None:
        await declare_topic(engine)
        await subscribe(engine, "billing", duplicate_detection=60)
        await subscribe(engine, "audit", duplicate_detection=60)
        first = await engine.apply([Send(ORDERS, message(b"one", id="same"))])
        again = await engine.apply([Send(ORDERS, message(b"two", id="same"))])
        assert (first[0] is not None, again) == (True, [None])
        assert await bodies(engine, BILLING) == await bodies(engine, AUDIT) == [b"one"]

    async def test_a_subscription_has_sessions(self, engine: FullEngine) -> None:
        await declare_topic(engine, "audit")
        await subscribe(engine, "billing", requires_session=True)
        await send(engine, b"1", b"2", session_id="ann")
        session = await accept(engine, queue=BILLING)
        found = await engine.lock_in_session(session, 10)
        assert [one.body for one in found] == [b"1", b"2"]
        await engine.apply([Complete(lock_of(one)) for one in found])
        assert await bodies(engine, AUDIT) == [b"1", b"2"]

    async def test_headers_that_change_in_one_subscription_stay_in_the_others(self, engine: FullEngine) -> None:
        await declare_topic(engine, "billing", "audit")
        await send(engine, b"news", headers={"tried": 0})
        held = await lock_one(engine, BILLING)
        await engine.apply([Abandon(lock_of(held), headers={"tried": 1})])
        assert (await lock_one(engine, BILLING)).message.headers == {"tried": 1}
        assert (await lock_one(engine, AUDIT)).message.headers == {"tried": 0}

    # --- schedules

    async def test_a_message_to_a_topic_can_be_scheduled(self, engine: FullEngine, clock: ManualClock) -> None:
        await declare_topic(engine, "billing", "audit")
        await engine.apply([Send(ORDERS, message(b"later"), utc(clock.time() + 60))])
        assert await lock(engine, BILLING) == []
        assert [one.state for one in await engine.peek(AUDIT, 10)] == [State.SCHEDULED]
        clock.advance(60)
        for queue in (BILLING, AUDIT):
            assert (await lock_one(engine, queue)).body == b"later"

    async def test_a_scheduled_message_can_be_cancelled_in_all_subscriptions(
        self, engine: FullEngine, clock: ManualClock
    ) -> None:
        await declare_topic(engine, "audit")
        await subscribe(engine, "billing", duplicate_detection=60)
        await send(engine, b"seen", id="same")
        at = utc(clock.time() + 60)
        (one,) = await engine.apply([Send(ORDERS, message(b"cancelled"), at)])
        (two,) = await engine.apply([Send(ORDERS, message(b"kept"), at)])
        (alone,) = await engine.apply([Send(ORDERS, message(b"a duplicate for one", id="same"), at)])
        assert one is not None
        assert two is not None
        assert alone is not None
        await engine.apply([Cancel(ORDERS, one), Cancel(ORDERS, alone)])
        assert await bodies(engine, BILLING) == [b"seen", b"kept"]
        assert await bodies(engine, AUDIT) == [b"seen", b"kept"]
        await refused(engine, Cancel(ORDERS, one), error=MessageNotFound)
        clock.advance(61)
        await keep_up(engine)
        await refused(engine, Cancel(ORDERS, two), error=MessageNotFound)

    # --- coming and going

    async def test_a_topic_and_a_queue_share_their_names(self, engine: FullEngine) -> None:
        await declare(engine, "work")
        await declare_topic(engine, "billing")
        assert await engine.declare_topic(ORDERS, TopicSettings(keep_unmatched=True)) is False
        with pytest.raises(TopicNotFound, match="is a queue"):
            await engine.declare_topic("work", TopicSettings())
        with pytest.raises(NotAQueue, match=BILLING):
            await engine.declare(ORDERS, QueueSettings())
        with pytest.raises(NotAQueue):
            await engine.update(ORDERS, QueueSettings())
        for wrong in ("work", "nowhere"):
            with pytest.raises(TopicNotFound):
                await engine.subscribe(wrong, "billing", Rule(), QueueSettings())
            with pytest.raises(TopicNotFound):
                await engine.unsubscribe(wrong, "billing")
            with pytest.raises(TopicNotFound):
                await engine.update_topic(wrong, TopicSettings())
            with pytest.raises(TopicNotFound):
                await engine.topics(wrong)
        with pytest.raises(SubscriptionNotFound):
            await engine.unsubscribe(ORDERS, "another")
        assert not (await engine.topics(ORDERS))[0].settings.keep_unmatched

    async def test_a_queue_that_has_the_name_of_a_subscription_is_left_alone(self, engine: FullEngine) -> None:
        await declare_topic(engine)
        await declare(engine, BILLING)
        with pytest.raises(InvalidSetting, match="that is no subscription"):
            await engine.subscribe(ORDERS, "billing", Rule(), QueueSettings())
        with pytest.raises(SubscriptionNotFound):
            await engine.unsubscribe(ORDERS, "billing")
        await send(engine, b"news")
        assert await bodies(engine, BILLING) == []

    async def test_a_topic_holds_no_messages(self, engine: FullEngine) -> None:
        await declare_topic(engine, "billing")
        await send(engine, b"news")
        with pytest.raises(NotAQueue, match=BILLING):
            await engine.lock_next(ORDERS, 1)
        with pytest.raises(NotAQueue):
            await engine.lock_session(ORDERS, None)
        with pytest.raises(NotAQueue):
            await engine.lock_deferred(ORDERS, [1])
        with pytest.raises(NotAQueue, match=BILLING):
            await engine.peek(ORDERS, 10)
        assert {info.name: info.is_topic for info in await engine.inspect()} == {ORDERS: True, BILLING: False}

    async def test_topics_are_described(self, engine: FullEngine) -> None:
        await declare_topic(engine)
        await subscribe(engine, "shipping", "body.total > 100")
        await subscribe(engine, "billing", {"region": "eu"})
        assert await engine.declare_topic("alarms", TopicSettings(keep_unmatched=True, max_message_bytes=10))
        alarms, orders = await engine.topics()
        assert (alarms.name, alarms.subscriptions, alarms.unmatched) == ("alarms", (), 0)
        assert alarms.settings == TopicSettings(keep_unmatched=True, max_message_bytes=10)
        assert [(one.name, one.queue, one.rule) for one in orders.subscriptions] == [
            ("billing", BILLING, Rule.of({"region": "eu"})),
            ("shipping", SHIPPING, Rule.of("body.total > 100")),
        ]
        assert [info.name for info in await engine.inspect()] == ["alarms", ORDERS, BILLING, SHIPPING]

    @sizes
    async def test_a_subscription_that_is_removed_takes_its_messages_with_it(
        self, engine: FullEngine, body: bytes
    ) -> None:
        await declare_topic(engine, "billing", "audit")
        await send(engine, body)
        await engine.unsubscribe(ORDERS, "billing")
        with pytest.raises(QueueNotFound):
            await lock(engine, BILLING)
        await subscribe(engine, "billing")
        assert (await bodies(engine, BILLING), await bodies(engine, AUDIT)) == ([], [body])
        await engine.delete(AUDIT)
        await send(engine, b"after")
        assert [one.name for one in (await engine.topics(ORDERS))[0].subscriptions] == ["billing"]
        assert await bodies(engine, BILLING) == [b"after"]

    async def test_a_topic_that_is_deleted_takes_its_subscriptions_with_it(
        self, engine: FullEngine, other: FullEngine
    ) -> None:
        await declare_topic(engine, "billing", "audit", keep_unmatched=True)
        await send(other, b"news")
        await engine.delete(ORDERS)
        assert await engine.inspect() == []
        for name in (ORDERS, BILLING, AUDIT):
            with pytest.raises(QueueNotFound):
                await send(other, b"news", queue=name)
        assert await engine.topics() == []

    async def test_a_subscription_that_is_idle_can_go_by_itself(self, engine: FullEngine, clock: ManualClock) -> None:
        await declare_topic(engine, "audit")
        await subscribe(engine, "billing", {"region": "eu"}, auto_delete_on_idle=100)
        await send(engine, b"first", headers={"region": "eu"})
        for _ in range(12):
            clock.advance(10)
            await send(engine, b"for the other", headers={"region": "us"})
            await keep_up(engine)
        assert [one.name for one in (await engine.topics(ORDERS))[0].subscriptions] == ["audit"]
        await send(engine, b"last", headers={"region": "eu"})
        assert len(await bodies(engine, AUDIT)) == 14

    async def test_nothing_is_left_when_everything_is_done(self, engine: FullEngine) -> None:
        await declare_topic(engine, "billing", "audit", "shipping")
        await engine.apply([Send(ORDERS, message(LARGE)), Send(ORDERS, message(b"small"))])
        for queue in (BILLING, AUDIT):
            await engine.apply([Complete(lock_of(one)) for one in await lock(engine, queue)])
        for one in await lock(engine, SHIPPING):
            await engine.apply([DeadLetter(lock_of(one), "Broken")])
        dead = await lock(engine, dead_letter_queue(SHIPPING))
        assert [one.body for one in dead] == [LARGE, b"small"]
        await engine.apply([Complete(lock_of(one)) for one in dead])
        for queue in (BILLING, AUDIT, SHIPPING):
            assert await bodies(engine, queue) == await bodies(engine, dead_letter_queue(queue)) == []
