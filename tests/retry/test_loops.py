# SPDX-License-Identifier: MIT
"""One table of scenarios, run through every way to retry: blocking and async, decorated, called, and as a block."""

import asyncio
import contextvars
from dataclasses import dataclass, field

import pytest

from redrive.errors import AttemptTimeout, CircuitOpen, DeadlineExceeded
from redrive.retry import (
    CircuitBreaker,
    Delays,
    Exponential,
    Fixed,
    GiveUp,
    Policy,
    RetryAfter,
    RetryBudget,
    deadline,
    retry,
)
from redrive.testing import ManualClock

# --- the shells -------------------------------------------------------------------------------------------------------


class Script:
    """A function that follows a script, one line for each attempt; the last line repeats."""

    def __init__(self, clock, *lines, taking=0.0):
        self.clock, self.lines, self.taking = clock, lines, taking
        self.calls = 0
        self.began_at = []

    def __call__(self):
        self.began_at.append(self.clock.monotonic())
        self.calls += 1
        self.clock.advance(self.taking)
        line = self.lines[min(self.calls, len(self.lines)) - 1]
        if isinstance(line, BaseException):
            raise line
        return line


def called(retrying, script):
    return retrying.call(script)


def decorated(retrying, script):
    @retrying
    def function():
        return script()

    return function()


def called_async(retrying, script):
    async def function():
        return script()

    return run(retrying.call_async(function))


def decorated_async(retrying, script):
    @retrying
    async def function():
        return script()

    return run(function())


def as_block(retrying, script):
    for attempt in retrying:
        with attempt:
            value = script()
    return value


def as_async_block(retrying, script):
    async def main():
        async for attempt in retrying:
            with attempt:
                value = script()
        return value

    return run(main())


def run(coroutine):
    """Run to the end in a copy of this context, without the time that a new event loop takes each time."""
    return RUNNERS[-1].run(coroutine, context=contextvars.copy_context())


def drive(coroutine):
    """Run to the end without an event loop, which would take a KeyboardInterrupt for itself."""
    try:
        coroutine.send(None)
    except StopIteration as stopped:
        return stopped.value
    raise AssertionError("it waited for something")


RUNNERS = []


@pytest.fixture(scope="module", autouse=True)
def runner():
    """Have one while tests of this module run; a process may leave the module and come back to it."""
    with asyncio.Runner() as made:
        RUNNERS.append(made)
        yield
        RUNNERS.remove(made)


FUNCTIONS = [called, decorated, called_async, decorated_async]
SHELLS = [*FUNCTIONS, as_block, as_async_block]
every_shell = pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell.__name__)
every_function_shell = pytest.mark.parametrize("shell", FUNCTIONS, ids=lambda shell: shell.__name__)


@pytest.fixture
def clock():
    return ManualClock(auto_advance=True)


@dataclass
class Outcome:
    """How a call ended: with a value or an error."""

    value: object = None
    error: BaseException | None = None


def outcome_of(shell, retrying, script):
    try:
        return Outcome(value=shell(retrying, script))
    except BaseException as error:  # noqa: BLE001 - KeyboardInterrupt is one of the scenarios
        return Outcome(error=error)


# --- the table --------------------------------------------------------------------------------------------------------

A, B, C = ConnectionError("a"), ConnectionResetError("b"), ConnectionError("c")
FOREIGN = ValueError("not for us")


class Stubborn(Policy):
    """A custom policy without a limit of its own."""

    def decide(self, failure):
        return RetryAfter(failure.attempt)


class Counting(Policy):
    """A custom policy with state: it gives up by what it has counted itself."""

    def __init__(self, limit):
        self.limit, self.left = limit, limit

    def create_instance(self):
        return Counting(self.limit)

    def decide(self, failure):
        self.left -= 1
        return RetryAfter(1.0) if self.left else GiveUp("I have counted enough")


@dataclass
class Scenario:
    """What happens, and what is expected of it."""

    name: str
    lines: list
    calls: int
    slept: list
    value: object = None
    error: BaseException | None = None
    settings: dict = field(default_factory=dict)
    taking: float = 0.0
    note: str = ""


