# SPDX-License-Identifier: MIT
"""The tables of layer 5: what they say to the engines, and what must never be in them."""

import pytest

from redrive.recovery.states import (
    AT_WORK,
    BATCHES,
    CLAIMS,
    ENDED,
    FIRST_BATCH_STATE,
    FIRST_OPERATION_STATE,
    FIRST_OUTCOME,
    FIRST_STATUS,
    MESSAGES,
    OPERATIONS,
    PARTS,
    SENT,
    SETTLED,
    SPENT,
    BatchEvent,
    BatchState,
    FailureEvent,
    OperationEvent,
    OperationState,
    Outcome,
    PartEvent,
    Status,
)
from redrive.transition_table import changed, sources, target


def test_the_sources_and_the_target_of_an_event_are_those_of_its_table():
    assert sources(MESSAGES, FailureEvent.CONFIRM) == (Status.UNRESOLVED, Status.RETRY_ISSUED)
    assert target(MESSAGES, FailureEvent.CONFIRM) is Status.RESOLVED
    assert sources(BATCHES, BatchEvent.MAKE) == ()


def test_an_event_that_is_not_in_the_table_changes_nothing():
    assert changed(PARTS, Outcome.SUCCEEDED, PartEvent.FAIL) is Outcome.SUCCEEDED
    assert changed(PARTS, Outcome.FORWARDED, PartEvent.FAIL) is Outcome.FAILED_AGAIN


@pytest.mark.parametrize("event", [each for each in FailureEvent if each is not FailureEvent.FAIL_FIRST])
def test_every_event_of_a_message_leads_to_one_state(event):
    assert isinstance(target(MESSAGES, event), Status)


def test_a_part_that_is_spent_or_was_never_sent_stays_as_it_is():
    for outcome in (*SPENT, Outcome.DONE, Outcome.SKIPPED, Outcome.FAILED, Outcome.CANCELLED):
        assert not any(state is outcome for state, _ in PARTS)


def test_a_claim_is_a_part_that_can_still_be_sent_or_heard_of():
    assert set(CLAIMS) == {Outcome.PENDING, *sources(PARTS, PartEvent.CLOSE)}
    assert set(SENT) == {
        Outcome.FORWARDED,
        *(PARTS[Outcome.FORWARDED, event] for event in PartEvent if (Outcome.FORWARDED, event) in PARTS),
    }


def test_what_is_settled_can_be_restored_and_what_has_ended_stays():
    assert set(SETTLED) == set(sources(MESSAGES, FailureEvent.RESTORE))
    assert set(ENDED) == set(OperationState) - {state for state, _ in OPERATIONS}
    assert set(AT_WORK) == {
        state for state, event in OPERATIONS if event in (OperationEvent.WATCH, OperationEvent.APPROVE)
    }


def test_a_batch_never_goes_backward():
    assert all(to > state for (state, _), to in BATCHES.items())
    assert BatchState.DONE not in {state for state, _ in BATCHES}


@pytest.mark.parametrize(
    ("first", "table"),
    [
        (FIRST_STATUS, MESSAGES),
        (FIRST_OUTCOME, PARTS),
        (FIRST_BATCH_STATE, BATCHES),
        (FIRST_OPERATION_STATE, OPERATIONS),
    ],
)
def test_every_event_is_a_beginning_or_in_its_table(first, table):
    events = type(next(iter(first)))
    assert set(first) | {event for _, event in table} == set(events)
