# SPDX-License-Identifier: MIT
"""Policies: what they refuse, what they decide, and that they are values."""

import copy
import math
import pickle
from datetime import timedelta
from http import HTTPStatus
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.duration import LONGEST
from redrive.errors import InvalidSetting
from redrive.retry import (
    Adaptive,
    AttemptFailure,
    Backoff,
    Delays,
    Exponential,
    Fixed,
    GiveUp,
    Linear,
    Policy,
    PolicyPreview,
    RetryAfter,
    retry,
)
from redrive.testing import ManualClock

BACKOFFS = [Exponential(), Linear(), Fixed(), Delays([1, 2])]
POLICIES = [
    *BACKOFFS,
    Exponential(min=1, delta=10, max=30, jitter="full", fast_first=True, max_attempts=None),
    Linear(2, 3, max=timedelta(minutes=1), jitter="equal"),
    Fixed(timedelta(milliseconds=250), jitter="none"),
    Delays((0, 0.5), jitter=0, fast_first=True, max_attempts=9),
    Adaptive(),
    Adaptive(Fixed(2), max=60, jitter=0, statuses={429, 503}, max_attempts=3),
]
VALUES = [*POLICIES, RetryAfter(1.5), GiveUp("no more", "budget"), PolicyPreview(((1.0, 2.0, 3.0),))]


def waits(policy, chance=0.5, attempts=6):
    """What a policy decides after each of the first attempts; None where it gives up."""
    decisions = [policy.decide(AttemptFailure(n, ConnectionError(), chance=chance)) for n in range(1, attempts + 1)]
    return [decision.delay if isinstance(decision, RetryAfter) else None for decision in decisions]


# --- decisions --------------------------------------------------------------------------------------------------------


def test_exponential_doubles_up_to_its_cap_and_then_gives_up():
    assert waits(Exponential(min=1, max=5, max_attempts=6)) == [1.0, 2.0, 4.0, 5.0, 5.0, None]


def test_exponential_follows_the_source_documents_formula():
    policy = Exponential(min=1, delta=10, max=300, max_attempts=None)
    assert waits(policy) == [1.0, 11.0, 31.0, 71.0, 151.0, 300.0]


def test_linear_grows_by_its_start_unless_a_step_is_given():
    assert waits(Linear(2, max_attempts=None)) == [2.0, 4.0, 6.0, 8.0, 10.0, 12.0]
    assert waits(Linear(2, 0.5, max=3, max_attempts=None)) == [2.0, 2.5, 3.0, 3.0, 3.0, 3.0]
    assert waits(Linear(2, 0, max_attempts=None)) == [2.0] * 6


def test_fixed_waits_the_same_every_time():
    assert waits(Fixed(3)) == [3.0, 3.0, 3.0, 3.0, None, None]


def test_delays_allow_one_attempt_more_than_they_list():
    assert waits(Delays([0, 1, 5])) == [0.0, 1.0, 5.0, None, None, None]


def test_delays_with_more_attempts_repeat_the_last():
    assert waits(Delays([1, 5], max_attempts=5)) == [1.0, 5.0, 5.0, 5.0, None, None]


def test_delays_with_fast_first_add_an_attempt_for_it():
    assert waits(Delays([1, 5], fast_first=True)) == [0.0, 1.0, 5.0, None, None, None]


@pytest.mark.parametrize("policy", BACKOFFS, ids=repr)
def test_fast_first_makes_only_the_first_wait_zero_and_shifts_the_rest(policy):
    endless = policy.replace(max_attempts=99)
    assert waits(endless.replace(fast_first=True)) == [0.0, *waits(endless)[:-1]]


@pytest.mark.parametrize("policy", BACKOFFS, ids=repr)
def test_policy_of_one_attempt_gives_up_at_once(policy):
    assert policy.replace(max_attempts=1).decide(AttemptFailure(1)) == GiveUp("all 1 attempts failed", "exhausted")


@pytest.mark.parametrize("policy", [Exponential(), Linear(), Fixed()], ids=repr)
def test_policy_without_a_limit_never_gives_up(policy):
    assert isinstance(policy.replace(max_attempts=None).decide(AttemptFailure(10**6)), RetryAfter)