SCENARIOS = [
    Scenario("success at the first try", ["done"], 1, [], value="done"),
    Scenario("success after one failure", [A, "done"], 2, [1.0], value="done"),
    Scenario("success at the last try", [A, B, C, A, "done"], 5, [1.0] * 4, value="done"),
    Scenario("a falsy result is a result", [A, 0], 2, [1.0], value=0),
    Scenario("None is a result", [None], 1, [], value=None),
    Scenario("all attempts fail", [A, A, A, A, B], 5, [1.0] * 4, error=B, note="all 5 attempts failed"),
    Scenario("a foreign error at once", [FOREIGN], 1, [], error=FOREIGN),
    Scenario("a foreign error later", [A, FOREIGN], 2, [1.0], error=FOREIGN, note="not one to retry"),
    Scenario("one attempt", [A], 1, [], error=A, settings={"max_attempts": 1}, note="all 1 attempts failed"),
    Scenario("fewer attempts", [A], 2, [1.0], error=A, settings={"max_attempts": 2}),
    Scenario("more attempts than the policy says", [A], 7, [1.0] * 6, error=A, settings={"max_attempts": 7}),
    Scenario(
        "a custom policy, limited by max_attempts",
        [A], 3, [1, 2], error=A, settings={"policy": Stubborn(), "max_attempts": 3}, note="all 3 attempts failed",
    ),
    Scenario("a policy with state", [A], 3, [1.0] * 2, error=A, settings={"policy": Counting(3)}, note="counted"),
    Scenario("a subclass of on", [B, "done"], 2, [1.0], value="done"),
    Scenario(
        "a predicate that says yes", [FOREIGN, "done"], 2, [1.0], value="done",
        settings={"on": lambda error: "not for us" in str(error)},
    ),
    Scenario("a predicate that says no", [FOREIGN], 1, [], error=FOREIGN, settings={"on": lambda _error: False}),
    Scenario(
        "types and predicates", [A, FOREIGN, KeyError("k"), "done"], 4, [1.0] * 3, value="done",
        settings={"on": (ConnectionError, lambda error: error is FOREIGN, lambda error: isinstance(error, KeyError))},
    ),
    Scenario(
        "types and predicates, neither of which says yes", [A, FOREIGN], 2, [1.0], error=FOREIGN,
        settings={"on": [ConnectionError, lambda error: isinstance(error, KeyError)]},
    ),
    Scenario("no wait at all", [A], 5, [], error=A, settings={"policy": Fixed(0.0)}),
    Scenario(
        "fast first", [A, A, A, "done"], 4, [2.0, 4.0], value="done",
        settings={"policy": Exponential(min=2.0, jitter="none", fast_first=True)},
    ),
    Scenario(
        "a zero among the delays", [A, A, A, "done"], 4, [1.0, 3.0], value="done",
        settings={"policy": Delays([1.0, 0.0, 3.0], jitter="none")},
    ),
    Scenario(
        "exponential waits", [A, A, A, A, "done"], 5, [0.5, 1.0, 2.0, 4.0], value="done",
        settings={"policy": Exponential(jitter="none")},
    ),
    Scenario(
        "jitter from chance", [A, A, "done"], 3, [1.2, 1.2], value="done",
        settings={"policy": Fixed(1.0), "chance": lambda: 1.0},
    ),
    Scenario(
        "the deadline allows three attempts", [A], 3, [1.0] * 2, error=A, settings={"deadline": 3.0},
        note="would come after the deadline",
    ),
    Scenario("the deadline counts the attempts too", [A], 2, [1.0], error=A, settings={"deadline": 3.0}, taking=1.0),
    Scenario("an attempt longer than the deadline", [A], 1, [], error=A, settings={"deadline": 3.0}, taking=5.0),
    Scenario(
        "the default deadline", [A], 3, [25.0] * 2, error=A,
        settings={"policy": Fixed(25.0, jitter="none", max_attempts=None)}, note="would come after the deadline",
    ),
    Scenario(
        "no deadline", [A], 5, [1_000.0] * 4, error=A,
        settings={"policy": Fixed(1_000.0, jitter="none"), "deadline": None},
    ),
]  # fmt: skip


