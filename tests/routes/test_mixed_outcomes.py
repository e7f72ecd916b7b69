# SPDX-License-Identifier: MIT
"""Three routes share a receiver and some of them fail: each of the others gets every event exactly once."""

from contextlib import asynccontextmanager
from itertools import combinations

import pytest

from redrive.engines.sql.routes.ledger import SqlRouteLedger
from redrive.routes import DestinationDown, Rejected, Throttled, TryLater, dedup, from_queue, http, route, split
from redrive.routes.catalog import Routes
from redrive.routes.leg_decision import EXHAUSTED
from redrive.worker.recoverability import REJECTED
from tests.routes.crash_world import SOURCE, RouteWorld, WorldSender, event

NAMES = ("one", "two", "three")
SUBSETS = [chosen for size in range(4) for chosen in combinations(NAMES, size)]
EVENTS = 4


class At:
    """A destination that fails at the first attempts at each event, or at all of them.

    Attributes:
        asked: how often it was asked for each key.
    """

    def __init__(self, failure, times=None):
        self._failure = failure
        self._times = times
        self.asked = {}

    def __call__(self, key):
        self.asked[key] = self.asked.get(key, 0) + 1
        if self._times is not None and self.asked[key] > self._times:
            return None
        if isinstance(self._failure, Exception):
            raise self._failure
        return self._failure


PASSING = {
    "try-later": lambda: At(TryLater("status 500"), 2),
    "throttled": lambda: At(Throttled("status 429", 3.0), 2),
    "down": lambda: At(DestinationDown("connection refused", 2.0), 2),
    "raises": lambda: At(ValueError("a bug in the sender"), 2),
    "lost-connection": lambda: At(ConnectionResetError("reset"), 1),
}
LASTING = {
    "rejected": (lambda: At(Rejected("status 422")), REJECTED),
    "exhausted": (lambda: At(TryLater("status 500")), EXHAUSTED),
    "always-raises": (lambda: At(KeyError("a bug in the sender")), EXHAUSTED),
}


SETTINGS = {"quiet_retries": 0, "max_attempts": 4, "probe_after": 5.0, "breaker_failures": 100}


@asynccontextmanager
async def new_world(routes, events, answers):
    """Make a world and run its routes until nothing is left to do."""
    world = RouteWorld(routes, events)
    world.answers = answers
    await world.open()
    try:
        await world.prepare()
        await world.live()
        yield world
        assert world.faults == [], world.story()
    finally:
        await world.close()


async def played(source, answers):
    """Run three routes until nothing is left to do; return the world."""
    routes = [route(name, source=source, **SETTINGS) >> WorldSender(name) for name in NAMES]
    async with new_world(routes, [event(n) for n in range(EVENTS)], answers) as world:
        return world, {name: await world.dead(name) for name in NAMES}


def keys(name):
    return {f"e{n}:{name}" for n in range(EVENTS)}


@pytest.mark.parametrize("failing", SUBSETS, ids=lambda names: "+".join(names) or "none")
@pytest.mark.parametrize("source", [from_queue(SOURCE), http("/orders")], ids=["queue", "http"])
@pytest.mark.parametrize("how", PASSING)
async def test_every_route_gets_every_event_exactly_once_if_some_fail_for_a_while(how, source, failing):
    answers = {name: PASSING[how]() for name in failing}
    world, dead = await played(source, answers)
    assert world.delivered == dict.fromkeys(set().union(*map(keys, NAMES)), 1)
    assert not any(dead.values())
    for answer in answers.values():
        assert min(answer.asked.values()) > 1  # it has really failed at each of them


@pytest.mark.parametrize("failing", SUBSETS[1:], ids="+".join)
@pytest.mark.parametrize("delivery", ["durable", "linked"])
@pytest.mark.parametrize("how", LASTING)
async def test_what_fails_for_good_is_dead_on_its_own_route_and_delivered_once_on_the_others(how, delivery, failing):
    make, reason = LASTING[how]
    world, dead = await played(from_queue(SOURCE, delivery=delivery), {name: make() for name in failing})
    healthy = set(NAMES) - set(failing)
    assert world.delivered == dict.fromkeys(set().union(*map(keys, healthy)), 1)
    for name in NAMES:
        legs = {each.id for each in dead[name]}
        assert legs == ({event(n).id for n in range(EVENTS)} if name in failing else set())
        for each in dead[name]:
            assert each.dead_letter_info.reason == (EXHAUSTED if delivery == "linked" else reason)
            assert "status" in each.dead_letter_info.description or "bug" in each.dead_letter_info.description


# --- filters that remember


def parts_route():
    return route("parts", source=from_queue(SOURCE), **SETTINGS | {"max_attempts": 8}) | split(
        "body.items"
    ) >> WorldSender("parts")


PARTS = [chosen for size in range(1, 4) for chosen in combinations((0, 1, 2), size)]


@pytest.mark.parametrize("failing", PARTS, ids=lambda places: "+".join(map(str, places)))
@pytest.mark.parametrize("how", PASSING)
async def test_a_part_that_failed_is_sent_again_and_one_that_was_delivered_is_not(how, failing):
    at = PASSING[how]()
    async with new_world(
        [parts_route()], [event(0)], {"parts": lambda key: at(key) if int(key[-1]) in failing else None}
    ) as world:
        assert world.delivered == {f"e0:parts:{place}": 1 for place in range(3)}


@pytest.mark.parametrize("refused", [0, 1, 2])
async def test_a_replay_of_a_dead_leg_sends_only_the_parts_that_were_not_delivered(refused):
    answers = {"parts": lambda key: Rejected("status 422") if key == f"e0:parts:{refused}" else None}
    async with new_world([parts_route()], [event(0)], answers) as world:
        assert world.delivered == {f"e0:parts:{place}": 1 for place in range(refused)}
        (leg,) = await world.dead("parts")
        assert leg.id == "e0"
        answers.clear()
        await Routes(world.broker, SqlRouteLedger(world.raw, is_shared=True)).replay("parts")
        await world.live()
        assert world.delivered == {f"e0:parts:{place}": 1 for place in range(3)}
        assert await world.dead("parts") == []


async def test_a_duplicate_is_consumed_while_the_first_event_is_tried_and_passes_when_that_one_is_dead():
    first_fails = {"unique": lambda key: TryLater("status 500") if key.startswith("e0") else None}
    unique = route("unique", source=from_queue(SOURCE), **SETTINGS) | dedup("body.order") >> WorldSender("unique")
    async with new_world([unique], [event(0), event(2)], first_fails) as world:
        tried = {key for key in world.delivered if world.delivered[key]}
        assert tried in (set(), {"e2:unique"})  # whichever was first
        assert [leg.id for leg in await world.dead("unique")] == ([] if tried else ["e0"])
        await world.broker.send(SOURCE, event(4))
        world.events.append(event(4))
        await world.live()
        assert {key for key in world.delivered if world.delivered[key]} == (tried or {"e4:unique"})
        await world.broker.send(SOURCE, event(6))  # within the window of the one that was delivered
        await world.live()
        assert sum(world.delivered.values()) == 1


async def test_an_event_that_fails_for_a_while_is_no_duplicate_of_itself():
    at = At(TryLater("status 500"), 3)
    unique = route("unique", source=from_queue(SOURCE), **SETTINGS) | dedup("body.order") >> WorldSender("unique")
    async with new_world([unique], [event(0), event(1)], {"unique": at}) as world:
        assert world.delivered == {"e0:unique": 1, "e1:unique": 1}
