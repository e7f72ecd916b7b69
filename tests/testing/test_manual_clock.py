# SPDX-License-Identifier: MIT
"""A manual clock moves when a test moves it, and ends the sleeps that are due."""

import asyncio
from datetime import UTC, datetime

import pytest

from redrive.clock import system_clock, utc
from redrive.retry import Fixed, retry
from redrive.testing import ManualClock, no_sleep
from tests.patience import PATIENCE_S


async def settle():
    """Let every task run until it waits for something other than its turn."""
    for _ in range(10):
        await ManualClock(auto_advance=True).sleep_async(0.0)


async def cut_off_after(clock, seconds):
    try:
        async with clock.timeout(seconds):
            await asyncio.Event().wait()
    except TimeoutError:
        return "cut off"


def test_a_manual_clock_stands_still():
    clock = ManualClock()
    assert clock.monotonic() == clock.monotonic() == 0.0
    assert clock.time() == clock.time()
    assert utc(clock.time()) == datetime(2026, 1, 4, tzinfo=UTC)


def test_advancing_moves_both_faces_of_the_clock():
    clock = ManualClock(start=1_000.0)
    clock.advance(2.5)
    assert (clock.monotonic(), clock.time()) == (2.5, 1_002.5)


def test_a_jump_moves_the_wall_clock_only():
    clock = ManualClock(start=1_000.0)
    clock.jump(-3_600.0)
    assert (clock.monotonic(), clock.time()) == (0.0, -2_600.0)


def test_a_blocking_sleep_moves_the_clock_and_is_noted():
    clock = ManualClock()
    clock.sleep(1.5)
    clock.sleep(2.0)
    assert (clock.slept, clock.monotonic()) == ([1.5, 2.0], 3.5)


async def test_advancing_wakes_sleepers_in_the_order_of_their_alarms():
    clock, woken = ManualClock(), []

    async def sleeper(name, seconds):
        await clock.sleep_async(seconds)
        woken.append(name)

    tasks = [asyncio.create_task(sleeper(*args)) for args in [("c", 3), ("a", 1), ("b", 2), ("also a", 1)]]
    await settle()
    assert (clock.sleepers, woken) == (4, [])
    clock.advance(0.999)
    await settle()
    assert woken == []
    clock.advance(0.001)
    await settle()
    assert (clock.sleepers, woken) == (2, ["a", "also a"])
    clock.advance(10)
    await asyncio.gather(*tasks)
    assert (clock.sleepers, woken) == (0, ["a", "also a", "b", "c"])


async def test_a_sleep_of_no_time_needs_no_advance():
    clock = ManualClock()
    await asyncio.wait_for(clock.sleep_async(0.0), PATIENCE_S)
    assert clock.slept == [0.0]


async def test_a_clock_that_advances_by_itself_never_waits():
    clock = ManualClock(auto_advance=True)
    await clock.sleep_async(3_600.0)
    assert (clock.monotonic(), clock.slept, clock.sleepers) == (3_600.0, [3_600.0], 0)


async def test_a_cancelled_sleeper_is_not_woken():
    clock = ManualClock()
    task = asyncio.create_task(clock.sleep_async(1.0))
    await settle()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert clock.sleepers == 0
    clock.advance(2.0)
    await settle()
    assert task.cancelled()


async def test_a_sleeper_woken_in_the_moment_it_is_cancelled_stays_cancelled():
    clock = ManualClock()
    task = asyncio.create_task(clock.sleep_async(1.0))
    await settle()
    clock.advance(1.0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_clock_may_be_moved_from_another_thread():
    clock = ManualClock()
    task = asyncio.create_task(clock.sleep_async(1.0))
    await settle()
    await asyncio.to_thread(clock.advance, 1.0)
    await asyncio.wait_for(task, PATIENCE_S)


async def test_a_time_limit_ends_its_block_when_the_clock_has_moved_that_far():
    clock, scopes = ManualClock(), []

    async def limited():
        async with clock.timeout(2.0) as scope:
            scopes.append(scope)
            await asyncio.Event().wait()

    task = asyncio.create_task(limited())
    await settle()
    clock.advance(1.0)
    await settle()
    assert not task.done()
    clock.advance(1.0)
    with pytest.raises(TimeoutError):
        await task
    assert scopes[0].expired()


async def test_a_time_limit_may_be_reached_from_another_thread():
    clock = ManualClock()
    task = asyncio.create_task(cut_off_after(clock, 2.0))
    await settle()
    await asyncio.to_thread(clock.advance, 2.0)
    assert await asyncio.wait_for(task, PATIENCE_S) == "cut off"


async def test_a_time_limit_of_no_time_ends_the_block_at_its_first_wait():
    assert await asyncio.wait_for(cut_off_after(ManualClock(), 0.0), PATIENCE_S) == "cut off"


async def test_a_block_that_ended_in_time_is_forgotten():
    clock = ManualClock()
    async with clock.timeout(2.0) as scope:
        assert clock.sleepers == 1
    assert clock.sleepers == 0
    clock.advance(5.0)
    assert not scope.expired()


async def test_a_block_that_fails_or_is_cancelled_is_forgotten_too():
    clock = ManualClock()
    with pytest.raises(KeyError):
        async with clock.timeout(2.0):
            raise KeyError
    assert clock.sleepers == 0


async def test_a_block_that_ends_in_the_moment_its_limit_is_reached_has_ended():
    clock, problems = ManualClock(), []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, problem: problems.append(problem))
    async with clock.timeout(2.0) as scope:
        clock.advance(2.0)
    await settle()
    assert not scope.expired()
    assert problems == []


async def test_the_nearer_of_two_nested_limits_is_reached_first():
    clock, reached = ManualClock(), []

    async def limited():
        async with clock.timeout(5.0):
            try:
                async with clock.timeout(1.0):
                    await asyncio.Event().wait()
            except TimeoutError:
                reached.append("inner")
            await asyncio.Event().wait()

    task = asyncio.create_task(limited())
    await settle()
    clock.advance(1.0)
    await settle()
    assert reached == ["inner"]
    clock.advance(4.0)
    with pytest.raises(TimeoutError):
        await task


def failing():
    raise ConnectionError


def test_no_sleep_switches_off_all_sleeping():
    with no_sleep() as skipped, pytest.raises(ConnectionError):
        retry(on=ConnectionError, policy=Fixed(1_000.0, jitter="none"), deadline=None, max_attempts=4).call(failing)
    assert skipped == [1_000.0] * 3


async def test_no_sleep_switches_off_async_sleeping():
    async def fail():
        raise ConnectionError

    with no_sleep() as skipped, pytest.raises(ConnectionError):
        await retry(on=ConnectionError, policy=Fixed(1_000.0, jitter="none"), deadline=None).call_async(fail)
    assert skipped == [1_000.0] * 4


def test_no_sleep_blocks_nest():
    with no_sleep() as outer:
        with no_sleep() as inner:
            system_clock.sleep(1.0)
        system_clock.sleep(2.0)
    assert (outer, inner) == ([2.0], [1.0])


def test_deadlines_count_what_no_sleep_skipped():
    patient = retry(on=ConnectionError, policy=Fixed(10.0, jitter="none", max_attempts=None), deadline=35.0)
    with no_sleep() as skipped, pytest.raises(ConnectionError) as caught:
        patient.call(failing)
    assert skipped == [10.0] * 3
    assert "would come after the deadline" in caught.value.__notes__[0]
