# SPDX-License-Identifier: MIT
"""Code inside a retry sees its attempt and the time that is left, wherever it runs; other code does not."""

import asyncio
import contextvars
import threading
from datetime import timedelta

import pytest

from redrive.errors import InvalidSetting
from redrive.retry import Fixed, current_attempt, deadline, retry
from redrive.retry.ambient import ambient
from redrive.testing import ManualClock, no_sleep


def seen():
    """Return everything that the current attempt tells."""
    attempt = current_attempt()
    return attempt.number, attempt.operation, attempt.remaining, attempt.timeout


NOTHING = (1, "", None, None)


@pytest.fixture(autouse=True)
def nothing_is_left_behind():
    yield
    left, _ = seen(), ambient.set(None)
    assert left == NOTHING


@pytest.fixture
def clock():
    return ManualClock(auto_advance=True)


def failing_until(number, clock=None, taking=0.0):
    """Return a function that notes what it sees and fails before the given attempt."""
    notes = []

    def function():
        notes.append(seen())
        if clock is not None:
            clock.advance(taking)
        if len(notes) < number:
            raise ConnectionError(len(notes))

    return function, notes


def tried(clock, **settings):
    return retry(on=ConnectionError, policy=Fixed(2.0, jitter="none"), clock=clock, operation="fetch", **settings)


# --- what is seen -----------------------------------------------------------------------------------------------------


def test_code_outside_every_retry_is_in_attempt_one_with_no_limit():
    assert seen() == NOTHING


def test_a_call_sees_which_attempt_it_is_and_how_much_time_is_left(clock):
    function, notes = failing_until(3, clock, taking=1.0)
    tried(clock, deadline=20.0).call(function)
    assert notes == [(1, "fetch", 20.0, 20.0), (2, "fetch", 17.0, 17.0), (3, "fetch", 14.0, 14.0)]


def test_a_decorated_function_sees_the_same(clock):
    function, notes = failing_until(3, clock, taking=1.0)
    tried(clock, deadline=20.0)(function)()
    assert notes == [(1, "fetch", 20.0, 20.0), (2, "fetch", 17.0, 17.0), (3, "fetch", 14.0, 14.0)]


def test_a_first_attempt_without_a_stated_limit_is_not_announced_and_later_ones_are(clock):
    function, notes = failing_until(3)
    tried(clock)(function)()
    assert notes == [NOTHING, (2, "fetch", 58.0, 58.0), (3, "fetch", 56.0, 56.0)]


async def test_an_async_call_sees_its_attempt(clock):
    function, notes = failing_until(3, clock, taking=1.0)

    async def async_function():
        await asyncio.create_task(clock.sleep_async(0.0))  # context survives a suspension
        function()

    await tried(clock, deadline=20.0).call_async(async_function)
    assert [note[:3] for note in notes] == [(1, "fetch", 20.0), (2, "fetch", 17.0), (3, "fetch", 14.0)]


async def test_tasks_and_threads_started_inside_see_it_too(clock):
    notes = []

    async def in_task():
        notes.append(seen())

    @tried(clock, deadline=20.0, attempt_timeout=5.0)
    async def spread():
        await asyncio.create_task(in_task())
        notes.append(await asyncio.to_thread(seen))
        async with asyncio.TaskGroup() as group:
            group.create_task(in_task())

    await spread()
    assert notes == [(1, "fetch", 20.0, 5.0)] * 3


def test_a_plain_thread_is_outside(clock):
    notes = []

    @tried(clock, deadline=20.0)
    def function():
        thread = threading.Thread(target=lambda: notes.append(seen()))
        thread.start()
        thread.join()

    function()
    assert notes == [NOTHING]


def test_a_block_sees_its_attempt(clock):
    notes = []
    for attempt in tried(clock, deadline=20.0):
        with attempt as current:
            notes.append((attempt.number, current.number, current.remaining, seen()))
            if attempt.number < 2:
                raise ConnectionError
    assert notes == [(1, 1, 20.0, (1, "fetch", 20.0, 20.0)), (2, 2, 18.0, (2, "fetch", 18.0, 18.0))]


