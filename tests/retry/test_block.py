# SPDX-License-Identifier: MIT
"""A block of code is retried like a call, and a loop that is written wrongly says so."""

import contextlib
import gc

import pytest

from redrive.errors import UsageError
from redrive.retry import BlockAttempt, CircuitBreaker, Fixed, current_attempt, retry
from redrive.testing import ManualClock


@pytest.fixture
def clock():
    return ManualClock(auto_advance=True)


@pytest.fixture
def retrying(clock):
    return retry(on=ConnectionError, policy=Fixed(1.0, jitter="none"), clock=clock)


def test_a_block_runs_until_it_succeeds(retrying, clock):
    numbers = []
    for attempt in retrying:
        assert isinstance(attempt, BlockAttempt)
        with attempt:
            numbers.append(attempt.number)
            if attempt.number < 3:
                raise ConnectionError
    assert numbers == [1, 2, 3]
    assert clock.slept == [1.0, 1.0]


async def test_an_async_block_runs_until_it_succeeds(retrying, clock):
    numbers = []
    async for attempt in retrying:
        with attempt as current:
            numbers.append((attempt.number, current.number, current_attempt().number))
            if attempt.number < 3:
                raise ConnectionError
    assert numbers == [(1, 1, 1), (2, 2, 2), (3, 3, 3)]
    assert clock.slept == [1.0, 1.0]


def test_a_block_that_succeeds_at_once_runs_once(retrying):
    assert sum(1 for attempt in retrying if attempt.__enter__() and not attempt.__exit__(None, None, None)) == 1


def test_the_value_of_a_block_is_what_it_assigns(retrying):
    for attempt in retrying:
        with attempt:
            value = 42
    assert value == 42


def test_a_loop_without_with_is_told_what_to_write(retrying):
    passes = iter(retrying)
    next(passes)
    with pytest.raises(UsageError, match="with attempt:"):
        next(passes)


async def test_an_async_loop_without_with_is_told_what_to_write(retrying):
    passes = aiter(retrying)
    await anext(passes)
    with pytest.raises(UsageError, match="with attempt:"):
        await anext(passes)


def test_a_block_has_no_result_to_look_at(retrying):
    with pytest.raises(UsageError, match="on_result"):
        iter(retrying.using(on_result=bool))
    with pytest.raises(UsageError, match="on_result"):
        aiter(retrying.using(on_result=bool))


def test_a_return_from_inside_a_block_is_a_success(retrying, clock):
    breaker = CircuitBreaker(failures=1, open_for=5.0)
    breaker.failed(breaker.admit(0.0), 0.0)
    clock.advance(5.0)

    def function():
        for attempt in retrying.using(breaker=breaker):
            with attempt:
                return attempt.number
        return None

    assert function() == 1
    assert breaker.state == "closed"


def test_a_loop_may_be_left_after_a_failure(retrying, clock):
    for attempt in retrying:
        with attempt:
            raise ConnectionError
        break
    assert clock.slept == []
    assert current_attempt().number == 1


def test_a_loop_that_is_over_stays_over(retrying):
    passes = iter(retrying)
    with next(passes):
        pass
    for _ in range(2):
        with pytest.raises(StopIteration):
            next(passes)


def test_a_loop_that_was_refused_stays_over(retrying):
    breaker = CircuitBreaker(failures=1)
    breaker.failed(breaker.admit(0.0), 0.0)
    passes = iter(retrying.using(breaker=breaker))
    with pytest.raises(Exception, match="open"):
        next(passes)
    with pytest.raises(StopIteration):
        next(passes)


async def test_a_loop_is_its_own_iterator(retrying):
    passes, async_passes = iter(retrying), aiter(retrying)
    assert iter(passes) is passes
    assert aiter(async_passes) is async_passes


def test_one_retry_makes_independent_loops(retrying):
    first, second = iter(retrying), iter(retrying)
    with next(first):
        raise ConnectionError
    assert next(second).number == 1
    assert next(first).number == 2


def test_a_block_is_called_a_block_unless_it_has_a_name(retrying):
    for name, shown in [("", "a block"), ("fetch", "fetch")]:
        with next(iter(retrying.using(operation=name, deadline=5.0))) as attempt:
            assert attempt.operation == shown


def test_a_block_leaves_nothing_for_the_cycle_collector(retrying):
    def succeeding():
        for attempt in retrying:
            with attempt:
                if attempt.number < 3:
                    raise ConnectionError

    def failing():
        with contextlib.suppress(ConnectionError):
            for attempt in retrying:
                with attempt:
                    raise ConnectionError

    succeeding()
    failing()
    gc.collect()
    gc.freeze()  # what is there by now need not be looked at again
    gc.disable()
    try:
        for _ in range(50):
            succeeding()
            failing()
        assert gc.collect() == 0
    finally:
        gc.enable()
