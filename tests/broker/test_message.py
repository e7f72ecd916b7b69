# SPDX-License-Identifier: MIT
"""A message that cannot be sent says which part of it is wrong."""

import math
from datetime import UTC, datetime, timedelta

import pytest

from redrive.broker import Message, Received, State
from redrive.errors import InvalidMessage

TEXTS = ["id", "content_type", "subject", "correlation_id", "reply_to", "to", "session_id"]
HALF_A_PAIR = "\ud800"


@pytest.mark.parametrize("body", ["text", None, 1, bytearray(b"x"), memoryview(b"x")])
def test_a_body_is_bytes(body):
    with pytest.raises(InvalidMessage, match="body: must be bytes"):
        Message(body)


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("value", ["", "x" * 1_025, 7, b"bytes", HALF_A_PAIR])
def test_a_field_is_a_text_of_sensible_length(name, value):
    with pytest.raises(InvalidMessage) as caught:
        Message(b"", **{name: value})
    assert caught.value.field == name
    str(caught.value).encode()  # can be printed, whatever it was


@pytest.mark.parametrize("name", TEXTS)
def test_a_field_may_be_as_long_as_it_may_be(name):
    assert getattr(Message(b"", **{name: "x" * 1_024}), name) == "x" * 1_024


@pytest.mark.parametrize("ttl", [0, -1, math.nan, math.inf, "1", True])
def test_a_time_to_live_is_a_length_of_time(ttl):
    with pytest.raises(InvalidMessage, match="ttl"):
        Message(b"", ttl=ttl)


def test_a_timedelta_is_turned_into_seconds():
    assert Message(b"", ttl=timedelta(minutes=1)).ttl_s == 60.0
    assert Message(b"").ttl_s is None


@pytest.mark.parametrize("value", [b"bytes", [], {}, object(), math.nan, math.inf, -math.inf, HALF_A_PAIR, 1j])
def test_a_header_is_something_that_every_engine_can_store(value):
    with pytest.raises(InvalidMessage, match="'colour'"):
        Message(b"", headers={"colour": value})


@pytest.mark.parametrize("name", ["", 1, None, HALF_A_PAIR])
def test_the_name_of_a_header_is_a_text(name):
    with pytest.raises(InvalidMessage):
        Message(b"", headers={name: 1})


@pytest.mark.parametrize("value", ["", "ü", 0, -1, 2**70, 0.0, 1e308, True, False, None])
def test_a_header_may_be_a_text_a_number_a_boolean_or_none(value):
    assert Message(b"", headers={"colour": value}).headers == {"colour": value}


def test_a_message_never_changes():
    with pytest.raises(AttributeError):
        Message(b"").body = b"other"


def test_a_received_message_shows_what_it_carries():
    sent = Message(b"body", id="7", headers={"a": 1})
    received = Received(sent, "orders", 3, State.LOCKED, datetime(2026, 1, 4, tzinfo=UTC), 1)
    assert (received.body, received.id, received.headers) == (b"body", "7", {"a": 1})
    assert Received(Message(b""), "orders", 3, State.READY, datetime(2026, 1, 4, tzinfo=UTC), 0).id == ""


def test_a_plain_message_is_the_same_as_one_that_was_checked():
    assert Message.plain(b"x", "1") == Message(b"x", id="1")
    assert repr(Message.plain(b"x", "1")) == repr(Message(b"x", id="1"))
    assert Message.plain(b"x", "1").headers is not Message.plain(b"x", "2").headers
