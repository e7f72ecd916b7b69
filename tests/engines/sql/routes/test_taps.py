# SPDX-License-Identifier: MIT
"""Taps, and the look at the revision that every process takes all the time."""

from datetime import timedelta

import pytest

from redrive.clock import utc
from redrive.engines.sql import runner
from redrive.routes.ledger import RouteRevision, StoredRoute, Tap


@pytest.fixture
def statements(monkeypatch):
    """Collect the statements that are run."""
    seen = []
    real = runner.statement
    monkeypatch.setattr(runner, "statement", lambda *how: seen.append(real(*how)) or seen[-1])
    return seen


def tap(place, queue, seconds, route="orders"):
    return Tap("default", route, queue, utc(place.clock.time() + seconds))


async def test_taps_are_seen_by_every_process_in_order_of_their_queues(place, ledger, other):
    route = StoredRoute(application="default", name="orders", version=1, state="running", definition="{}")
    for queue in ("b", "B", "a"):
        await ledger.add_tap("default", "orders", queue, 60)
    taps = tuple(tap(place, queue, 60) for queue in ("B", "a", "b"))
    assert await other.revision() == RouteRevision(0, taps)
    await ledger.change([route])
    assert await other.revision() == RouteRevision(1, taps)


async def test_a_tap_ends_when_its_time_is_over(place, ledger):
    await ledger.add_tap("default", "orders", "a", 10)
    await ledger.add_tap("default", "orders", "b", 20)
    place.clock.advance(10)
    assert (await ledger.revision()).taps == (tap(place, "b", 10),)
    place.clock.advance(10)
    assert await ledger.revision() == RouteRevision(0)


async def test_a_tap_is_made_longer_from_now_on(place, ledger):
    await ledger.add_tap("default", "orders", "a", 10)
    place.clock.advance(9)
    await ledger.add_tap("default", "orders", "a", 10)
    place.clock.advance(9)
    assert (await ledger.revision()).taps == (tap(place, "a", 1),)


async def test_a_queue_follows_one_route_at_a_time(place, ledger):
    await ledger.add_tap("default", "orders", "a", 10)
    await ledger.add_tap("default", "bills", "a", 20)
    assert (await ledger.revision()).taps == (tap(place, "a", 20, "bills"),)


async def test_a_tap_that_is_removed_is_gone_and_no_other(place, ledger, other):
    await ledger.add_tap("default", "orders", "a", 10)
    await ledger.add_tap("default", "orders", "b", 10)
    await other.remove_tap("a")
    await other.remove_tap("nobody")
    assert (await ledger.revision()).taps == (tap(place, "b", 10),)


async def test_taps_that_have_ended_are_forgotten_with_claims(place, ledger):
    await ledger.add_tap("default", "orders", "a", 10)
    await ledger.add_tap("default", "orders", "b", 20)
    place.clock.advance(10)
    assert await ledger.forget_claims() == 0
    assert await place.sql("SELECT queue FROM @.route_taps") == [("b",)]


async def test_texts_of_a_tap_may_have_every_character(ledger):
    await ledger.add_tap("a\0b'?", "@. \ud800", "q\0\U0001f600", 10)
    (found,) = (await ledger.revision()).taps
    assert (found.application, found.route, found.queue) == ("ab'?", "@. \\ud800", "q\U0001f600")
    await ledger.remove_tap("q\0\U0001f600")
    assert (await ledger.revision()).taps == ()


async def test_a_look_at_the_revision_is_one_statement(ledger, statements):
    await ledger.revision()
    assert len(statements) == 1


async def test_when_a_tap_ends_is_told_to_the_microsecond(place, ledger):
    await ledger.add_tap("default", "orders", "a", 0.000123)
    (found,) = (await ledger.revision()).taps
    assert found.until == utc(place.clock.time()) + timedelta(microseconds=123)
