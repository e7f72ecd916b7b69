# SPDX-License-Identifier: MIT
"""The orders of lists of failed messages, and the places at which pages end."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.engines.sql.recovery import failures
from redrive.errors import InvalidSetting
from redrive.recovery import Order, Place

THEN = datetime(2026, 11, 1, 10, tzinfo=UTC)
instants = st.datetimes(datetime(1971, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - bounds


@given(st.integers(1, 10**17), st.none() | instants)
def test_the_text_of_a_place_reads_as_that_place(number, failed_at):
    place = Place(number, failed_at)
    assert Place.of(str(place), Order.NEWEST) == place
    if failed_at is not None:
        assert failed_at.timestamp() == Place.of(str(place), Order.LAST_FAILED).failed_at.timestamp()


def test_a_number_is_a_place_in_the_orders_that_compare_numbers():
    assert Place.of(17, Order.OLDEST) == Place.of("17", Order.NEWEST) == Place(17)
    assert Place.of(0, Order.LAST_FAILED) == Place(0)
    with pytest.raises(InvalidSetting, match=r"must have the time of its last failure .* page\[-1\]\.place"):
        Place.of(17, Order.LAST_FAILED)


@pytest.mark.parametrize(
    "text", ["", "x", "-1", "1.5", "2026-13-01T10:00:00Z/1", "2026-11-01T10:00:00/1", "1" * 19, "/1"]
)
def test_what_is_no_place_is_refused(text):
    with pytest.raises(InvalidSetting, match="must be a number, or a time and a number"):
        Place.of(text, Order.LAST_FAILED)


def test_a_place_may_be_in_another_zone():
    there = THEN.astimezone(timezone(timedelta(hours=2)))
    assert Place.of(str(Place(1, there)), Order.LAST_FAILED) == Place(1, THEN)


def test_an_order_has_a_word():
    assert Order.of("last-failed") is Order.of(Order.LAST_FAILED) is Order.LAST_FAILED
    with pytest.raises(InvalidSetting, match="must be one of oldest, newest, last-failed"):
        Order.of("largest")


# --- lists


async def by_last_failure(recovery, chosen="", **more):
    return [each.message_id for each in await recovery.failed(chosen, order="last-failed", **more)]


@pytest.fixture
async def three(process):
    """Messages that failed one after another."""
    for name in ("a", "b", "c"):
        await process.fail(id=name)
        process.clock.advance(10)
    return process


async def test_the_newest_failure_comes_first(three):
    assert await by_last_failure(three.recovery) == ["c", "b", "a"]
    await three.fail(id="b")
    assert await by_last_failure(three.recovery) == ["b", "c", "a"]
    assert [each.message_id for each in await three.recovery.failed(order="newest")] == ["c", "b", "a"]


async def test_a_page_goes_on_where_it_ended_when_its_last_message_fails_again(three):
    first = await three.recovery.failed(order="last-failed", limit=2)
    await three.fail(id="b")
    assert await by_last_failure(three.recovery, after=first[-1].place) == ["a"], "b is not there twice"


async def test_failures_at_one_moment_have_an_order_and_pages(process):
    await process.fail(5)
    whole = await process.recovery.failed(order="last-failed")
    numbers = [each.number for each in whole]
    assert numbers == sorted(numbers, reverse=True)
    rest = await process.recovery.failed(order="last-failed", after=whole[1].place, limit=2)
    assert rest == whole[2:4]


async def test_settled_messages_are_in_that_order_too(three):
    await three.recovery.archive("message:a")
    await three.work()
    assert await by_last_failure(three.recovery, "status:any") == ["c", "b", "a"]
    assert await by_last_failure(three.recovery, "status:archived") == ["a"]


@pytest.mark.parametrize("near", [0, 2, 100])
@pytest.mark.parametrize("chosen", ["exception:NoCredit", "queue:billing", "exception:NoCredit queue:billing"])
async def test_those_of_one_kind_are_in_that_order_wherever_they_are_among_all(process, monkeypatch, near, chosen):
    """Among the newest of all, or far behind them, or some of each: then others are read to find them."""
    monkeypatch.setattr(failures, "_NEAR", near)
    for name in ("a", "b", "x", "c", "y", "z"):
        is_meant = name in "abc"
        kind, queue = ("shop.errors.NoCredit", "billing") if is_meant else ("shop.errors.NoStock", "orders")
        await process.fail(id=name, kind=kind, queue=queue)
        process.clock.advance(10)
    await process.fail(id="a", kind="shop.errors.NoCredit", queue="billing")
    assert await by_last_failure(process.recovery, chosen) == ["a", "c", "b"]
    first = await process.recovery.failed(chosen, order="last-failed", limit=1)
    assert await by_last_failure(process.recovery, chosen, after=first[-1].place, limit=1) == ["c"]
    assert await by_last_failure(process.recovery, chosen, after=first[-1].place) == ["c", "b"]
