# SPDX-License-Identifier: MIT
"""A process that runs routes dies before or after any call, and the next one delivers what it has left.

Nothing is lost. Only what was on its way is delivered again, on the same route and with the same key.

Every call is one of the store, the ledger or a sender. A run is repeated for each of them, each time up to another
call; every day for some calls of each kind, the first among them, and for all in ``make torture``. Four routes read one
source: one is plain, one splits, one drops duplicates, and one sends to a queue.
"""

import asyncio
import random
from contextlib import asynccontextmanager

import pytest

from tests.conformance.homes import PostgresHome
from tests.crash.harness import Mishap, spread
from tests.routes.crash_world import LOCK_S, TAP, RouteWorld, event, routes_from, sources

long = [pytest.mark.torture, pytest.mark.timeout(3_600)]
EVENTS = 3
MOST_CALLS = 400
CHANGES = {"declare_topic", "subscribe", "lock_next", "claim", "send", "apply"}
"""By which calls something changes."""


@asynccontextmanager
async def new_world(source, *, seed=0, home=None):
    """Make a world in which a part of one event, and one event with a key, fail at first."""
    world = RouteWorld(
        routes_from(sources()[source], quiet_retries=0), [event(n) for n in range(EVENTS)], seed=seed, home=home
    )
    world.failing.update({"e1:parts:1": 1, "e0:unique": 1})
    await world.open()
    try:
        await world.prepare()
        yield world
    finally:
        await world.close()


async def calls_of(source, seed):
    """Return the calls of a process that nothing befalls."""
    async with new_world(source, seed=seed) as world:
        await world.live()
        calls = world.processes[0].calls
    assert 50 < len(calls) < MOST_CALLS
    assert set(calls) >= CHANGES
    return calls


async def every_point(source, *, stride=1, among=None, **how):
    """Run once for every call, or for some of each kind, with a mishap at that; return how often it was repeated.

    All calls are met in another order of turns each; some, in the run in which they were chosen.
    """
    seed = random.Random(f"{source} {how} {stride}").randrange(1_000)
    calls = await calls_of(source, seed)
    repeated = 0
    for nth in spread(calls, stride, among):
        async with new_world(source, seed=nth if stride == 1 else seed) as world:
            process = world.process(Mishap(nth, **how))
            await world.play(process.live())
            assert stride == 1 or process.calls[:nth] == calls[:nth], "it was another run"
            if process.is_dead:
                await world.live()
            await world.check()
            repeated += sum(world.delivered.values()) - len(world.delivered)
    return repeated


@pytest.mark.parametrize("source", sources())
async def test_nothing_is_lost_or_repeated_if_nobody_dies(source):
    for seed in range(2):
        async with new_world(source, seed=seed) as world:
            await world.live()
            await world.check()
            assert set(world.delivered.values()) == {1}


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("stride", [pytest.param(12, id="some"), pytest.param(1, id="all", marks=long)])
@pytest.mark.parametrize("source", sources())
async def test_a_process_that_dies_at_any_call_repeats_only_what_was_on_its_way(source, stride, when):
    repeated = await every_point(source, when=when, stride=stride, among=CHANGES)
    assert repeated > 0  # so that the rule about repetitions was put to the test


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("stride", [pytest.param(40, id="some"), pytest.param(1, id="all", marks=long)])
@pytest.mark.parametrize("source", sources())
async def test_a_call_that_fails_with_or_without_its_effect_costs_nothing(source, stride, when):
    await every_point(source, when=when, stride=stride, kind="fails")


@pytest.mark.parametrize("name", ["plain", "parts", "unique", "stored"])
@pytest.mark.parametrize("is_broken", [False, True])
async def test_a_person_who_follows_a_route_costs_it_nothing(is_broken, name):
    async with new_world("http") as world:
        await world.follow(name)
        if is_broken:
            world.broken.add(TAP)
        await world.live()
        await world.check()
        assert ((await world.broker.inspect(TAP)).ready == 0) == is_broken


@pytest.mark.parametrize("trials", [pytest.param(3, id="some"), pytest.param(3_000, id="many", marks=long)])
@pytest.mark.parametrize("source", sources())
async def test_a_process_after_another_dies_until_one_gets_through(source, trials):
    for trial in range(trials):
        chance = random.Random(f"{source} {trial}")
        mishaps = [Mishap(chance.randrange(1, 100), chance.choice(["before", "after"])) for _ in range(3)]
        async with new_world(source, seed=trial) as world:
            await world.live(*mishaps)
            await world.check()


@pytest.fixture
def server(postgres_url, emptying, emptied_schema):
    """Return a function that gives a home on a server, with nothing in it."""

    def home():
        emptying()
        return PostgresHome(postgres_url, emptied_schema)

    return home


@pytest.mark.parametrize("points", [pytest.param(3, id="some"), pytest.param(85, id="many", marks=long)])
@pytest.mark.parametrize("source", sources())
async def test_it_is_the_same_with_a_server(source, points, server):
    for nth in random.Random(source).sample(range(1, 90), points):
        async with new_world(source, seed=nth, home=server()) as world:
            await world.live(Mishap(nth, "after"))
            await world.check()


# --- several processes


async def stood_still(source, nth, *, home=None):
    """Let one of two processes stand still before a call, and go on when the other may have its legs.

    Return how many calls were refused, because somebody else had the lock.
    """
    chance = random.Random(f"{source} {nth}")
    async with new_world(source, seed=nth, home=home) as world:
        frozen, other = world.process(Mishap(nth, kind="freezes")), world.process()
        world.favoured = frozen  # so that it has legs when it stands still
        seconds = chance.choice([LOCK_S - 1.0, LOCK_S + 0.1, LOCK_S + 0.6, LOCK_S + 2.0, 60.0])
        await world.play(frozen.live(), other.live(), world.thaw(frozen, seconds))
        await world.check()
        return world.refused


@pytest.mark.parametrize(
    "points", [pytest.param(range(11, 90, 8), id="some"), pytest.param(range(1, 90), id="all", marks=long)]
)
@pytest.mark.parametrize("source", sources())
async def test_a_process_that_stood_still_for_too_long_settles_nothing_that_others_have(source, points):
    assert sum([await stood_still(source, nth) for nth in points]) > 0


@pytest.mark.parametrize(
    "points", [pytest.param(range(28, 60, 12), id="some"), pytest.param(range(20, 100), id="all", marks=long)]
)
async def test_two_processes_on_a_server_and_one_stands_still(points, server):
    assert sum([await stood_still("queue", nth, home=server()) for nth in points]) > 0


async def test_a_process_that_would_stand_still_when_everything_is_done_comes_to_its_end(monkeypatch):
    """What workers note about themselves may take long then, and a process that stands still is thawed by nobody."""
    async with new_world("queue", seed=1) as world:
        await world.play(world.process().live())
        last = len(world.processes[0].calls)
    for nth in range(last - 10, last):
        async with new_world("queue", seed=1) as world:
            noted = world.raw.worker_absent

            async def slowly(*values, noted=noted):
                await asyncio.sleep(0.01)  # noqa: TID251 - a real moment, as of a server
                return await noted(*values)

            monkeypatch.setattr(world.raw, "worker_absent", slowly)
            frozen = world.process(Mishap(nth, kind="freezes"))
            await world.play(frozen.live(), world.process().live(), world.thaw(frozen, 1.0))
            await world.check()
