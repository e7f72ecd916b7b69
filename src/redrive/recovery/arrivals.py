# SPDX-License-Identifier: MIT
"""What is read from queues on its way into the ledger: failures, confirmations, what cannot be read. Pure: no I/O."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from typing import ClassVar

from redrive.broker import Message, Received
from redrive.broker.headers import FAILED_AT, FAILED_EXCEPTION_MESSAGE, FAILED_STACK_TRACE
from redrive.recovery.alike_failures import Alike
from redrive.recovery.failure_formats import Failure
from redrive.recovery.fingerprint import Group
from redrive.recovery.tags import Tag


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A failure that was read, to be recorded.

    Attributes:
        id: the failed message's id, unless the tag says that it is a copy of another.
        failure: what the message says about its failure.
        message: the message without that.
        source: the queue it was found in.
        groups: the groups it belongs to, the exception's group first.
        tag: what its tag says, if the tag is valid.
        alike: what it shares with many others, so that this is made once for all of them; None: nothing.
    """

    id: str
    failure: Failure
    message: Message
    source: str
    groups: Sequence[Group]
    tag: Tag | None = None
    alike: Alike | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlikeArrival:
    """A failure that shares nearly everything with others, of which only its own values were read.

    Attributes:
        id: the failed message's id.
        key: identifies this attempt among those of the same message.
        failed_at: when it failed.
        message: the message without what is about its failure.
        source: the queue it was found in.
        alike: what it shares with others.
        properties: the properties of the message, as engines store them; None: they have to be made.
        at: the header that says when it failed.
        said: what the exception said.
        end: how many newlines follow that in the trace.
    """

    id: str
    key: str
    failed_at: datetime
    message: Message
    source: str
    alike: Alike
    properties: str | None
    at: str
    said: str
    end: int

    tag: ClassVar[None] = None

    @property
    def groups(self) -> Sequence[Group]:
        """The groups it belongs to."""
        return self.alike.groups

    @property
    def failure(self) -> Failure:
        """What the message says about its failure, all of it."""
        shared, trace = self.alike.failure, self.alike.trace + self.said + "\n" * self.end
        own = {FAILED_AT: self.at, FAILED_EXCEPTION_MESSAGE: self.said, FAILED_STACK_TRACE: trace}
        return replace(
            shared,
            message_id=self.message.id or "",  # it has one
            key=self.key,
            failed_at=self.failed_at,
            exception_message=self.said,
            stack_trace=trace,
            headers={**dict.fromkeys(self.alike.names), **shared.headers, **own},
        )

    @property
    def whole(self) -> Arrival:
        """The same as an arrival like any other."""
        return Arrival(
            id=self.id,
            failure=self.failure,
            message=self.message,
            source=self.source,
            groups=self.groups,
            alike=self.alike,
        )


@dataclass(frozen=True, slots=True)
class Recorded:
    """What became of an arrival.

    Attributes:
        id: the failed message that it belongs to.
        is_new: whether this failure was not recorded before.
    """

    id: str
    is_new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmation:
    """A valid confirmation: a recovered copy was handled.

    Attributes:
        failure: the failed message's number.
        operation: the operation that sent it.
        at: when it was handled.
    """

    failure: int
    operation: int
    at: datetime


class Heard(Enum):
    """What a confirmation changed."""

    NEW = "new"
    KNOWN = "known"
    UNKNOWN = "unknown"
    """No operation has sent such a message, or its copy is known to have failed."""


@dataclass(frozen=True, slots=True)
class Confirmed:
    """What became of a confirmation.

    Attributes:
        id: the failed message's id; empty if there is none.
        operation: the operation that sent it.
        heard: what the confirmation changed.
    """

    id: str
    operation: int
    heard: Heard


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAside:
    """A message from an error queue that could not be read.

    Attributes:
        number: its number; 0 before it is stored.
        received: the message as it was found.
        reason: what is wrong with it.
        at: when it was set aside.
    """

    number: int = 0
    received: Received
    reason: str
    at: datetime | None = None