@given(
    st.sampled_from([Exponential(), Linear(), Fixed(), Delays([1, 2])]),
    st.integers(1, 2**31),
    st.floats(0, 1, exclude_max=True),
    st.sampled_from(["full", "equal", "none", 0.0, 0.2, 1.0]),
    st.booleans(),
)
def test_decision_is_a_delay_that_can_be_slept(policy, attempt, chance, jitter, fast_first):
    policy = policy.replace(max_attempts=2**32, jitter=jitter, fast_first=fast_first)
    decision = policy.decide(AttemptFailure(attempt, chance=chance))
    assert 0.0 <= decision.delay <= 60.0


def test_decision_applies_jitter_to_the_final_delay():
    policy = Exponential(min=1, max=4, jitter=0.25, max_attempts=None)
    assert waits(policy, chance=0.0) == [0.75, 1.5, 3.0, 3.0, 3.0, 3.0]
    assert waits(policy, chance=1.0) == [1.25, 2.5, 5.0, 5.0, 5.0, 5.0]


def test_longest_allowed_delay_with_full_jitter_is_still_a_decision():
    assert waits(Fixed(LONGEST, jitter=1.0), chance=1.0)[0] == 2.0 * LONGEST


def test_failure_subject_is_the_error_or_else_the_result():
    error = ConnectionError()
    assert AttemptFailure(1, error).subject is error
    assert AttemptFailure(1, result="half").subject == "half"


def test_failure_reads_the_wall_clock_when_asked():
    clock = ManualClock(start=100.0)
    failure = AttemptFailure(1, wall_clock=clock.time)
    clock.advance(5.0)
    assert failure.unix_time == 105.0
    assert AttemptFailure(1).unix_time == 0.0


# --- adaptive ---------------------------------------------------------------------------------------------------------


class Refused(Exception):
    def __init__(self, status_code=None, **attributes):
        super().__init__(status_code)
        self.status_code = status_code
        self.__dict__.update(attributes)


def test_adaptive_waits_what_the_server_asks_spread_upwards_only():
    policy, error = Adaptive(jitter=0.2), Refused(503, headers={"Retry-After": "10"})
    assert policy.decide(AttemptFailure(1, error, chance=0.0)) == RetryAfter(10.0)
    assert policy.decide(AttemptFailure(1, error, chance=0.5)) == RetryAfter(11.0)


def test_adaptive_bounds_what_the_server_asks():
    error = Refused(503, headers={"Retry-After": "99999999"})
    assert Adaptive(max=60, jitter=0).decide(AttemptFailure(1, error)) == RetryAfter(60.0)


def test_adaptive_bounds_an_infinite_retry_after():
    assert Adaptive(max=60, jitter=0).decide(AttemptFailure(1, Refused(retry_after=math.inf))) == RetryAfter(60.0)


def test_adaptive_follows_its_fallback_when_the_server_says_nothing():
    assert waits(Adaptive(Linear(2))) == waits(Linear(2))


def test_adaptive_gives_up_at_once_on_a_status_that_is_not_transient():
    assert Adaptive().decide(AttemptFailure(1, Refused(404))) == GiveUp("status 404 is not transient", "not_retryable")


def test_adaptive_retries_the_statuses_it_is_given():
    policy = Adaptive(Fixed(2, jitter="none"), statuses=[404])
    assert policy.decide(AttemptFailure(1, Refused(404))) == RetryAfter(2.0)
    assert isinstance(policy.decide(AttemptFailure(1, Refused(503))), GiveUp)


def test_adaptive_takes_the_standard_librarys_statuses_too():
    assert Adaptive(statuses=[HTTPStatus.BAD_GATEWAY]) == Adaptive(statuses={502})
    assert "HTTPStatus" not in repr(Adaptive(statuses=[HTTPStatus.BAD_GATEWAY]))


def test_adaptive_gives_up_when_the_server_asks_for_no_retry():
    error = Refused(headers={"grpc-retry-pushback-ms": "-1"})
    assert Adaptive().decide(AttemptFailure(1, error)) == GiveUp("the server asked for no retry", "not_retryable")


