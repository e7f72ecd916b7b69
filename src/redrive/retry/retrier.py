# SPDX-License-Identifier: MIT
"""``retry`` and ``Retry``: one object that decorates, calls and loops, and that a client can keep."""

import random
from types import CoroutineType

from redrive.clock import system_clock
from redrive.errors import UsageError
from redrive.retry.block import AsyncAttempts, Attempts
from redrive.retry.decorator import name_of, wrap
from redrive.retry.loops import Live, attempts, attempts_async, begin
from redrive.retry.misuse import explained, unknown_setting
from redrive.retry.settings import DEFAULT_DEADLINE, Default, RetryPlan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any, ParamSpec, TypeVar, Unpack

    from redrive.clock import Clock
    from redrive.duration import Duration
    from redrive.retry.breaker import CircuitBreaker, WhenOpen
    from redrive.retry.budget import RetryBudget
    from redrive.retry.policy import Policy
    from redrive.retry.settings import On, RetryOptions
    from redrive.telemetry import Event

    P = ParamSpec("P")
    T = TypeVar("T")
    F = TypeVar("F", bound=Callable[..., Any])


class Retry:
    """What ``retry(...)`` returns, to be used in one of four ways.

    - ``@retry(on=ConnectionError)`` above a function, a method, or their async kinds;
    - ``retry(on=ConnectionError).call(fn, 1, x=2)`` and ``await ….call_async(fn, 1, x=2)`` for one call;
    - ``for attempt in retry(on=ConnectionError): with attempt: ...`` for a block, ``async for`` in async code;
    - kept by a client, with ``.using(deadline=2)`` for an operation that differs.

    It is immutable and safe to share between threads and tasks.
    """

    __slots__ = ("_is_live", "_live", "_settings")

    def __init__(self, settings: "RetryOptions", live: Live | None = None) -> None:
        self._settings = settings
        self._live = Live(RetryPlan(settings)) if live is None else live
        self._is_live = live is not None

    @property
    def plan(self) -> RetryPlan:
        """The settings in force, checked; those of a policy file may be others at the next call."""
        return self._live.current()

    def __call__(self, fn: "F", /) -> "F":
        """Decorate a function."""
        decorated: Any
        if isinstance(fn, staticmethod | classmethod):
            decorated = type(fn)(self(fn.__func__))
        else:
            decorated = wrap(fn, self._live, is_live=self._is_live)
        return decorated  # type: ignore[no-any-return]  # it has fn's own signature

    def call(self, fn: "Callable[P, T]", /, *args: "P.args", **kwargs: "P.kwargs") -> "T":
        """Call a function, again if need be, and return its result."""
        result = attempts(begin(self._live, name_of(fn)), fn, args, kwargs)
        if isinstance(result, CoroutineType):
            result.close()
            raise UsageError(f"{name_of(fn)} is async: write await retry.call_async(...)")
        return result

    async def call_async(self, fn: "Callable[P, Awaitable[T]]", /, *args: "P.args", **kwargs: "P.kwargs") -> "T":
        """Call something that returns an awaitable, again if need be, and return what that gives."""
        return await attempts_async(begin(self._live, name_of(fn)), fn, args, kwargs)

    def __iter__(self) -> Attempts:
        """Go over the attempts of a block."""
        return Attempts(begin(self._live, self._block_name()))

    def __aiter__(self) -> AsyncAttempts:
        """Go over the attempts of a block in async code."""
        return AsyncAttempts(begin(self._live, self._block_name()))

    def using(self, **settings: "Unpack[RetryOptions]") -> "Retry":
        """Return a retry that differs in some settings, for one operation; breaker and budget stay shared."""
        for name, value in settings.items():
            if name not in self._settings:
                raise unknown_setting(name, value, self._settings)
        return self._derive(settings)

    def without_cut_off(self) -> "Retry":
        """Return a retry that lets each attempt come to its end: its deadline only ends the retries."""
        deadline = self.plan.deadline
        return self.using(attempt_timeout=None, deadline=None if deadline is None else Default(deadline))

    def _derive(self, settings: "RetryOptions") -> "Retry":
        return Retry({**self._settings, **settings})

    def _block_name(self) -> str:
        if self._live.plan.on_result is not None:
            raise UsageError("a block has no result to look at: leave out on_result, or use call() with a function")
        return "a block"


@explained
def retry(
    *,
    on: "On",
    on_result: "Callable[[Any], object] | None" = None,
    policy: "Policy | None" = None,
    max_attempts: int | None = None,
    deadline: "Duration | None" = DEFAULT_DEADLINE,
    attempt_timeout: "Duration | None" = None,
    breaker: "CircuitBreaker | None" = None,
    when_open: "WhenOpen" = "fail",
    budget: "RetryBudget | None" = None,
    operation: str = "",
    request_id: "str | Callable[[], str] | None" = None,
    on_event: "Callable[[Event], object] | None" = None,
    redact: "Callable[[str], str] | None" = None,
    retry_exhausted: bool = True,
    clock: "Clock" = system_clock,
    chance: "Callable[[], float]" = random.random,  # noqa: TID251 - the one place where chance comes from
) -> Retry:
    """Retry a call that fails for a while.

    Only ``on`` has no default: only you know which calls may be repeated. The other defaults are safe: 5 attempts,
    waits of 0.5, 1, 2 and 4 s plus or minus 20 %, no new attempt after 60 s.

    Args:
        on: what to retry: exception types, functions of the exception that say so, or a tuple of both.
        on_result: a function of the result that says whether it is a failure to retry, such as ``is_transient``. When
            attempts run out, the caller gets that result.
        policy: whether and when to try again; ``Exponential()`` by default.
        max_attempts: overrides the policy's limit; the first try counts.
        deadline: seconds for all attempts and waits together. If you state it, calls inside see what is left, and an
            async attempt is cut off at it. The default only ends the retries. None: no limit.
        attempt_timeout: seconds for one attempt. An async attempt is cut off; a blocking one can only read
            ``current_attempt().timeout``.
        breaker: a circuit breaker to ask before each attempt, shared between all callers of the same service.
        when_open: what to do while the breaker refuses: ``"fail"`` at once, or ``"wait"`` if the deadline allows it.
        budget: a limit on retries as a share of calls, shared between all calls of a client.
        operation: the name in telemetry; by default the function's.
        request_id: the id in telemetry, or a function that returns it; by default a random one for each call.
        on_event: a function that gets every telemetry event, beside logging and OpenTelemetry.
        redact: a function that takes secrets out of an exception's message before it is reported.
        retry_exhausted: whether to retry a failure that a retry inside has already given up on. False keeps three
            layers of three attempts from becoming 27 calls.
        clock: where time comes from.
        chance: where random numbers come from, 0 <= x < 1.

    Raises:
        InvalidSetting: an argument has a value that is not allowed.
    """
    settings: Any = dict(locals())
    return Retry(settings)