@pytest.mark.parametrize(
    ("limits", "timeout"),
    [
        ({"deadline": 20.0}, 20.0),
        ({"deadline": 20.0, "attempt_timeout": 5.0}, 5.0),
        ({"deadline": 3.0, "attempt_timeout": 5.0}, 3.0),
        ({"deadline": None, "attempt_timeout": 5.0}, 5.0),
        ({"deadline": None}, None),
    ],
    ids=str,
)
def test_the_timeout_of_an_attempt_is_the_shorter_of_its_limits(clock, limits, timeout):
    assert tried(clock, **limits).call(seen)[3] == timeout


def test_remaining_time_is_never_negative(clock):
    def slow():
        clock.advance(30.0)
        return seen()

    assert tried(clock, deadline=20.0).call(slow)[2:] == (0.0, 0.0)


def test_an_attempt_object_keeps_its_number_and_counts_its_time_down(clock):
    kept = []

    def function():
        kept.append(current_attempt())
        if len(kept) < 2:
            raise ConnectionError

    tried(clock, deadline=20.0).call(function)
    assert [attempt.number for attempt in kept] == [1, 2]
    assert kept[0].remaining == 18.0


# --- nesting ----------------------------------------------------------------------------------------------------------


def test_a_nested_call_ends_with_the_call_around_it(clock):
    inner_notes = []

    def inner():
        inner_notes.append(seen())
        raise ConnectionError

    def outer():
        clock.advance(4.0)
        retry(on=ConnectionError, policy=Fixed(3.0, jitter="none"), clock=clock, deadline=60.0, operation="in").call(
            inner
        )

    with pytest.raises(ConnectionError):
        retry(on=ConnectionError, max_attempts=1, clock=clock, deadline=10.0, operation="out").call(outer)
    assert inner_notes == [(1, "in", 6.0, 6.0), (2, "in", 3.0, 3.0)]  # a third would come at the very end
    assert clock.slept == [3.0]


def test_a_nested_call_may_be_stricter_than_the_call_around_it(clock):
    notes = []

    def outer():
        tried(clock, deadline=2.0).call(lambda: notes.append(seen()))
        notes.append(seen())

    tried(clock, deadline=10.0).call(outer)
    assert notes == [(1, "fetch", 2.0, 2.0), (1, "fetch", 10.0, 10.0)]


def test_a_nested_call_without_a_deadline_has_the_outer_one(clock):
    notes = []
    with deadline(5.0, clock=clock):
        tried(clock, deadline=None).call(lambda: notes.append(seen()))
        tried(clock)(lambda: notes.append(seen()))()
    assert notes == [(1, "fetch", 5.0, 5.0)] * 2


def test_clocks_may_differ_between_the_levels(clock):
    other, notes = ManualClock(start=0.0), []
    other.advance(1_000.0)
    with deadline(5.0, clock=clock):
        clock.advance(1.0)
        tried(other).call(lambda: notes.append(seen()))
    assert notes == [(1, "fetch", 4.0, 4.0)]


# --- deadline blocks --------------------------------------------------------------------------------------------------


def test_a_deadline_block_is_seen_inside_and_nowhere_else(clock):
    with deadline(5.0, clock=clock) as attempt:
        clock.advance(1.0)
        assert seen() == (1, "", 4.0, 4.0)
        assert attempt.remaining == 4.0
    assert seen() == NOTHING


def test_of_nested_deadline_blocks_the_nearest_end_counts(clock):
    with deadline(5.0, clock=clock):
        with deadline(timedelta(seconds=2), clock=clock):
            assert seen()[2] == 2.0
        with deadline(60.0, clock=clock):
            clock.advance(1.0)
            assert seen()[2] == 4.0
        assert seen()[2] == 4.0


def test_a_deadline_block_inside_an_attempt_keeps_its_number_and_name(clock):
    def function():
        with deadline(3.0, clock=clock):
            return seen()

    assert tried(clock, deadline=20.0).call(function) == (1, "fetch", 3.0, 3.0)


def test_retries_in_a_deadline_block_stop_in_time_for_it(clock):
    function, notes = failing_until(100)
    with deadline(5.0, clock=clock), pytest.raises(ConnectionError) as caught:
        tried(clock)(function)()
    assert [number for number, *_ in notes] == [1, 2, 3]
    assert clock.monotonic() == 4.0
    assert "would come after the deadline" in caught.value.__notes__[0]