def test_adaptive_reads_dates_against_the_wall_clock():
    error = Refused(503, headers={"Retry-After": "Thu, 01 Jan 1970 00:02:00 GMT"})
    assert Adaptive(jitter=0).decide(AttemptFailure(1, error, wall_clock=lambda: 30.0)) == RetryAfter(90.0)


def test_adaptive_looks_at_a_result_that_was_not_accepted():
    response = Refused(429, headers={"Retry-After": "7"})
    assert Adaptive(jitter=0).decide(AttemptFailure(1, result=response)) == RetryAfter(7.0)


def test_adaptive_limits_attempts_even_if_the_server_keeps_asking():
    error = Refused(503, headers={"Retry-After": "1"})
    policy = Adaptive(max_attempts=2)
    assert isinstance(policy.decide(AttemptFailure(1, error)), RetryAfter)
    assert policy.decide(AttemptFailure(2, error)) == GiveUp("all 2 attempts failed")


def test_adaptive_takes_its_fallbacks_limit_when_it_has_none_of_its_own():
    assert Adaptive(Fixed(max_attempts=7)).max_attempts == 7
    assert Adaptive(Fixed(max_attempts=None)).max_attempts is None


@pytest.mark.parametrize("limit", [2, 9])
def test_adaptive_limit_counts_whether_or_not_the_server_says_anything(limit):
    policy = Adaptive(Fixed(max_attempts=5), max_attempts=limit)
    for error in (ConnectionError(), Refused(503, headers={"Retry-After": "1"})):
        decisions = [isinstance(policy.decide(AttemptFailure(n, error)), RetryAfter) for n in range(1, 11)]
        assert decisions.count(True) == limit - 1


def test_max_attempts_of_retry_overrides_the_limit_of_an_adaptive_policys_fallback():
    calls = []

    def fail():
        calls.append(1)
        raise ConnectionError

    with pytest.raises(ConnectionError):
        retry(on=ConnectionError, policy=Adaptive(), max_attempts=8, deadline=None, clock=ManualClock()).call(fail)
    assert len(calls) == 8


def test_adaptive_limit_counts_beside_a_fallback_that_knows_none():
    policy = Adaptive(Dwindling(9), max_attempts=3)
    assert waits(policy, attempts=4) == [9.0, 8.0, None, None]


def test_adaptive_with_a_stateless_fallback_is_its_own_instance():
    policy = Adaptive()
    assert policy.create_instance() is policy


def test_adaptive_gives_each_operation_a_fresh_fallback():
    policy = Adaptive(Dwindling(3), max=7)
    fresh = policy.create_instance()
    assert fresh.fallback is not policy.fallback
    assert fresh.max == 7.0
    assert waits(fresh, attempts=3) == [3.0, 2.0, 1.0]
    assert waits(policy.create_instance(), attempts=3) == [3.0, 2.0, 1.0]


# --- wrong arguments --------------------------------------------------------------------------------------------------

NO_LENGTHS = [-1, -0.5, timedelta(seconds=-1), math.nan, math.inf, 10**400, LONGEST * 2, True, "1", None, [], 1j]
NO_LIMITS = [0, -1, 1.0, 2.5, True, False, "3", math.nan, [], {}]
NO_FLAGS = ["no", "false", "", 0, 1, None, []]


def short(value):
    return repr(value)[:30]


@pytest.mark.parametrize(
    ("build", "setting", "allowed"),
    [
        (lambda x: Exponential(min=x), "min", "must be more than 0 to 31,622,400 seconds, or a timedelta"),
        (lambda x: Exponential(delta="x" if x is None else x), "delta", "must be 0 to 31,622,400 seconds"),
        (lambda x: Exponential(max=x), "max", "must be more than 0 to 31,622,400 seconds"),
        (lambda x: Linear(x), "start", "must be more than 0 to 31,622,400 seconds"),  # noqa: PLW0108 - as the others
        (lambda x: Linear(1, "x" if x is None else x), "step", "must be 0 to 31,622,400 seconds"),
        (lambda x: Linear(max=x), "max", "must be more than 0 to 31,622,400 seconds"),
        (lambda x: Fixed(x), "delay", "must be 0 to 31,622,400 seconds"),  # noqa: PLW0108 - as the others
        (lambda x: Delays([1, x]), "delays[1]", "must be 0 to 31,622,400 seconds"),
        (lambda x: Adaptive(max=x), "max", "must be more than 0 to 31,622,400 seconds"),
    ],
    ids=[
        "exp.min",
        "exp.delta",
        "exp.max",
        "lin.start",
        "lin.step",
        "lin.max",
        "fixed.delay",
        "delays",
        "adaptive.max",
    ],
)
@pytest.mark.parametrize("wrong", NO_LENGTHS, ids=short)
def test_policy_refuses_what_is_no_length_of_time(build, setting, allowed, wrong):
    with pytest.raises(InvalidSetting) as caught:
        build(wrong)
    assert caught.value.setting == setting
    assert str(caught.value).startswith(f"{setting}=")
    assert allowed in str(caught.value)


