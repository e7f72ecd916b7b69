# SPDX-License-Identifier: MIT
"""The settings of a retry, checked once and ready to use: what to retry, how, and within which limits.

The signature of ``retry`` is the list of the settings: their names, types and defaults. This module has their types,
for callers that state some of them, and one line for each that checks it.
"""
# pyright: reportTypedDictNotRequiredAccess=false
# A plan gets all settings, since ``retry`` has a default for each; RetryOptions are for callers that state a few.

from redrive import duration
from redrive.errors import InvalidSetting
from redrive.retry.adaptive import Adaptive
from redrive.retry.breaker import check_when_open
from redrive.retry.policy import Backoff, Exponential, check_max_attempts, check_policy, with_max_attempts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias, TypedDict, TypeVar

    from redrive.clock import Clock
    from redrive.duration import Duration
    from redrive.retry.breaker import CircuitBreaker, WhenOpen
    from redrive.retry.budget import RetryBudget
    from redrive.retry.policy import Policy
    from redrive.telemetry import Event

    class OperationOptions(TypedDict, total=False):
        """The settings that code may state even if it follows a policy file."""

        on_result: Callable[[Any], object] | None
        max_attempts: int | None
        deadline: Duration | None
        attempt_timeout: Duration | None
        breaker: CircuitBreaker | None
        when_open: WhenOpen
        budget: RetryBudget | None
        request_id: str | Callable[[], str] | None
        on_event: Callable[[Event], object] | None
        redact: Callable[[str], str] | None
        retry_exhausted: bool
        clock: Clock
        chance: Callable[[], float]

    class RetryOptions(OperationOptions, total=False):
        """The settings of ``retry``, for a caller that states some; a test holds them equal to its signature."""

        on: "On"
        policy: Policy | None
        operation: str

    ErrorTest: TypeAlias = type[Exception] | Callable[[Exception], bool]
    On: TypeAlias = ErrorTest | tuple[ErrorTest, ...] | list[ErrorTest]
    _F = TypeVar("_F")


class Default(float):
    """A default number: it works like any other, and can be distinguished from a stated one."""

    __slots__ = ()


DEFAULT_DEADLINE = Default(60.0)

_COROUTINE = 0x80
"""The flag of an async function's code; ``inspect`` would cost more to import than this whole layer."""


class RetryPlan:
    """Checked settings. Built once per retry and shared by all its calls; nothing in it changes."""

    def __init__(self, settings: "RetryOptions") -> None:
        self.errors, self.tests = _split(settings["on"])
        self.on_result = _check_callable("on_result", settings["on_result"])
        self.policy, self.max_attempts = _limited(settings["policy"], check_max_attempts(settings["max_attempts"]))
        self.deadline = _seconds("deadline", settings["deadline"])
        self.attempt_timeout = _seconds("attempt_timeout", settings["attempt_timeout"])
        self.breaker = _check_part("breaker", settings["breaker"], "admit", "a CircuitBreaker")
        self.when_open = check_when_open(settings["when_open"])
        self.budget = _check_part("budget", settings["budget"], "grants_retry", "a RetryBudget")
        self.operation = settings["operation"]
        self.request_id = settings["request_id"]
        self.on_event = _check_callable("on_event", settings["on_event"])
        self.redact = _check_callable("redact", settings["redact"])
        self.retry_exhausted = settings["retry_exhausted"]
        self.clock = _check_part("clock", settings["clock"], "monotonic", "a clock", required=True)
        self.chance = _check_callable("chance", settings["chance"], required=True)
        # Nested calls see the limits that a caller stated, and async attempts are cut off at them.
        # The default deadline only ends the retries, and costs nothing while nothing fails.
        self.has_stated_deadline = self.deadline is not None and not isinstance(settings["deadline"], Default)
        self.is_announced = self.has_stated_deadline or self.attempt_timeout is not None or not self.retry_exhausted

    def retries(self, error: Exception) -> bool:
        """Say whether an error is one to retry."""
        return isinstance(error, self.errors) or any(test(error) for test in self.tests)

    def is_quiet(self) -> bool:
        """Say whether a call that succeeds has nothing to announce, admit or count."""
        return (
            not self.is_announced
            and self.on_result is None
            and (self.breaker is None or self.breaker.calm)
            and (self.budget is None or not self.budget.short)
        )


def _split(on: object) -> "tuple[tuple[type[Exception], ...], tuple[Callable[[Exception], object], ...]]":
    """Split ``on`` into exception types and tests."""
    types: list[type[Exception]] = []
    tests: list[Callable[[Exception], object]] = []
    items: list[Any] = list(on) if isinstance(on, tuple | list) else [on]
    for item in items:
        if isinstance(item, type) and issubclass(item, Exception):
            types.append(item)
        elif isinstance(item, type):
            raise InvalidSetting("on", item, "must be Exception or below; cancellation and exits are never retried")
        elif callable(item):
            tests.append(_check_callable("on", item))
        else:
            raise InvalidSetting(
                "on", item, "must be exception types, or functions of an exception, or a tuple of these"
            )
    if not types and not tests:
        raise InvalidSetting("on", on, "must name at least one exception type to retry")
    return tuple(types), tuple(tests)


def _limited(policy: "Policy | None", max_attempts: int | None) -> "tuple[Policy, int | None]":
    """Return the policy with its limit overridden, and the limit that the caller must check itself."""
    chosen = Exponential() if policy is None else check_policy("policy", policy)
    if max_attempts is not None and isinstance(chosen, Adaptive):
        return chosen.replace(max_attempts=max_attempts), None  # its fallback's limit with it
    if max_attempts is not None and isinstance(chosen, Backoff):
        return with_max_attempts(chosen, max_attempts), None
    return chosen, max_attempts


def _seconds(setting: str, value: "Duration | None") -> float | None:
    return None if value is None else duration.seconds(setting, value)


def _check_part(setting: str, value: "_F", method: str, meant: str, *, required: bool = False) -> "_F":
    if (required or value is not None) and (isinstance(value, type) or not hasattr(value, method)):
        raise InvalidSetting(setting, value, f"must be {meant}")
    return value


def _check_callable(setting: str, value: "_F", *, required: bool = False) -> "_F":
    if (required or value is not None) and not callable(value):
        raise InvalidSetting(setting, value, "must be a function")
    if getattr(getattr(value, "__code__", None), "co_flags", 0) & _COROUTINE:
        raise InvalidSetting(setting, value, "must not be async: its result is needed at once, and a coroutine is true")
    return value
