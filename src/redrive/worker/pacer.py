# SPDX-License-Identifier: MIT
"""The pace of a handler: slows it down when everything fails, measures how long it takes, and reports both."""

from collections.abc import Callable

from redrive.clock import Clock
from redrive.telemetry import Event
from redrive.worker.events import PrefetchTooLarge, WorkerAtFullSpeed, WorkerSlowed
from redrive.worker.handler import Handler
from redrive.worker.slowdown import FULL_SPEED, after_failure, after_success


class Pacer:
    """The pace of one handler.

    Attributes:
        resume_at: when a slow handler tries the next message, on the monotonic clock.
    """

    def __init__(
        self,
        handler: Handler,
        clock: Clock,
        lock_s: float,
        chance: Callable[[], float],
        report: Callable[[Event], None],
    ) -> None:
        self._handler = handler
        self._clock = clock
        self._lock_s = lock_s
        self._chance = chance
        self._report = report
        self._pace = FULL_SPEED
        self._handler_s = 0.0
        self._has_warned = False
        self.resume_at = 0.0

    @property
    def is_slow(self) -> bool:
        """Whether messages are tried one at a time."""
        return self._pace.is_slow

    def succeeded(self) -> None:
        """Note that a message was handled."""
        if self._pace.failures:
            if self._pace.is_slow:
                self._report(WorkerAtFullSpeed(self._handler.queue, self._pace.failures))
            self._pace = after_success(self._pace)

    def failed(self, *, is_probe: bool) -> float:
        """Note that a handler failed; return the seconds of the pause that begins with it, 0 if none does."""
        before = self._pace
        self._pace = after_failure(before, self._handler.slow_down, self._chance(), is_probe=is_probe)
        if self._pace.pauses == before.pauses:
            return 0.0
        self.resume_at = self._clock.monotonic() + self._pace.pause
        self._report(WorkerSlowed(self._handler.queue, self._pace.failures, self._pace.pause))
        return self._pace.pause

    def took(self, seconds: float) -> None:
        """Note how long a handler took; warn once if the messages fetched ahead cannot be handled in time."""
        handler = self._handler
        self._handler_s += (0.2 if self._handler_s else 1.0) * (seconds - self._handler_s)
        if self._has_warned or handler.prefetch * self._handler_s / handler.concurrency <= self._lock_s:
            return
        self._has_warned = True
        fits = int(self._lock_s * handler.concurrency / self._handler_s)
        figures = (handler.prefetch, handler.concurrency, self._handler_s, self._lock_s, fits)
        self._report(PrefetchTooLarge(handler.queue, *figures))
