# SPDX-License-Identifier: MIT
"""A message survives the way into a row and back, whatever it holds."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from redrive.broker import DeadLetterInfo, Lock, Message, State
from redrive.engines.sqlite import rows

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=50)
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
    back = rows.message_of(message.id, rows.properties_of(message), message.body)
    assert repr(back) == repr(message)


@given(messages)
def test_the_size_is_that_of_body_and_properties_in_bytes(message):
    properties = rows.properties_of(message)
    assert rows.size_of(message, properties) == len(message.body) + len((properties or "").encode())


def test_a_plain_message_takes_no_properties():
    assert rows.properties_of(Message(b"x", id="1")) is None
    assert rows.size_of(Message(b"xyz"), None) == 3


@given(messages, headers)
def test_changing_headers_changes_those_and_nothing_else(message, changes):
    changed = rows.message_of(message.id, rows.with_headers(rows.properties_of(message), changes), message.body)
    kept = {name: value for name, value in message.headers.items() if name not in changes}
    assert changed.headers == kept | {name: value for name, value in changes.items() if value is not None}
    assert (changed.body, changed.subject, changed.ttl) == (message.body, message.subject, message.ttl)


@given(st.text(), st.text())
def test_a_reason_comes_back_even_with_half_of_a_surrogate_pair(reason, description):
    stored = rows.dead_letter_json(reason, description + "\ud800", "orders")
    stored.encode()
    row = (1, State.READY, None, None, 0, 0.0, None, "id", None, stored, b"")
    assert rows.seen(row, "orders/$dead").dead_letter == DeadLetterInfo(reason, description + "\ud800", "orders")


def test_due_means_another_thing_in_every_state():
    row = [7, State.READY, None, None, 2, 1.0, 1e300, "id", None, None, b"x"]
    (locked,) = rows.locked([tuple(row)], "orders", State.LOCKED, 99, 60.0)
    assert (locked.state, locked.delivery_count) == (State.LOCKED, 3)
    assert (locked.lock, locked.locked_until, locked.due_at) == (
        Lock("orders", 7, 99),
        datetime(1970, 1, 1, 0, 1, tzinfo=UTC),
        None,
    )
    assert locked.expires_at.year == 9_999
    row[1], row[2] = State.SCHEDULED, 60.0
    scheduled = rows.seen(tuple(row), "orders")
    assert (scheduled.lock, scheduled.locked_until, scheduled.due_at) == (
        None,
        None,
        datetime(1970, 1, 1, 0, 1, tzinfo=UTC),
    )


def test_a_number_that_sqlite_cannot_hold_is_nobodys():
    assert [rows.storable(number) for number in (0, 2**63 - 1, -(2**63))] == [0, 2**63 - 1, -(2**63)]
    assert [rows.storable(number) for number in (2**63, -(2**63) - 1, 2**100)] == [-1, -1, -1]
