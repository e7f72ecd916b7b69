# SPDX-License-Identifier: MIT
"""The circuit breaker, by example and against a model that is too simple to be wrong."""

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from redrive.errors import InvalidSetting
from redrive.retry import CircuitBreaker

SLOTS = 10
"""A sliding window is counted in ten slots: an outcome leaves it when it is 0.9 to 1.0 windows old."""


def opened(*, at=0.0, **settings_of_breaker):
    """Return a breaker that one failure has just opened."""
    breaker = CircuitBreaker("api", failures=1, **settings_of_breaker)
    assert breaker.failed(breaker.admit(at), at) == ("closed", "open")
    return breaker


def outcomes(breaker, text, *, now=0.0):
    """Report an outcome for each letter: S success, F failure; return the changes of state."""
    report = {"S": breaker.succeeded, "F": breaker.failed}
    return [report[letter](breaker.admit(now), now) for letter in text]


# --- closed -----------------------------------------------------------------------------------------------------------


def test_a_new_breaker_lets_everything_through():
    breaker = CircuitBreaker()
    assert breaker.state == "closed"
    assert all(breaker.admit(0.0) is not None for _ in range(1_000))
    assert breaker.retry_after(0.0) == 0.0


def test_it_opens_at_the_last_of_so_many_consecutive_failures():
    breaker = CircuitBreaker(failures=3)
    assert outcomes(breaker, "FFF") == [None, None, ("closed", "open")]
    assert breaker.admit(0.0) is None


def test_a_success_starts_the_count_anew():
    breaker = CircuitBreaker(failures=3)
    assert outcomes(breaker, "FFSFFSFF") == [None] * 8
    assert breaker.state == "closed"


def test_a_call_that_says_nothing_about_the_service_does_not_count():
    breaker = CircuitBreaker(failures=2)
    breaker.failed(breaker.admit(0.0), 0.0)
    breaker.released(breaker.admit(0.0))
    assert breaker.failed(breaker.admit(0.0), 0.0) == ("closed", "open")


def test_it_is_calm_while_a_success_would_change_nothing():
    breaker = CircuitBreaker(failures=3)
    assert breaker.calm
    outcomes(breaker, "F")
    assert not breaker.calm
    outcomes(breaker, "S")
    assert breaker.calm
    outcomes(breaker, "FFF")
    assert not breaker.calm
    assert not CircuitBreaker(failure_rate=0.5).calm  # successes count in a rate


def test_a_call_that_began_while_it_was_calm_is_adopted_as_long_as_it_is_closed():
    breaker = CircuitBreaker(failures=2)
    assert breaker.failed(breaker.adopt(), 0.0) is None
    assert breaker.failed(breaker.adopt(), 0.0) == ("closed", "open")
    assert breaker.adopt() is None


# --- open and half open -----------------------------------------------------------------------------------------------


def test_an_open_breaker_refuses_and_says_when_to_come_back():
    breaker = opened(at=100.0, open_for=30.0)
    assert breaker.admit(110.0) is None
    assert breaker.retry_after(110.0) == 20.0
    assert breaker.retry_after(200.0) == 0.0


def test_it_lets_one_probe_through_when_its_time_is_over():
    breaker = opened(open_for=30.0)
    assert breaker.admit(29.999) is None
    assert breaker.admit(30.0) is not None
    assert breaker.state == "half_open"
    assert breaker.admit(30.0) is None


def test_only_the_call_that_made_it_half_open_is_told_so():
    breaker = opened(open_for=30.0, probes=2)
    answers = [breaker.ask(now) for now in (29.0, 30.0, 30.0, 30.0, 60.0)]
    assert [change for _, change in answers] == [None, ("open", "half_open"), None, None, None]
    assert [permit is not None for permit, _ in answers] == [False, True, True, False, True]


def test_a_probe_that_succeeds_closes_it():
    breaker = opened(open_for=30.0)
    assert breaker.succeeded(breaker.admit(30.0), 31.0) == ("half_open", "closed")
    assert breaker.calm


def test_a_probe_that_fails_opens_it_for_the_whole_time_again():
    breaker = opened(open_for=30.0)
    assert breaker.failed(breaker.admit(30.0), 35.0) == ("half_open", "open")
    assert breaker.retry_after(35.0) == 30.0
    assert breaker.admit(64.9) is None
    assert breaker.admit(65.0) is not None


def test_a_probe_that_was_cancelled_makes_room_for_another():
    breaker = opened(open_for=30.0)
    breaker.released(breaker.admit(30.0))
    assert breaker.state == "half_open"
    assert breaker.admit(30.0) is not None


