# SPDX-License-Identifier: MIT
"""The senders to queues and topics of this broker."""

import pytest

from redrive.broker import Message
from redrive.broker.headers import DELAYED_RETRIES, EARLIER_DELIVERIES, RECOVERY_TAG
from redrive.errors import InvalidSetting, UsageError
from redrive.routes.outcomes import Delivered, DestinationDown, Rejected
from redrive.routes.senders.queue import QueueSender
from redrive.routes.senders.topic import TopicSender


async def test_an_event_is_sent_with_its_properties_and_the_key_as_its_id(bench):
    await bench.broker.declare("orders")
    headers = {"region": "eu", DELAYED_RETRIES: 2, EARLIER_DELIVERIES: 4, RECOVERY_TAG: "tag"}
    event = Message(b"x", id="e1", subject="order", session_id="s", headers=headers)
    assert await QueueSender("orders").open(bench.environment).send(event, "e1:billing") == Delivered()
    (sent,) = await bench.broker.peek("orders")
    assert sent.message == Message(b"x", id="e1:billing", subject="order", session_id="s", headers={"region": "eu"})


async def test_an_event_that_is_delivered_again_is_dropped_by_duplicate_detection(bench):
    await bench.broker.declare("orders", duplicate_detection=600)
    sender = QueueSender("orders").open(bench.environment)
    assert [await sender.send(Message(b"x"), "k") for _ in range(3)] == [Delivered()] * 3
    assert (await bench.counts("orders"))["ready"] == 1
    await sender.close()


async def test_the_effect_joins_a_transaction(bench):
    await bench.broker.declare("orders")
    await bench.broker.declare("source")
    await bench.broker.send("source", b"x")
    (leg,) = await bench.broker.receive("source")
    await leg.complete(QueueSender("orders").effect(leg.message, "k"))
    assert ((await bench.counts("source"))["locked"], (await bench.counts("orders"))["ready"]) == (0, 1)


async def test_a_delay_makes_it_available_later(bench):
    await bench.broker.declare("orders")
    sender = QueueSender("orders", delay=90)
    await sender.open(bench.environment).send(Message(b"x"), "k")
    (sent,) = await bench.broker.peek("orders")
    assert sent.due_at.timestamp() == bench.clock.time() + 90
    with pytest.raises(UsageError, match="needs the time"):
        sender.effect(Message(b"x"), "k")


async def test_a_topic_gives_it_to_its_subscriptions(bench):
    await bench.broker.declare_topic("orders")
    queue = await bench.broker.subscribe("orders", "all")
    await bench.broker.subscribe("orders", "eu", {"region": "eu"})
    sender = TopicSender("orders").open(bench.environment)
    assert await sender.send(Message(b"x", headers={"region": "us"}), "k") == Delivered()
    assert [each.id for each in await bench.broker.peek(queue)] == ["k"]


@pytest.mark.parametrize("sender", [QueueSender("none"), TopicSender("none")], ids=str)
async def test_a_queue_that_is_missing_is_down(bench, sender):
    outcome = await sender.open(bench.environment).send(Message(b"x"), "k")
    assert isinstance(outcome, DestinationDown)
    assert "none" in outcome.reason


async def test_a_store_that_does_not_answer_is_down(bench, monkeypatch):
    from redrive.errors import EngineUnavailable

    async def apply(*_effects):
        raise EngineUnavailable("no answer")

    monkeypatch.setattr(bench.broker, "apply", apply)
    outcome = await QueueSender("orders").open(bench.environment).send(Message(b"x"), "k")
    assert outcome == DestinationDown("no answer")


async def test_what_the_queue_refuses_is_rejected(bench):
    await bench.broker.declare("small", max_message_bytes=10)
    await bench.broker.declare("sessions", requires_session=True)
    assert isinstance(await QueueSender("small").open(bench.environment).send(Message(b"x" * 99), "k"), Rejected)
    assert isinstance(await QueueSender("sessions").open(bench.environment).send(Message(b"x"), "k"), Rejected)


def test_what_they_are():
    queue, topic = QueueSender("orders", delay=5), TopicSender("news")
    assert (queue.destination, queue.writes) == ("queue orders", "orders")
    assert (topic.destination, topic.writes) == ("topic news", "news")
    assert QueueSender.from_table({"kind": "queue", "queue": "orders", "delay": "5s"}) == queue
    assert TopicSender.from_table(topic.to_table()) == topic


@pytest.mark.parametrize("kind", [QueueSender, TopicSender])
@pytest.mark.parametrize("name", ["", "a b", "ä"])
def test_wrong_names_are_refused(kind, name):
    with pytest.raises(InvalidSetting):
        kind(name)
