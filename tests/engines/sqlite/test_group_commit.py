# SPDX-License-Identifier: MIT
"""Callers who wait at the same time share a group; a lone one is served at once, on his own thread."""

import asyncio
import threading

import pytest

from redrive.engines.sqlite.group_commit import Request, Writer
from redrive.testing import ManualClock
from tests.patience import PATIENCE_S


class Bench:
    """A writer over a function that notes the groups it is given, and on which thread."""

    def __init__(self, cost=0.0):
        self.clock = ManualClock()
        self.cost = cost
        self.groups = []
        self.threads = []
        self.finished = 0
        self.refuses_to_wait = False
        self.gate = threading.Event()
        self.gate.set()
        self.writer = Writer(self.run, self.after, self.clock.monotonic)

    def run(self, group, may_wait):
        if self.refuses_to_wait and not may_wait:
            return False
        self.gate.wait(PATIENCE_S)
        self.clock.advance(self.cost)
        self.groups.append(list(group))
        self.threads.append(threading.current_thread().name)
        for request in group:
            if isinstance(request, Failing):
                request.error = ValueError("his own")
            else:
                request.result = len(self.groups)
        return True

    def after(self):
        self.finished += 1


class Failing(Request):
    pass


class Leaving(Request):
    __slots__ = ("has_left",)

    def __init__(self):
        super().__init__()
        self.has_left = False

    def abandoned(self):
        self.has_left = True


@pytest.fixture
async def bench():
    bench = Bench()
    yield bench
    bench.gate.set()
    await bench.writer.close()


async def turns(count=5):
    for _ in range(count):
        await ManualClock(auto_advance=True).sleep_async(0.0)


async def test_a_lone_request_runs_on_the_callers_thread(bench):
    assert await bench.writer.submit(Request()) == 1
    assert bench.threads == [threading.current_thread().name]
    assert bench.finished == 1


async def test_requests_at_the_same_time_are_one_group(bench):
    results = await asyncio.gather(*(bench.writer.submit(Request()) for _ in range(50)))
    assert results == [1] * 50
    assert bench.threads == ["redrive-sqlite-writer"]


async def test_requests_gather_while_a_group_is_being_written(bench):
    bench.gate.clear()
    first = [asyncio.create_task(bench.writer.submit(Request())) for _ in range(2)]
    await turns()
    second = [asyncio.create_task(bench.writer.submit(Request())) for _ in range(30)]
    await turns()
    bench.gate.set()
    assert await asyncio.gather(*first, *second) == [1] * 2 + [2] * 30


async def test_a_slow_disk_gets_a_thread_even_for_one(bench):
    bench.cost = 0.1
    await bench.writer.submit(Request())
    await bench.writer.submit(Request())
    assert bench.threads == [threading.current_thread().name, "redrive-sqlite-writer"]


async def test_a_disk_that_is_fast_again_is_noticed(bench):
    bench.cost = 0.005
    for _ in range(3):
        await bench.writer.submit(Request())
    bench.cost = 0.0
    for _ in range(20):
        await bench.writer.submit(Request())
    assert bench.threads[-1] == threading.current_thread().name


async def test_what_would_have_to_wait_goes_to_the_thread_that_may(bench):
    bench.refuses_to_wait = True
    assert await bench.writer.submit(Request()) == 1
    assert bench.threads == ["redrive-sqlite-writer"]


async def test_an_error_is_the_callers_own(bench):
    results = await asyncio.gather(
        bench.writer.submit(Request()), bench.writer.submit(Failing()), return_exceptions=True
    )
    assert results[0] == 1
    assert isinstance(results[1], ValueError)


async def test_a_caller_who_leaves_before_it_began_is_left_out(bench):
    leaving = Leaving()
    call = asyncio.create_task(bench.writer.submit(leaving))
    await turns(1)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    await turns()
    assert (bench.groups, leaving.has_left) == ([], False)
    assert await bench.writer.submit(Request()) == 1


async def test_a_caller_who_leaves_while_it_is_being_done_is_told_to_its_request(bench):
    bench.gate.clear()
    leaving = Leaving()
    calls = [asyncio.create_task(bench.writer.submit(request)) for request in (leaving, Request())]
    await turns()
    calls[0].cancel()
    bench.gate.set()
    await asyncio.gather(*calls, return_exceptions=True)
    assert leaving.has_left


async def test_a_caller_who_leaves_as_the_result_arrives_is_told_to_its_request(bench):
    leaving = Leaving()
    call = asyncio.create_task(bench.writer.submit(leaving))
    await turns(1)
    asyncio.get_running_loop().call_soon(call.cancel)  # runs right after the group, before the task wakes up
    (result,) = await asyncio.gather(call, return_exceptions=True)
    assert isinstance(result, asyncio.CancelledError)
    assert leaving.has_left


async def test_closing_waits_for_what_was_submitted(bench):
    bench.gate.clear()
    calls = [asyncio.create_task(bench.writer.submit(Request())) for _ in range(3)]
    await turns()
    calls += [asyncio.create_task(bench.writer.submit(Request())) for _ in range(3)]
    closing = asyncio.create_task(bench.writer.close())
    await turns()
    assert not closing.done()
    bench.gate.set()
    await closing
    assert all(call.done() for call in calls)


async def test_closing_when_everybody_has_left_does_not_hang(bench):
    call = asyncio.create_task(bench.writer.submit(Request()))
    await turns(1)
    call.cancel()
    await asyncio.wait_for(bench.writer.close(), PATIENCE_S)
    await asyncio.gather(call, return_exceptions=True)


async def test_closing_twice_is_fine(bench):
    await bench.writer.submit(Request())
    await bench.writer.close()
    await bench.writer.close()


class Refusing(Request):
    def abandoned(self):
        raise ZeroDivisionError("on purpose")


async def test_nobody_waits_for_ever_because_something_failed_after_the_group(bench):
    """Waking receivers, and giving back what a cancelled caller would have got, may fail; answers are given first."""
    problems = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: problems.append(context["exception"]))
    bench.after = bench.writer._after = lambda: 1 / 0
    bench.gate.clear()
    leaving = asyncio.create_task(bench.writer.submit(Refusing()))
    staying = [asyncio.create_task(bench.writer.submit(Request())) for _ in range(3)]
    await turns()
    leaving.cancel()
    bench.gate.set()
    async with asyncio.timeout(PATIENCE_S):
        assert await asyncio.gather(*staying) == [1] * 3
        assert await bench.writer.submit(Request()) == 2
        await bench.writer.close()
    assert [type(problem) for problem in problems] == [ZeroDivisionError] * 3


async def test_a_run_that_raises_is_told_to_everybody(bench):
    def fail(_group, _may_wait):
        raise SystemExit

    bench.writer._run = fail

    async def told():
        with pytest.raises(SystemExit):
            await bench.writer.submit(Request())

    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(*(told() for _ in range(3)))
        await told()
        await told()
