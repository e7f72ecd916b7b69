# SPDX-License-Identifier: MIT
"""A process dies between any two calls that it makes, and the next one leaves everything as it should be.

That is every call at each of its occurrences: a scenario is run again and again, each time up to another call.
Every day it is some occurrences of each call, the first among them; all of them in ``make torture``.
To die after a call is to die before the next one, as only one is made at a time: the store is the same.
"""

import random
from itertools import count

import pytest

from tests.crash.harness import Mishap, check, finished, prepared, run, spread
from tests.crash.scenes import SCENARIOS, Mended, operations
from tests.recovery.sites import CHANGES

long = [pytest.mark.torture, pytest.mark.timeout(3_600)]
MOST_CALLS = 400
STRIDE = 40
"""At which calls of a kind it happens, every day."""

CHANGING = CHANGES | {"apply", "lock_next", "declare", "hold", "release"}


async def calls_of(new_world, scenario, seed):
    """Return the calls of a process that nothing befalls."""
    async with new_world(seed) as world:
        await run(world, scenario, Mishap())
        calls = world.processes[1].calls
    assert 20 < len(calls) < MOST_CALLS
    return calls


async def every_point(new_world, scenario, *, stride=1, among=None, is_same_run=True, **how):
    """Run a scenario once for every call it makes, or for some of each kind, with a mishap at that.

    All calls are met in another order of turns each; some, in the run in which they were chosen, unless that cannot
    be had, because another process does a part of the work.
    """
    seed = random.Random(f"{scenario} {stride}").randrange(1_000)
    calls = await calls_of(new_world, scenario, seed)
    for nth in spread(calls, stride, among):
        async with new_world(nth if stride == 1 else seed) as world:
            await run(world, scenario, Mishap(nth, **how))
            is_same = world.processes[1].calls[:nth] == calls[:nth]
            assert is_same or stride == 1 or not is_same_run, "it was another run"


@pytest.mark.parametrize(
    ("name", "stride"),
    [
        *(pytest.param(name, STRIDE, id=f"{name}-some") for name in SCENARIOS),
        *(pytest.param(name, 1, id=f"{name}-all", marks=long) for name in SCENARIOS),
    ],
)
async def test_a_process_that_dies_before_any_call_leaves_nothing_behind(quick_world, name, stride):
    await every_point(quick_world, SCENARIOS[name], stride=stride, among=CHANGING)


@pytest.mark.parametrize("stride", [pytest.param(400, id="some"), pytest.param(1, id="all", marks=long)])
async def test_a_process_that_dies_while_functions_change_messages_leaves_nothing_behind(quick_world, stride):
    among = {"mark", "claim", "staged", "apply", "forwarded"}
    await every_point(quick_world, Mended(), stride=stride, among=among, is_same_run=False)


@pytest.mark.parametrize("name", [pytest.param(name, marks=long) for name in SCENARIOS])
async def test_a_process_that_dies_after_any_call_leaves_nothing_behind(new_world, name):
    await every_point(new_world, SCENARIOS[name], when="after")


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    ("name", "stride"),
    [
        pytest.param("plain", 40, id="plain-some"),
        *(pytest.param(name, 1, id=f"{name}-all", marks=long) for name in ("plain", "paused", "poisoned", "ingest")),
    ],
)
async def test_a_call_that_fails_with_or_without_its_effect_is_made_again(quick_world, name, stride, when):
    await every_point(quick_world, SCENARIOS[name], stride=stride, when=when, kind="fails")


@pytest.mark.parametrize(
    ("name", "stride", "seconds"),
    [
        *(pytest.param(name, 60, 1, id=f"{name}-some") for name in ("plain", "paused", "poisoned")),
        *(pytest.param(name, 1, 12, id=f"{name}-all", marks=long) for name in SCENARIOS),
    ],
)
async def test_the_process_that_goes_on_may_die_too(new_world, name, stride, seconds):
    chance = random.Random(name)
    async with new_world() as world:
        (calls,) = await run(world, SCENARIOS[name], Mishap())
    for nth in range(1 + chance.randrange(stride), calls + 1, stride):
        for second in sorted(chance.sample(range(1, calls), seconds)):
            async with new_world(nth) as world:
                await run(world, SCENARIOS[name], Mishap(nth), Mishap(second))


@pytest.mark.parametrize("stride", [pytest.param(20, id="some"), pytest.param(1, id="all", marks=long)])
async def test_copies_of_an_attempt_that_came_to_nothing_are_never_sent(quick_world, stride):
    async with quick_world() as world:
        await prepared(world, SCENARIOS["plain"])
        process = world.process()
        await world.play(process.live(lambda process: SCENARIOS["plain"].script(world, process)))
        staged = process.calls.index("staged") + 1
    for second in range(1, 90, stride):
        async with quick_world() as world:
            await run(world, SCENARIOS["plain"], Mishap(staged), Mishap(second))


