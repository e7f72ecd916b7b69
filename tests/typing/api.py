# SPDX-License-Identifier: MIT
"""Uses the public API the way people do; never run, only read by the type checkers.

``assert_type`` says what they must infer. A line that is wrong on purpose carries an ignore, and both checkers
report one that is not needed: so what must be refused is refused.
"""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import assert_type

from redrive import open_recovery
from redrive.broker import BlockingBroker, Broker
from redrive.clock import Clock, SystemClock, system_clock, utc
from redrive.errors import (
    AttemptTimeout,
    CircuitOpen,
    DeadlineExceeded,
    InvalidSetting,
    MissingExtra,
    PolicyFileError,
    RedriveError,
    Unavailable,
    UnknownPolicy,
    UsageError,
)
from redrive.recovery import BlockingRecovery, Operation, Recovery
from redrive.retry import (
    Adaptive,
    Attempt,
    AttemptFailed,
    AttemptFailure,
    Backoff,
    BlockAttempt,
    BreakerChanged,
    CircuitBreaker,
    Delays,
    Exponential,
    Fixed,
    GiveUp,
    Linear,
    Policies,
    Policy,
    PolicyPreview,
    Retry,
    RetryAfter,
    RetryBudget,
    RetryGaveUp,
    RetrySucceeded,
    current_attempt,
    deadline,
    is_transient,
    retry,
)
from redrive.telemetry import Event
from redrive.testing import ManualClock, no_sleep

# --- decorated functions keep their exact signatures ------------------------------------------------------------------


@retry(on=ConnectionError)
def fetch(url: str, *, timeout: float = 1.0) -> bytes:
    return url.encode() * int(timeout)


assert_type(fetch("x", timeout=2.0), bytes)
fetch(5)  # type: ignore[arg-type]
fetch("x", 2.0)  # type: ignore[call-arg]
fetch("x", tiemout=2.0)  # type: ignore[call-arg]
fetch()  # type: ignore[call-arg]


@retry(on=(ConnectionError, TimeoutError), max_attempts=3)
async def fetch_async(url: str, /, retries: int = 0) -> list[bytes]:
    return [url.encode()] * retries


async def use_async() -> None:
    assert_type(await fetch_async("x", retries=2), list[bytes])
    await fetch_async(url="x")  # type: ignore[call-arg]
    await fetch_async(b"x")  # type: ignore[arg-type]


class Client:
    """A client holds one retry and overrides it where an operation differs."""

    retrying = retry(on=is_transient, deadline=timedelta(seconds=30), breaker=CircuitBreaker("api"))

    @retry(on=ConnectionError)
    def get(self, key: str, default: int = 0) -> int:
        return len(key) + default

    @retry(on=ConnectionError)
    async def get_async(self, key: str) -> int:
        return len(key)

    @classmethod
    @retry(on=ConnectionError)
    def create(cls, name: str) -> "Client":
        return cls() if name else Client()

    @staticmethod
    @retry(on=ConnectionError)
    def parse(text: str) -> int:
        return int(text)

    @property
    @retry(on=ConnectionError)
    def version(self) -> str:
        return "1"

    @retrying.using(deadline=2.0, operation="ping")
    def ping(self) -> bool:
        return True


async def use_client(client: Client) -> None:
    assert_type(client.get("k", default=2), int)
    assert_type(await client.get_async("k"), int)
    assert_type(Client.create("n"), Client)
    assert_type(Client.parse("1"), int)
    assert_type(client.version, str)
    assert_type(client.ping(), bool)
    client.get(5)  # type: ignore[arg-type]
    client.get("k", "d")  # type: ignore[arg-type]
    await client.get_async()  # type: ignore[call-arg]
    client.ping(1)  # type: ignore[call-arg]


# --- plain calls ------------------------------------------------------------------------------------------------------


def add(a: int, b: int) -> int:
    return a + b


async def add_later(a: int, *, b: int) -> int:
    return a + b


