# SPDX-License-Identifier: MIT
"""Threads and tasks that share a retry, a breaker or a budget never break what these promise."""

import asyncio
import sys
import threading
from collections import Counter

import pytest

from redrive.errors import CircuitOpen
from redrive.retry import CircuitBreaker, Fixed, RetryBudget, current_attempt, retry
from redrive.testing import ManualClock

THREADS = 8


@pytest.fixture(autouse=True)
def switch_often():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def race(work, threads=THREADS):
    """Run the same work in many threads that start together; raise what any of them raised."""
    barrier, raised = threading.Barrier(threads), []

    def run(number):
        barrier.wait()
        try:
            work(number)
        except BaseException as error:  # noqa: BLE001 - shown to the test
            raised.append(error)

    running = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    if raised:
        raise raised[0]


class Refused(Exception):
    pass


# --- one retry --------------------------------------------------------------------------------------------------------


def test_threads_share_a_retry_and_count_their_own_attempts():
    calls = Counter()
    shared = retry(on=Refused, policy=Fixed(0.0, max_attempts=None), clock=ManualClock(), deadline=60.0)

    def failing_for_a_while(thread, call):
        calls[thread, call] += 1
        assert current_attempt().number == calls[thread, call]
        if calls[thread, call] <= call % 5:
            raise Refused
        return thread, call

    decorated = shared(failing_for_a_while)

    def work(thread):
        for call in range(100):
            assert decorated(thread, call) == (thread, call)
            calls[thread, call] = 0
            assert shared.call(failing_for_a_while, thread, call) == (thread, call)

    race(work)
    assert all(calls[thread, call] == call % 5 + 1 for thread in range(THREADS) for call in range(100))


def test_threads_share_a_retry_and_loop_on_their_own():
    shared = retry(on=Refused, policy=Fixed(0.0), clock=ManualClock())

    def work(_thread):
        for _ in range(100):
            numbers = []
            for attempt in shared:
                with attempt:
                    numbers.append(attempt.number)
                    if attempt.number < 4:
                        raise Refused
            assert numbers == [1, 2, 3, 4]

    race(work)


async def test_tasks_share_a_retry_and_count_their_own_attempts():
    clock = ManualClock(auto_advance=True)
    shared = retry(on=Refused, policy=Fixed(0.001, jitter="none"), clock=clock, deadline=600.0)
    calls = Counter()

    @shared
    async def failing_for_a_while(task):
        calls[task] += 1
        await clock.sleep_async(0.001)
        assert current_attempt().number == calls[task]
        if calls[task] <= task % 5:
            raise Refused
        return task

    results = await asyncio.gather(*(failing_for_a_while(task) for task in range(500)))
    assert results == list(range(500))
    assert all(calls[task] == task % 5 + 1 for task in range(500))


# --- one breaker ------------------------------------------------------------------------------------------------------


def test_a_half_open_breaker_admits_exactly_its_probes():
    for _ in range(50):
        breaker = CircuitBreaker(failures=1, open_for=1.0, probes=3)
        breaker.failed(breaker.admit(0.0), 0.0)
        admitted, changes = [], []

        def work(_thread, breaker=breaker, admitted=admitted, changes=changes):
            for _ in range(5):
                permit, change = breaker.ask(1.0)
                admitted.append(permit)
                changes.append(change)

        race(work)
        assert sum(permit is not None for permit in admitted) == 3
        assert [change for change in changes if change] == [("open", "half_open")]


def test_consecutive_failures_open_a_breaker_exactly_once():
    for _ in range(50):
        breaker, changes = CircuitBreaker(failures=THREADS * 5), []

        def work(_thread, breaker=breaker, changes=changes):
            for _ in range(5):
                permit = breaker.admit(0.0)
                changes.append(breaker.failed(permit, 0.0) if permit is not None else None)

        race(work)
        assert [change for change in changes if change] == [("closed", "open")]


def test_a_rate_counts_every_outcome():
    for _ in range(20):
        total = THREADS * 20
        breaker = CircuitBreaker(failure_rate=0.5, min_calls=total + 1, window=60.0)

        def work(thread, breaker=breaker):
            for _ in range(20):
                report = breaker.failed if thread % 2 else breaker.succeeded
                assert report(breaker.admit(1.0), 1.0) is None

        race(work)
        # exactly half have failed; one more failure is the min_calls-th and the one that counts
        assert breaker.failed(breaker.admit(1.0), 1.0) == ("closed", "open")