@pytest.mark.parametrize("build", [lambda x: Exponential(min=x), Linear], ids=["Exponential", "Linear"])
@pytest.mark.parametrize("flag", [True, False])
def test_first_delay_refuses_a_flag(build, flag):
    with pytest.raises(InvalidSetting):
        build(flag)


@pytest.mark.parametrize("zero", [0, 0.0, -0.0, timedelta(0)], ids=repr)
@pytest.mark.parametrize("build", [lambda x: Exponential(min=x), Linear], ids=["Exponential", "Linear"])
def test_first_delay_of_zero_is_refused_and_names_fast_first(build, zero):
    with pytest.raises(InvalidSetting, match="immediate; use fast_first=True if you want that"):
        build(zero)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Exponential(min=10, max=5), "max=5: must be at least min (10 s)"),
        (lambda: Linear(10, max=timedelta(seconds=5)), "must be at least start (10 s)"),
        (lambda: Exponential().replace(min=60), "must be at least min (60 s)"),
    ],
)
def test_cap_below_the_first_delay_is_refused(build, message):
    with pytest.raises(InvalidSetting) as caught:
        build()
    assert message in str(caught.value)


@pytest.mark.parametrize("policy", [*BACKOFFS, Adaptive()], ids=lambda policy: type(policy).__name__)
@pytest.mark.parametrize("wrong", NO_LIMITS, ids=repr)
def test_policy_refuses_what_is_no_limit_on_attempts(policy, wrong):
    with pytest.raises(
        InvalidSetting, match=r"must be a whole number from 1 \(the first try counts\), or None"
    ) as caught:
        policy.replace(max_attempts=wrong)
    assert caught.value.setting == "max_attempts"


@pytest.mark.parametrize("policy", [*BACKOFFS, Adaptive()], ids=lambda policy: type(policy).__name__)
@pytest.mark.parametrize("wrong", [-0.1, 1.5, math.nan, True, "half", None, [], "0.2"], ids=repr)
def test_policy_refuses_what_is_no_jitter(policy, wrong):
    with pytest.raises(InvalidSetting, match=r"jitter=.*share from 0 to 1"):
        policy.replace(jitter=wrong)


@pytest.mark.parametrize("kind", ["full", "equal", "none"])
def test_adaptive_refuses_a_jitter_that_would_come_back_early(kind):
    with pytest.raises(InvalidSetting, match="a server's delay is only spread upwards"):
        Adaptive(jitter=kind)


@pytest.mark.parametrize("policy", BACKOFFS, ids=lambda policy: type(policy).__name__)
@pytest.mark.parametrize("wrong", NO_FLAGS, ids=repr)
def test_policy_refuses_a_fast_first_that_is_no_flag(policy, wrong):
    with pytest.raises(InvalidSetting, match="must be True or False") as caught:
        policy.replace(fast_first=wrong)
    assert caught.value.setting == "fast_first"


@pytest.mark.parametrize("wrong", [[], (), None, 1, "12", {1: 2}, iter([1])], ids=lambda wrong: type(wrong).__name__)
def test_delays_refuse_what_is_no_list_of_delays(wrong):
    with pytest.raises(InvalidSetting, match=r"delays=.*must be a list of at least one delay"):
        Delays(wrong)