def plainly(clock, **settings):
    """Return a retry with an even policy, so that a test can count."""
    return retry(**{"on": ConnectionError, "policy": Fixed(1.0, jitter="none"), "clock": clock, **settings})


@every_shell
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_scenario(shell, scenario, clock):
    for line in scenario.lines:
        if isinstance(line, Exception):
            line.__notes__ = []
            line.__traceback__ = None
    script = Script(clock, *scenario.lines, taking=scenario.taking)
    outcome = outcome_of(shell, plainly(clock, **scenario.settings), script)
    assert outcome.error is scenario.error  # the very same object
    assert outcome.value == scenario.value
    assert script.calls == scenario.calls
    assert clock.slept == scenario.slept
    if scenario.error is not None:
        assert bool(scenario.error.__notes__) == bool(scenario.error is not FOREIGN or scenario.calls > 1)
        assert scenario.note in "".join(scenario.error.__notes__)
        assert scenario.error.__context__ is None
        assert scenario.error.__cause__ is None


# --- results that are not accepted ------------------------------------------------------------------------------------


@every_function_shell
def test_a_result_that_is_not_accepted_is_retried(shell, clock):
    script = Script(clock, "busy", A, "busy", "done")
    assert shell(plainly(clock, on_result=lambda result: result == "busy"), script) == "done"
    assert clock.slept == [1.0] * 3


@every_function_shell
def test_the_last_result_is_returned_when_attempts_run_out(shell, clock):
    script = Script(clock, A, "busy 1", "busy 2")
    assert shell(plainly(clock, on_result=lambda result: "busy" in result, max_attempts=3), script) == "busy 2"


@every_function_shell
def test_the_last_error_is_raised_when_the_last_attempt_failed(shell, clock):
    script = Script(clock, "busy", "busy", A)
    outcome = outcome_of(shell, plainly(clock, on_result=lambda result: result == "busy", max_attempts=3), script)
    assert outcome.error is A


@every_function_shell
def test_an_on_result_that_fails_is_passed_on_and_releases_the_probe(shell, clock):
    breaker = tripped(clock, open_for=10.0)
    clock.advance(10.0)
    outcome = outcome_of(
        shell, plainly(clock, breaker=breaker, on_result=lambda result: result / 0), Script(clock, 1.0)
    )
    assert isinstance(outcome.error, ZeroDivisionError)
    assert breaker.admit(clock.monotonic()) is not None


# --- what is never retried --------------------------------------------------------------------------------------------


@every_shell
@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError, BaseException])
@pytest.mark.parametrize("on", [Exception, lambda _error: True], ids=["Exception", "predicate"])
def test_cancellation_and_exits_are_never_retried(shell, kind, on, clock, monkeypatch):
    monkeypatch.setitem(globals(), "run", drive)
    breaker = tripped(clock, open_for=10.0)
    clock.advance(10.0)
    script = Script(clock, kind("stop"))
    outcome = outcome_of(shell, plainly(clock, on=on, breaker=breaker), script)
    assert type(outcome.error) is kind
    assert script.calls == 1
    assert clock.slept == []
    assert breaker.admit(clock.monotonic()) is not None  # the probe is free again


# --- deadlines and clocks ---------------------------------------------------------------------------------------------


@every_shell
@pytest.mark.parametrize("step", [3_600.0, -3_600.0])
def test_a_step_of_the_wall_clock_changes_nothing(shell, step, clock):
    times = []

    class Stepping(Script):
        def __call__(self):
            clock.jump(step)
            times.append(clock.monotonic())
            return super().__call__()

    outcome = outcome_of(shell, plainly(clock, deadline=3.5), Stepping(clock, A))
    assert outcome.error is A
    assert times == [0.0, 1.0, 2.0, 3.0]


@every_shell
@pytest.mark.parametrize("taking", [0.0, 0.125, 0.75, 1.25])  # exact in binary, as are the waits
@pytest.mark.parametrize("limit", [0.0625, 0.5, 2.0, 7.75])
def test_everything_is_over_by_the_deadline_and_one_attempt(shell, taking, limit, clock):
    script = Script(clock, A, taking=taking)
    policy = Exponential(min=0.25, jitter="none", max_attempts=None)
    assert outcome_of(shell, plainly(clock, policy=policy, deadline=limit), script).error is A
    assert all(began < limit for began in script.began_at)
    assert clock.monotonic() <= limit + taking