@pytest.mark.parametrize("trials", [pytest.param(5, id="some"), pytest.param(3_000, id="many", marks=long)])
async def test_a_process_after_another_dies_until_one_gets_through(new_world, trials):
    for trial in range(trials):
        chance = random.Random(trial)
        name = chance.choice(list(SCENARIOS))
        mishaps = [Mishap(chance.randrange(1, 90), chance.choice(["before", "after"])) for _ in range(4)]
        async with new_world(trial) as world:
            await run(world, SCENARIOS[name], *mishaps)


@pytest.mark.parametrize(
    ("name", "points"),
    [
        *(pytest.param(name, 1, id=f"{name}-some") for name in SCENARIOS),
        *(pytest.param(name, MOST_CALLS, id=f"{name}-all", marks=long) for name in SCENARIOS),
    ],
)
async def test_it_is_the_same_with_a_server_and_with_queues_and_ledger_apart(lasting_world, name, points):
    world = lasting_world
    (calls,) = await run(world, SCENARIOS[name], Mishap())
    chosen = range(1, calls + 1) if points >= calls else random.Random(name).sample(range(1, calls + 1), points)
    for nth in chosen:
        world.begin(nth)
        await run(world, SCENARIOS[name], Mishap(nth))


@pytest.mark.parametrize(
    ("name", "points"),
    [
        pytest.param("plain", 1, id="plain-some"),
        *(pytest.param(name, 12, id=f"{name}-many", marks=long) for name in SCENARIOS),
    ],
)
async def test_it_is_the_same_with_queues_on_nats_and_the_ledger_in_a_file(nats_world, name, points):
    world = nats_world
    (calls,) = await run(world, SCENARIOS[name], Mishap())
    for nth in random.Random(name).sample(range(1, calls + 1), points):
        world.begin(nth)
        await run(world, SCENARIOS[name], Mishap(nth))


# --- engines that promise less


async def loosely(new_world, name, *mishaps, **loose):
    """Run a scenario on an engine that promises less; return how many calls its first process made."""
    async with new_world(mishaps[0].nth) as world:
        return (await run(world, SCENARIOS[name], *mishaps, loose=loose))[0]


@pytest.mark.parametrize("counts_exactly", [True, False])
@pytest.mark.parametrize(
    ("name", "stride"),
    [
        *(pytest.param(name, n, id=f"{name}-some") for name, n in {"plain": 11, "paused": 17, "cancelled": 17}.items()),
        *(pytest.param(name, 1, id=f"{name}-all", marks=long) for name in ("plain", "paused", "cancelled", "poisoned")),
    ],
)
async def test_an_engine_that_is_not_transactional_sends_at_least_once_and_says_so(
    quick_world, name, stride, counts_exactly
):
    for nth in count(1, stride):
        if await loosely(quick_world, name, Mishap(nth), counts_exactly=counts_exactly) < nth:
            break


@pytest.mark.parametrize("stride", [pytest.param(9, id="some"), pytest.param(1, id="all", marks=long)])
async def test_what_may_have_been_sent_before_says_so_after_another_crash_too(quick_world, stride):
    for second in range(
        1, 100, stride
    ):  # the first dies between sending and settling, and the operation is paused soon after
        await loosely(quick_world, "paused", Mishap(45), Mishap(second), counts_exactly=True)


async def test_an_engine_that_is_not_transactional_sends_once_if_nobody_dies(new_world):
    for name in SCENARIOS:
        async with new_world() as world:
            await prepared(world, SCENARIOS[name])
            process = world.process(loose={"counts_exactly": True})
            await world.play(process.live(lambda process, name=name: SCENARIOS[name].script(world, process)))
            world.clock.advance(100.0)

            async def look(process, world=world):
                await check(world, process)
                for operation in await operations(world, process):
                    for part in await process.recovery.outcomes(operation.number):
                        assert "may have been sent" not in part.reason

            await world.play(world.process().live(look))


@pytest.mark.parametrize(("counts_exactly", "at_least"), [(True, 0.0), (False, 45.0)])
async def test_a_queue_that_cannot_be_counted_is_empty_after_a_silence(new_world, counts_exactly, at_least):
    loose = {"counts_exactly": counts_exactly}
    async with new_world() as world:
        await prepared(world, SCENARIOS["plain"])
        process = world.process(loose=loose)
        began = world.clock.monotonic()
        await world.play(process.live(lambda process: SCENARIOS["plain"].script(world, process)))
        assert world.clock.monotonic() - began < 1.0
        nth = process.calls.index("staged") + 1
    async with new_world() as world:
        await prepared(world, SCENARIOS["plain"])
        await world.play(
            world.process(Mishap(nth, "after"), loose=loose).live(
                lambda process: SCENARIOS["plain"].script(world, process)
            )
        )
        began = world.clock.monotonic() + 100.0
        await finished(world, SCENARIOS["plain"], loose=loose)
        assert at_least <= world.clock.monotonic() - began < at_least + 60.0
