# SPDX-License-Identifier: MIT
"""A message survives the way into a row and back, whatever it holds."""

import copy
from dataclasses import FrozenInstanceError
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.broker import DeadLetterInfo, Lock, Message, Received, State
from redrive.engines import stored

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=50)
values = st.text(st.characters(exclude_categories=["Cs"])) | st.integers() | st.booleans() | st.none()
headers = st.dictionaries(texts, values | st.floats(allow_nan=False, allow_infinity=False), max_size=5)
messages = st.builds(
    Message,
    st.binary(),
    id=texts,
    headers=headers,
    ttl=st.none() | st.floats(0.001, 1e6),
    **{
        name: st.none() | texts
        for name in ("content_type", "subject", "correlation_id", "reply_to", "to", "session_id")
    },
)


@given(messages)
def test_a_message_comes_back_as_it_was(message):
    back = stored.message_of(message.id, stored.properties_of(message), message.body)
    assert repr(back) == repr(message)


@given(messages)
def test_the_size_is_that_of_body_and_properties_in_bytes(message):
    properties = stored.properties_of(message)
    assert stored.size_of(message, properties) == len(message.body) + len((properties or "").encode())


def test_a_plain_message_takes_no_properties():
    assert stored.properties_of(Message(b"x", id="1")) is None
    assert stored.size_of(Message(b"xyz"), None) == 3


@given(messages, headers)
def test_changing_headers_changes_those_and_nothing_else(message, changes):
    changed = stored.message_of(message.id, stored.with_headers(stored.properties_of(message), changes), message.body)
    kept = {name: value for name, value in message.headers.items() if name not in changes}
    assert changed.headers == kept | {name: value for name, value in changes.items() if value is not None}
    assert (changed.body, changed.subject, changed.ttl) == (message.body, message.subject, message.ttl)


@given(st.text(), st.text())
def test_a_reason_comes_back_even_with_half_of_a_surrogate_pair(reason, description):
    told = stored.dead_letter_json(reason, description + "\ud800", "orders")
    told.encode()
    row = (1, 0.0, None, "id", None, told, b"")
    assert stored.received(row, "orders/$dead", State.READY, 0).dead_letter_info == DeadLetterInfo(
        reason, description + "\ud800", "orders"
    )


def test_a_number_that_64_bits_cannot_hold_is_nobodys():
    assert [stored.storable(number) for number in (0, 2**63 - 1, -(2**63))] == [0, 2**63 - 1, -(2**63)]
    assert [stored.storable(number) for number in (2**63, -(2**63) - 1, 2**100)] == [-1, -1, -1]


def test_what_is_received_is_the_same_as_if_it_were_built_field_by_field():
    lock = stored.lock("orders", 3, 7)
    assert (lock, hash(lock), type(lock)) == (Lock("orders", 3, 7), hash(Lock("orders", 3, 7)), Lock)
    at = datetime(2026, 1, 4, tzinfo=UTC)
    row = (3, at.timestamp(), None, "1", None, None, b"x")
    received = stored.received(row, "orders", State.LOCKED, 1, lock, locked_until=at)
    assert received == Received(Message(b"x", id="1"), "orders", 3, State.LOCKED, at, 1, lock, at)


@pytest.mark.parametrize(("made", "field"), [(Message.plain(b"x", "1"), "id"), (stored.lock("orders", 3, 7), "token")])
def test_what_is_made_quickly_is_as_frozen_as_any(made, field):
    with pytest.raises(FrozenInstanceError):
        setattr(made, field, None)
    assert copy.copy(made) == made
