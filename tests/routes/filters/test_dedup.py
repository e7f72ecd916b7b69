# SPDX-License-Identifier: MIT
"""The filter that consumes duplicates, with a real ledger in a file."""

import pytest

from redrive.engines.registry import route_ledger_in
from redrive.engines.sqlite import SqliteEngine
from redrive.errors import InvalidExpression, InvalidSetting
from redrive.routes.filters.dedup import DedupFilter
from redrive.routes.outcomes import Rejected
from tests.clocks import SharedClock
from tests.routes.filters.events import environment, event, leg


@pytest.fixture
def clock():
    return SharedClock()


@pytest.fixture
async def process(tmp_path, clock):
    """Return a function that starts one more process: its environment has a ledger of its own in the same file."""
    ledgers = []

    async def start():
        ledger = route_ledger_in(SqliteEngine(tmp_path / "routes.db", clock=clock), is_shared=False)
        await ledger.open()
        ledgers.append(ledger)
        return environment(ledger, clock)

    yield start
    for ledger in ledgers:
        await ledger.close()


@pytest.fixture
async def orders(process):
    opened = DedupFilter("body.order", window=60).open(await process())
    yield opened
    await opened.close()


def order(number, **more):
    return event({"order": number, **more})


async def passes(opened, message, event_id, **facts):
    return list(await opened.apply(message, leg(event_id, **facts))) == [message]


async def test_the_first_event_with_a_key_passes_and_later_ones_are_consumed(orders):
    assert await passes(orders, order(1), "a")
    assert not await passes(orders, order(1, more=2), "b")
    assert await passes(orders, order(2), "c")


async def test_a_replay_passes_again_also_in_another_process(orders, process):
    assert await passes(orders, order(1), "a")
    assert await passes(orders, order(1), "a", attempt=2)
    other = DedupFilter("body.order", window=60).open(await process())
    assert await passes(other, order(1), "a", attempt=3)
    assert not await passes(other, order(1), "b")


async def test_a_key_is_forgotten_when_its_window_is_over(orders, clock):
    assert await passes(orders, order(1), "a")
    clock.advance(59)
    assert not await passes(orders, order(1), "b")
    clock.advance(1)
    assert await passes(orders, order(1), "c")


async def test_a_leg_that_dies_gives_its_key_back_and_one_that_is_delivered_does_not(orders):
    assert await passes(orders, order(1), "a")
    await orders.ended(order(1), leg("a"), is_delivered=True)
    assert not await passes(orders, order(1), "b")
    await orders.ended(order(1), leg("a"), is_delivered=False)
    assert await passes(orders, order(1), "b")


async def test_a_duplicate_that_dies_does_not_give_back_the_key_of_the_first(orders):
    assert await passes(orders, order(1), "a")
    await orders.ended(order(1), leg("b"), is_delivered=False)
    assert not await passes(orders, order(1), "c")


async def test_parts_of_one_event_are_no_duplicates_of_each_other(orders):
    assert await passes(orders, event({"order": 1}, id="a:0"), "a")
    assert await passes(orders, event({"order": 1}, id="a:1"), "a")


async def test_each_route_has_its_own_keys(orders):
    assert await passes(orders, order(1), "a")
    assert await passes(orders, order(1), "b", route="other")
    assert await passes(orders, order(1), "c", application="other")


async def test_two_filters_of_a_route_do_not_share_keys(orders, process):
    customers = DedupFilter("body.customer", window=60).open(await process())
    assert await passes(orders, order(7, customer=1), "a")
    assert await passes(customers, order(7, customer=1), "a")
    assert await passes(orders, order(1, customer=7), "b")
    assert await passes(customers, order(1, customer=7), "b")


async def test_without_a_path_the_whole_body_is_the_key(process):
    whole = DedupFilter(window=60).open(await process())
    assert await passes(whole, event(b"\xff"), "a")
    assert not await passes(whole, event(b"\xff"), "b")
    assert await passes(whole, event(b"\xfe"), "c")


@pytest.mark.parametrize("body", [{}, {"order": None}, b"no json"])
async def test_an_event_without_a_key_is_rejected_and_may_end(orders, body):
    rejected = await orders.apply(event(body), leg())
    assert isinstance(rejected, Rejected)
    await orders.ended(event(body), leg(), is_delivered=False)


@pytest.mark.parametrize("key", ["\0", "\ud800", "a" * 100_000, {"b": [1], "a": 2}, 0, False])
async def test_a_key_may_be_any_value(orders, key):
    assert await passes(orders, order(key), "a")
    assert not await passes(orders, order(key), "b")


def test_settings_are_checked_when_the_filter_is_made():
    with pytest.raises(InvalidExpression):
        DedupFilter("order")
    with pytest.raises(InvalidSetting):
        DedupFilter("body.order", window=0)
    assert DedupFilter.from_table({"kind": "dedup", "key": "id", "window": "1h"}) == DedupFilter("id", 3_600)
