# SPDX-License-Identifier: MIT
"""Whether to try again and when: the policies and the values they speak in. Pure: no I/O, no clock, no randomness.

A policy gets an ``AttemptFailure`` and returns ``RetryAfter(delay)`` or ``GiveUp(why)``. The retry loop asks it after
every failure, and waits, calls and counts.
"""

from datetime import timedelta

from redrive import duration
from redrive.errors import InvalidSetting
from redrive.retry import backoff
from redrive.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Literal, Self, TypeAlias, TypeVar

    from redrive.duration import Duration
    from redrive.retry.backoff import Jitter

    P = TypeVar("P", bound="Policy")
    RetryOutcome: TypeAlias = Literal["exhausted", "deadline", "budget", "breaker_open", "not_retryable", "nested"]


_LONGEST_DELAY = 2.0 * duration.LONGEST
"""Jitter may stretch the longest allowed delay to twice its length."""


class AttemptFailure:
    """What a policy may know about a failed attempt. Fresh for every failure; treat it as read-only.

    Attributes:
        attempt: which attempt failed, counted from 1; so also the number of failures so far.
        error: the exception, or None when the call returned a result that was not accepted.
        result: that result, or None.
        elapsed: seconds since the first attempt began.
        remaining: seconds until the deadline of all attempts, or None without one.
        chance: a random number, 0 <= chance < 1, the only randomness a policy may use.
    """

    __slots__ = ("_wall_clock", "attempt", "chance", "elapsed", "error", "remaining", "result")

    def __init__(
        self,
        attempt: int,
        error: Exception | None = None,
        result: object = None,
        elapsed: float = 0.0,
        remaining: float | None = None,
        chance: float = 0.5,
        wall_clock: "Callable[[], float]" = float,
    ) -> None:
        self.attempt = attempt
        self.error = error
        self.result = result
        self.elapsed = elapsed
        self.remaining = remaining
        self.chance = chance
        self._wall_clock = wall_clock

    @property
    def unix_time(self) -> float:
        """The wall clock in seconds since 1970, for instants that a server names; read when it is asked for."""
        return self._wall_clock()

    @property
    def subject(self) -> object:
        """What failed: the exception, or the result that was not accepted."""
        return self.result if self.error is None else self.error


class RetryAfter(Value):
    """Try again after ``delay`` seconds."""

    __slots__ = ("delay",)
    delay: float

    def __init__(self, delay: float) -> None:
        try:
            is_allowed = 0.0 <= delay <= _LONGEST_DELAY  # not NaN: a wrong delay must never become a hot loop
        except TypeError:
            is_allowed = False
        if not is_allowed:
            raise InvalidSetting("delay", delay, f"must be 0 to {_LONGEST_DELAY:,.0f} seconds")
        object.__setattr__(self, "delay", delay)  # made at every failure, so without the loop of _fill


_AT_ONCE = RetryAfter(0.0)


class GiveUp(Value):
    """Do not try again; the caller gets the failure.

    Attributes:
        why: one sentence for a person.
        outcome: one word for a program.
    """

    __slots__ = ("why", "outcome")
    why: str
    outcome: "RetryOutcome"

    def __init__(self, why: str, outcome: "RetryOutcome" = "exhausted") -> None:
        self._fill(why, outcome)


class Policy:
    """The base of all policies. Derive your own from it and write ``decide``.

    A policy that keeps no state returns itself from ``create_instance``; one that does returns a fresh copy, so that
    concurrent operations never share it.
    """

    __slots__ = ()

    def create_instance(self) -> "Self":
        """Return the policy for one operation: all its attempts ask this one object."""
        return self

    def decide(self, failure: AttemptFailure) -> "RetryAfter | GiveUp":
        """Answer a failure."""
        raise NotImplementedError(f"{type(self).__name__} must define decide(failure)")


