# SPDX-License-Identifier: MIT
"""Reports what becomes of the messages of one queue."""

from collections.abc import Callable

from redrive.broker import dead_letter_queue
from redrive.clock import Clock
from redrive.telemetry import Event
from redrive.worker.events import HandlerFailed, HandlerOverdue, MessageLockLost, MessageMoved
from redrive.worker.held_message import HeldMessage
from redrive.worker.recoverability import (
    Decision,
    Discard,
    HandlerFailure,
    MoveToError,
    Postpone,
    RedeliverLater,
    RedeliverNow,
)


class Reporter:
    """Reports an event for each thing that happens to a message.

    Args:
        queue: where they are.
        clock: the clock.
        report: takes events.
    """

    def __init__(self, queue: str, clock: Clock, report: Callable[[Event], None]) -> None:
        self._queue = queue
        self._clock = clock
        self._report = report

    def decided(self, decision: Decision, failure: HandlerFailure) -> None:
        """Report a failure, and the decision about it, unless the exception says that its handler has done so."""
        if getattr(failure.error, "is_reported", False):
            return
        match decision:
            case RedeliverNow():
                self.failed(failure, "redeliver_now", 0.0)
            case RedeliverLater(delay):
                self.failed(failure, "redeliver_later", delay)
            case Postpone(delay):
                self.failed(failure, "postponed", delay)
            case Discard():
                self.failed(failure, "discarded")
            case MoveToError(reason, description, queue):
                self.failed(failure, "moved")
                to = queue or dead_letter_queue(self._queue)
                self._report(MessageMoved(self._queue, failure.message.id or "", to, reason, description))

    def failed(self, failure: HandlerFailure, outcome: str, delay: float | None = None) -> None:
        """Report a failure."""
        self._report(
            HandlerFailed(
                self._queue,
                failure.message.id or "",
                failure.attempt,
                failure.exception_type,
                failure.exception_message,
                outcome,
                delay,
            )
        )

    def lost(self, lease: HeldMessage, stalled: float = 0.0) -> None:
        """Report that a lock ended too early."""
        held = self._clock.monotonic() - lease.taken_at
        self._report(MessageLockLost(self._queue, lease.id, lease.phase, held, stalled))

    def overdue(self, lease: HeldMessage, timeout: float) -> None:
        """Report a handler that takes longer than its timeout and cannot be stopped."""
        self._report(HandlerOverdue(self._queue, lease.id, timeout))
