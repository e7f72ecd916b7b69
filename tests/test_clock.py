# SPDX-License-Identifier: MIT
"""The system clock measures forwards, waits, and can be set not to wait."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from redrive.clock import SystemClock, system_clock, utc


def test_a_system_clock_measures_forwards():
    readings = [system_clock.monotonic() for _ in range(100)]
    assert readings == sorted(readings)


def test_a_system_clock_tells_the_time_of_the_machine(monkeypatch):
    monkeypatch.setattr(SystemClock, "time", staticmethod(lambda: 86_400.0))
    assert utc(SystemClock().time()) == datetime(1970, 1, 2, tzinfo=UTC)


def test_an_instant_is_in_utc():
    assert utc(0.5).utcoffset() == timedelta(0)


def test_a_blocking_sleep_sleeps(monkeypatch):
    slept = []
    monkeypatch.setattr("time.sleep", slept.append)
    SystemClock().sleep(1.5)
    assert slept == [1.5]


async def test_an_async_sleep_lets_others_run():
    order = []

    async def other():
        order.append("other")

    task = asyncio.create_task(other())
    await SystemClock().sleep_async(0.0)
    order.append("sleeper")
    await task
    assert order == ["other", "sleeper"]


async def test_a_timeout_ends_the_block_it_limits():
    with pytest.raises(TimeoutError):
        async with SystemClock().timeout(0.0) as scope:
            await asyncio.Event().wait()
    assert scope.expired()


def test_skipped_sleeps_are_listed_and_not_slept(monkeypatch):
    monkeypatch.setattr("time.sleep", lambda _: pytest.fail("slept"))
    clock = SystemClock()
    with clock.skip_sleeps() as skipped:
        clock.sleep(3_600.0)
        asyncio.run(clock.sleep_async(7_200.0))
    assert skipped == [3_600.0, 7_200.0]


async def test_a_skipped_async_sleep_still_lets_others_run():
    order = []

    async def other():
        order.append("other")

    clock = SystemClock()
    task = asyncio.create_task(other())
    with clock.skip_sleeps():
        await clock.sleep_async(60.0)
    order.append("sleeper")
    await task
    assert order == ["other", "sleeper"]


def test_blocks_without_sleep_nest_and_the_innermost_list_fills(monkeypatch):
    slept = []
    monkeypatch.setattr("time.sleep", slept.append)
    clock = SystemClock()
    with clock.skip_sleeps() as outer:
        clock.sleep(1.0)
        with clock.skip_sleeps() as inner:
            clock.sleep(2.0)
        clock.sleep(3.0)
    clock.sleep(4.0)
    assert (outer, inner, slept) == ([1.0, 3.0], [2.0], [4.0])


def test_sleeping_is_back_after_a_failure(monkeypatch):
    slept = []
    monkeypatch.setattr("time.sleep", slept.append)
    clock = SystemClock()
    with pytest.raises(KeyError), clock.skip_sleeps():
        raise KeyError
    clock.sleep(5.0)
    assert slept == [5.0]
