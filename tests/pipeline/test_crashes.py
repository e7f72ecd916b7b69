# SPDX-License-Identifier: MIT
"""A process that runs a pipeline dies before or after any call, and the next one does what it has left.

Every call is one of the store, the ledger or a transport; a transaction is called by what the ledger does in it. A run
is repeated for each of them, each time up to another call; every day for some calls of each kind, the first among them,
and for all in ``make torture``. ``crash_checks`` says what must hold in the end.

In the table of crashes of a pipeline these are R1 to R4 (``accept``), P1 to P4 (``lock_next``, ``finish_process``), B1
to B3 (``open_slot``, ``serve_slot``), S1 to S5 (``begin_send``, ``send``, ``finish_send``, ``put_back``) and D1 (a call
that is done and fails).
"""

import random
from contextlib import asynccontextmanager

import pytest

from redrive.clock import pause
from tests.conformance.homes import PostgresHome
from tests.crash.harness import Mishap, spread
from tests.pipeline.crash_parts import FLAVOURS, LOCK_S
from tests.pipeline.crash_world import PipelineWorld

long = [pytest.mark.torture, pytest.mark.timeout(3_600)]
MOST_CALLS = 400
CHANGES = {"accept", "finish_process", "open_slot", "serve_slot", "begin_send", "send", "finish_send", "put_back"}
"""By which calls something changes, beside locks."""

SENDING = {"begin_send", "send", "finish_send"}


@asynccontextmanager
async def new_world(flavour, *, seed=0, home=None, **more):
    """Make a world in which two reports of two items are submitted."""
    world = PipelineWorld(flavour, seed=seed, home=home, **more)
    await world.open()
    try:
        await world.prepare()
        yield world
    finally:
        await world.close()


async def calls_of(flavour, seed):
    """Return the calls of a process that nothing befalls."""
    async with new_world(flavour, seed=seed) as world:
        await world.live()
        calls = world.processes[0].calls
    assert 50 < len(calls) < MOST_CALLS
    assert set(calls) >= CHANGES
    return calls


async def every_point(flavour, *, stride=1, among=None, away=False, **how):
    """Run once for every call, or for some of each kind, with a mishap at that; return how often it was repeated."""
    seed = random.Random(f"{flavour} {how} {stride}").randrange(1_000)
    calls = await calls_of(flavour, seed)
    repeated = 0
    for nth in spread(calls, stride, among):
        async with new_world(flavour, seed=seed) as world:
            world.away_after_death = away
            process = world.process(Mishap(nth, **how))
            await world.play(process.live())
            assert process.calls[:nth] == calls[:nth], "it was another run"
            if process.is_dead:
                await world.live()
            await world.check()
            repeated += sum(world.arrived.values()) - len(world.arrived)
    return repeated


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_nothing_is_lost_or_repeated_if_nobody_dies(flavour):
    async with new_world(flavour) as world:
        await world.live()
        await world.check()


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("stride", [pytest.param(60, id="some"), pytest.param(1, id="all", marks=long)])
@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_a_process_that_dies_at_any_call_loses_nothing(flavour, stride, when):
    among = CHANGES if flavour == "repeats" else SENDING  # before that, destinations do not matter
    repeated = await every_point(flavour, when=when, stride=stride, among=among)
    assert (repeated > 0) == (flavour == "repeats")  # so that the rule about repetitions was put to the test


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    ("flavour", "stride"),
    [
        pytest.param("tells", 10, id="tells-some"),
        *(pytest.param(each, 1, id=f"{each}-all", marks=long) for each in FLAVOURS),
    ],
)
async def test_it_is_the_same_if_the_destination_is_away_when_the_next_process_begins(flavour, stride, when):
    await every_point(flavour, when=when, stride=stride, among={"send"}, away=True)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    ("flavour", "stride"),
    [
        pytest.param("repeats", 100, id="repeats-some"),
        *(pytest.param(each, 1, id=f"{each}-all", marks=long) for each in FLAVOURS),
    ],
)
async def test_a_call_that_fails_with_or_without_its_effect_costs_nothing(flavour, stride, when):
    await every_point(flavour, when=when, stride=stride, kind="fails", among=CHANGES)


