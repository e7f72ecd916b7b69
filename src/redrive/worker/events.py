# SPDX-License-Identifier: MIT
"""The events that a worker reports, each a value like those in ``redrive.telemetry``."""

import logging
from dataclasses import dataclass
from typing import ClassVar, Self

from redrive.printable import class_name
from redrive.telemetry import Event


@dataclass(frozen=True, slots=True)
class WorkerEvent(Event):
    """What all events of a worker have in common.

    Attributes:
        queue: the queue that the worker serves.
    """

    labels: ClassVar[tuple[str, ...]] = ("queue",)

    queue: str


@dataclass(frozen=True, slots=True)
class HandlerFailed(WorkerEvent):
    """A handler failed. One for each failed delivery, unless the exception says that it ``is_reported``.

    Attributes:
        message_id: the message's id.
        attempt: which attempt it was, counted from 1 over all rounds.
        exception_type: what was raised.
        exception_message: what it said.
        outcome: what became of the message: ``redeliver_now``, ``redeliver_later``, ``postponed``, ``moved``,
            ``discarded``;
            ``settled`` if the handler had settled it by hand before; ``lock_lost`` if another consumer may have it;
            ``dropped`` if it was deleted when it was received, and is gone.
        delay: seconds until it is delivered again; None if it is not.
    """

    name = "redrive.worker.handler_failed"
    level = logging.WARNING
    labels = (*WorkerEvent.labels, "outcome")

    message_id: str
    attempt: int
    exception_type: str
    exception_message: str
    outcome: str
    delay: float | None

    def __str__(self) -> str:
        then = self.outcome if not self.delay else f"{self.outcome} in {self.delay:.3g} s"
        failure = f"{self.exception_type}: {self.exception_message}"
        return f"{self.queue}: attempt {self.attempt} at message {self.message_id} failed with {failure}; {then}"


@dataclass(frozen=True, slots=True)
class MessageMoved(WorkerEvent):
    """A message was moved to an error queue or a dead-letter queue; a person should look at it.

    Attributes:
        message_id: the message's id.
        to: where it is now.
        reason: why, in a word.
        description: why, in a sentence.
    """

    name = "redrive.worker.message_moved"
    level = logging.ERROR
    labels = (*WorkerEvent.labels, "to")

    message_id: str
    to: str
    reason: str
    description: str

    def __str__(self) -> str:
        return f"{self.queue}: message {self.message_id} moved to {self.to}: {self.reason}, {self.description}"


@dataclass(frozen=True, slots=True)
class MessageLockLost(WorkerEvent):
    """The lock on a message ended too early: another consumer may have the message now.

    Attributes:
        message_id: the message's id.
        phase: what was being done with it: ``prefetched``, ``handling`` or ``settling``.
        held: seconds it had been held.
        stalled: seconds for which the event loop was blocked, so that the lock could not be renewed; 0 if it was not.
    """

    name = "redrive.worker.message_lock_lost"
    level = logging.WARNING
    labels = (*WorkerEvent.labels, "phase")

    message_id: str
    phase: str
    held: float
    stalled: float = 0.0

    def __str__(self) -> str:
        lost = f"the lock on message {self.message_id} was lost after {self.held:.3g} s"
        text = f"{self.queue}: {lost} ({self.phase}); nothing is settled, and it will be delivered again"
        if not self.stalled:
            return text
        return (
            f"{text}. It could not be renewed, because the event loop was blocked for {self.stalled:.3g} s: does an "
            "async handler call time.sleep(), or compute for long? Await instead, or declare that handler with def"
        )


@dataclass(frozen=True, slots=True)
class HandlerHung(WorkerEvent):
    """A handler goes on although its message's lock is lost. The next message takes its place.

    Attributes:
        message_id: the message's id.
        handler: the function.
        where: where it is now: module, function and line.
        running: seconds since it began.
        hung: how many handlers of this queue hang.
        max_hung: how many there may be; one more, and the worker ends.
    """

    name = "redrive.worker.handler_hung"
    level = logging.ERROR
    labels = (*WorkerEvent.labels, "handler")

    message_id: str
    handler: str
    where: str
    running: float
    hung: int
    max_hung: int

    def __str__(self) -> str:
        return (
            f"{self.queue}: {self.handler} hangs with message {self.message_id}, whose lock is lost: it began "
            f"{self.running:.3g} s ago and is at {self.where}; its place is free for the next message "
            f"({self.hung} hang, at most {self.max_hung} may)"
        )


