# SPDX-License-Identifier: MIT
"""What a call can see of the retries around it: the attempt it is part of, and how much time is left.

It travels in a context variable, so it follows tasks and ``asyncio.to_thread``, and never leaks between requests.
"""

from contextvars import ContextVar

from redrive import duration
from redrive.clock import system_clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from redrive.clock import Clock
    from redrive.duration import Duration

    class Scope(Protocol):
        """A scope around running code: an operation in progress, or a block with a deadline."""

        @property
        def name(self) -> str: ...  # noqa: D102 - as in Attempt
        @property
        def number(self) -> int: ...  # noqa: D102 - as in Attempt
        @property
        def clock(self) -> Clock: ...  # noqa: D102 - as in Attempt
        @property
        def ends_at(self) -> float | None: ...  # noqa: D102 - as in Attempt
        @property
        def attempt_timeout(self) -> float | None: ...  # noqa: D102 - as in Attempt
        @property
        def outer(self) -> "Scope | None": ...  # noqa: D102 - the scope around it
        @property
        def owner(self) -> object: ...  # noqa: D102 - who entered it and will leave it


class Attempt:
    """The attempt that is running.

    Attributes:
        number: which attempt it is, counted from 1.
    """

    __slots__ = ("_scope", "number")

    def __init__(self, scope: "Scope") -> None:
        self.number = scope.number
        self._scope = scope

    @property
    def operation(self) -> str:
        """What is being attempted."""
        return self._scope.name

    @property
    def remaining(self) -> float | None:
        """Seconds left for all attempts, this one and those around it; never negative; None without a deadline."""
        scope = self._scope
        return None if scope.ends_at is None else max(0.0, scope.ends_at - scope.clock.monotonic())

    @property
    def timeout(self) -> float | None:
        """Seconds this attempt may take, to hand to your client: ``attempt_timeout`` or ``remaining``, the shorter."""
        remaining, limit = self.remaining, self._scope.attempt_timeout
        if remaining is None or limit is None:
            return limit if remaining is None else remaining
        return min(remaining, limit)


ambient: "ContextVar[Scope | None]" = ContextVar("redrive.retry.attempt", default=None)
"""The innermost operation or deadline around the running code.

Entered with ``set`` and left with ``leave``, never with ``reset``: in an async generator a block may be left in another
copy of the context than the one it was entered in, and ``reset`` refuses that.
"""


def current_attempt() -> Attempt:
    """Return the attempt that the calling code is part of.

    A first attempt is only announced if it has its own limit that calls inside must see (a stated ``deadline`` or
    ``attempt_timeout``). Code in an attempt that was not announced is in attempt 1 with no limit.
    """
    return Attempt(ambient.get() or _UNLIMITED)


def leave(owner: object) -> None:
    """Restore the scope around the one that ``owner`` entered; a context that is not inside it does not change."""
    scope = ambient.get()
    while scope is not None and scope.owner is not owner:
        scope = scope.outer
    if scope is not None:
        ambient.set(scope.outer)


def remaining_in(scope: "Scope | None") -> float | None:
    """Return the seconds that a scope leaves for the code inside it."""
    return None if scope is None else Attempt(scope).remaining


class _Limited:
    """A scope that is not an operation."""

    __slots__ = ("attempt_timeout", "clock", "ends_at", "name", "number", "outer", "owner")

    def __init__(self, owner: object, name: str, number: int, clock: "Clock", ends_at: float | None) -> None:
        self.owner = owner
        self.outer = ambient.get()
        self.name = name
        self.number = number
        self.clock = clock
        self.ends_at = ends_at
        self.attempt_timeout: float | None = None


_UNLIMITED = _Limited(None, "", 1, system_clock, None)


class deadline:  # noqa: N801 - reads as a statement: with deadline(5):
    """Give a ``with`` block a deadline that every retry inside it sees.

    Retries inside end before it; a running attempt is not interrupted. Blocks nest: the earliest deadline counts.
    """

    __slots__ = ("_clock", "_seconds")

    def __init__(self, seconds: "Duration", *, clock: "Clock" = system_clock) -> None:
        self._seconds = duration.seconds("seconds", seconds, zero=True)
        self._clock = clock

    def __enter__(self) -> Attempt:
        outer = current_attempt()
        left = self._seconds if outer.remaining is None else min(self._seconds, outer.remaining)
        scope = _Limited(self, outer.operation, outer.number, self._clock, self._clock.monotonic() + left)
        ambient.set(scope)
        return Attempt(scope)

    def __exit__(self, *_: object) -> None:
        leave(self)