def test_it_closes_when_all_its_probes_have_succeeded():
    breaker = opened(open_for=30.0, probes=3)
    permits = [breaker.admit(30.0) for _ in range(4)]
    assert permits[3] is None
    assert [breaker.succeeded(permit, 30.0) for permit in permits[:3]] == [None, None, ("half_open", "closed")]


def test_a_probe_that_succeeded_does_not_make_room_for_another():
    breaker = opened(open_for=30.0, probes=2)
    breaker.succeeded(breaker.admit(30.0), 30.0)
    assert breaker.admit(30.0) is not None
    assert breaker.admit(30.0) is None


def test_probes_that_never_report_do_not_block_it_for_ever():
    breaker = opened(open_for=30.0, probes=2)
    assert [breaker.admit(30.0) is not None for _ in range(3)] == [True, True, False]
    assert breaker.admit(59.9) is None
    assert breaker.admit(60.0) is not None


def test_a_half_open_breaker_is_worth_asking_again_soon():
    breaker = opened(open_for=30.0)
    breaker.admit(30.0)
    assert breaker.retry_after(30.0) == 1.0
    assert breaker.retry_after(59.5) == 0.5
    assert breaker.retry_after(70.0) == 0.0


def test_a_half_open_breaker_with_room_for_a_probe_is_worth_asking_now():
    breaker = opened(open_for=30.0, probes=2)
    breaker.admit(30.0)
    assert breaker.retry_after(30.0) == 0.0
    assert breaker.admit(30.0) is not None


# --- generations ------------------------------------------------------------------------------------------------------


def test_a_late_failure_from_before_it_opened_is_not_a_probes_failure():
    breaker = CircuitBreaker(failures=1, open_for=30.0)
    late = breaker.admit(0.0)
    breaker.failed(breaker.admit(0.0), 0.0)
    probe = breaker.admit(30.0)
    assert breaker.failed(late, 30.0) is None
    assert breaker.state == "half_open"
    assert breaker.succeeded(probe, 31.0) == ("half_open", "closed")


def test_a_late_success_from_before_it_opened_closes_nothing():
    breaker = CircuitBreaker(failures=1, open_for=30.0)
    late = breaker.admit(0.0)
    breaker.failed(breaker.admit(0.0), 0.0)
    assert breaker.succeeded(late, 1.0) is None
    assert breaker.state == "open"
    breaker.admit(30.0)
    assert breaker.succeeded(late, 30.0) is None
    assert breaker.state == "half_open"


def test_a_late_release_makes_no_room_for_a_second_probe():
    breaker = CircuitBreaker(failures=1, open_for=30.0)
    late = breaker.admit(0.0)
    breaker.failed(breaker.admit(0.0), 0.0)
    breaker.admit(30.0)
    breaker.released(late)
    assert breaker.admit(30.0) is None


def test_a_probe_that_reports_after_it_was_given_up_on_changes_nothing():
    breaker = opened(open_for=30.0)
    lost = breaker.admit(30.0)
    found = breaker.admit(60.0)
    assert breaker.failed(lost, 61.0) is None
    assert breaker.succeeded(found, 62.0) == ("half_open", "closed")


def test_resetting_closes_it_and_forgets_everything():
    breaker = opened(at=1_000.0)
    breaker.reset()
    assert breaker.state == "closed"
    assert breaker.calm
    assert breaker.admit(1_000.0) is not None


def test_a_call_that_was_running_at_a_reset_no_longer_counts():
    breaker = CircuitBreaker(failures=1)
    running = breaker.admit(0.0)
    breaker.reset()
    assert breaker.failed(running, 0.0) is None


# --- failure rate -----------------------------------------------------------------------------------------------------


def test_it_opens_when_the_share_of_failures_is_reached():
    breaker = CircuitBreaker(failure_rate=0.5, min_calls=4)
    assert outcomes(breaker, "SSFF") == [None, None, None, ("closed", "open")]


def test_too_few_calls_mean_nothing():
    breaker = CircuitBreaker(failure_rate=0.1, min_calls=10)
    assert outcomes(breaker, "F" * 9) == [None] * 9
    assert outcomes(breaker, "F") == [("closed", "open")]


def test_a_share_below_the_rate_leaves_it_closed():
    breaker = CircuitBreaker(failure_rate=0.5, min_calls=2)
    assert outcomes(breaker, "S" + "SF" * 500) == [None] * 1_001