@pytest.mark.parametrize("wrong", [Exponential, "fast", 1, object], ids=repr)
def test_adaptive_refuses_a_fallback_that_is_no_policy(wrong):
    with pytest.raises(
        InvalidSetting, match=r"fallback=.*must be a policy object, such as Exponential\(max_attempts=3\)"
    ):
        Adaptive(wrong)


@pytest.mark.parametrize("wrong", [503, "503", ["503"], [503.0], [[503]], [True], [99], [600], None, [None]], ids=repr)
def test_adaptive_refuses_what_are_no_statuses(wrong):
    with pytest.raises(InvalidSetting, match=r"statuses=.*must be a list of HTTP statuses, 100 to 599"):
        Adaptive(statuses=wrong)


@pytest.mark.parametrize("wrong", [-1.0, -1e-9, math.nan, math.inf, LONGEST * 3, "5", None, timedelta(1)], ids=repr)
def test_retry_after_refuses_what_cannot_be_slept(wrong):
    with pytest.raises(InvalidSetting, match=r"delay=.*must be 0 to 63,244,800 seconds"):
        RetryAfter(wrong)


# --- values -----------------------------------------------------------------------------------------------------------


def pickled(value):
    return pickle.loads(pickle.dumps(value))  # noqa: S301 - our own bytes


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_policy_survives_its_own_repr(value):
    assert eval(repr(value)) == value  # noqa: S307 - that it can be evaluated is the promise


@pytest.mark.parametrize("value", VALUES, ids=repr)
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickled, lambda value: value.replace()])
def test_policy_survives_copying(value, copied):
    assert copied(value) == value
    assert hash(copied(value)) == hash(value)
    assert type(copied(value)) is type(value)


def test_policies_that_differ_in_one_setting_are_different():
    assert len(set(POLICIES)) == len(POLICIES)


def test_policies_are_equal_whichever_way_their_lengths_were_written():
    assert Exponential(min=1) == Exponential(min=timedelta(seconds=1), delta=1.0)
    assert hash(Fixed(2)) == hash(Fixed(timedelta(seconds=2)))


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_policy_never_changes(policy):
    with pytest.raises(AttributeError, match="never changes"):
        policy.max_attempts = 99
    with pytest.raises(AttributeError, match="never changes"):
        policy.surprise = 1
    with pytest.raises(AttributeError, match="never changes"):
        del policy.jitter


def test_delays_do_not_change_with_the_list_they_were_made_from():
    listed = [1, 2]
    policy = Delays(listed)
    listed.append(3)
    assert policy.delays == (1.0, 2.0)


def test_replace_changes_one_setting_and_keeps_the_others():
    assert Exponential(min=1, jitter="full").replace(max=9) == Exponential(min=1, max=9, jitter="full")


# --- preview ----------------------------------------------------------------------------------------------------------


def test_preview_shows_shortest_middle_and_longest_wait_of_each_attempt():
    preview = Exponential(min=1, max=3, max_attempts=4).preview()
    assert preview == PolicyPreview(((0.8, 1.0, 1.2), (1.6, 2.0, 2.4), (2.4000000000000004, 3.0, 3.5999999999999996)))
    assert preview.worst == pytest.approx(7.2)


def test_preview_prints_as_a_table():
    assert str(Fixed(1, fast_first=True, max_attempts=3).preview()).splitlines() == [
        "after attempt   shortest     middle    longest",
        "            1    0.000 s    0.000 s    0.000 s",
        "            2    0.800 s    1.000 s    1.200 s",
        "all waits together: at most 1.200 s",
    ]


def test_preview_shows_ten_attempts_of_a_policy_without_a_limit():
    assert len(Fixed(max_attempts=None).preview().waits) == 9


def test_preview_shows_as_many_attempts_as_it_is_asked_for():
    assert len(Fixed(max_attempts=None).preview(3).waits) == 2
    assert len(Fixed().preview(1).waits) == 0


def test_preview_does_not_show_waits_after_the_last_attempt():
    assert Fixed(max_attempts=3).preview(100) == Fixed(max_attempts=3).preview()


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "3"], ids=repr)
def test_preview_refuses_what_is_no_number_of_attempts(wrong):
    with pytest.raises(InvalidSetting, match="must be a whole number from 1"):
        Fixed().preview(wrong)


