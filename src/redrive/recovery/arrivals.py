# SPDX-License-Identifier: MIT
"""What is read from queues on its way into the ledger: failures, confirmations, what cannot be read. Pure: no I/O."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from redrive.broker import Message, Received
from redrive.recovery.failure_formats import Failure
from redrive.recovery.fingerprint import Group
from redrive.recovery.tags import Tag


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A failure that was read, to be recorded.

    Attributes:
        id: the failed message's id, unless the tag says that it is another's copy.
        failure: what is told about it.
        message: the message, without that.
        source: the queue it was found in.
        groups: what it belongs to, the exception's group first.
        tag: what its tag says, if it was found to be true.
    """

    id: str
    failure: Failure
    message: Message
    source: str
    groups: Sequence[Group]
    tag: Tag | None = None


@dataclass(frozen=True, slots=True)
class Recorded:
    """What became of an arrival.

    Attributes:
        id: the failed message that it belongs to.
        is_new: whether it is a failure that nobody had seen.
    """

    id: str
    is_new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmation:
    """What a recovered copy says that was handled.

    Attributes:
        failure: the failed message's number.
        operation: the operation that sent it.
        at: when it was handled.
    """

    failure: int
    operation: int
    at: datetime


class Heard(Enum):
    """What a confirmation was worth."""

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
        heard: what the confirmation was worth.
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