@pytest.mark.parametrize("trials", [pytest.param(1, id="some"), pytest.param(1_000, id="many", marks=long)])
@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_a_process_after_another_dies_until_one_gets_through(flavour, trials):
    for trial in range(trials):
        chance = random.Random(f"{flavour} {trial}")
        mishaps = [Mishap(chance.randrange(1, 130), chance.choice(["before", "after"])) for _ in range(2)]
        async with new_world(flavour, seed=trial) as world:
            await world.live(*mishaps)
            await world.check()


@pytest.fixture
def server(postgres_url, emptying, emptied_schema):
    """Return a function that gives a home on a server, with nothing in it."""

    def home():
        emptying()
        return PostgresHome(postgres_url, emptied_schema)

    return home


@pytest.mark.parametrize(
    ("flavour", "points"),
    [
        *(pytest.param(each, 1, id=f"{each}-some") for each in ("repeats", "once")),
        *(pytest.param(each, 90, id=f"{each}-many", marks=long) for each in FLAVOURS),
    ],
)
async def test_it_is_the_same_with_a_server(flavour, points, server):
    for nth in random.Random(flavour).sample(range(20, 120), points):
        async with new_world(flavour, seed=nth, home=server()) as world:
            await world.live(Mishap(nth, "after"))
            await world.check()


# --- several processes


async def stood_still(flavour, nth, *, home=None):
    """Let one of two processes stand still before a call, and go on when the other may have its work.

    Return how many calls were refused, because somebody else had the lock, or had changed the task.
    """
    chance = random.Random(f"{flavour} {nth}")
    async with new_world(flavour, seed=nth, home=home) as world:
        frozen, other = world.process(Mishap(nth, kind="freezes")), world.process()
        world.favoured = frozen  # so that it has work when it stands still
        seconds = chance.choice([LOCK_S - 1.0, LOCK_S + 0.1, LOCK_S + 0.6, LOCK_S + 3.0, 60.0])
        await world.play(frozen.live(), other.live(), world.thaw(frozen, seconds))
        await world.check()
        return world.refused


@pytest.mark.parametrize(
    "points", [pytest.param(range(31, 100, 30), id="some"), pytest.param(range(1, 160), id="all", marks=long)]
)
@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_a_process_that_stood_still_for_too_long_settles_nothing_that_others_have(flavour, points):
    refused = [await stood_still(flavour, nth) for nth in points]
    assert sum(refused) > 0 or len(refused) < 10  # with few tries it may be that none goes on too late


@pytest.mark.parametrize(
    "points", [pytest.param(range(60, 61), id="some"), pytest.param(range(20, 110), id="all", marks=long)]
)
async def test_two_processes_on_a_server_and_one_stands_still(points, server):
    refused = [await stood_still("once", nth, home=server()) for nth in points]
    assert sum(refused) > 0 or len(refused) < 10


async def test_a_process_that_stood_still_with_work_in_its_hands_is_refused():
    for verb in ("finish_process", "serve_slot", "finish_send"):
        async with new_world("once", seed=5) as world:
            await world.live()
            nth = world.processes[0].calls.index(verb) + 1
        async with new_world("once", seed=5) as world:
            frozen = world.process(Mishap(nth, kind="freezes"))
            await world.play(frozen.live(), world.thaw(frozen, 3 * LOCK_S), one_more(world, frozen))
            assert world.refused > 0, verb
            await world.check()


async def one_more(world, frozen):
    """Start another process as soon as one stands still."""
    while not frozen.is_frozen:
        await pause(world.clock, 0.1)
    await world.process().live()
