# SPDX-License-Identifier: MIT
"""Routes and their history: all of a change or nothing of it, and never over the change of another process."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from redrive.clock import utc
from redrive.engines.registry import route_ledger_in
from redrive.errors import RedriveError
from redrive.routes.ledger import RouteRevision, StoredRoute

HOSTILE = "a\0b'; DROP TABLE redrive_routes; -- ? @. @lock $1 \ud800 \U0001f600 %s {0} \\ \n"
STORED = "ab'; DROP TABLE redrive_routes; -- ? @. @lock $1 \\ud800 \U0001f600 %s {0} \\ \n"
RIVALS_CHANGE = (
    "INSERT INTO {0}route_changes"
    " (number, application, name, version, state, definition, earlier_queues, reason, changed_at)"
    " VALUES ({1}, 'default', 'rival', 1, 'running', '{{}}', '[]', '', 0)"
)


def route(name="orders", version=1, **more):
    return StoredRoute(
        **{"application": "default", "state": "running", "definition": "{}", **more}, name=name, version=version
    )


def names(routes):
    return [(each.application, each.name, each.version, each.state) for each in routes]


async def test_an_empty_ledger_has_nothing(ledger):
    assert await ledger.revision() == RouteRevision(0)
    assert await ledger.routes() == await ledger.routes(with_removed=True) == []
    assert await ledger.versions("default", "orders") == []


async def test_a_route_comes_back_as_it_was_stored_with_the_time_of_the_change(place, ledger, other):
    now = utc(place.clock.time())
    full = StoredRoute(
        application="shop",
        name="orders",
        version=3,
        state="draining",
        definition='{"source": "orders"}',
        earlier_queues=("orders.old", "orders.older"),
        until=now + timedelta(hours=1, microseconds=123),
        reason="too slow",
        changed_at=now - timedelta(days=1),
    )
    assert await ledger.change([full]) == 1
    assert await other.routes() == [replace(full, changed_at=now)]
    assert await other.versions("shop", "orders") == [replace(full, changed_at=now)]


async def test_a_change_replaces_everything_of_a_route(place, ledger):
    await ledger.change([route(until=utc(5.0), reason="why", earlier_queues=("a",))])
    place.clock.advance(10)
    after = route(version=2, state="paused", definition="[]")
    await ledger.change([after])
    assert await ledger.routes() == [replace(after, changed_at=utc(place.clock.time()))]


async def test_routes_are_in_order_of_applications_and_names_whatever_the_database_thinks_of_letters(ledger):
    for application, name in [("b", "x"), ("a", "b"), ("a", "a"), ("a", "B"), ("B", "z"), ("a", "é"), ("a", "_")]:
        await ledger.change([route(name, application=application)])
    found = [(each.application, each.name) for each in await ledger.routes()]
    assert found == [("B", "z"), ("a", "B"), ("a", "_"), ("a", "a"), ("a", "b"), ("a", "é"), ("b", "x")]


async def test_removed_routes_are_shown_if_asked_for(ledger):
    await ledger.change([route("a"), route("b", state="removed"), route("c", state="paused")])
    assert [each.name for each in await ledger.routes()] == ["a", "c"]
    assert [each.name for each in await ledger.routes(with_removed=True)] == ["a", "b", "c"]


async def test_the_history_has_a_row_for_each_change_of_a_route_the_newest_first(place, ledger):
    await ledger.change([route(), route("other"), route(application="shop")])
    place.clock.advance(1)
    await ledger.change([route(state="paused", reason="stop")])
    await ledger.change([route(version=2)])
    found = await ledger.versions("default", "orders")
    assert names(found) == [
        ("default", "orders", 2, "running"),
        ("default", "orders", 1, "paused"),
        ("default", "orders", 1, "running"),
    ]
    assert [each.reason for each in found] == ["", "stop", ""]
    assert found[1].changed_at == found[2].changed_at + timedelta(seconds=1)


# --- the revision, and who may change


async def test_the_revision_grows_with_every_change(ledger, other):
    assert await ledger.change([route("a"), route("b")]) == 2
    assert await other.revision() == RouteRevision(2)
    assert await other.change([route("a")], expected=2) == 3
    assert await ledger.change([route("c")]) == 4
    assert await ledger.revision() == RouteRevision(4)


@pytest.mark.parametrize("expected", [0, 1, 3, -1])
async def test_a_change_that_is_not_based_on_the_last_revision_changes_nothing(ledger, other, expected):
    await ledger.change([route("a"), route("b")])
    before = await ledger.routes()
    assert await other.change([route("a", 2), route("c")], expected) is None
    assert await ledger.routes() == before
    assert await ledger.revision() == RouteRevision(2)
    assert len(await ledger.versions("default", "a")) == 1


async def test_a_change_of_no_routes_says_which_revision_there_is(ledger):
    assert await ledger.change([]) == 0
    await ledger.change([route()])
    assert await ledger.change([], expected=1) == 1
    assert await ledger.change([], expected=0) is None
    assert await ledger.revision() == RouteRevision(1)


async def test_of_many_changes_that_are_based_on_the_same_revision_one_is_made(place):
    ledgers = [await place.ledger() for _ in range(4)]
    for round_ in range(5):
        start = (await ledgers[0].revision()).number
        results = await asyncio.gather(
            *(each.change([route("a", number), route("b", number)], start) for number, each in enumerate(ledgers))
        )
        (winner,) = [number for number, result in enumerate(results) if result is not None]
        assert results[winner] == start + 2, round_
        assert [each.version for each in await ledgers[0].routes()] == [winner, winner]


async def test_changes_that_are_based_on_nothing_are_all_made_one_after_another(place):
    ledgers = [await place.ledger() for _ in range(4)]
    results = await asyncio.gather(
        *(each.change([route("a", number), route("b", number)]) for number in range(5) for each in ledgers)
    )
    assert sorted(results) == list(range(2, 42, 2))
    assert await ledgers[0].revision() == RouteRevision(40)
    history = [[each.version for each in await ledgers[0].versions("default", name)] for name in ("a", "b")]
    assert history[0] == history[1]
    assert len(history[0]) == 20
    assert [each.version for each in await ledgers[0].routes()] == [history[0][0]] * 2


@pytest.mark.parametrize(
    ("expected", "commits", "result"), [(1, True, None), (1, False, 2), (None, True, 3), (None, False, 2)]
)
async def test_a_change_waits_for_one_that_has_begun(place, ledger, expected, commits, result):
    await ledger.change([route()])
    rival = place.rival()
    try:
        rival.execute(RIVALS_CHANGE.format(place.prefix, 2))
        changing = asyncio.create_task(ledger.change([route(version=2)], expected))
        while not place.is_waiting():
            assert not changing.done()
            await asyncio.sleep(0.001)  # noqa: TID251 - until a server or a thread is where it waits
        assert not changing.done()
        (rival.commit if commits else rival.rollback)()
    finally:
        rival.close()
    assert await changing == result
    assert names(await ledger.routes()) == [("default", "orders", 1 if result is None else 2, "running")]
    assert await ledger.revision() == RouteRevision(result or 2)


# --- all or nothing


class Cut(RedriveError):
    """The process is gone."""


class Cutting:
    """A database on which a script ends before a certain step."""

    def __init__(self, database, step):
        self._database = database
        self._step = step

    async def run(self, script):
        return await self._database.run(lambda: self._cut(script()))

    def _cut(self, script):
        answer = None
        for _ in range(self._step):
            try:
                answer = yield next(script) if answer is None else script.send(answer)
            except StopIteration as end:
                return end.value
        raise Cut("now")


async def test_a_change_that_ends_half_way_has_changed_nothing(ledger):
    await ledger.change([route("a"), route("b")])
    before = await ledger.routes(with_removed=True)
    steps = 0
    while True:
        half = route_ledger_in(Cutting(ledger.database, steps), is_shared=True)
        try:
            made = await half.change([route("a", 2), route("b", 2), route("c")], expected=2)
            break
        except Cut:
            steps += 1
        assert await ledger.routes(with_removed=True) == before
        assert await ledger.revision() == RouteRevision(2)
    assert (steps, made) == (6, 5)  # the last cut is behind everything, before the commit
    assert names(await ledger.routes()) == [
        ("default", name, number, "running") for name, number in [("a", 2), ("b", 2), ("c", 1)]
    ]


async def test_a_route_that_cannot_be_stored_lets_none_be_stored(ledger):
    with pytest.raises(Exception):  # noqa: B017 - each driver has an error of its own
        await ledger.change([route("a"), route("b"), route("c", version=None)])
    assert await ledger.routes() == []
    assert await ledger.revision() == RouteRevision(0)
    assert await ledger.change([route("a")], expected=0) == 1


# --- texts


async def test_texts_may_have_every_character(ledger):
    hostile = StoredRoute(
        application=HOSTILE,
        name=HOSTILE,
        version=2**40,
        state="paused",
        definition=HOSTILE,
        earlier_queues=(HOSTILE, "", '"]'),
        reason=HOSTILE,
    )
    await ledger.change([hostile])
    (found,) = await ledger.routes()
    assert (found.application, found.name, found.definition, found.reason) == (STORED,) * 4
    assert found.earlier_queues == hostile.earlier_queues
    assert await ledger.versions(HOSTILE, HOSTILE) == await ledger.versions(STORED, STORED) == [found]
    await ledger.change([found, route()])
    assert [each.name for each in await ledger.routes()] == [STORED, "orders"]


async def test_a_definition_may_be_long(ledger):
    await ledger.change([route(definition="x" * 1_000_000)])
    assert [len(each.definition) for each in await ledger.routes()] == [1_000_000]
