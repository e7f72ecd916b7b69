# SPDX-License-Identifier: MIT
"""A destination of senders. While it is down, the routes that lead to it are parked, and no event is blamed.

One circuit breaker belongs to a destination, however many routes lead to it. It opens after some failures in a row of
different events: an event that fails again and again on its own is that event's problem. While it is open, one event at
a time is tried, and the first one that is delivered reopens the destination for all.
"""

from collections.abc import Callable

from redrive.clock import Clock
from redrive.retry import CircuitBreaker
from redrive.routes.outcomes import Delivered, DestinationDown, Rejected, SendOutcome, Throttled, TryLater


class Destination:
    """A destination, shared by all senders in this process that lead there.

    Args:
        name: what it is, for people.
        clock: the clock.
        failures: after how many failures in a row it is down.
        probe_after: seconds until it is tried again.
        on_change: called when it went down, or is back.
    """

    def __init__(
        self,
        name: str,
        clock: Clock,
        *,
        failures: int,
        probe_after: float,
        on_change: Callable[[str, bool], None],
    ) -> None:
        self.name = name
        self._clock = clock
        self._breaker = CircuitBreaker(name, failures=failures, open_for=probe_after)
        self._on_change = on_change
        self._failed: set[str] = set()  # no more than it takes to go down

    @property
    def is_down(self) -> bool:
        """Whether it is down, as far as is known."""
        return self._breaker.state != "closed"

    @property
    def retry_after(self) -> float:
        """The seconds until it is worth trying again."""
        return self._breaker.retry_after(self._clock.monotonic())

    def admit(self) -> int | None:
        """Return a permit for one call; None if it is down."""
        return self._breaker.admit(self._clock.monotonic())

    def note(self, permit: int, outcome: SendOutcome, event_id: str) -> None:
        """Note what came of a call."""
        now, change = self._clock.monotonic(), None
        match outcome:
            case Delivered() | Rejected():
                self._failed.clear()
                change = self._breaker.succeeded(permit, now)
            case Throttled():
                self._breaker.released(permit)
            case TryLater() if not self.is_down and event_id in self._failed:
                self._breaker.released(permit)
            case TryLater() | DestinationDown():
                change = self._breaker.failed(permit, now)
                self._failed.add(event_id)
        if change is not None and "closed" in change:
            self._failed.clear()
            self._on_change(self.name, self.is_down)

    def release(self, permit: int) -> None:
        """Note that a call was given up."""
        self._breaker.released(permit)