class Backoff(Policy):
    """A policy that follows a curve of delays. Derive from it and write ``curve``.

    Args:
        jitter: how to spread the delays: a share ``j`` for plus or minus ``j``, ``"full"``, ``"equal"`` or ``"none"``.
        fast_first: whether the first retry comes at once; the curve then starts one retry later.
        max_attempts: how many attempts there are at most, the first try included; None: no limit.
    """

    __slots__ = ("jitter", "fast_first", "max_attempts")
    jitter: "Jitter"
    fast_first: bool
    max_attempts: int | None

    def __init__(self, *, jitter: "Jitter" = 0.2, fast_first: bool = False, max_attempts: int | None = 5) -> None:
        self.jitter = backoff.check_jitter(jitter)
        self.fast_first = check_flag("fast_first", fast_first)
        self.max_attempts = check_max_attempts(max_attempts)

    def curve(self, n: int) -> float:
        """Return the ``n``-th delay in seconds, before jitter, counted from 1."""
        raise NotImplementedError(f"{type(self).__name__} must define curve(n)")

    def decide(self, failure: AttemptFailure) -> "RetryAfter | GiveUp":
        """Follow the curve until ``max_attempts``."""
        n = failure.attempt
        if self.max_attempts is not None and n >= self.max_attempts:
            return GiveUp(f"all {self.max_attempts} attempts failed")
        if self.fast_first:
            if n == 1:
                return _AT_ONCE
            n -= 1  # the curve starts at its usual value, one attempt later
        delay = self.curve(n)
        return RetryAfter(backoff.jittered(delay, self.jitter, failure.chance)) if delay else _AT_ONCE

    def preview(self, attempts: int | None = None) -> "PolicyPreview":
        """Return the waits of this policy, to check it before use.

        Args:
            attempts: how many attempts to show; by default ``max_attempts``, or 10 when there is no limit.
        """
        limits = [limit for limit in (self.max_attempts, check_max_attempts(attempts)) if limit is not None]
        rows = [
            tuple(self._delay_at(attempt, chance) for chance in (0.0, 0.5, 1.0))
            for attempt in range(1, min(limits, default=10))
        ]
        return PolicyPreview(tuple(rows))

    def _delay_at(self, attempt: int, chance: float) -> float:
        decision = self.decide(AttemptFailure(attempt, chance=chance))
        return decision.delay if isinstance(decision, RetryAfter) else 0.0


class PolicyPreview(Value):
    """The waits of a policy: for each, the shortest, the middle and the longest in seconds. Print it."""

    __slots__ = ("waits",)
    waits: tuple[tuple[float, ...], ...]

    def __init__(self, waits: tuple[tuple[float, ...], ...]) -> None:
        self._fill(waits)

    @property
    def worst(self) -> float:
        """The longest that all waits together can take, in seconds."""
        return sum(longest for *_, longest in self.waits)

    def __str__(self) -> str:
        lines = [f"{'after attempt':>13} {'shortest':>10} {'middle':>10} {'longest':>10}"]
        for attempt, (low, middle, high) in enumerate(self.waits, start=1):
            lines.append(f"{attempt:>13} {low:>8.3f} s {middle:>8.3f} s {high:>8.3f} s")
        return "\n".join([*lines, f"all waits together: at most {self.worst:.3f} s"])


class Exponential(Value, Backoff):
    """Waits that double: ``min + (2^(n-1) - 1) * delta``, at most ``max``, then jitter.

    With ``delta`` equal to ``min``, its default, each wait is twice the one before.
    """

    __slots__ = ("min", "delta", "max")
    min: float
    delta: float
    max: float

    def __init__(
        self,
        *,
        min: "Duration" = 0.5,
        delta: "Duration | None" = None,
        max: "Duration" = 30.0,
        jitter: "Jitter" = 0.2,
        fast_first: bool = False,
        max_attempts: int | None = 5,
    ) -> None:
        min_s = check_first_delay("min", min)
        delta_s = min_s if delta is None else duration.seconds("delta", delta, zero=True)
        max_s = check_cap(max, "min", min_s)
        self._fill(
            min_s,
            delta_s,
            max_s,
            backoff.check_jitter(jitter),
            check_flag("fast_first", fast_first),
            check_max_attempts(max_attempts),
        )

    def curve(self, n: int) -> float:
        """Return the ``n``-th delay in seconds, before jitter."""
        return backoff.exponential(n, self.min, self.delta, self.max)


