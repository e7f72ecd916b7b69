# SPDX-License-Identifier: MIT
"""Live updates of a page that many people look at: made once for all who ask at one time, and never out of date."""

import asyncio

import pytest

from redrive.clock import pause, system_clock
from redrive.server.console import shared_by
from redrive.testing import ManualClock


class Maker:
    """Makes fragments, for some seconds each."""

    def __init__(self, clock, seconds):
        self.begun = []
        self._clock = clock
        self._seconds = seconds

    async def make(self):
        self.begun.append(self._clock.monotonic())
        await pause(system_clock, 0.001)  # the others ask meanwhile
        self._clock.advance(self._seconds)
        return f"made at {self.begun[-1]}"


@pytest.mark.parametrize("seconds", [0.01, 5])
async def test_many_who_ask_at_once_get_one_fragment_however_long_it_takes_to_make(seconds):
    clock = ManualClock()
    shared, maker = shared_by(clock), Maker(clock, seconds)
    found = await asyncio.gather(*(shared.get("overview", maker.make) for _ in range(200)))
    assert (len(maker.begun), len(set(found))) == (1, 1)


async def test_who_asks_while_a_slow_one_is_made_gets_a_newer_one_and_shares_it():
    clock, is_late = ManualClock(), asyncio.Event()
    shared, maker = shared_by(clock), Maker(clock, 5)

    async def first():
        is_late.set()
        return await maker.make()

    early = asyncio.create_task(shared.get("overview", first))
    await is_late.wait()
    clock.advance(1)  # something may have changed since it was begun
    late = await asyncio.gather(*(shared.get("overview", maker.make) for _ in range(200)))
    assert await early != late[0]
    assert (len(maker.begun), len(set(late))) == (2, 1)


async def test_after_a_moment_it_is_made_anew():
    clock = ManualClock()
    shared, maker = shared_by(clock), Maker(clock, 0)
    first = await shared.get("overview", maker.make)
    clock.advance(0.2)
    assert await shared.get("overview", maker.make) == first
    clock.advance(0.1)
    assert await shared.get("overview", maker.make) != first