@every_shell
def test_a_deadline_around_it_ends_it(shell, clock):
    script = Script(clock, A)
    with deadline(2.5, clock=clock):
        assert outcome_of(shell, plainly(clock), script).error is A
    assert script.calls == 3


# --- cutting off ------------------------------------------------------------------------------------------------------


def hanging(clock, times, *, value="done"):
    """Return an async function that hangs in its first calls; the clock moves on while it does."""
    calls = []

    async def function():
        calls.append(clock.monotonic())
        if len(calls) <= times:
            asyncio.get_running_loop().call_soon(clock.advance, 5.0)
            await asyncio.Event().wait()
        return value

    return function, calls


async def test_an_attempt_that_takes_too_long_is_cut_off_and_retried(clock):
    function, calls = hanging(clock, 2)
    assert await plainly(clock, attempt_timeout=5.0).call_async(function) == "done"
    assert calls == [0.0, 6.0, 12.0]


async def test_a_decorated_attempt_is_cut_off_too(clock):
    function, calls = hanging(clock, 1)
    assert await plainly(clock, attempt_timeout=5.0)(function)() == "done"
    assert calls == [0.0, 6.0]


async def test_a_call_whose_attempts_are_all_cut_off_ends_in_a_timeout(clock):
    function, calls = hanging(clock, 99)
    with pytest.raises(TimeoutError) as caught:
        await plainly(clock, attempt_timeout=5.0, max_attempts=3, operation="fetch").call_async(function)
    assert type(caught.value) is AttemptTimeout
    assert (caught.value.operation, caught.value.timeout) == ("fetch", 5.0)
    assert caught.value.__context__ is None
    assert len(calls) == 3


async def test_a_timeout_of_the_function_itself_is_not_ours(clock):
    async def function():
        raise TimeoutError("the function's own")

    with pytest.raises(TimeoutError, match="own") as caught:
        await plainly(clock, attempt_timeout=5.0).call_async(function)  # on=ConnectionError: not retried
    assert type(caught.value) is TimeoutError


async def test_a_timeout_of_the_function_itself_is_retried_if_asked_for(clock):
    calls = []

    async def function():
        calls.append(1)
        raise TimeoutError("the function's own")

    with pytest.raises(TimeoutError, match="own"):
        await plainly(clock, on=TimeoutError, attempt_timeout=5.0, max_attempts=2).call_async(function)
    assert len(calls) == 2


async def test_an_attempt_in_progress_is_cut_off_at_the_deadline(clock):
    function, calls = hanging(clock, 99)
    with pytest.raises(DeadlineExceeded) as caught:
        await plainly(clock, deadline=5.0, operation="fetch").call_async(function)
    assert (caught.value.operation, caught.value.deadline) == ("fetch", 5.0)
    assert "deadline passed during an attempt" in caught.value.__notes__[0]
    assert len(calls) == 1


async def test_the_deadline_cuts_off_a_later_attempt_even_with_an_attempt_timeout(clock):
    function, calls = hanging(clock, 99)
    with pytest.raises(DeadlineExceeded):
        await plainly(clock, attempt_timeout=5.0, deadline=8.0).call_async(function)
    assert calls == [0.0, 6.0]


async def test_the_default_deadline_cuts_nothing_off(clock):
    async def slow():
        await clock.sleep_async(600.0)
        return "done"

    assert await plainly(clock).call_async(slow) == "done"


async def test_a_cut_off_attempt_counts_as_a_failure_for_the_breaker(clock):
    breaker = CircuitBreaker("api", failures=2)
    function, _ = hanging(clock, 99)
    with pytest.raises(AttemptTimeout):
        await plainly(clock, attempt_timeout=5.0, breaker=breaker).call_async(function)
    assert breaker.state == "open"


async def test_a_function_that_answers_its_cancellation_with_another_error_has_failed_with_it(clock):
    async def function():
        try:
            asyncio.get_running_loop().call_soon(clock.advance, 5.0)
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise KeyError("cleaning up failed") from None

    with pytest.raises(KeyError):
        await plainly(clock, attempt_timeout=5.0).call_async(function)


