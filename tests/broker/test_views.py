# SPDX-License-Identifier: MIT
"""Queues and messages as JSON: the names are a promise, whoever prints them."""

import json
from datetime import UTC, datetime

import pytest

from redrive import connect
from redrive.broker import Message, Resubmitted, Stayed, views

AT = datetime(2026, 11, 1, 10, tzinfo=UTC)
MESSAGE = ("id", "content_type", "subject", "correlation_id", "reply_to", "to", "session_id", "ttl", "headers")


@pytest.fixture
async def broker():
    async with connect("sqlite:///:memory:") as broker:
        await broker.declare("orders")
        yield broker


async def test_a_queue_has_its_counts_its_settings_and_iso_times(broker):
    await broker.send("orders", b"x")
    view = views.queue_view(await broker.inspect("orders"))
    assert json.loads(json.dumps(view)) == view
    assert (view["name"], view["ready"], view["dead"]) == ("orders", 1, 0)
    assert view["settings"]["max_delivery_count"] == 10
    assert all(datetime.fromisoformat(view[name]).tzinfo for name in ("oldest_at", "created_at", "used_at"))


async def test_an_empty_queue_has_no_oldest_message(broker):
    assert views.queue_view(await broker.inspect("orders"))["oldest_at"] is None


async def test_a_peeked_message_has_its_times_and_a_received_one_has_not(broker):
    await broker.send("orders", Message(b"x", id="1", subject="lamp", headers={"customer": 7}, ttl=60))
    peeked = views.received_view((await broker.peek("orders"))[0])
    (delivery,) = await broker.receive("orders")
    received = views.received_view(delivery)
    assert json.loads(json.dumps([peeked, received])) == [peeked, received]
    assert (peeked["id"], peeked["state"], peeked["subject"], peeked["headers"]) == (
        "1",
        "ready",
        "lamp",
        {"customer": 7},
    )
    assert peeked.keys() - received.keys() == {"due_at", "locked_until", "expires_at"}
    assert datetime.fromisoformat(peeked["expires_at"]) > datetime.fromisoformat(peeked["enqueued_at"])
    assert received["dead_letter"] is None
    assert {*MESSAGE, "queue", "sequence", "delivery_count", "body", "body_encoding"} <= received.keys()


async def test_a_dead_letter_says_why_it_died(broker):
    await broker.send("orders", b"x")
    (delivery,) = await broker.receive("orders")
    await delivery.dead_letter("InvalidJson", "no brace")
    (dead,) = await broker.peek("orders/$dead")
    assert views.received_view(dead)["dead_letter"] == {
        "reason": "InvalidJson",
        "description": "no brace",
        "source": "orders",
    }


@pytest.mark.parametrize(("body", "shown"), [(b"\xc3\xa9", ("é", "utf-8")), (b"\xff\x00", ("/wA=", "base64"))])
def test_a_body_is_text_or_base64_and_says_which(body, shown):
    view = views.message_view(Message(body))
    assert (view["body"], view["body_encoding"]) == shown
    assert tuple(view)[: len(MESSAGE)] == MESSAGE


def test_what_was_not_sent_is_there_only_if_there_is_some():
    sent = views.sent_view("orders", sent=2, duplicates=0, first_sequence=1, last_sequence=2)
    assert sent == {"queue": "orders", "sent": 2, "duplicates": 0, "first_sequence": 1, "last_sequence": 2}
    stopped = views.sent_view("orders", sent=0, duplicates=0, first_sequence=None, last_sequence=None, not_sent=3)
    assert stopped["not_sent"] == 3


def test_dead_letters_that_stayed_say_why():
    resubmitted = Resubmitted(3)
    resubmitted.stayed = (Stayed(7, "a", "too large"),)
    resubmitted.locked, resubmitted.locked_until = 1, AT
    assert views.resubmitted_view("orders", resubmitted) == {
        "queue": "orders",
        "resubmitted": 3,
        "stayed": [{"number": 7, "id": "a", "reason": "too large"}],
        "locked": 1,
        "locked_until": "2026-11-01T10:00:00+00:00",
    }
    assert views.resubmitted_view("orders", Resubmitted(0), interrupted=True)["interrupted"] is True
    assert views.purged_view("orders", 4) == {"queue": "orders", "removed": 4}
    assert views.purged_view("orders", 4, interrupted=True)["interrupted"] is True


def test_what_is_gone_says_so():
    assert views.cancelled_view("orders", 4) == {"queue": "orders", "sequence": 4, "cancelled": True}
    assert views.deleted_view("orders", 5) == {"queue": "orders", "deleted": True, "messages": 5}