async def call_plainly(retrying: Retry) -> None:
    assert_type(retrying.call(add, 1, b=2), int)
    assert_type(await retrying.call_async(add_later, 1, b=2), int)
    retrying.call(add, "1", 2)  # type: ignore[arg-type]
    retrying.call(add, 1)  # type: ignore[call-arg]
    await retrying.call_async(add_later, 1)  # type: ignore[call-arg]
    await retrying.call_async(add, 1, 2)  # type: ignore[arg-type]


# --- blocks -----------------------------------------------------------------------------------------------------------


async def loop() -> None:
    for attempt in retry(on=ConnectionError):
        assert_type(attempt, BlockAttempt)
        assert_type(attempt.number, int)
        with attempt as current:
            assert_type(current, Attempt)
    async for attempt in retry(on=ConnectionError):
        with attempt:
            pass


def value_of_a_block() -> int:
    value = 0
    for attempt in retry(on=ConnectionError):
        with attempt:
            value = add(1, 2)
    return value


def look_around() -> None:
    attempt = current_attempt()
    assert_type(attempt.number, int)
    assert_type(attempt.operation, str)
    assert_type(attempt.remaining, float | None)
    assert_type(attempt.timeout, float | None)
    with deadline(5) as limited:
        assert_type(limited, Attempt)
    with deadline(timedelta(seconds=1), clock=ManualClock()):
        pass


# --- settings ---------------------------------------------------------------------------------------------------------


def is_locked(error: Exception) -> bool:
    return "locked" in str(error)


def observe(event: Event) -> None:
    match event:
        case AttemptFailed():
            assert_type(event.operation_start, datetime)
            assert_type(event.iteration_sleep, float | None)
            assert_type(event.exception_type, str | None)
        case RetryGaveUp():
            assert_type(event.outcome, str)
        case RetrySucceeded():
            assert_type(event.iteration, int)
        case BreakerChanged():
            assert_type(event.after, str)
        case _:
            assert_type(event.fields(), dict[str, object])


everything = retry(
    on=[ConnectionError, is_locked],
    on_result=is_transient,
    policy=Exponential(min=0.1, delta=timedelta(seconds=1), max=60, jitter="full", fast_first=True, max_attempts=None),
    max_attempts=7,
    deadline=None,
    attempt_timeout=2.5,
    breaker=CircuitBreaker("api", failure_rate=0.5, window=timedelta(minutes=1), min_calls=50, open_for=10, probes=2),
    when_open="wait",
    budget=RetryBudget(ratio=0.1, per_second=2, burst=20),
    operation="everything",
    request_id=lambda: "r-1",
    on_event=observe,
    redact=str.lower,
    retry_exhausted=False,
    clock=SystemClock(),
    chance=lambda: 0.5,
)
assert_type(everything, Retry)
assert_type(everything.using(deadline=5, max_attempts=None), Retry)
retry(on=lambda error: "busy" in str(error))
retry()  # type: ignore[call-arg]
retry(ConnectionError)  # type: ignore[call-arg]
retry(on=5)  # type: ignore[arg-type]
retry(on=BaseException)  # type: ignore[arg-type]
retry(on=ConnectionError, when_open="never")  # type: ignore[arg-type]
retry(on=ConnectionError, deadline="5s")  # type: ignore[arg-type]
retry(on=ConnectionError, attempts=5)  # type: ignore[call-arg]
retry(on=ConnectionError, policy=Exponential)  # type: ignore[arg-type]
everything.using(attempts=5)  # type: ignore[call-arg]
everything.using(max_attempts="5")  # type: ignore[arg-type]


# --- policies ---------------------------------------------------------------------------------------------------------

policies: list[Policy] = [Exponential(), Linear(1, 2), Fixed(timedelta(seconds=1)), Delays([1, 2.5])]
policies += [Adaptive(Fixed(5)), Adaptive(max=60, statuses={429, 503})]
Fixed(delay="1s")  # type: ignore[arg-type]
Exponential(jitter="some")  # type: ignore[arg-type]
assert_type(Exponential().max, float)
assert_type(Exponential().max_attempts, int | None)
assert_type(Exponential().preview(5), PolicyPreview)
assert_type(Linear().preview().worst, float)