# --- the breaker ------------------------------------------------------------------------------------------------------


def tripped(clock, **settings):
    """Return a breaker that has just opened."""
    breaker = CircuitBreaker("api", failures=1, **settings)
    breaker.failed(breaker.admit(clock.monotonic()), clock.monotonic())
    assert breaker.state == "open"
    return breaker


@every_shell
def test_failures_open_the_breaker_and_end_the_retries(shell, clock):
    breaker = CircuitBreaker("api", failures=3)
    script = Script(clock, A)
    assert outcome_of(shell, plainly(clock, breaker=breaker), script).error is A
    assert script.calls == 3
    assert breaker.state == "open"
    assert "circuit breaker 'api' is open" in A.__notes__[-1]


@every_shell
def test_an_open_breaker_refuses_and_says_when_to_come_back(shell, clock):
    breaker = tripped(clock, open_for=30.0)
    clock.advance(10.0)
    script = Script(clock, "done")
    error = outcome_of(shell, plainly(clock, breaker=breaker), script).error
    assert type(error) is CircuitOpen
    assert (error.breaker, error.retry_after) == ("api", 20.0)
    assert script.calls == 0


@every_shell
def test_a_call_may_wait_for_the_breaker_and_be_its_probe(shell, clock):
    breaker = tripped(clock, open_for=30.0)
    clock.advance(10.0)
    assert shell(plainly(clock, breaker=breaker, when_open="wait"), Script(clock, "done")) == "done"
    assert clock.slept == [20.0]
    assert breaker.state == "closed"


@every_shell
def test_a_call_waits_for_the_breaker_no_longer_than_its_deadline(shell, clock):
    breaker = tripped(clock, open_for=30.0)
    script = Script(clock, "done")
    outcome = outcome_of(shell, plainly(clock, breaker=breaker, when_open="wait", deadline=30.0), script)
    assert type(outcome.error) is CircuitOpen
    assert (script.calls, clock.slept) == (0, [])


@every_shell
def test_a_call_that_failed_waits_for_the_breaker_too(shell, clock):
    breaker = CircuitBreaker("api", failures=1, open_for=30.0)
    assert shell(plainly(clock, breaker=breaker, when_open="wait"), Script(clock, A, "done")) == "done"
    assert clock.slept == [1.0, 29.0]


@every_shell
def test_a_retry_that_comes_after_the_breakers_time_is_its_probe(shell, clock):
    breaker = CircuitBreaker("api", failures=1, open_for=5.0)
    assert shell(plainly(clock, breaker=breaker, policy=Fixed(6.0, jitter="none")), Script(clock, A, "done")) == "done"
    assert breaker.state == "closed"


class OpenedBySomebodyElse(Script):
    """Fails, and while it would be waited for, others open the breaker."""

    breaker: CircuitBreaker

    def __call__(self):
        try:
            return super().__call__()
        finally:
            advance = self.clock.advance

            def advancing(seconds):
                advance(seconds)
                for _ in range(self.breaker.failures):
                    self.breaker.failed(self.breaker.adopt() or 0, self.clock.monotonic())

            self.clock.advance = advancing


@every_shell
def test_a_refusal_after_real_failures_raises_the_last_of_them(shell, clock):
    breaker, events = CircuitBreaker("api", failures=3, open_for=30.0), []
    script = OpenedBySomebodyElse(clock, A)
    script.breaker = breaker
    A.__notes__ = []
    outcome = outcome_of(shell, plainly(clock, breaker=breaker, on_event=events.append, operation="fetch"), script)
    assert outcome.error is A
    assert script.calls == 1
    assert "circuit breaker 'api' is open" in A.__notes__[0]
    assert [type(event).__name__ for event in events] == ["AttemptFailed", "RetryGaveUp"]
    assert (events[1].outcome, events[1].iteration) == ("breaker_open", 1)


@every_function_shell
def test_a_refusal_after_a_result_that_was_not_accepted_returns_it(shell, clock):
    breaker, events = CircuitBreaker("api", failures=3, open_for=30.0), []
    script = OpenedBySomebodyElse(clock, "busy")
    script.breaker = breaker
    retrying = plainly(clock, breaker=breaker, on_result=lambda result: result == "busy", on_event=events.append)
    assert shell(retrying, script) == "busy"
    assert events[-1].outcome == "breaker_open"


