# SPDX-License-Identifier: MIT
"""Rules, and topics as a program uses them."""

import sys
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive import connect, connect_blocking, expression
from redrive.broker import Broker, Message, Rule, Send, TopicOptions, TopicSettings, dead_letter_queue
from redrive.broker.topics import PROPERTIES, values_of
from redrive.engines.sqlite import SqliteEngine
from redrive.errors import (
    ExpressionFailed,
    InvalidExpression,
    InvalidSetting,
    MissingExtra,
    NotAQueue,
    NotSupported,
    QueueConflict,
    SubscriptionNotFound,
    TopicConflict,
    TopicNotFound,
    UnknownSetting,
)
from redrive.testing import ManualClock
from tests.conformance.core_engine import CoreEngine

ORDER = Message(b'{"total": 250}', id="o-1", subject="placed", headers={"region": "eu", "count": 3, "urgent": True})


def matches(rule, message=ORDER):
    return Rule.of(rule).matches(message, lambda: values_of(message))


# --- rules


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (None, True),
        ({}, True),
        ({"region": "eu"}, True),
        ({"region": "us"}, False),
        ({"region": "eu", "subject": "placed"}, True),
        ({"region": "eu", "subject": "cancelled"}, False),
        ({"subject": "eu"}, False),
        ({"headers.region": "eu"}, True),
        ({"headers.subject": "placed"}, False),
        ({"id": "o-1"}, True),
        ({"count": 3}, True),
        ({"count": 3.0}, True),
        ({"count": "3"}, False),
        ({"urgent": True}, True),
        ({"urgent": 1}, False),
        ({"missing": None}, True),
        ({"session_id": None}, True),
        ("body.total > 100", True),
        ("body.total > 1000", False),
        ("headers.region == 'eu' && subject == 'placed'", True),
        (Rule({"region": "eu"}, "body.total > 100"), True),
        (Rule({"region": "us"}, "body.total > 100"), False),
        (Rule({"region": "eu"}, "body.total < 100"), False),
    ],
    ids=str,
)
def test_a_rule_matches(rule, expected):
    assert matches(rule) is expected


def test_an_expression_is_not_evaluated_where_a_comparison_has_decided():
    no_json = Message(b"no JSON", headers={"region": "us"})
    assert matches(Rule({"region": "eu"}, "body.total > 100"), no_json) is False
    with pytest.raises(ExpressionFailed, match="no JSON"):
        matches(Rule({"region": "us"}, "body.total > 100"), no_json)


@pytest.mark.parametrize("wrong", [7, ["region"], {"region": []}, {7: "eu"}, {"region": b"eu"}], ids=str)
def test_what_is_no_rule_is_refused(wrong):
    with pytest.raises(InvalidSetting, match="rule"):
        Rule.of(wrong)


def test_an_expression_that_cannot_be_read_is_refused_with_its_place():
    with pytest.raises(InvalidExpression, match="write == instead of =") as refused:
        Rule.of("body.total = 100")
    assert refused.value.position == 11


def test_a_rule_describes_itself():
    assert str(Rule()) == "everything"
    assert str(Rule({"region": "eu", "count": 3})) == 'region = "eu" and count = 3'
    assert str(Rule({"urgent": True}, "body.total > 1")) == "urgent = true and body.total > 1"
    assert Rule().matches_everything
    assert not Rule({"a": 1}).matches_everything
    assert not Rule(expression="true").matches_everything


values = st.text() | st.integers() | st.booleans() | st.none() | st.floats(allow_nan=False)


@given(st.dictionaries(st.text(min_size=1), values, max_size=4), st.sampled_from([None, "body.total > 100"]))
def test_a_rule_survives_being_stored(equals, expression):
    rule = Rule(equals, expression)
    assert Rule.from_json(rule.to_json()) == rule


def test_every_property_of_a_message_can_be_named():
    named = {name: f"the {name}" for name in PROPERTIES}
    assert matches(named, Message(b"", **named))
    for name in PROPERTIES:
        assert not matches(named, Message(b"", **named | {name: "another"}))


def test_topic_options_are_the_settings():
    assert TopicOptions.__annotations__.keys() == {*TopicSettings.names()}


# --- topics


@pytest.fixture
async def broker():
    async with connect("sqlite:///:memory:", clock=ManualClock()) as broker:
        await broker.declare_topic("orders")
        yield broker


async def test_a_topic_from_beginning_to_end(broker):
    assert await broker.subscribe("orders", "billing", max_delivery_count=2) == "orders/billing"
    assert await broker.subscribe("orders", "large", "body.total > 100") == "orders/large"
    await broker.send_many("orders", [{"total": 250}, {"total": 40}])
    (large,) = await broker.receive("orders/large", max_messages=10)
    await broker.apply(Send("orders", {"total": 1_000}))
    await large.complete()
    assert (await broker.inspect("orders/billing")).ready == 3
    await broker.unsubscribe("orders", "large")
    (topic,) = await broker.topics()
    assert [(each.name, each.queue) for each in topic.subscriptions] == [("billing", "orders/billing")]
    await broker.delete("orders")
    assert await broker.queues() == []


