# SPDX-License-Identifier: MIT
"""Lanes: which requests are in one group, and how many groups run at the same time."""

import asyncio

import pytest

from redrive.engines.postgres.group_commit import Lane, Request


class Work:
    """What a lane runs: it notes each group, and lets it go on when told."""

    def __init__(self, width):
        self.groups, self.gates = [], []
        self.lane = Lane(self.run, width=width)

    async def run(self, group):
        self.groups.append(len(group))
        self.gates.append(gate := asyncio.Event())
        await gate.wait()
        for ask in group:
            ask.give("done")

    def submit(self, many=1):
        return [asyncio.ensure_future(self.lane.submit(Request())) for _ in range(many)]


async def turns():
    """Let everything that can go on go on."""
    for _ in range(10):
        await asyncio.wait([asyncio.ensure_future(asyncio.Event().wait())], timeout=0)


@pytest.mark.parametrize("width", [1, 2])
async def test_requests_of_one_turn_are_one_group(width):
    work = Work(width)
    asked = work.submit(3)
    await turns()
    assert work.groups == [3]
    work.gates[0].set()
    assert await asyncio.gather(*asked) == ["done"] * 3


@pytest.mark.parametrize(("width", "at_once"), [(1, [1]), (2, [1, 2])])
async def test_so_many_groups_run_at_the_same_time_and_no_more(width, at_once):
    work = Work(width)
    asked = []
    for many in (1, 2, 4):
        asked += work.submit(many)
        await turns()
    assert work.groups == at_once
    assert work.lane.is_waited_for
    work.gates[0].set()
    await turns()
    assert work.groups == [*at_once, 7 - sum(at_once)], "all who waited are one group"
    assert not work.lane.is_waited_for
    for gate in work.gates:
        gate.set()
    assert await asyncio.gather(*asked) == ["done"] * 7


async def test_closing_waits_for_all_groups():
    work = Work(2)
    asked = work.submit()
    await turns()
    asked += work.submit()
    await turns()
    closing = asyncio.ensure_future(work.lane.close())
    for gate in work.gates:
        await turns()
        assert not closing.done()
        gate.set()
    await closing
    assert await asyncio.gather(*asked) == ["done"] * 2
    assert work.submit()  # a lane that was idle begins again
    await turns()
    assert work.groups == [1, 1, 1]
    work.gates[-1].set()
    await work.lane.close()


async def test_a_group_that_fails_ends_no_other():
    async def run(_group):
        raise ZeroDivisionError

    lane = Lane(run, width=2)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            await lane.submit(Request())
    await lane.close()
