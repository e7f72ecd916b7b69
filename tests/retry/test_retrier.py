# SPDX-License-Identifier: MIT
"""One object decorates, calls and loops; a client holds it and overrides it where an operation differs."""

import asyncio
import inspect

import pytest

from redrive.errors import UnknownSetting, UsageError
from redrive.retry import CircuitBreaker, Fixed, Retry, RetryBudget, retry
from redrive.testing import ManualClock, no_sleep


@pytest.fixture
def clock():
    return ManualClock(auto_advance=True)


class Flaky:
    """Fails so many times, then returns what it was called with."""

    def __init__(self, failures, error=ConnectionError):
        self.failures, self.error, self.calls = failures, error, 0

    def __call__(self, *args, **kwargs):
        self.calls += 1
        if self.calls <= self.failures:
            raise self.error(self.calls)
        return args, kwargs

    async def later(self, *args, **kwargs):
        return self(*args, **kwargs)


def test_a_call_passes_its_arguments_on(clock):
    assert retry(on=ConnectionError, clock=clock).call(Flaky(2), 1, 2, x=3, fn=4) == ((1, 2), {"x": 3, "fn": 4})


async def test_an_async_call_passes_its_arguments_on(clock):
    flaky = Flaky(2)

    async def later(*args, **kwargs):
        return flaky(*args, **kwargs)

    assert await retry(on=ConnectionError, clock=clock).call_async(later, 1, fn=2) == ((1,), {"fn": 2})


async def test_an_async_call_takes_whatever_returns_an_awaitable(clock):
    flaky = Flaky(2)

    def returning_a_future():
        future = asyncio.get_running_loop().create_future()
        future.set_result(flaky())
        return future

    assert await retry(on=ConnectionError, clock=clock).call_async(returning_a_future) == ((), {})


def test_a_blocking_call_of_an_async_function_is_told_what_to_write(clock):
    with pytest.raises(UsageError, match=r"is async: write await retry\.call_async"):
        retry(on=ConnectionError, clock=clock).call(Flaky(0).later)


async def test_an_async_call_of_a_blocking_function_says_so(clock):
    with pytest.raises(TypeError, match="await"):
        await retry(on=ConnectionError, clock=clock).call_async(Flaky(0))


def test_a_retry_as_it_comes_is_safe():
    flaky = Flaky(99)
    with no_sleep() as skipped, pytest.raises(ConnectionError):
        retry(on=ConnectionError).call(flaky)
    assert flaky.calls == 5
    assert len(set(skipped)) == 4
    for waited, middle in zip(skipped, [0.5, 1.0, 2.0, 4.0], strict=True):
        assert middle * 0.8 <= waited <= middle * 1.2


# --- overriding -------------------------------------------------------------------------------------------------------


def test_a_client_overrides_settings_for_one_operation(clock):
    usual = retry(on=ConnectionError, policy=Fixed(1.0, jitter="none"), max_attempts=4, clock=clock)
    patient = usual.using(max_attempts=6, operation="upload")
    for retrying, calls in [(usual, 4), (patient, 6), (usual, 4)]:
        flaky = Flaky(99)
        with pytest.raises(ConnectionError):
            retrying.call(flaky)
        assert flaky.calls == calls


def test_breaker_and_budget_stay_shared_when_other_settings_change(clock):
    breaker, budget = CircuitBreaker(), RetryBudget()
    usual = retry(on=ConnectionError, breaker=breaker, budget=budget, clock=clock)
    for plan in (usual._live.plan, usual.using(deadline=2.0)._live.plan):
        assert plan.breaker is breaker
        assert plan.budget is budget


def test_an_override_of_nothing_changes_nothing(clock):
    assert isinstance(retry(on=ConnectionError, clock=clock).using(), Retry)


def test_an_unknown_setting_is_answered_with_the_known_ones():
    with pytest.raises(UsageError, match=r"no setting 'attempts'; it has: attempt_timeout, breaker, budget") as refused:
        retry(on=ConnectionError).using(attempts=3)
    for setting in inspect.signature(retry).parameters:
        assert setting in str(refused.value)


def test_a_bare_decorator_says_what_to_write():
    with pytest.raises(
        UsageError, match=r"write @retry\(on=ConnectionError\) above .*fetch: it must know what to retry"
    ):

        @retry
        def fetch(): ...

    with pytest.raises(UsageError, match=r"write retry\(on=TimeoutError\)"):
        retry(TimeoutError)
    with pytest.raises(UsageError, match=r"retry takes no 3; every setting has a name: retry\(on=ConnectionError, "):
        retry(3, on=TimeoutError)


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("stop", "write max_attempts=3, which counts the first try"),
        ("tries", "write max_attempts=3"),
        ("retries", "write max_attempts=4, which counts the first try"),
        ("wait", r"write policy=Fixed\(3\), or Exponential"),
        ("exceptions", "write on=3"),
        ("timeout", "write attempt_timeout=3 for each attempt, or deadline=3 for all"),
        ("max_attemps", "Did you mean 'max_attempts'"),
        ("zzz", "it has: attempt_timeout, breaker"),
    ],
)
def test_a_setting_of_another_library_is_answered_with_ours(setting, says):
    with pytest.raises(UnknownSetting, match=says):
        retry(on=ConnectionError, **{setting: 3})
    with pytest.raises(UnknownSetting, match=says):
        retry(on=ConnectionError).using(**{setting: 3})


def test_what_must_be_said_is_still_asked_for():
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'on'"):
        retry()


def test_a_retry_cannot_be_changed():
    with pytest.raises(AttributeError):
        retry(on=ConnectionError).deadline = 5


# --- what cannot be retried -------------------------------------------------------------------------------------------


def a_generator():
    yield 1


async def an_async_generator():
    yield 1


@pytest.mark.parametrize(
    "thing", [Flaky, 5, "name", None, property(len)], ids=["class", "number", "text", "None", "property"]
)
def test_what_is_no_function_cannot_be_decorated(thing):
    with pytest.raises(UsageError, match="decorate a function"):
        retry(on=ConnectionError)(thing)


@pytest.mark.parametrize("function", [a_generator, an_async_generator], ids=lambda function: function.__name__)
def test_a_generator_cannot_be_decorated(function):
    with pytest.raises(UsageError, match="is a generator: a retry would repeat what it has already yielded"):
        retry(on=ConnectionError)(function)


async def test_an_attempt_timeout_longer_than_the_default_deadline_is_what_counts():
    clock = ManualClock()

    @retry(on=ConnectionError, attempt_timeout=90, max_attempts=1, clock=clock)
    async def slow():
        await clock.sleep_async(80)
        return "done"

    task = asyncio.create_task(slow())
    while clock.sleepers < 2:  # noqa: ASYNC110 - the clock has no event to wait for
        await asyncio.sleep(0)  # noqa: TID251 - takes no time, lets the task run
    clock.advance(80)
    assert await task == "done"


def test_a_retry_without_cut_off_keeps_its_deadline_for_the_retries_only():
    uncut = retry(on=ConnectionError, deadline=5, attempt_timeout=2).without_cut_off().plan
    assert (uncut.deadline, uncut.has_stated_deadline, uncut.attempt_timeout) == (5.0, False, None)
    assert retry(on=ConnectionError, deadline=None).without_cut_off().plan.deadline is None


def test_a_plan_says_which_errors_are_retried():
    plan = retry(on=(ConnectionError, lambda error: "busy" in str(error))).plan
    assert [plan.retries(error) for error in (ConnectionError(), OSError("busy"), OSError("no"))] == [True, True, False]