def test_only_a_failure_opens_it():
    breaker = CircuitBreaker(failure_rate=0.5, min_calls=3)
    assert outcomes(breaker, "FFS") == [None, None, None]
    assert outcomes(breaker, "F") == [("closed", "open")]


def test_failures_older_than_the_window_are_forgotten():
    breaker = CircuitBreaker(failure_rate=0.5, min_calls=4, window=30.0)
    outcomes(breaker, "FFF", now=1_000.0)
    assert outcomes(breaker, "F", now=1_030.0) == [None]


def test_failures_within_nine_tenths_of_the_window_count():
    breaker = CircuitBreaker(failure_rate=0.5, min_calls=4, window=30.0)
    outcomes(breaker, "FFF", now=1_000.0)
    assert outcomes(breaker, "F", now=1_027.0) == [("closed", "open")]


def test_a_window_much_later_holds_only_what_is_new():
    breaker = CircuitBreaker(failure_rate=0.5, min_calls=2, window=30.0)
    outcomes(breaker, "F", now=0.0)
    assert outcomes(breaker, "F", now=1e9) == [None]
    assert outcomes(breaker, "F", now=1e9) == [("closed", "open")]


@pytest.mark.parametrize("offset", range(SLOTS))
def test_a_pause_of_a_window_or_more_empties_it(offset):
    for pause in range(SLOTS, 3 * SLOTS):
        breaker = CircuitBreaker(failure_rate=0.5, min_calls=2, window=10.0)
        outcomes(breaker, "F", now=100.0 + offset)
        assert outcomes(breaker, "F", now=100.0 + offset + pause) == [None]


def test_an_outcome_reported_out_of_order_is_still_counted():
    breaker = CircuitBreaker(failure_rate=0.5, min_calls=2, window=30.0)
    outcomes(breaker, "F", now=1_010.0)
    assert outcomes(breaker, "F", now=1_009.0) == [("closed", "open")]


def test_it_starts_with_an_empty_window_after_closing():
    breaker = CircuitBreaker(failure_rate=0.5, min_calls=2, window=1_000.0, open_for=1.0)
    outcomes(breaker, "FF", now=100.0)
    breaker.succeeded(breaker.admit(101.0), 101.0)
    assert outcomes(breaker, "F", now=101.0) == [None]


def slot(now, window):
    return int(now / window * SLOTS)


@given(
    st.lists(st.tuples(st.integers(0, 60), st.booleans()), max_size=60),
    st.sampled_from([5.0, 16.0, 30.0]),
    st.integers(1, 6),
    st.sampled_from([0.25, 0.5, 1.0]),
)
def test_a_window_agrees_with_a_list_of_everything_up_to_a_slot(steps, window, min_calls, rate):
    breaker = CircuitBreaker(failure_rate=rate, window=window, min_calls=min_calls)
    now, history = 500.0, []

    def is_too_much(counted):
        failed = sum(not worked for _, worked in counted)
        return len(counted) >= min_calls and failed >= rate * len(counted)

    for wait, works in steps:
        now += wait / 8
        history.append((now, works))
        change = (breaker.succeeded if works else breaker.failed)(breaker.admit(now), now)
        in_slots = [(at, worked) for at, worked in history if slot(now, window) - slot(at, window) < SLOTS]
        assert bool(change) == (not works and is_too_much(in_slots))
        # and the slots are never further from the list than a tenth of the window
        sure = [at for at, _ in history if now - at <= window * 0.9]
        possible = [at for at, _ in history if now - at < window]
        assert len(sure) <= len(in_slots) <= len(possible)
        if change:
            return


# --- against a model --------------------------------------------------------------------------------------------------


class Model:
    """What a breaker is, written as plainly as possible."""

    def __init__(self, *, failures, failure_rate, window, min_calls, open_for, probes):
        self.failures, self.rate, self.window, self.min_calls = failures, failure_rate, window, min_calls
        self.open_for, self.probes = open_for, probes
        self.era = 0
        self.enter("closed", 0.0)

    def enter(self, state, now):
        self.state, self.since = state, now
        self.era += 1  # permits of older eras say nothing any more
        self.history = []
        self.permitted = self.succeeded = 0

    def may_enter(self, now):
        if self.state == "closed":
            return True
        if now - self.since >= self.open_for:
            return True
        return self.state == "half_open" and self.permitted < self.probes

    def admit(self, now):
        if not self.may_enter(now):
            return None
        is_used_up = self.state == "open" or (self.state == "half_open" and self.permitted >= self.probes)
        if is_used_up:
            self.enter("half_open", now)
        self.permitted += 1
        return self.era

    def report(self, era, works, now):
        if era != self.era:
            return
        if self.state == "half_open":
            self.succeeded += works
            if not works:
                self.enter("open", now)
            elif self.succeeded == self.probes:
                self.enter("closed", now)
            return
        self.history.append((now, works))
        if not works and self.is_too_much(now):
            self.enter("open", now)

    def is_too_much(self, now):
        if self.rate is None:
            last = [works for _, works in self.history[-self.failures :]]
            return len(last) == self.failures and not any(last)
        counted = [works for at, works in self.history if slot(now, self.window) - slot(at, self.window) < SLOTS]
        return len(counted) >= self.min_calls and counted.count(False) >= self.rate * len(counted)

    def release(self, era):
        if era == self.era:
            self.permitted -= 1


