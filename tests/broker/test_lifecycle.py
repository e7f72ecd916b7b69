# SPDX-License-Identifier: MIT
"""The table of a message's life is complete, and so are the rules around it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.broker.lifecycle import TRANSITIONS, End, MessageEvent, State
from redrive.broker.rules import (
    LOCKED_STATES,
    dead_letter_queue,
    expires_at,
    has_had_its_deliveries,
    is_dead_letter_queue,
    source_queue,
)

SENT_AS = {State.READY, State.SCHEDULED}
SETTLEMENTS = {
    MessageEvent.COMPLETE,
    MessageEvent.ABANDON,
    MessageEvent.POSTPONE,
    MessageEvent.DEFER,
    MessageEvent.DEAD_LETTER,
}
seconds = st.floats(0, 1e9)


def after(state):
    return {result for (before, _), result in TRANSITIONS.items() if before is state}


def test_every_state_and_every_end_is_reachable():
    reached, new = set(), set(SENT_AS)
    while new:
        reached |= new
        new = {result for state in new for result in after(state)} - reached
        new = {state for state in new if isinstance(state, State)} | {reached.add(end) for end in new if end in End}
        new.discard(None)
    assert reached == {*State, *End}


def test_only_the_named_ends_are_terminal():
    assert {state for state in State if not after(state)} == set()
    assert {result for result in TRANSITIONS.values() if result not in State} == set(End)


def test_from_every_state_a_message_can_be_gone_and_can_be_dead():
    for end in End:
        leading = {end}
        while more := {state for state in State if after(state) & leading} - leading:
            leading |= more
        assert leading == {*State, end}


def test_every_event_has_its_place():
    assert {event for _, event in TRANSITIONS} == set(MessageEvent)


def test_a_locked_message_can_be_settled_in_every_way_and_no_other_can():
    assert {state for state, event in TRANSITIONS if event in SETTLEMENTS} == set(LOCKED_STATES)
    for state in LOCKED_STATES:
        assert {event for before, event in TRANSITIONS if before is state} >= {*SETTLEMENTS, MessageEvent.LOSE_LOCK}


def test_a_locked_or_scheduled_message_does_not_expire():
    expiring = {
        state for state, event in TRANSITIONS if event in {MessageEvent.EXPIRE, MessageEvent.EXPIRE_TO_DEAD_LETTER}
    }
    assert expiring == {State.READY, State.DEFERRED}


def test_a_deferred_message_that_is_given_back_stays_deferred():
    assert TRANSITIONS[State.DEFERRED_LOCKED, MessageEvent.ABANDON] is State.DEFERRED
    assert TRANSITIONS[State.DEFERRED_LOCKED, MessageEvent.LOSE_LOCK] is State.DEFERRED


def test_the_numbers_of_the_states_never_change():
    assert {state.name: state.value for state in State} == {
        "READY": 0,
        "SCHEDULED": 1,
        "LOCKED": 2,
        "DEFERRED": 3,
        "DEFERRED_LOCKED": 4,
    }


def test_a_dead_letter_queue_is_its_own():
    dead = dead_letter_queue("orders")
    assert dead == "orders/$dead"
    assert dead_letter_queue(dead) == dead
    assert (is_dead_letter_queue(dead), is_dead_letter_queue("orders")) == (True, False)
    assert source_queue(dead) == source_queue("orders") == "orders"


@pytest.mark.parametrize(
    ("own", "of_queue", "expected"),
    [(None, None, None), (5, None, 105), (None, 7, 107), (5, 7, 105), (7, 5, 105)],
)
def test_the_shorter_time_to_live_counts(own, of_queue, expected):
    assert expires_at(100, own, of_queue) == expected


@given(seconds, st.none() | seconds, st.none() | seconds)
def test_a_message_never_expires_before_it_was_sent(sent_at, own, of_queue):
    expires = expires_at(sent_at, own, of_queue)
    assert (expires is None) == (own is None and of_queue is None)
    assert expires is None or expires >= sent_at


def test_the_last_delivery_is_the_one_that_reaches_the_limit():
    assert [has_had_its_deliveries(count, 3) for count in (0, 1, 2, 3, 4)] == [False, False, False, True, True]
