# SPDX-License-Identifier: MIT
"""The events that recovery reports, each a value like those in ``redrive.telemetry``."""

import logging
from dataclasses import dataclass
from typing import Self

from redrive.printable import class_name
from redrive.telemetry import Event


@dataclass(frozen=True, slots=True)
class MessageFailed(Event):
    """A failure was recorded.

    Attributes:
        id: the failed message's id.
        message_id: the message's own id.
        queue: where it failed.
        exception_type: the exception's class.
        group: the group of failures it belongs to.
        operation: the operation that had sent it again; None if it comes from its sender.
    """

    name = "redrive.recovery.message_failed"
    level = logging.WARNING
    labels = ("queue",)

    id: str
    message_id: str
    queue: str
    exception_type: str
    group: str
    operation: int | None

    def __str__(self) -> str:
        again = "" if self.operation is None else f" again, after operation {self.operation}"
        return f"{self.queue}: message {self.message_id} failed{again} with {self.exception_type or 'no exception'}"


@dataclass(frozen=True, slots=True)
class MessageRecovered(Event):
    """A message that was sent again was handled.

    Attributes:
        id: the failed message's id.
        operation: the operation that sent it.
    """

    name = "redrive.recovery.message_recovered"

    id: str
    operation: int

    def __str__(self) -> str:
        return f"failed message {self.id} was handled, after operation {self.operation}"


@dataclass(frozen=True, slots=True)
class MessageSetAside(Event):
    """A message from an error queue could not be read, and waits for a person.

    Attributes:
        queue: where it was found.
        message_id: its id, if it has one.
        reason: what is wrong with it.
    """

    name = "redrive.recovery.message_set_aside"
    level = logging.ERROR
    labels = ("queue",)

    queue: str
    message_id: str
    reason: str

    def __str__(self) -> str:
        return f"{self.queue}: message {self.message_id or 'without id'} was set aside: {self.reason}"


@dataclass(frozen=True, slots=True)
class OperationChanged(Event):
    """An operation was requested, paused, resumed, cancelled, stopped by its canaries, or is over.

    Attributes:
        operation: its number.
        kind: what it does.
        state: its state now.
        actor: who did it.
        reason: why.
    """

    name = "redrive.recovery.operation_changed"
    labels = ("kind", "state")

    operation: int
    kind: str
    state: str
    actor: str
    reason: str

    def __str__(self) -> str:
        why = f": {self.reason}" if self.reason else ""
        return f"operation {self.operation} ({self.kind}) is {self.state}{why}"


@dataclass(frozen=True, slots=True)
class OperationHalted(Event):
    """An operation cannot be worked on, and was paused; all others go on.

    Attributes:
        operation: its number.
        reason: why, and what to do about it.
    """

    name = "redrive.recovery.operation_halted"
    level = logging.ERROR

    operation: int
    reason: str

    def __str__(self) -> str:
        return f"operation {self.operation} was paused: {self.reason}"


@dataclass(frozen=True, slots=True)
class MessagesEjected(Event):
    """Messages could not be staged or sent, and are unresolved again.

    Attributes:
        operation: the operation they were in.
        lane: where they were to go.
        count: how many.
        reason: why, of one of them.
    """

    name = "redrive.recovery.messages_ejected"
    level = logging.ERROR
    labels = ("lane",)

    operation: int
    lane: str
    count: int
    reason: str

    def __str__(self) -> str:
        return f"operation {self.operation}: {self.count} messages for {self.lane!r} could not be sent: {self.reason}"


@dataclass(frozen=True, slots=True)
class StraysDropped(Event):
    """Copies in a staging queue belonged to no batch, and were dropped: leftovers of interrupted attempts.

    Attributes:
        lane: the lane.
        count: how many.
        set_aside: how many were no copies at all, and are in the staging queue's dead-letter queue now.
    """

    name = "redrive.recovery.strays_dropped"
    labels = ("lane",)

    lane: str
    count: int
    set_aside: int

    def __str__(self) -> str:
        return f"lane {self.lane!r}: {self.count} stray copies dropped, {self.set_aside} foreign messages set aside"


@dataclass(frozen=True, slots=True)
class RecoveryFault(Event):
    """A call of a store or a broker failed; the service tries it again.

    Attributes:
        doing: what the service was doing.
        exception_type: what was raised.
        exception_message: what it said.
    """

    name = "redrive.recovery.fault"
    level = logging.WARNING

    doing: str
    exception_type: str
    exception_message: str

    @classmethod
    def of(cls, doing: str, error: BaseException) -> Self:
        """Return the event for an exception."""
        return cls(doing, class_name(type(error)), str(error))

    def __str__(self) -> str:
        return f"{self.doing} failed and will be tried again: {self.exception_type}: {self.exception_message}"
