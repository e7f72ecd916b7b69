# SPDX-License-Identifier: MIT
"""One operation: what it tells the policy, in which order it asks, and what it writes on an error it gives up on."""

import contextlib
import gc
import weakref
from dataclasses import dataclass

import pytest

from redrive.retry import (
    CircuitBreaker,
    Fixed,
    GiveUp,
    Policy,
    RetryAfter,
    RetryBudget,
    retry,
)
from redrive.retry.loops import begin
from redrive.testing import ManualClock


@pytest.fixture
def clock():
    return ManualClock()


def failing_with(error):
    def function():
        raise error

    return function


class Noting(Policy):
    """Notes every failure it is shown."""

    def __init__(self, answer=None):
        self.failures = []
        self.instances = []
        self.answer = answer or (lambda failure: RetryAfter(2.0) if failure.attempt < 3 else GiveUp("enough"))

    def create_instance(self):
        self.instances.append(Noting(self.answer))
        return self.instances[-1]

    def decide(self, failure):
        self.failures.append(
            (failure.attempt, failure.error, failure.result, failure.elapsed, failure.remaining, failure.chance)
        )
        return self.answer(failure)


# --- what the policy gets ---------------------------------------------------------------------------------------------


def test_a_policy_is_told_everything_about_a_failure(clock):
    policy, error = Noting(), ConnectionError("down")

    def function():
        clock.advance(1.0)
        raise error

    with pytest.raises(ConnectionError):
        retry(on=ConnectionError, policy=policy, clock=clock, deadline=20.0, chance=lambda: 0.25).call(function)
    assert policy.instances[0].failures == [
        (1, error, None, 1.0, 19.0, 0.25),
        (2, error, None, 4.0, 16.0, 0.25),
        (3, error, None, 7.0, 13.0, 0.25),
    ]


def test_a_policy_is_told_the_result_that_was_not_accepted(clock):
    policy = Noting()
    answer = {"status": 503}
    assert retry(on=KeyError, on_result=bool, policy=policy, clock=clock, deadline=None).call(lambda: answer) is answer
    first = policy.instances[0].failures[0]
    assert first[1] is None
    assert first[2] is answer
    assert first[4] is None  # no deadline


def test_a_policy_can_ask_for_the_wall_clock(clock):
    seen = []

    def answer(failure):
        seen.append(failure.unix_time)
        return GiveUp("enough")

    with pytest.raises(ConnectionError):
        retry(on=ConnectionError, policy=Noting(answer), clock=clock).call(failing_with(ConnectionError()))
    assert seen == [clock.time()]


def test_every_operation_gets_a_policy_instance_of_its_own(clock):
    policy = Noting()
    retrying = retry(on=ConnectionError, policy=policy, clock=clock)
    for _ in range(3):
        with pytest.raises(ConnectionError):
            retrying.call(failing_with(ConnectionError()))
    assert [len(instance.failures) for instance in policy.instances] == [3, 3, 3]
    assert policy.failures == []


# --- the order of questions -------------------------------------------------------------------------------------------


def test_whoever_gives_up_first_spares_those_after_it(clock):
    budget = RetryBudget(burst=5, ratio=0.0, per_second=0.0)
    fails = failing_with(ConnectionError())
    for settings, spent in [
        ({"policy": Noting(lambda _failure: GiveUp("no"))}, 0),
        ({"policy": Fixed(10.0), "deadline": 5.0}, 0),
        ({"policy": Fixed(1.0), "breaker": CircuitBreaker(failures=1)}, 0),
        ({"policy": Fixed(1.0, max_attempts=3)}, 2),
    ]:
        before = budget.tokens
        with pytest.raises(ConnectionError):
            retry(on=ConnectionError, clock=clock, budget=budget, **settings).call(fails)
        assert before - budget.tokens == spent


def test_a_wait_longer_than_the_breakers_is_not_given_up_on(clock):
    breaker = CircuitBreaker(failures=1, open_for=5.0)
    with pytest.raises(ConnectionError) as caught:
        retry(on=ConnectionError, policy=Fixed(5.0, jitter="none", max_attempts=3), clock=clock, breaker=breaker).call(
            failing_with(ConnectionError())
        )
    assert "all 3 attempts failed" in caught.value.__notes__[0]


# --- what is written on the error -------------------------------------------------------------------------------------