class BreakerAgainstModel(RuleBasedStateMachine):
    """Drives a breaker and its model with the same calls, in any order, reports however late."""

    permits = Bundle("permits")

    @initialize(
        failures=st.integers(1, 4),
        failure_rate=st.sampled_from([None, None, 0.25, 0.5, 1.0]),
        window=st.sampled_from([2.0, 16.0]),
        min_calls=st.integers(1, 5),
        open_for=st.sampled_from([0.5, 4.0, 20.0]),
        probes=st.integers(1, 3),
    )
    def start(self, **settings_of_both):
        self.now = 0.0
        self.breaker = CircuitBreaker("api", **settings_of_both)
        self.model = Model(**settings_of_both)

    @rule(target=permits)
    def admit(self):
        may_enter = self.model.may_enter(self.now)
        assert (self.breaker.retry_after(self.now) == 0.0) == may_enter
        permits = (self.breaker.admit(self.now), self.model.admit(self.now))
        assert (permits[0] is not None, permits[1] is not None) == (may_enter, may_enter)
        return permits

    @rule(target=permits)
    def adopt(self):
        permit = self.breaker.adopt()
        assert (permit is not None) == (self.model.state == "closed")
        return permit, self.model.era if self.model.state == "closed" else None

    @rule(permit=consumes(permits), works=st.booleans())
    def report(self, permit, works):
        real, modelled = permit
        if real is None:
            return
        before = self.model.state
        change = (self.breaker.succeeded if works else self.breaker.failed)(real, self.now)
        self.model.report(modelled, works, self.now)
        assert change == (None if self.model.state == before else (before, self.model.state))

    @rule(permit=consumes(permits))
    def release(self, permit):
        real, modelled = permit
        if real is not None:
            self.breaker.released(real)
            self.model.release(modelled)

    @rule(quarters=st.integers(0, 100))
    def pass_time(self, quarters):
        self.now += quarters / 4  # exact in binary, so that both do the same arithmetic

    @rule()
    def reset(self):
        self.breaker.reset()
        self.model.enter("closed", 0.0)

    @rule()
    def wait_it_out(self):
        self.now += self.breaker.open_for
        assert self.breaker.admit(self.now) is not None  # never stuck, whatever happened before
        self.model.admit(self.now)

    @invariant()
    def is_in_the_models_state(self):
        if hasattr(self, "model"):
            assert self.breaker.state == self.model.state

    @invariant()
    def is_calm_only_when_a_success_changes_nothing(self):
        if hasattr(self, "model"):
            has_failed = bool(self.model.history) and not self.model.history[-1][1]
            assert self.breaker.calm == (self.model.state == "closed" and self.model.rate is None and not has_failed)


TestBreakerAgainstModel = BreakerAgainstModel.TestCase
TestBreakerAgainstModel.settings = settings(stateful_step_count=40)


# --- wrong settings ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("failures", 0),
        ("failures", True),
        ("failures", 2.5),
        ("failure_rate", 0.0),
        ("failure_rate", 1.1),
        ("failure_rate", float("nan")),
        ("failure_rate", "half"),
        ("failure_rate", True),
        ("window", 0),
        ("window", -1.0),
        ("min_calls", 0),
        ("open_for", 0.0),
        ("open_for", float("inf")),
        ("open_for", "30s"),
        ("probes", 0),
    ],
)
def test_a_wrong_setting_is_named(setting, value):
    with pytest.raises(InvalidSetting) as refused:
        CircuitBreaker(**{setting: value})
    assert refused.value.setting == setting


def test_times_may_be_timedeltas():
    breaker = CircuitBreaker(window=timedelta(minutes=1), open_for=timedelta(seconds=5))
    assert (breaker.window, breaker.open_for) == (60.0, 5.0)
