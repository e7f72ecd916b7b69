# SPDX-License-Identifier: MIT
"""What a failure adds to the record of a message, as plain values."""

from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.broker import Message
from redrive.clock import utc
from redrive.recovery.arrivals import Arrival
from redrive.recovery.failure_formats import Failure
from redrive.recovery.fingerprint import Group
from redrive.recovery.merge_failures import Folded, Record, add, belongs, trimmed, untagged
from redrive.recovery.states import SPENT, Outcome, Status
from redrive.recovery.tags import Tag

SENT = [each for each in Outcome if each not in (Outcome.DONE, Outcome.SKIPPED, Outcome.FAILED, Outcome.CANCELLED)]


def arrival(key="1", at=10.0, tag=None):
    """Return a failure."""
    failure = Failure(message_id="m", queue="orders", failed_at=utc(at), key=key)
    return Arrival(id="r", failure=failure, message=Message(b"x", id="m"), source="error", groups=[GROUP], tag=tag)


GROUP = Group("g", "exception", "ValueError")
KNOWN = Record(attempts=1, first_failed_at=5.0, failed_at=5.0, key="0")


def after(record, *arrivals):
    """Return a record with failures added to it."""
    folded = Folded(record=record, is_new=())
    for each in arrivals:
        folded = add(folded, each)
    return folded


def test_the_first_failure_makes_the_record():
    folded = after(Record(), arrival())
    assert folded.record == Record(attempts=1, first_failed_at=10.0, failed_at=10.0, key="1")
    assert (folded.is_new, folded.last) == ((True,), arrival())


def test_a_failure_that_is_known_changes_nothing():
    folded = after(KNOWN, arrival(key="0"), arrival(), arrival(), arrival(key="0"))
    assert folded.is_new == (False, True, False, False)
    assert folded.record.attempts == 2


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize("at", [-1e9, 5.0, 1e9])
def test_a_failure_without_a_tag_makes_any_message_unresolved_whatever_its_time_says(status, at):
    record = replace(KNOWN, status=status, claim=7, outcomes={7: Outcome.FORWARDED})
    folded = after(record, arrival(at=at))
    assert (folded.record.status, folded.record.claim) == (Status.UNRESOLVED, None)
    assert folded.untagged is not None


@pytest.mark.parametrize("outcome", SENT)
@pytest.mark.parametrize("other", [None, 8])
def test_a_failure_with_a_tag_reopens_a_message_unless_another_copy_has_taken_over(outcome, other):
    record = replace(KNOWN, status=Status.RETRY_ISSUED, claim=other, outcomes={7: outcome})
    tagged = arrival(tag=Tag(7, 1))
    assert belongs(tagged, record) is (outcome not in SPENT)
    if outcome not in SPENT:
        folded = after(record, tagged)
        is_reopened = other is None and outcome is not Outcome.SUPERSEDED
        assert folded.record.status is (Status.UNRESOLVED if is_reopened else Status.RETRY_ISSUED)
        assert folded.record.outcomes[7] is Outcome.FAILED_AGAIN
        assert folded.record.claim == other
        assert not belongs(replace(tagged, failure=replace(tagged.failure, key="2")), folded.record)


def test_a_tag_of_an_operation_that_is_not_known_counts_for_nothing():
    assert not belongs(arrival(tag=Tag(7, 1)), KNOWN)
    assert untagged(arrival(tag=Tag(7, 1))).tag is None


def test_an_edited_copy_is_never_the_message_it_was_made_of():
    assert not belongs(arrival(tag=Tag(7, 1, is_edited=True)), replace(KNOWN, outcomes={7: Outcome.FORWARDED}))


def test_a_failure_that_was_seen_before_belongs_to_its_record_also_when_its_tag_is_spent():
    record = replace(KNOWN, key="1", outcomes={7: Outcome.FAILED_AGAIN})
    assert belongs(arrival(tag=Tag(7, 1)), record)


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.floats(0, 100)), max_size=4, unique_by=lambda each: each[0]))
def test_in_whatever_order_failures_come_the_record_is_the_same(found):
    records = [after(Record(), *(arrival(*each) for each in order)).record for order in permutations(found)]
    for each in records:
        assert (each.attempts, each.status) == (len(found), Status.UNRESOLVED)
        assert {each.key, *each.keys} - {""} == {key for key, _ in found}
        assert (each.first_failed_at, each.failed_at) == (records[0].first_failed_at, records[0].failed_at)


def test_the_oldest_keys_are_one_too_many():
    assert trimmed([(3.0, "c"), (1.0, "a"), (2.0, "b")], 2) == ["a"]
    assert trimmed([(1.0, "a")], 2) == []