def give_up_on(error, clock, **settings):
    retrying = retry(
        **{"on": type(error), "policy": Fixed(2.0, jitter="none"), "max_attempts": 3, "clock": clock, **settings}
    )
    with pytest.raises(type(error)) as caught:
        retrying.call(failing_with(error))
    return caught.value


def test_an_error_carries_a_note_about_its_retries(clock):
    error = give_up_on(ConnectionError("down"), clock, operation="fetch")
    assert error.__notes__ == ["redrive: gave up on fetch after attempt 3, 4 s: all 3 attempts failed"]


def test_the_notes_of_an_error_that_is_raised_again_and_again_do_not_grow(clock):
    error = ConnectionError("down")
    error.add_note("mine")
    for _ in range(5):
        give_up_on(error, clock, operation="fetch")
    give_up_on(error, clock, operation="other")
    assert [note.split(" after ")[0] for note in error.__notes__] == [
        "mine", "redrive: gave up on fetch", "redrive: gave up on other",
    ]  # fmt: skip


@dataclass(frozen=True)
class FrozenError(Exception):
    code: int


class SlottedError(Exception):
    __slots__ = ("code",)


class HostileError(Exception):
    def __setattr__(self, name, value):
        raise RuntimeError("hands off")


class OddlyNotedError(Exception):
    def __init__(self):
        super().__init__()
        self.__notes__ = [5, None]


class MisnotedError(Exception):
    __notes__ = 5


@pytest.mark.parametrize(
    "error",
    [FrozenError(5), SlottedError(), HostileError(), OddlyNotedError(), MisnotedError()],
    ids=lambda error: type(error).__name__,
)
def test_an_error_that_cannot_be_written_on_is_still_itself(error, clock):
    assert give_up_on(error, clock) is error
    assert clock.slept == [2.0, 2.0]


def test_an_error_group_is_retried_like_any_other_error(clock):
    error = ExceptionGroup("both", [ConnectionError(), TimeoutError()])
    assert give_up_on(error, clock, on=ExceptionGroup) is error


# --- retries inside retries -------------------------------------------------------------------------------------------


def test_a_failure_that_an_inner_retry_gave_up_on_is_told_apart_from_others(clock):
    inner = retry(on=ConnectionError, policy=Fixed(0.0), max_attempts=2, clock=clock)
    outer = retry(on=ConnectionError, policy=Fixed(0.0), max_attempts=3, clock=clock, retry_exhausted=False)
    calls = []

    def through_inner():
        calls.append(1)
        inner.call(failing_with(ConnectionError("inner")))

    with pytest.raises(ConnectionError, match="inner") as caught:
        outer.call(through_inner)
    assert len(calls) == 1
    assert "a retry inside has already given up" in caught.value.__notes__[-1]

    calls.clear()

    def directly():
        calls.append(1)
        raise ConnectionError("direct")

    with pytest.raises(ConnectionError, match="direct"):
        outer.call(directly)
    assert len(calls) == 3


# --- first attempts that ran before there was an operation ------------------------------------------------------------


def test_an_adopted_failure_counts_for_the_breaker_only_if_that_is_still_closed(clock):
    breaker = CircuitBreaker(failures=3, open_for=30.0)

    @retry(on=ConnectionError, policy=Fixed(1.0), clock=clock, breaker=breaker)
    def opened_meanwhile():
        for _ in range(3):
            breaker.failed(breaker.adopt() or 0, clock.monotonic())
        raise ConnectionError("late")

    with pytest.raises(ConnectionError, match="late"):
        opened_meanwhile()
    clock.advance(29.0)
    assert breaker.retry_after(clock.monotonic()) == 1.0


def test_an_operation_without_a_breaker_has_nothing_to_ask(clock):
    operation = begin(retry(on=ConnectionError, clock=clock)._live, "fetch")
    operation.adopt()
    assert operation.pause(None) is None
    assert operation.delay_after(ConnectionError()) is not None


# --- nothing is kept --------------------------------------------------------------------------------------------------


class WeakError(Exception):
    pass


def test_no_error_outlives_its_operation(clock):
    errors = []

    def watched(error):
        errors.append(weakref.ref(error))
        return error

    def function():
        raise watched(WeakError())  # not through a variable, which would make a cycle of its own

    def call():
        with contextlib.suppress(WeakError):
            retry(on=WeakError, policy=Fixed(1.0), clock=clock).call(function)

    gc.disable()
    try:
        call()
        assert [error() for error in errors] == [None] * 5
    finally:
        gc.enable()
