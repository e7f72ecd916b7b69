# SPDX-License-Identifier: MIT
"""A destination and its circuit breaker: when it goes down, what is tried meanwhile, and how it comes back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.routes import Delivered, DestinationDown, Rejected, Throttled, TryLater
from redrive.routes.destination import Destination
from redrive.testing import ManualClock

BUSY = TryLater("busy")


class Place(Destination):
    """A destination and what it told."""

    def __init__(self, failures=3):
        self.clock = ManualClock()
        self.changes = []
        super().__init__(
            "shop",
            self.clock,
            failures=failures,
            probe_after=30,
            on_change=lambda name, is_down: self.changes.append((name, is_down)),
        )

    def call(self, outcome, event_id="e"):
        permit = self.admit()
        if permit is None:
            return False
        self.note(permit, outcome, event_id)
        return True


@pytest.fixture
def place():
    return Place()


@pytest.fixture
def down(place):
    for event in "abc":
        place.call(BUSY, event)
    assert place.is_down
    return place


def test_it_is_down_after_failures_of_different_events(place):
    place.call(BUSY, "a")
    place.call(BUSY, "b")
    assert not place.is_down
    place.call(BUSY, "c")
    assert place.is_down
    assert place.changes == [("shop", True)]
    assert place.retry_after == 30.0
    assert place.admit() is None


def test_one_event_that_fails_again_and_again_is_that_events_problem(place):
    for _ in range(20):
        place.call(BUSY, "a")
    assert not place.is_down


def test_two_events_that_fail_in_turn_are_not_three(place):
    """As two do that are tried at the same time, each with its quiet retries."""
    for _ in range(20):
        place.call(BUSY, "a")
        place.call(BUSY, "b")
    assert not place.is_down
    place.call(BUSY, "c")
    assert place.is_down


def test_that_it_cannot_be_reached_counts_for_every_call(place):
    for _ in range(3):
        place.call(DestinationDown("refused"), "a")
    assert place.is_down


@pytest.mark.parametrize("outcome", [Delivered(), Rejected("no")])
def test_what_it_answers_shows_that_it_works(place, outcome):
    for event in "abababab":
        place.call(BUSY, event)
        place.call(outcome, "z")
    place.call(BUSY, "a")
    place.call(BUSY, "b")
    assert not place.is_down


def test_a_pause_that_it_asks_for_is_no_failure(place):
    for event in "abcdefgh":
        place.call(Throttled("slowly"), event)
    assert not place.is_down


def test_while_it_is_down_one_event_at_a_time_is_tried(down):
    down.clock.advance(29.9)
    assert down.admit() is None
    down.clock.advance(0.1)
    assert down.retry_after == 0.0
    permit = down.admit()
    assert permit is not None
    assert down.admit() is None
    assert 0 < down.retry_after <= 1.0
    down.note(permit, BUSY, "a")  # although it has failed before
    assert down.admit() is None
    assert down.retry_after == 30.0
    assert down.changes == [("shop", True)]  # it is down all the time


def test_the_first_event_that_is_delivered_brings_it_back(down):
    down.clock.advance(30)
    assert down.call(Delivered())
    assert not down.is_down
    assert down.changes == [("shop", True), ("shop", False)]
    assert all(down.call(Delivered()) for _ in range(5))


def test_after_it_is_back_the_count_begins_anew(down):
    down.clock.advance(30)
    down.call(Delivered())
    down.call(BUSY, "a")
    down.call(BUSY, "b")
    assert not down.is_down
    down.call(BUSY, "c")
    assert down.is_down


def test_a_probe_that_is_given_up_lets_another_one_be_tried(down):
    down.clock.advance(30)
    permit = down.admit()
    assert down.admit() is None
    down.release(permit)
    assert down.admit() is not None


def test_a_call_that_began_before_says_nothing_about_the_probe(place):
    early = place.admit()
    for event in "abc":
        place.call(BUSY, event)
    place.clock.advance(30)
    assert place.admit() is not None
    place.note(early, Delivered(), "early")
    assert place.is_down


OUTCOMES = st.sampled_from([BUSY, Throttled("slowly"), Rejected("no"), Delivered(), DestinationDown("refused")])


@given(st.integers(1, 4), st.lists(st.tuples(OUTCOMES, st.sampled_from("abcdef"), st.floats(0.0, 40.0)), max_size=40))
def test_against_a_model_that_remembers_every_failure(failures, calls):
    place = Place(failures)
    since: list[str] = []  # the failures since it last worked
    for outcome, event, passed in calls:
        place.clock.advance(passed)
        was_down = place.is_down
        if not place.call(outcome, event):
            assert was_down
            continue
        if isinstance(outcome, Delivered | Rejected):
            since.clear()
        elif isinstance(outcome, DestinationDown) or (isinstance(outcome, TryLater) and event not in since):
            since.append(event)
        assert place.is_down == ((was_down and not isinstance(outcome, Delivered | Rejected)) or len(since) >= failures)
    assert [is_down for _, is_down in place.changes] == [number % 2 == 0 for number in range(len(place.changes))]
