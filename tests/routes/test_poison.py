# SPDX-License-Identifier: MIT
"""Events that no route can deliver: each is one dead leg with its reason, and no other leg notices."""

from contextlib import asynccontextmanager

import pytest

from redrive.broker import Message
from redrive.broker.rules import MAX_DELIVERY_COUNT_EXCEEDED
from redrive.routes import dedup, from_queue, http, match, python, route, split, transform
from redrive.worker.recoverability import REJECTED
from tests.crash.harness import Mishap
from tests.routes.crash_world import SOURCE, RouteWorld, WorldSender, event

BAD = "bad"
HEALTHY = ("plain", "other")
MOST_CRASHES = 10


@asynccontextmanager
async def new_world(routes, events, **more):
    world = RouteWorld(routes, events, **more)
    await world.open()
    try:
        await world.prepare()
        yield world
        assert world.faults == [], world.story()
    finally:
        await world.close()


def raising(_message):
    raise ZeroDivisionError("nobody thought of this event")


async def healthy_routes_have_all(world):
    for name in HEALTHY:
        assert world.arrived_at(name) == {f"{each.id}:{name}" for each in world.events}
        assert await world.dead(name) == []


def routes_with(*filters, source=None, **settings):
    """Return two routes that are plain, and one with filters."""
    source = source or from_queue(SOURCE)
    draft = route("poisoned", source=source, **settings)
    for each in filters:
        draft |= each
    plain = [route(name, source=source, **settings) >> WorldSender(name) for name in HEALTHY]
    return [*plain, draft >> WorldSender("poisoned")]


FILTERS = {
    "match": (match("body.total > 100"), Message(b'{"total": "\xff\xfe', id=BAD)),
    "transform": (transform("{id: body.id}"), Message(b"\x00\xff no JSON", id=BAD)),
    "split": (split("body.items"), Message(b'{"items": 7}', id=BAD)),
    "dedup": (dedup("body.order"), Message(b"\xff", id=BAD)),
    "python": (python("tests.routes.test_poison:raising"), Message(b"{}", id=BAD)),
}
GOOD = Message(b'{"id": 1, "total": 500, "items": [1, 2], "order": 1}', id="good")


@pytest.mark.parametrize("name", FILTERS)
async def test_an_event_that_a_filter_cannot_read_is_one_dead_leg_with_the_reason(name):
    each, bad = FILTERS[name]
    async with new_world(routes_with(each), [GOOD, bad, Message(GOOD.body.replace(b"1}", b"2}"), id="later")]) as world:
        await world.live()
        await healthy_routes_have_all(world)
        dead = await world.dead("poisoned")
        wanted = [BAD] if name != "python" else ["bad", "good", "later"]
        assert sorted(leg.id for leg in dead) == wanted
        assert {leg.body for leg in dead if leg.id == BAD} == {bad.body}  # as it came, so that it can be looked at
        for leg in dead:
            assert leg.dead_letter_info.reason == REJECTED
            assert len(leg.dead_letter_info.description) > 10
        assert set(world.delivered.values()) == {1}


@pytest.mark.parametrize("source", [from_queue(SOURCE), http("/orders")], ids=["queue", "http"])
@pytest.mark.parametrize("events", [1, 3, 12])
@pytest.mark.parametrize("seed", range(4))
async def test_an_event_whose_sender_ends_the_process_is_the_only_dead_leg(source, events, seed):
    listed = [event(n) for n in range(events)]
    async with new_world(routes_with(source=source), listed, seed=seed) as world:
        world.killing.add("e0:poisoned")
        processes = await world.live(*[Mishap()] * 20)
        assert len(processes) == 1 + MOST_CRASHES
        await healthy_routes_have_all(world)
        (leg,) = await world.dead("poisoned")
        assert leg.id == "e0"
        assert leg.dead_letter_info.reason == MAX_DELIVERY_COUNT_EXCEEDED
        assert world.arrived_at("poisoned") == {f"{each.id}:poisoned" for each in listed[1:]}
