# SPDX-License-Identifier: MIT
"""``redrive topics``, run as a person runs it."""

from itertools import count

import pytest


@pytest.fixture
def topic(ok):
    ok("topics", "declare", "news")
    ok("topics", "subscribe", "news", "billing")
    return "news"


def test_topics_are_listed(ok, read, topic):
    ok("topics", "subscribe", topic, "large", "--rule", "body.total > 100")
    heading, line = ok("topics").splitlines()
    assert heading.split() == ["topic", "subscriptions", "unmatched", "kept"]
    assert line.split() == ["news", "2", "-", "no"]
    (found,) = read("topics")
    assert [each["queue"] for each in found["subscriptions"]] == ["news/billing", "news/large"]
    assert found["subscriptions"][1]["rule"] == {"equals": {}, "expression": "body.total > 100"}
    assert found["settings"] == {
        "keep_unmatched": False,
        "duplicate_detection": None,
        "max_message_bytes": 1_048_576,
    }


def test_no_topics_yet_says_how_to_add_one(ok, orders):  # noqa: ARG001 - a database
    assert "redrive topics declare NAME" in ok("topics")


def test_what_is_sent_to_a_topic_reaches_those_whose_rule_matches(ok, read, topic):
    said = ok("topics", "subscribe", topic, "europe", "--equals", "region=eu", "--max-delivery-count", "2")
    assert said == 'news/europe gets from now on what is sent to news: region = "eu"\n'
    ok("send", topic, "one", "--header", "region=eu")
    ok("send", topic, "two")
    assert [queue["ready"] for queue in read("queues")] == [0, 2, 1]
    shown = ok("topics", "show", topic)
    assert 'region = "eu"' in shown
    assert "news/billing" in shown
    assert read("queues", "show", "news/europe")["settings"]["max_delivery_count"] == 2


def test_messages_that_no_subscription_gets_are_shown(ok, read):
    ok("topics", "declare", "news", "--keep-unmatched", "yes")
    ok("send", "news", "early")
    assert read("topics", "show", "news")["unmatched"] == 1
    assert "no subscriptions yet; add one: redrive topics subscribe news NAME" in ok("topics", "show", "news")
    ok("topics", "update", "news", "--keep-unmatched", "no")
    assert read("topics", "show", "news")["settings"]["keep_unmatched"] is False
    ok("topics", "subscribe", "news", "billing")
    assert "1" in ok("dead", "resubmit", "news", "--yes")
    assert read("queues", "show", "news/billing")["ready"] == 1


def test_a_subscription_and_a_topic_are_deleted_with_their_messages(ok, topic):
    ok("send", topic, "one")
    said = ok("topics", "unsubscribe", topic, "billing", "--yes")
    assert said == "subscription news/billing is deleted, with 1 message\n"
    ok("topics", "subscribe", topic, "audit")
    ok("send", topic, "two")
    assert ok("topics", "delete", topic, "--yes") == "deleted: topic news, 1 subscription and 1 message\n"
    assert "no topics yet" in ok("topics")


@pytest.mark.parametrize(
    ("command", "problem", "status"),
    [
        (("show", "nowhere"), "there is no topic 'nowhere'; redrive topics lists all topics", 5),
        (("show", "orders"), "'orders' is a queue, not a topic", 5),
        (("declare", "orders"), "'orders' is a queue, not a topic", 5),
        (("declare", "news", "--keep-unmatched", "yes"), "redrive topics update news --keep-unmatched yes", 6),
        (("declare", "news", "--keep-unmatched", "perhaps"), "write yes or no", 2),
        (("subscribe", "nowhere", "x"), "there is no topic 'nowhere'", 5),
        (("subscribe", "news", "a/b"), "must be a name without '/'", 2),
        (("subscribe", "news", "x", "--rule", "body.total = 1"), "write == instead of =", 2),
        (("subscribe", "news", "x", "--equals", "region"), "write it as NAME=VALUE", 2),
        (("unsubscribe", "news", "x", "--yes"), "has no subscription 'x'; redrive topics show news lists them", 5),
        (("delete", "nowhere", "--yes"), "there is no topic 'nowhere'", 5),
    ],
    ids=count(),
)
@pytest.mark.usefixtures("orders", "topic")
def test_mistakes_are_named_with_the_command_that_helps(refused, command, problem, status):
    assert problem in refused("topics", *command, status=status)


@pytest.mark.usefixtures("topic")
def test_receiving_from_a_topic_names_its_subscriptions(refused):
    assert "redrive topics show news" in refused("receive", "news", "--complete", status=2)


@pytest.mark.usefixtures("topic")
def test_a_topic_is_not_deleted_as_a_queue(ok, refused):
    ok("send", "news", "one")
    assert "redrive topics show news" in refused("queues", "delete", "news", "--yes", status=2)
    assert ok("queues", "delete", "news/billing", "--yes") == "queue news/billing is deleted, with 1 message\n"