def test_every_change_of_a_shared_breaker_is_reported_exactly_once():
    clock, events, lock = ManualClock(), [], threading.Lock()
    breaker = CircuitBreaker("api", failures=3, open_for=0.001)

    def on_event(event):
        if type(event).__name__ == "BreakerChanged":
            with lock:
                events.append((event.before, event.after))

    shared = retry(on=Refused, policy=Fixed(0.0, max_attempts=2), clock=clock, breaker=breaker, on_event=on_event)
    calls = []

    @shared
    def flapping():
        calls.append(1)
        if len(calls) % 7 < 4:
            raise Refused

    def work(_thread):
        for _ in range(150):
            try:
                flapping()
            except Refused:
                pass
            except CircuitOpen:
                clock.advance(0.0005)

    race(work)
    changes = Counter(events)
    # whatever the order in which threads get to report, every state that was entered was left, but for the last
    entered, left = Counter(), Counter()
    for (before, after), count in changes.items():
        left[before] += count
        entered[after] += count
    entered["closed"] += 1
    entered[breaker.state] -= 1
    assert +entered == +left
    assert changes["closed", "open"] > 0
    assert set(changes) <= {("closed", "open"), ("open", "half_open"), ("half_open", "open"), ("half_open", "closed")}


def test_a_breaker_hammered_through_retries_is_never_stuck():
    clock = ManualClock()
    breaker = CircuitBreaker("api", failures=2, open_for=0.01, probes=2)
    shared = retry(on=Refused, policy=Fixed(0.0, max_attempts=3), clock=clock, breaker=breaker)

    def call(number):
        if number % 11 == 0:
            raise KeyboardInterrupt
        if number % 3 == 0:
            raise Refused
        if number % 5 == 0:
            raise KeyError

    def work(thread):
        for number in range(200):
            try:
                shared.call(call, thread + number)
            except (Refused, CircuitOpen, KeyError, KeyboardInterrupt):
                clock.advance(0.001)

    race(work)
    clock.advance(0.01)
    assert breaker.admit(clock.monotonic()) is not None


# --- one budget -------------------------------------------------------------------------------------------------------


def test_a_shared_budget_grants_exactly_what_it_holds():
    for _ in range(20):
        budget, granted = RetryBudget(burst=50, ratio=0.0, per_second=0.0), []

        def work(_thread, budget=budget, granted=granted):
            granted.extend(budget.grants_retry(0.0) for _ in range(20))

        race(work)
        assert granted.count(True) == 50
        assert budget.tokens == 0.0


def test_calls_that_share_a_budget_retry_no_more_than_it_allows():
    budget = RetryBudget(burst=10, ratio=0.125, per_second=0.0)
    shared = retry(on=Refused, policy=Fixed(0.0, max_attempts=4), clock=ManualClock(), budget=budget)
    attempts = []

    @shared
    def failing():
        attempts.append(1)
        raise Refused

    def work(_thread):
        for _ in range(50):
            with pytest.raises(Refused):
                failing()

    race(work)
    calls = THREADS * 50
    retries = len(attempts) - calls
    assert 0 < retries <= 10 + 0.125 * calls


async def test_tasks_share_a_breaker_and_a_budget():
    clock = ManualClock(auto_advance=True)
    breaker, budget = CircuitBreaker("api", failures=10, open_for=0.05), RetryBudget(burst=20, ratio=0.1)
    shared = retry(on=Refused, policy=Fixed(0.01), clock=clock, breaker=breaker, budget=budget)
    outcomes = Counter()
    attempts = []

    async def call(number):
        attempts.append(number)
        await clock.sleep_async(0.001)
        if number % 2:
            raise Refused

    async def one(number):
        try:
            await shared.call_async(call, number)
            outcomes["succeeded"] += 1
        except (Refused, CircuitOpen) as error:
            outcomes[type(error).__name__] += 1

    start = clock.monotonic()
    await asyncio.gather(*(one(number) for number in range(400)))
    assert outcomes.total() == 400
    retries = len(attempts) - len(set(attempts))
    assert retries <= 20 + 0.1 * 400 + (clock.monotonic() - start)
    clock.advance(0.05)
    assert breaker.admit(clock.monotonic()) is not None
