# SPDX-License-Identifier: MIT
"""Several processes serve at once, and one of them dies or stands still: nothing is sent twice, nothing is lost.

Their calls are made one at a time, in an order that a seed decides. A process that stands still for longer than its
leases last and then goes on does not know that somebody else has its work: its next writes are refused.
"""

import asyncio
import random

import pytest

from redrive.clock import pause
from redrive.recovery import OperationState
from redrive.recovery.states import ENDED
from tests.crash.harness import Mishap, finished, prepared, tolerating
from tests.crash.scenes import SCENARIOS, Scenario, operations

MOST_CALLS = 110
"""What a process that does most of the work makes of them."""

long = [pytest.mark.torture, pytest.mark.timeout(3_600)]


async def serving(process):
    """Serve until everything is over."""
    running = asyncio.ensure_future(process.recovery.run())
    stopping = asyncio.ensure_future(process.world.over.wait())
    await asyncio.wait((running, stopping), return_when=asyncio.FIRST_COMPLETED)
    process.recovery.stop()
    stopping.cancel()
    await running


async def until_ended(world, process):
    """Wait until no operation is under way; a process that stands still goes on then at last."""
    while not all(each.state in ENDED for each in await operations(world, process)):
        await pause(world.clock, 0.7)
    for each in world.processes:
        if each.mishap.kind == "freezes":
            each.mishap = Mishap()
        each.is_frozen = False
        await hesitate(world, process, 60)
    world.over.set()


async def hesitate(world, process, turns):
    for _ in range(turns):
        (await world.turn(process, "hesitates")).done.set_result(None)


class Served(Scenario):
    """Somebody asks; others do the work."""

    async def script(self, world, process):
        await self.asked(world, process)
        await self.interfere(world, process)
        await until_ended(world, process)

    async def interfere(self, world, process):
        """Do something about it while it is under way."""


class ServedRated(Served):
    async def asked(self, world, process, **how):
        return await super().asked(world, process, rate=10.0)


class ServedPaused(Served):
    async def interfere(self, world, process):
        for operation in await operations(world, process):
            await hesitate(world, process, world.chance.randrange(120))
            await tolerating(process.recovery.pause(operation.number))
            await hesitate(world, process, world.chance.randrange(40))
            await tolerating(process.recovery.resume(operation.number))


class ServedCancelled(Served):
    async def interfere(self, world, process):
        for operation in await operations(world, process):
            await hesitate(world, process, world.chance.randrange(120))
            if await tolerating(process.recovery.cancel(operation.number)):
                found = await process.recovery.operation(operation.number)
                assert found.state in (OperationState.CANCELLED, OperationState.COMPLETED)


class ServedRacing(Served):
    async def asked(self, world, process, **how):
        ids = sorted(world.failures)
        for name, chosen in (("first", ids[: len(ids) * 3 // 4]), ("second", ids[len(ids) // 4 :])):
            await tolerating(process.recovery.recover(chosen, key=f"{name}-{world.run}"))


SERVED = {
    "plain": Served(),
    "rated": ServedRated(),
    "paused": ServedPaused(),
    "cancelled": ServedCancelled(),
    "racing": ServedRacing(),
}


async def serve(world, scenario, *mishaps, thaw_in=None):
    """Let processes serve side by side, each with a mishap; return them."""
    world.over = asyncio.Event()
    world.thaw_in = thaw_in
    await prepared(world, scenario)
    servers = [world.process(mishap) for mishap in mishaps]
    operator = world.process()
    world.favoured = servers[0]  # so that it is not idle when its turn comes
    await world.play(
        *(server.live(serving) for server in servers),
        operator.live(lambda process: scenario.script(world, process)),
    )
    await finished(world, SCENARIOS["plain"] if scenario is SERVED["plain"] else AsItIs())
    return servers


class AsItIs(Scenario):
    """Whatever was asked for has been."""

    async def script(self, world, process):
        await process.work()


@pytest.mark.parametrize("name", SERVED)
@pytest.mark.parametrize(
    "seeds", [pytest.param(range(2), id="some"), pytest.param(range(2, 500), id="many", marks=long)]
)
async def test_two_live_processes_share_the_work_and_leave_each_other_alone(quick_world, name, seeds):
    for seed in seeds:
        async with quick_world(seed) as world:
            servers = await serve(world, SERVED[name], Mishap(), Mishap())
        assert all(server.calls for server in servers)


@pytest.mark.parametrize(
    ("name", "stride"),
    [
        *(pytest.param(name, 45 if name == "plain" else 150, id=f"{name}-some") for name in SERVED),
        *(pytest.param(name, 1, id=f"{name}-all", marks=long) for name in SERVED),
    ],
)
async def test_the_neighbour_of_a_process_that_dies_goes_on_with_its_work(quick_world, name, stride):
    for nth in range(1, MOST_CALLS, stride):
        async with quick_world(nth) as world:
            await serve(world, SERVED[name], Mishap(nth), Mishap())


@pytest.mark.parametrize(
    ("name", "stride"),
    [
        *(pytest.param(name, 15 if name == "plain" else 150, id=f"{name}-some") for name in SERVED),
        *(pytest.param(name, 1, id=f"{name}-all", marks=long) for name in SERVED),
    ],
)
async def test_a_process_that_stood_still_for_too_long_changes_nothing_when_it_goes_on(quick_world, name, stride):
    refused = 0
    for nth in range(1, MOST_CALLS, stride):
        async with quick_world(nth) as world:
            thaw_in = world.chance.choice([None, 4, 15, 25, "staged", "staged", "lock_next"])
            await serve(world, SERVED[name], Mishap(nth, kind="freezes"), Mishap(), thaw_in=thaw_in)
            refused += world.refused
    assert refused > 0 or stride > 5  # with few tries it may be that none goes on too late


@pytest.mark.parametrize(
    "trials", [pytest.param(range(5), id="some"), pytest.param(range(5, 6_000), id="many", marks=long)]
)
async def test_one_stands_still_while_another_dies_and_a_third_goes_on(new_world, trials):
    for trial in trials:
        chance = random.Random(trial)
        name = chance.choice(list(SERVED))
        mishaps = (Mishap(chance.randrange(1, 100), kind="freezes"), Mishap(chance.randrange(1, 160)), Mishap())
        async with new_world(trial) as world:
            await serve(world, SERVED[name], *mishaps, thaw_in=chance.choice([None, 5, 20, 45, "staged", "lock_next"]))
