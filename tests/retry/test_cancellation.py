# SPDX-License-Identifier: MIT
"""A call that is cancelled, at whichever point it waits, ends there: no further attempt, nothing left behind."""

import asyncio

import pytest

from redrive.retry import CircuitBreaker, Fixed, current_attempt, deadline, retry
from redrive.testing import ManualClock


class Refused(Exception):
    pass


class CancelAt:
    """Awaits something and cancels the task at its k-th suspension, as ``task.cancel()`` does; counts them all."""

    def __init__(self, awaitable, k):
        self.awaitable, self.k, self.suspensions = awaitable, k, 0

    def __await__(self):
        inner = self.awaitable.__await__()
        step, value = inner.send, None
        while True:
            try:
                waiting = step(value)
            except StopIteration as stopped:
                return stopped.value
            self.suspensions += 1
            if self.suspensions == self.k:
                asyncio.current_task().cancel()
            try:
                step, value = inner.send, (yield waiting)
            except BaseException as error:  # noqa: BLE001 - handed on, whatever it is
                step, value = inner.throw, error


class World:
    """A clock that moves by itself, a breaker that is about to be probed, and a function that fails twice."""

    def __init__(self):
        self.clock = ManualClock(auto_advance=True)
        self.breaker = CircuitBreaker("api", failures=1, open_for=5.0)
        self.breaker.failed(self.breaker.admit(0.0), 0.0)
        self.clock.advance(5.0)
        self.calls = 0

    async def function(self):
        self.calls += 1
        for _ in range(2):
            await self.clock.sleep_async(0.125)
        if self.calls <= 2:
            raise Refused
        return "done"

    def retrying(self, **settings):
        return retry(on=lambda _error: True, policy=Fixed(1.0, jitter="none"), clock=self.clock, **settings)


async def called(world):
    return await world.retrying().call_async(world.function)


async def decorated(world):
    return await world.retrying()(world.function)()


async def with_a_breaker(world):
    return await world.retrying(breaker=world.breaker, when_open="wait").call_async(world.function)


async def with_limits(world):
    return await world.retrying(breaker=world.breaker, when_open="wait", deadline=50.0, attempt_timeout=5.0).call_async(
        world.function
    )


async def with_results(world):
    settings = {"breaker": world.breaker, "when_open": "wait", "on_result": lambda result: result == "no"}
    return await world.retrying(**settings).call_async(world.function)


async def as_a_block(world):
    async for attempt in world.retrying(breaker=world.breaker, when_open="wait", deadline=50.0):
        with attempt:
            return await world.function()
    return None


async def nested(world):
    async def inner():
        return await world.retrying(breaker=world.breaker, when_open="wait", max_attempts=2).call_async(world.function)

    return await world.retrying(deadline=60.0).call_async(inner)


SHAPES = [called, decorated, with_a_breaker, with_limits, with_results, as_a_block, nested]
every_shape = pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)


async def suspensions_of(shape):
    counted = CancelAt(shape(World()), None)
    assert await counted == "done"
    return counted.suspensions


@every_shape
async def test_a_call_cancelled_at_any_of_its_waits_ends_there(shape):
    points = await suspensions_of(shape)
    assert points >= 8  # three attempts that wait twice each, and the waits between them
    states = set()
    for k in range(1, points + 1):
        world = World()
        with deadline(100.0, clock=world.clock):
            with pytest.raises(asyncio.CancelledError):
                await CancelAt(shape(world), k)
            asyncio.current_task().uncancel()
            calls = world.calls
            assert current_attempt().operation == ""  # only the block around is seen
            assert current_attempt().remaining > 50.0
        assert current_attempt().remaining is None
        states.add(world.breaker.state)
        if world.breaker.state == "half_open":
            assert world.breaker.admit(world.clock.monotonic()) is not None, f"probe lost at wait {k}"
        await world.clock.sleep_async(100.0)
        assert world.calls == calls
        assert world.clock.sleepers == 0
    assert states == ({"open"} if shape in {called, decorated} else {"open", "half_open"})


@every_shape
async def test_a_task_that_is_cancelled_ends_as_cancelled(shape):
    world = World()
    task = asyncio.create_task(shape(world))
    while not world.calls:
        await world.clock.sleep_async(0.0)
    task.cancel("enough")
    with pytest.raises(asyncio.CancelledError, match="enough"):
        await task
    assert task.cancelled()
    assert world.calls == 1


@every_shape
async def test_closing_a_coroutine_at_any_of_its_waits_ends_it_there(shape):
    """What happens to a coroutine that is dropped: GeneratorExit."""
    points = await suspensions_of(shape)
    for k in range(1, points + 1):
        world = World()
        coroutine = shape(world)
        iterator = coroutine.__await__()
        for _ in range(k):
            waiting = next(iterator)
            assert waiting is None  # an auto-advancing clock only yields its turn
        coroutine.close()
        assert current_attempt().remaining is None
        if world.breaker.state == "half_open":
            assert world.breaker.admit(world.clock.monotonic()) is not None


async def test_a_cancellation_during_a_cut_off_wins():
    world = World()
    world.clock = clock = ManualClock()
    began = asyncio.Event()

    async def hanging():
        world.calls += 1
        began.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(world.retrying(attempt_timeout=5.0).call_async(hanging))
    await began.wait()
    clock.advance(5.0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert world.calls == 1


async def test_a_task_group_that_fails_ends_the_retries_in_it():
    world = World()
    calls = []

    async def failing_for_ever():
        calls.append(1)
        raise Refused

    async def other():
        while not calls:
            await world.clock.sleep_async(0.0)
        raise KeyError

    async def both():
        async with asyncio.TaskGroup() as group:
            group.create_task(world.retrying(max_attempts=10**6, deadline=None).call_async(failing_for_ever))
            group.create_task(other())

    with pytest.raises(ExceptionGroup) as caught:
        await both()
    assert [type(error) for error in caught.value.exceptions] == [KeyError]
    assert len(calls) < 100


# --- blocking calls ---------------------------------------------------------------------------------------------------


class InterruptedClock(ManualClock):
    """A clock whose k-th sleep is interrupted."""

    def __init__(self, k):
        super().__init__()
        self.k = k

    def sleep(self, seconds):
        super().sleep(seconds)
        if len(self.slept) == self.k:
            raise KeyboardInterrupt


def interrupted_call(retrying, function):
    return retrying.call(function)


def interrupted_function(retrying, function):
    return retrying(function)()


def interrupted_block(retrying, function):
    for attempt in retrying:
        with attempt:
            return function()
    return None


@pytest.mark.parametrize(
    "shape", [interrupted_call, interrupted_function, interrupted_block], ids=lambda shape: shape.__name__
)
@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_an_interrupted_sleep_ends_a_blocking_call(shape, k):
    clock, calls = InterruptedClock(k), []
    breaker = CircuitBreaker("api", failures=1, open_for=5.0)

    def failing():
        calls.append(1)
        raise Refused

    retrying = retry(
        on=lambda _error: True, policy=Fixed(1.0, jitter="none"), clock=clock, breaker=breaker, when_open="wait"
    )
    with pytest.raises(KeyboardInterrupt):
        shape(retrying, failing)
    assert len(clock.slept) == k
    assert len(calls) == (k + 1) // 2  # after each failure a wait for the policy and one for the breaker
    assert current_attempt().remaining is None
    clock.advance(5.0)
    assert breaker.admit(clock.monotonic()) is not None