@dataclass(frozen=True, slots=True)
class HandlerOverdue(WorkerEvent):
    """A handler in a thread takes longer than its timeout. It cannot be stopped, and counts as failed when it ends.

    Attributes:
        message_id: the message's id.
        timeout: the seconds it was given.
    """

    name = "redrive.worker.handler_overdue"
    level = logging.WARNING

    message_id: str
    timeout: float

    def __str__(self) -> str:
        return f"{self.queue}: the handler of message {self.message_id} takes longer than its {self.timeout:g} s"


@dataclass(frozen=True, slots=True)
class WorkerSlowed(WorkerEvent):
    """Too many failures in a row: the worker pauses, and then tries one message at a time.

    Attributes:
        failures: how many times in a row.
        pause: seconds until the next message.
    """

    name = "redrive.worker.slowed"
    level = logging.WARNING

    failures: int
    pause: float

    def __str__(self) -> str:
        return f"{self.queue}: {self.failures} failures in a row; the next message is tried in {self.pause:.3g} s"


@dataclass(frozen=True, slots=True)
class WorkerAtFullSpeed(WorkerEvent):
    """A message was handled: the worker is at full speed again.

    Attributes:
        failures: how many failures there were in a row before.
    """

    name = "redrive.worker.full_speed"

    failures: int

    def __str__(self) -> str:
        return f"{self.queue}: a message was handled after {self.failures} failures; at full speed again"


@dataclass(frozen=True, slots=True)
class PrefetchTooLarge(WorkerEvent):
    """More messages are fetched ahead than can be handled before their locks end. Reported once.

    Attributes:
        prefetch: how many are fetched ahead.
        concurrency: how many are handled at a time.
        handler_seconds: seconds a handler takes, measured.
        lock_duration: seconds a lock lasts.
        fits: how many could be fetched ahead.
    """

    name = "redrive.worker.prefetch_too_large"
    level = logging.WARNING

    prefetch: int
    concurrency: int
    handler_seconds: float
    lock_duration: float
    fits: int

    def __str__(self) -> str:
        needed = self.prefetch * self.handler_seconds / self.concurrency
        return (
            f"{self.queue}: prefetch={self.prefetch} takes {needed:.3g} s at {self.handler_seconds:.3g} s for each "
            f"message and concurrency={self.concurrency}, longer than the lock of {self.lock_duration:g} s; "
            f"set it to {self.fits}"
        )


@dataclass(frozen=True, slots=True)
class DeliveriesTooFew(WorkerEvent):
    """A queue dead-letters messages before their immediate redeliveries are over. Reported at the start.

    Attributes:
        immediate: how many redeliveries should come at once.
        max_delivery_count: how often the queue delivers a message.
    """

    name = "redrive.worker.deliveries_too_few"
    level = logging.WARNING

    immediate: int
    max_delivery_count: int

    def __str__(self) -> str:
        needed = self.immediate + 1
        return (
            f"{self.queue}: immediate={self.immediate} needs {needed} deliveries, but the queue dead-letters after "
            f"max_delivery_count={self.max_delivery_count}; raise that to {needed} or more"
        )


@dataclass(frozen=True, slots=True)
class WorkerFault(WorkerEvent):
    """The store did not answer the worker, or a function of the program raised. No message loses an attempt.

    The worker goes on.

    Attributes:
        doing: what failed, such as ``receive``, ``settle`` or ``renew``.
        exception_type: what was raised.
        exception_message: what it said.
    """

    name = "redrive.worker.fault"
    level = logging.ERROR
    labels = (*WorkerEvent.labels, "doing")

    doing: str
    exception_type: str
    exception_message: str

    @classmethod
    def of(cls, queue: str, doing: str, error: BaseException) -> Self:
        """Return the event for an exception."""
        return cls(queue, doing, class_name(type(error)), str(error))

    def __str__(self) -> str:
        return f"{self.queue}: {self.doing} failed with {self.exception_type}: {self.exception_message}"