def test_a_deadline_block_of_no_time_allows_one_attempt(clock):
    function, notes = failing_until(2)
    with deadline(0.0, clock=clock), pytest.raises(ConnectionError):
        tried(clock).call(function)
    assert len(notes) == 1


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), "5", None, True])
def test_a_wrong_deadline_is_refused(seconds):
    with pytest.raises(InvalidSetting) as refused:
        deadline(seconds)
    assert refused.value.setting == "seconds"


def test_a_deadline_block_runs_on_the_system_clock_by_default():
    with deadline(3_600.0) as attempt:
        assert 3_500.0 < attempt.remaining <= 3_600.0


def test_one_deadline_may_limit_blocks_that_overlap(clock):
    shared = deadline(5.0, clock=clock)
    with shared:
        with shared:
            pass
        assert seen()[2] == 5.0
    assert seen() == NOTHING


# --- nothing is left behind -------------------------------------------------------------------------------------------


def test_nothing_is_seen_after_a_success_a_failure_or_an_interruption(clock):
    @tried(clock, deadline=9.0)
    def raising(error):
        if error is not None:
            raise error

    raising(None)
    assert seen() == NOTHING
    for kind in (ValueError, ConnectionError, KeyboardInterrupt, SystemExit, GeneratorExit):
        with pytest.raises(kind):
            raising(kind())
        assert seen() == NOTHING


async def test_nothing_is_seen_after_a_cancellation(clock):
    waiting = asyncio.Event()

    @tried(clock, deadline=9.0)
    async def stuck():
        waiting.set()
        await asyncio.Event().wait()

    async def caller():
        try:
            await stuck()
        except asyncio.CancelledError:
            return seen()

    task = asyncio.create_task(caller())
    await waiting.wait()
    task.cancel()
    assert await task == NOTHING


async def test_concurrent_calls_see_only_their_own_attempt():
    async def one(index):
        notes = []

        async def function():
            notes.append(seen()[:2])
            await ManualClock(auto_advance=True).sleep_async(0.0)
            notes.append(seen()[:2])
            if len(notes) < 2 * (index % 4 + 1):
                raise ConnectionError

        await retry(on=ConnectionError, policy=Fixed(1.0), deadline=600, operation=str(index)).call_async(function)
        return notes

    with no_sleep():
        results = await asyncio.gather(*(one(index) for index in range(40)))
    for index, notes in enumerate(results):
        assert notes == [(attempt, str(index)) for attempt in range(1, index % 4 + 2) for _ in range(2)]


def test_a_block_that_is_broken_out_of_leaves_nothing(clock):
    for attempt in tried(clock, deadline=9.0):
        with attempt:
            break
    assert seen() == NOTHING


def test_a_block_whose_predicate_fails_leaves_nothing(clock):
    def broken(_error):
        raise ZeroDivisionError

    attempt = next(iter(retry(on=broken, clock=clock)))
    with pytest.raises(ZeroDivisionError), attempt:
        raise ValueError
    assert seen() == NOTHING


def test_a_scope_that_is_never_left_ends_with_the_one_around_it(clock):
    tried(clock, deadline=9.0).call(deadline(5.0, clock=clock).__enter__)
    assert seen() == NOTHING


# --- async generators -------------------------------------------------------------------------------------------------


async def yielding_within(manager):
    with manager:
        yield seen()


def managers(clock):
    def block():
        return next(iter(tried(clock, deadline=7.0)))

    return [deadline(7.0, clock=clock), block()]


@pytest.mark.parametrize("index", [0, 1], ids=["deadline", "attempt"])
async def test_a_generator_left_in_another_context_does_not_fail_and_changes_nothing_there(clock, index):
    generator = yielding_within(managers(clock)[index])
    inside = contextvars.copy_context()
    task = asyncio.create_task(anext(generator), context=inside)
    assert (await task)[2] == 7.0

    with deadline(99.0, clock=clock):  # in a context of its own, where other limits hold
        await generator.aclose()
        assert seen()[2] == 99.0
    assert seen() == NOTHING


@pytest.mark.parametrize("index", [0, 1], ids=["deadline", "attempt"])
async def test_a_generator_left_where_it_was_entered_restores_what_was_around(clock, index):
    async for noted in yielding_within(managers(clock)[index]):
        assert noted[2] == 7.0
    assert seen() == NOTHING
