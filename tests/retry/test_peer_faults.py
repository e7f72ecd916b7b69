# SPDX-License-Identifier: MIT
"""Each fault that was found by running other retry libraries, as something that does not happen here.

The table is in the research behind docs/explanation; the library that has the fault is named where the test begins.
"""

import asyncio
import contextlib
import gc
import threading
import traceback
from pathlib import Path

import pytest

import redrive
from redrive.retry import (
    Adaptive,
    Delays,
    Exponential,
    Fixed,
    GiveUp,
    Linear,
    Policy,
    RetryAfter,
    current_attempt,
    retry,
)
from redrive.testing import ManualClock


class Refused(Exception):
    pass


def fail():
    raise Refused


def is_ours(frame):
    return frame.filename.endswith("> by redrive") or Path(frame.filename).is_relative_to(SOURCES)


SOURCES = Path(redrive.__file__).parent


@pytest.fixture
def clock():
    return ManualClock(auto_advance=True)


def test_threads_that_share_a_decorated_function_have_their_own_attempt_numbers(clock):
    """Tenacity: ``KeyError('idle_for')`` in place of the error, and numbers like 1, 2, 2, 4."""
    seen = threading.local()

    @retry(on=Refused, policy=Fixed(0.0, max_attempts=4), clock=clock, deadline=60.0)
    def shared():
        seen.numbers.append(current_attempt().number)
        raise Refused

    wrong = []

    def hammer():
        for _ in range(500):
            seen.numbers = []
            try:
                shared()
            except Refused:
                if seen.numbers != [1, 2, 3, 4]:
                    wrong.append(seen.numbers)
            except BaseException as error:  # noqa: BLE001 - any other error is the fault
                wrong.append(error)

    threads = [threading.Thread(target=hammer) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


async def test_wait_for_ends_a_retry_that_would_retry_anything():
    """Tenacity, ``retry_if_not_exception_type``: the cancellation is swallowed and another attempt made."""
    calls = []

    @retry(on=lambda _error: True, policy=Fixed(0.0))
    async def stuck():
        calls.append(1)
        await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(stuck(), 0.001)
    assert len(calls) == 1


def test_a_success_leaves_nothing_for_the_cycle_collector():
    """Tenacity: ten cyclic objects for each call that succeeds at once."""

    @retry(on=Refused)
    def succeeding():
        return 1

    succeeding()
    gc.collect()
    gc.freeze()  # what is there by now need not be looked at again
    gc.disable()
    try:
        for _ in range(1_000):
            succeeding()
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_observers_are_called_once_for_each_event_however_many_calls_there_were(clock):
    """Stamina: a hook's context manager is left 10,000 times after 100 calls, and the list of them grows for ever."""
    events = []
    calls = []

    @retry(on=Refused, policy=Fixed(0.0), clock=clock, on_event=events.append)
    def failing_once():
        calls.append(1)
        if len(calls) % 2:
            raise Refused

    for _ in range(100):
        failing_once()
    assert [type(event).__name__ for event in events] == ["AttemptFailed", "RetrySucceeded"] * 100


def test_a_generator_is_refused_rather_than_repeated():
    """Stamina: a failure after item 2 shows the consumer 1 2 1 2 1 2 3."""
    with pytest.raises(Exception, match="repeat what it has already yielded"):

        @retry(on=Refused)
        def items():
            yield 1
            yield 2
            raise Refused


@pytest.mark.parametrize(
    "policy",
    [
        Exponential(min=1.0, max=600.0, jitter="none", max_attempts=5),
        Linear(1.0, jitter="none", max_attempts=5),
        Delays([1.0, 2.0, 3.0, 4.0], jitter="none"),
        Adaptive(Exponential(min=1.0, jitter="none", max_attempts=5)),
    ],
    ids=lambda policy: type(policy).__name__,
)
async def test_concurrent_calls_have_their_own_sequence_of_waits(policy):
    """Hyx: three concurrent calls share one iterator and wait 1, 2, 16, 128 / 1, 4, 32, 256 / 1, 8, 64, 512."""
    alone = ManualClock(auto_advance=True)

    async def failing():
        raise Refused

    with pytest.raises(Refused):
        await retry(on=Refused, policy=policy, clock=alone, deadline=None).call_async(failing)

    clocks = [ManualClock(auto_advance=True) for _ in range(20)]
    calls = (retry(on=Refused, policy=policy, clock=clock, deadline=None).call_async(failing) for clock in clocks)
    await asyncio.gather(*calls, return_exceptions=True)
    assert [clock.slept for clock in clocks] == [alone.slept] * 20
    assert len(alone.slept) == 4


async def test_a_policy_with_state_is_not_shared_by_concurrent_calls():
    """Hyx, again, for policies of one's own."""

    class Growing(Policy):
        def __init__(self):
            self.delay = 1.0

        def create_instance(self):
            return Growing()

        def decide(self, failure):
            self.delay *= 2.0
            return RetryAfter(self.delay) if failure.attempt < 4 else GiveUp("enough")

    shared = Growing()

    async def failing():
        await ManualClock(auto_advance=True).sleep_async(0.0)
        raise Refused

    clocks = [ManualClock(auto_advance=True) for _ in range(3)]
    calls = (retry(on=Refused, policy=shared, clock=clock).call_async(failing) for clock in clocks)
    await asyncio.gather(*calls, return_exceptions=True)
    assert [clock.slept for clock in clocks] == [[2.0, 4.0, 8.0]] * 3


def test_a_wait_that_would_end_after_the_limit_is_not_begun(clock):
    """Tenacity ``stop_after_delay`` and stamina: limit 0.5 s, wait 0.4 s, over after 0.8 s."""
    retrying = retry(on=Refused, policy=Fixed(0.4, jitter="none", max_attempts=None), deadline=0.5, clock=clock)
    with pytest.raises(Refused):
        retrying.call(fail)
    assert clock.monotonic() == 0.4


def test_an_attempt_counts_against_the_limit(clock):
    """Backoff: ``max_time=0.5`` and attempts of 0.4 s take 1.1 s."""

    def slow():
        clock.advance(0.4)
        raise Refused

    with pytest.raises(Refused):
        retry(on=Refused, policy=Fixed(0.2, jitter="none", max_attempts=None), deadline=0.5, clock=clock).call(slow)
    assert clock.monotonic() <= 0.5 + 0.4


@pytest.mark.parametrize("step", [3_600.0, -3_600.0])
def test_a_step_of_the_clock_ends_nothing_early(clock, step):
    """Backoff: a step of an hour ends a loop of 50 tries at 4."""
    calls = []

    def stepping():
        calls.append(1)
        if len(calls) == 4:
            clock.jump(step)
        raise Refused

    with pytest.raises(Refused):
        retry(on=Refused, policy=Fixed(1.0, max_attempts=50), deadline=600.0, clock=clock).call(stepping)
    assert len(calls) == 50


@pytest.mark.parametrize("jitter", ["none", "full", "equal", 0.2])
def test_attempt_1100_waits_no_longer_than_the_cap(jitter, clock):
    """Pyfailsafe, redress, azure-core, urllib3: OverflowError, although a cap is set."""
    policy = Exponential(min=1.0, max=30.0, jitter=jitter, max_attempts=1_101)
    with pytest.raises(Refused):
        retry(on=Refused, policy=policy, deadline=None, clock=clock).call(fail)
    assert len(clock.slept) == 1_100
    assert max(clock.slept) <= 30.0 * 1.2


def test_an_error_that_is_not_retried_is_itself(clock):
    """Pyfailsafe raises ``RetriesExhausted`` in its place, hyx ``MaxAttemptsExceeded``."""
    error = KeyError("mine")

    @retry(on=Refused, clock=clock)
    def failing():
        raise error

    with pytest.raises(KeyError) as caught:
        failing()
    assert caught.value is error
    assert not hasattr(error, "__notes__")


def test_an_error_that_was_retried_is_itself(clock):
    """Tenacity wraps it in ``RetryError`` unless asked not to."""
    errors = [Refused(number) for number in range(5)]
    waiting = iter(errors)

    @retry(on=Refused, clock=clock)
    def failing():
        raise next(waiting)

    with pytest.raises(Refused) as caught:
        failing()
    assert caught.value is errors[-1]
    assert caught.value.__context__ is None


@pytest.mark.parametrize("settings", [{}, {"deadline": 5.0}, {"on": lambda _error: True}])
def test_a_traceback_has_few_frames_of_ours(settings, clock):
    """Tenacity shows 10 frames after three tries, stamina 11."""

    @retry(**{"on": Refused, "max_attempts": 3, "policy": Fixed(0.0), "clock": clock, **settings})
    def failing():
        raise Refused

    with pytest.raises(Refused) as caught:
        failing()
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert frames[-1].name == "failing"
    assert 0 < sum(is_ours(frame) for frame in frames) <= 6


async def test_an_async_traceback_has_few_frames_of_ours(clock):
    """The same for coroutines."""

    @retry(on=Refused, max_attempts=3, policy=Fixed(0.0), clock=clock)
    async def failing():
        raise Refused

    with pytest.raises(Refused) as caught:
        await failing()
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert 0 < sum(is_ours(frame) for frame in frames) <= 6


def test_no_wait_means_no_sleep_at_all(monkeypatch):
    """Every library examined calls ``time.sleep(0)``, which costs a system call and 75 µs or more."""
    monkeypatch.setattr("time.sleep", lambda _: pytest.fail("slept"))
    with contextlib.suppress(Refused):
        retry(on=Refused, policy=Fixed(0.0)).call(fail)