class Business(Policy):
    """A policy of one's own."""

    def decide(self, failure: AttemptFailure) -> RetryAfter | GiveUp:
        assert_type(failure.attempt, int)
        assert_type(failure.error, Exception | None)
        assert_type(failure.remaining, float | None)
        if failure.attempt > 3:
            return GiveUp("enough")
        return RetryAfter(failure.elapsed)


class Quadratic(Backoff):
    """A curve of one's own."""

    def curve(self, n: int) -> float:
        return float(n * n)


assert_type(Quadratic(jitter=0.1, max_attempts=3).create_instance(), Quadratic)
retry(on=ConnectionError, policy=Business())
assert_type(Business().create_instance(), Business)


def from_files() -> None:
    book = Policies.load("policies.toml", reload_every=timedelta(seconds=30), clock=system_clock)
    assert_type(book, Policies)
    assert_type(Policies.parse("", format="xml"), Policies)
    Policies.parse("", format="yaml")  # type: ignore[arg-type]
    assert_type(book.names, tuple[str, ...])
    assert_type(book.default, str)
    assert_type(book["fast"], Policy)
    followed = book.retry("upload", on=ConnectionError, policy="fast", deadline=5)
    assert_type(followed, Retry)
    assert_type(followed(add)(1, 2), int)
    book.reload()


# --- breakers, budgets, errors, clocks --------------------------------------------------------------------------------


def use_the_parts(breaker: CircuitBreaker, budget: RetryBudget, now: float) -> None:
    permit = breaker.admit(now)
    assert_type(permit, int | None)
    if permit is not None:
        breaker.succeeded(permit, now)
        breaker.failed(permit, now)
        breaker.released(permit)
    assert_type(breaker.retry_after(now), float)
    assert_type(breaker.calm, bool)
    breaker.reset()
    budget.called(now)
    assert_type(budget.grants_retry(now), bool)
    assert_type(budget.tokens, float)
    assert_type(budget.short, bool)
    if breaker.state == "shut":  # type: ignore[comparison-overlap]
        return


def read_an_error(error: RedriveError) -> None:
    match error:
        case InvalidSetting():
            assert_type(error.setting, str)
            assert_type(error.value, object)
        case MissingExtra():
            assert_type(error.extra, str)
        case PolicyFileError():
            assert_type(error.line, int)
        case UnknownPolicy():
            assert_type(error.known, tuple[str, ...])
        case CircuitOpen():
            assert_type(error.retry_after, float)
        case AttemptTimeout():
            assert_type(error.timeout, float)
        case DeadlineExceeded():
            assert_type(error.deadline, float)
        case UsageError() | Unavailable():
            pass
        case _:
            pass


def clocks() -> None:
    given: list[Clock] = [system_clock, SystemClock(), ManualClock(), ManualClock(0.0, auto_advance=True)]
    assert_type(utc(given[0].time()), datetime)
    with no_sleep() as skipped:
        assert_type(skipped, list[float])
    manual = ManualClock()
    manual.advance(1)
    manual.jump(-3600)
    assert_type(manual.slept, list[float])
    assert_type(manual.sleepers, int)


def passed_around(function: Callable[[int], str]) -> Callable[[int], str]:
    return retry(on=ConnectionError)(function)


# --- the two colours --------------------------------------------------------------------------------------------------


async def recover(broker: Broker) -> None:
    async with open_recovery(broker, "sqlite:///store.db", sources=["error"]) as recovery:
        assert_type(recovery, Recovery)
        assert_type(await recovery.recover("status:unresolved", limit=5, actor="ana"), Operation)


def recover_without_asyncio(broker: BlockingBroker) -> None:
    with open_recovery(broker, "sqlite:///store.db", sources=["error"]) as recovery:
        assert_type(recovery, BlockingRecovery)
        assert_type(recovery.recover("status:unresolved", limit=5, actor="ana"), Operation)
        assert_type(next(recovery.follow(1)), Operation)
    open_recovery(broker, source=["error"])  # type: ignore[call-overload]