@every_shell
def test_a_refusal_is_no_failure_and_costs_no_budget(shell, clock):
    breaker, budget = tripped(clock, open_for=30.0), RetryBudget(burst=5, ratio=0.0, per_second=0.0)
    for _ in range(20):
        outcome_of(shell, plainly(clock, breaker=breaker, budget=budget), Script(clock, "done"))
    assert budget.tokens == 5.0
    assert breaker.retry_after(clock.monotonic()) == 30.0


@every_shell
def test_an_error_that_is_not_retried_says_nothing_about_the_service(shell, clock):
    breaker = CircuitBreaker("api", failures=1)
    for _ in range(3):
        outcome_of(shell, plainly(clock, breaker=breaker), Script(clock, FOREIGN))
    assert breaker.state == "closed"


@every_shell
def test_a_predicate_that_fails_is_passed_on_and_releases_the_probe(shell, clock):
    def broken(_error):
        raise ZeroDivisionError

    breaker = tripped(clock, open_for=10.0)
    clock.advance(10.0)
    outcome = outcome_of(shell, plainly(clock, breaker=breaker, on=broken), Script(clock, A))
    assert isinstance(outcome.error, ZeroDivisionError)
    assert breaker.state == "half_open"
    assert breaker.admit(clock.monotonic()) is not None


@every_shell
def test_a_policy_that_fails_is_passed_on(shell, clock):
    class Broken(Policy):
        def decide(self, failure):
            raise ZeroDivisionError

    breaker = tripped(clock, open_for=10.0)
    clock.advance(10.0)
    outcome = outcome_of(shell, plainly(clock, breaker=breaker, policy=Broken()), Script(clock, A))
    assert isinstance(outcome.error, ZeroDivisionError)
    assert breaker.state == "open"  # the call itself did fail


# --- the budget -------------------------------------------------------------------------------------------------------


@every_shell
def test_a_spent_budget_ends_the_retries(shell, clock):
    budget = RetryBudget(burst=2, ratio=0.0, per_second=0.0)
    script = Script(clock, A)
    assert outcome_of(shell, plainly(clock, budget=budget), script).error is A
    assert script.calls == 3
    assert "budget is spent" in A.__notes__[-1]
    script = Script(clock, A)
    assert outcome_of(shell, plainly(clock, budget=budget), script).error is A
    assert script.calls == 1


@every_shell
def test_successes_pay_for_later_retries(shell, clock):
    budget = RetryBudget(burst=1, ratio=0.5, per_second=0.0)
    retrying = plainly(clock, budget=budget)
    outcome_of(shell, retrying, Script(clock, A))
    assert budget.tokens < 1.0
    for _ in range(2):
        shell(retrying, Script(clock, "done"))
    script = Script(clock, A, "done")
    assert shell(retrying, script) == "done"


# --- retries inside retries -------------------------------------------------------------------------------------------


def nested(shell, clock, **settings):
    script = Script(clock, A)
    if "async" in shell.__name__:

        async def level(depth):
            async def inner():
                return script() if depth == 1 else await level(depth - 1)

            return await plainly(clock, max_attempts=3, **settings).call_async(inner)

        outcome = outcome_of(lambda *_: run(level(3)), None, None)
    else:

        def level(depth):
            return plainly(clock, max_attempts=3, **settings).call(script if depth == 1 else lambda: level(depth - 1))

        outcome = outcome_of(lambda *_: level(3), None, None)
    assert outcome.error is A
    return script.calls


@pytest.mark.parametrize("shell", [called, called_async])
def test_three_layers_of_three_attempts_are_27_calls(shell, clock):
    assert nested(shell, clock) == 27


@pytest.mark.parametrize("shell", [called, called_async])
def test_three_layers_of_three_attempts_are_3_calls_if_exhaustion_is_not_retried(shell, clock):
    assert nested(shell, clock, retry_exhausted=False) == 3
    assert nested(shell, clock, retry_exhausted=False) == 3, "the same exception object, in another call"