class Linear(Value, Backoff):
    """Waits that grow by the same step: ``start + (n-1) * step``, at most ``max``, then jitter."""

    __slots__ = ("start", "step", "max")
    start: float
    step: float
    max: float

    def __init__(
        self,
        start: "Duration" = 1.0,
        step: "Duration | None" = None,
        *,
        max: "Duration" = 30.0,
        jitter: "Jitter" = 0.2,
        fast_first: bool = False,
        max_attempts: int | None = 5,
    ) -> None:
        start_s = check_first_delay("start", start)
        step_s = start_s if step is None else duration.seconds("step", step, zero=True)
        max_s = check_cap(max, "start", start_s)
        self._fill(
            start_s,
            step_s,
            max_s,
            backoff.check_jitter(jitter),
            check_flag("fast_first", fast_first),
            check_max_attempts(max_attempts),
        )

    def curve(self, n: int) -> float:
        """Return the ``n``-th delay in seconds, before jitter."""
        return backoff.linear(n, self.start, self.step, self.max)


class Fixed(Value, Backoff):
    """The same wait every time, then jitter. Azure's documents call this one linear."""

    __slots__ = ("delay",)
    delay: float

    def __init__(
        self,
        delay: "Duration" = 1.0,
        *,
        jitter: "Jitter" = 0.2,
        fast_first: bool = False,
        max_attempts: int | None = 5,
    ) -> None:
        delay_s = duration.seconds("delay", delay, zero=True)
        self._fill(
            delay_s,
            backoff.check_jitter(jitter),
            check_flag("fast_first", fast_first),
            check_max_attempts(max_attempts),
        )

    def curve(self, n: int) -> float:
        """Return the delay."""
        return self.delay


class Delays(Value, Backoff):
    """The waits you list, then jitter.

    There is one attempt more than waits, unless ``max_attempts`` says otherwise; if it says more, the last one repeats.
    """

    __slots__ = ("delays",)
    delays: tuple[float, ...]

    def __init__(
        self,
        delays: "tuple[Duration, ...] | list[Duration]",
        *,
        jitter: "Jitter" = 0.2,
        fast_first: bool = False,
        max_attempts: int | None = None,
    ) -> None:
        if not isinstance(delays, tuple | list) or not delays:
            raise InvalidSetting("delays", delays, "must be a list of at least one delay")
        listed = tuple(duration.seconds(f"delays[{i}]", delay, zero=True) for i, delay in enumerate(delays))
        limit = len(listed) + 1 + bool(fast_first) if max_attempts is None else check_max_attempts(max_attempts)
        self._fill(listed, backoff.check_jitter(jitter), check_flag("fast_first", fast_first), limit)

    def curve(self, n: int) -> float:
        """Return the ``n``-th delay in seconds, before jitter."""
        return backoff.listed(n, self.delays)


def with_max_attempts(policy: "P", max_attempts: int) -> "P":
    """Return a copy of a policy with another limit on attempts."""
    from copy import copy

    limited = copy(policy)
    object.__setattr__(limited, "max_attempts", max_attempts)  # frozen, but no other code has this copy yet
    return limited


def check_policy(setting: str, value: object) -> Policy:
    """Return the value if it can act as a policy."""
    if isinstance(value, type) or not (hasattr(value, "decide") and hasattr(value, "create_instance")):
        raise InvalidSetting(setting, value, "must be a policy object, such as Exponential(max_attempts=3)")
    return value  # type: ignore[return-value]  # duck-typed: an object with decide() is a policy


def check_flag(setting: str, value: bool) -> bool:  # noqa: FBT001 - a flag is what it checks
    """Return the flag if it is one; the text "false" from a file is not, and would count as true."""
    if not isinstance(value, bool):
        raise InvalidSetting(setting, value, "must be True or False")
    return value


def check_first_delay(setting: str, value: "Duration") -> float:
    """Return the first delay in seconds; for zero there is ``fast_first``."""
    if value in (0, timedelta(0)):
        raise InvalidSetting(
            setting, value, "would make the first retry immediate; use fast_first=True if you want that"
        )
    return duration.seconds(setting, value)


def check_cap(value: "Duration", floor_name: str, floor_s: float) -> float:
    """Return the cap in seconds; it cannot be below the first delay."""
    cap_s = duration.seconds("max", value)
    if cap_s < floor_s:
        raise InvalidSetting("max", value, f"must be at least {floor_name} ({floor_s:g} s)")
    return cap_s


def check_max_attempts(value: int | None) -> int | None:
    """Return the limit on attempts if it is valid."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise InvalidSetting(
            "max_attempts", value, "must be a whole number from 1 (the first try counts), or None for no limit"
        )
    return value
