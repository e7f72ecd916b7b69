# SPDX-License-Identifier: MIT
"""What becomes of a leg that was not delivered."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.routes import DestinationDown, Rejected, RouteSettings, Throttled, TryLater
from redrive.routes.leg_decision import Bury, Park, Replay, decide_leg
from redrive.worker import Postpone, RedeliverLater

SETTINGS = RouteSettings(max_attempts=3, min_delay=1, max_delay=10, max_age=100, probe_after=30)


def decide(failure, settings=SETTINGS, *, attempt=1, age=0.0, is_down=False, chance=0.5):
    return decide_leg(failure, settings, attempt=attempt, age=age, is_down=is_down, chance=chance)


def test_each_replay_waits_twice_as_long_until_no_attempt_is_left():
    answers = [decide(TryLater("busy"), attempt=attempt) for attempt in (1, 2, 3)]
    assert answers == [
        Replay(1.0),
        Replay(2.0),
        Bury(is_exhausted=True, description="3 attempts failed, the last with: busy"),
    ]


def test_a_destination_may_ask_for_more_time_and_not_for_less():
    assert decide(TryLater("busy", after=7.0)) == Replay(7.0)
    assert decide(TryLater("busy", after=0.1)) == Replay(1.0)


def test_an_event_that_would_be_too_old_is_dead():
    assert decide(TryLater("busy"), age=99.0) == Replay(1.0)
    dead = decide(TryLater("busy"), age=99.5)
    assert isinstance(dead, Bury)
    assert dead.is_exhausted
    assert "max_age" in dead.description
    assert "busy" in dead.description


def test_a_rejected_event_is_dead_at_once_and_not_exhausted():
    assert decide(Rejected("no such order"), is_down=True) == Bury(is_exhausted=False, description="no such order")


@pytest.mark.parametrize("failure", [Throttled("slow"), DestinationDown("gone")])
def test_what_is_not_the_events_fault_parks_it(failure):
    assert decide(failure, attempt=99, age=1e9, chance=0.0) == Park(30.0)
    assert decide(failure, chance=0.5) == Park(33.0)


@pytest.mark.parametrize("kind", [Throttled, DestinationDown, TryLater])
def test_a_parked_leg_waits_for_as_long_as_the_destination_asks(kind):
    assert decide(kind("later", after=4.0), is_down=True, chance=0.0) == Park(4.0)


def test_while_the_destination_is_down_no_attempt_counts():
    assert decide(TryLater("busy"), attempt=3, age=1e9, is_down=True, chance=0.0) == Park(30.0)


FAILURES = st.one_of(
    st.builds(
        lambda kind, after: kind("why", after=after),
        st.sampled_from([TryLater, Throttled, DestinationDown]),
        st.none() | st.floats(),
    ),
    st.just(Rejected("why")),
)
ANY_SETTINGS = st.builds(
    RouteSettings,
    max_attempts=st.integers(1, 1_000),
    max_age=st.floats(0.001, 1e6),
    min_delay=st.floats(0.001, 100.0),
    max_delay=st.floats(100.0, 1e6),
    probe_after=st.floats(0.001, 1e6),
)
CHANCES = st.floats(0.0, 1.0, exclude_max=True)


FACTS = st.fixed_dictionaries(
    {"attempt": st.integers(1, 2_000), "age": st.floats(0.0, 1e7), "is_down": st.booleans(), "chance": CHANCES}
)


@given(FAILURES, ANY_SETTINGS, FACTS)
def test_rules_that_always_hold(failure, settings, facts):
    decision, is_down = decide(failure, settings, **facts), facts["is_down"]
    match decision:
        case Replay(delay):  # counts: only for a failure that may be the event's, and never past a limit
            assert isinstance(failure, TryLater)
            assert not is_down
            assert facts["attempt"] < settings.max_attempts
            assert facts["age"] + delay <= settings.max_age
            RedeliverLater(delay)  # which refuses what is no delay
        case Park(delay):  # counts nothing
            assert not isinstance(failure, Rejected)
            assert is_down or not isinstance(failure, TryLater)
            Postpone(delay)
        case Bury(is_exhausted=True):
            assert isinstance(failure, TryLater)
            assert not is_down
        case Bury():
            assert isinstance(failure, Rejected)


@given(ANY_SETTINGS, CHANCES)
def test_a_leg_that_always_fails_has_exactly_its_attempts(settings, chance):
    attempt = 1
    while isinstance(decide(TryLater("why"), settings, attempt=attempt, age=-1e9, chance=chance), Replay):
        attempt += 1
    assert attempt == settings.max_attempts


@given(st.integers(1, 900), st.floats(0.0, 100.0), CHANCES)
def test_what_is_dead_at_one_attempt_or_age_is_dead_at_a_later_one(attempt, age, chance):
    if isinstance(decide(TryLater("why"), attempt=attempt, age=age, chance=chance), Bury):
        assert isinstance(decide(TryLater("why"), attempt=attempt + 1, age=age, chance=chance), Bury)
        assert isinstance(decide(TryLater("why"), attempt=attempt, age=age + 20.0, chance=chance), Bury)