@pytest.mark.parametrize("policy", BACKOFFS, ids=repr)
def test_preview_is_what_really_happens(policy):
    clock = ManualClock()
    attempts = retry(on=ConnectionError, policy=policy, clock=clock, chance=lambda: 0.5, deadline=None)
    with pytest.raises(ConnectionError):
        attempts.call(fail_always)
    assert clock.slept == [middle for _, middle, _ in policy.preview().waits]


def fail_always():
    raise ConnectionError


# --- custom policies --------------------------------------------------------------------------------------------------


class Dwindling:
    """A policy of another library, which derives from nothing and keeps state: each wait is a second shorter."""

    def __init__(self, start):
        self.start = start
        self.left = start

    def create_instance(self):
        return Dwindling(self.start)

    def decide(self, failure):
        if not self.left:
            return GiveUp("dwindled to nothing")
        self.left -= 1
        return RetryAfter(self.left + 1.0)


class Fibonacci(Backoff):
    """A user's own curve, written as CONTRIBUTING describes it."""

    def curve(self, n):
        return 1.0 if n < 3 else self.curve(n - 1) + self.curve(n - 2)


def test_custom_policy_gets_fresh_state_for_every_operation():
    clock = ManualClock()
    policy = Dwindling(3)
    attempts = retry(on=ConnectionError, policy=policy, clock=clock)
    for _ in range(2):
        with pytest.raises(ConnectionError):
            attempts.call(fail_always)
    assert clock.slept == [3.0, 2.0, 1.0, 3.0, 2.0, 1.0]
    assert policy.left == 3


def test_custom_policy_is_limited_by_max_attempts_of_retry():
    clock = ManualClock()
    with pytest.raises(ConnectionError):
        retry(on=ConnectionError, policy=Dwindling(9), max_attempts=3, clock=clock).call(fail_always)
    assert clock.slept == [9.0, 8.0]


def test_custom_curve_gets_jitter_fast_first_limit_and_preview():
    assert waits(Fibonacci(max_attempts=6)) == [1.0, 1.0, 2.0, 3.0, 5.0, None]
    assert waits(Fibonacci(max_attempts=6, fast_first=True)) == [0.0, 1.0, 1.0, 2.0, 3.0, None]
    assert [longest for *_, longest in Fibonacci(jitter=0.5).preview().waits] == [1.5, 1.5, 3.0, 4.5]


@pytest.mark.parametrize("limit", [2, 7])
def test_max_attempts_of_retry_overrides_the_limit_of_a_custom_curve(limit):
    clock, policy = ManualClock(), Fibonacci(jitter="none")
    with pytest.raises(ConnectionError):
        retry(on=ConnectionError, policy=policy, max_attempts=limit, clock=clock).call(fail_always)
    assert clock.slept == [1.0, 1.0, 2.0, 3.0, 5.0, 8.0][: limit - 1]
    assert policy.max_attempts == 5


@pytest.mark.parametrize(
    "wrong", [{"jitter": 2}, {"fast_first": "no"}, {"max_attempts": 0}], ids=lambda wrong: next(iter(wrong))
)
def test_custom_curve_checks_the_settings_it_inherits(wrong):
    with pytest.raises(InvalidSetting, match=next(iter(wrong))):
        Fibonacci(**wrong)


def test_policy_without_decide_says_what_is_missing():
    class Empty(Policy):
        __slots__ = ()

    policy = Empty()
    assert policy.create_instance() is policy
    with pytest.raises(NotImplementedError, match=r"Empty must define decide\(failure\)"):
        Empty().decide(AttemptFailure(1))


def test_backoff_without_curve_says_what_is_missing():
    class Empty(Backoff):
        __slots__ = ()

    with pytest.raises(NotImplementedError, match=r"Empty must define curve\(n\)"):
        Empty().curve(1)


def test_adaptive_leaves_a_result_below_400_to_the_test_that_refused_it():
    class NotReady:
        status_code = 202
        headers: ClassVar = {"Retry-After": "3"}

    decision = Adaptive(jitter=0.0).decide(AttemptFailure(1, result=NotReady()))
    assert decision == RetryAfter(3.0)