async def test_a_scheduled_message_is_cancelled_everywhere(broker):
    await broker.subscribe("orders", "billing")
    await broker.subscribe("orders", "audit")
    number = await broker.schedule("orders", b"later", 60)
    await broker.cancel("orders", number)
    assert [queue.scheduled for queue in await broker.queues()] == [0, 0, 0]


async def test_declaring_a_topic_again_compares_what_is_stated(broker):
    await broker.declare_topic("orders")
    await broker.declare_topic("orders", keep_unmatched=False)
    with pytest.raises(TopicConflict, match=r"topic 'orders' exists .*: keep_unmatched is False, not True; .*_topic"):
        await broker.declare_topic("orders", keep_unmatched=True)
    await broker.update_topic("orders", keep_unmatched=True)
    await broker.declare_topic("orders", keep_unmatched=True)
    (topic,) = await broker.topics()
    assert topic.settings == TopicSettings(keep_unmatched=True)


async def test_subscribing_again_compares_settings_and_replaces_the_rule(broker):
    await broker.subscribe("orders", "billing", {"region": "eu"}, max_delivery_count=2)
    await broker.subscribe("orders", "billing", {"region": "us"})
    with pytest.raises(QueueConflict, match="max_delivery_count is 2, not 3"):
        await broker.subscribe("orders", "billing", max_delivery_count=3)
    (topic,) = await broker.topics()
    assert topic.subscriptions[0].rule in (Rule({"region": "us"}), Rule())


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (lambda broker: broker.declare_topic("no spaces"), InvalidSetting),
        (lambda broker: broker.declare_topic("orders", keep_unmatched="yes"), InvalidSetting),
        (lambda broker: broker.declare_topic("orders", max_message_bytes=0), InvalidSetting),
        (lambda broker: broker.declare_topic("orders", keep=True), UnknownSetting),
        (lambda broker: broker.update_topic("orders", keep=True), UnknownSetting),
        (lambda broker: broker.update_topic("nowhere", keep_unmatched=True), TopicNotFound),
        (lambda broker: broker.subscribe("nowhere", "billing"), TopicNotFound),
        (lambda broker: broker.subscribe("orders", "a/b"), InvalidSetting),
        (lambda broker: broker.subscribe("orders", ""), InvalidSetting),
        (lambda broker: broker.subscribe("orders", 7), InvalidSetting),
        (lambda broker: broker.subscribe("orders", "billing", ratee=5), UnknownSetting),
        (lambda broker: broker.subscribe("orders", "billing", "body.total ="), InvalidExpression),
        (lambda broker: broker.unsubscribe("orders", "billing"), SubscriptionNotFound),
        (lambda broker: broker.receive("orders"), NotAQueue),
        (lambda broker: broker.accept_session("orders"), NotAQueue),
        (lambda broker: broker.declare("orders"), NotAQueue),
        (lambda broker: broker.update("orders", max_delivery_count=2), NotAQueue),
    ],
    ids=count(),
)
async def test_wrong_use_is_refused_and_changes_nothing(broker, wrong, error):
    before = await broker.topics(), [queue.name for queue in await broker.queues()]
    with pytest.raises(error):
        await wrong(broker)
    assert (await broker.topics(), [queue.name for queue in await broker.queues()]) == before


async def test_unmatched_messages_are_sent_again_when_there_is_a_subscription(broker):
    await broker.update_topic("orders", keep_unmatched=True)
    assert await broker.send("orders", b"early") is not None
    (dead,) = await broker.peek(dead_letter_queue("orders"))
    assert dead.dead_letter_info.reason == "NoSubscription"
    await broker.subscribe("orders", "billing")
    assert await broker.resubmit("orders") == 1
    (found,) = await broker.receive("orders/billing")
    assert found.body == b"early"


async def test_without_the_extra_an_expression_says_what_to_install(broker, monkeypatch):
    monkeypatch.setitem(sys.modules, "cel_expr_python.cel", None)
    expression._language.cache_clear()
    with pytest.raises(MissingExtra, match=r"pip install 'redrive\[routes\]'"):
        await broker.subscribe("orders", "large", "body.total > 12345")
    expression._language.cache_clear()


async def test_an_engine_without_topics_says_so():
    clock = ManualClock()
    async with Broker(CoreEngine(SqliteEngine(":memory:", clock=clock)), clock=clock) as broker:
        for call in (
            lambda: broker.declare_topic("orders"),
            lambda: broker.update_topic("orders"),
            lambda: broker.subscribe("orders", "billing"),
            lambda: broker.unsubscribe("orders", "billing"),
            broker.topics,
        ):
            with pytest.raises(NotSupported, match="topics"):
                await call()


def test_topics_without_asyncio(tmp_path):
    with connect_blocking(f"sqlite:///{tmp_path}/shop.db") as broker:
        broker.declare_topic("orders")
        broker.subscribe("orders", "billing")
        broker.send("orders", b"one")
        (found,) = broker.receive("orders/billing")
        found.complete()
        assert [topic.name for topic in broker.topics()] == ["orders"]
        broker.unsubscribe("orders", "billing")
