# SPDX-License-Identifier: MIT
"""What the ledger keeps and gives back, as values. Pure: no I/O, no clock, no randomness."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from redrive.broker import Message
from redrive.errors import InvalidSetting
from redrive.recovery.operation import Holder, Plan
from redrive.recovery.states import BatchState, OperationState, Outcome, Status

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")  # PostgreSQL takes no NUL, no encoding takes half of a surrogate pair

NOBODY = "0" * 32
"""The id of no failed message: an empty list of ids means nobody, where none at all means everybody."""

ATTEMPTS_KEPT = 10
"""How many attempts of a message are kept, the last one included."""


def check_words(name: str, text: str, longest: int = 1_024) -> str:
    """Return what somebody wrote, if every store can keep it."""
    if not isinstance(text, str) or len(text) > longest or _UNSTORABLE.search(text):
        raise InvalidSetting(name, text, f"must be a text of at most {longest:,} characters, without NUL")
    return text


def storable(text: object) -> str:
    """Return a text as every store can keep it."""
    return _UNSTORABLE.sub("\ufffd", str(text))[:10_000]


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedMessage:
    """A message that failed, as lists show it.

    Attributes:
        number: its place in the order in which failed messages were first seen.
        id: names it for life, whatever becomes of the message.
        message_id: the message's own id.
        queue: the queue it failed in.
        status: where it stands.
        message_type: what it is.
        exception_type: the class of the last exception.
        exception_message: what that said.
        group: the id of the group of failures with the same exception from the same place.
        attempts: how many failures have been seen.
        first_failed_at: when the first was.
        failed_at: when the last was.
        operation: the operation that has it, or had it last.
        edit_of: the failed message that this is an edited copy of.
        edited_as: the edited copy's failed message, or its message id while it has not failed; a message that was
            replaced by its edited copy is archived, and can be restored.
        source: the queue it was found in.
    """

    number: int
    id: str
    message_id: str
    queue: str
    status: Status
    message_type: str
    exception_type: str
    exception_message: str
    group: str
    attempts: int
    first_failed_at: datetime
    failed_at: datetime
    operation: int | None = None
    edit_of: str | None = None
    edited_as: str | None = None
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedAttempt:
    """One failure of a message.

    Attributes:
        failed_at: when.
        operation: the operation that had sent it; None: it failed on its way from its sender.
        details: everything that was told about it, by name.
    """

    failed_at: datetime
    operation: int | None
    details: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One message in one operation.

    Attributes:
        operation: the operation's number.
        failure: the failed message's number.
        id: the failed message's id.
        outcome: what became of it.
        reason: why, where that needs one.
        at: since when.
    """

    operation: int
    failure: int
    id: str
    outcome: Outcome
    reason: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """What somebody wrote about a group, a failed message or an operation."""

    number: int
    subject: str
    text: str
    actor: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedDetail:
    """Everything there is about one failed message.

    Attributes:
        summary: what lists show.
        message: the message itself, without what was told about its failure.
        attempts: its failures, the last one first.
        parts: the operations it was in, the last one first.
        notes: what people wrote about it.
    """

    summary: FailedMessage
    message: Message
    attempts: Sequence[FailedAttempt]
    parts: Sequence[Part]
    notes: Sequence[Note] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupInfo:
    """Failures that belong together.

    Attributes:
        id: the group's id; give it to a filter.
        title: what they have in common.
        classifier: in which respect.
        count: how many there are.
        first_failed_at: when the one that failed longest ago last failed.
        last_failed_at: when the last one failed.
        notes: how many notes there are about it.
    """

    id: str
    title: str
    classifier: str
    count: int
    first_failed_at: datetime
    last_failed_at: datetime
    notes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """Who did what, why, and what came of it."""

    number: int
    at: datetime
    actor: str
    action: str
    subject: str
    reason: str
    outcome: str


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to work on something, for a while. Whoever works shows it; an old one is worth nothing.

    Attributes:
        name: what it is for.
        session: the process that has it.
        token: what makes it different from every other for the same.
    """

    name: str
    session: str
    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """At most a thousand messages of one operation with one destination, on their way together.

    Attributes:
        number: its number.
        operation: its operation's number.
        plan: what was asked for.
        state: how far it is.
        operation_state: how far its operation is.
        lane: the destination whose turn it takes.
        staging_id: marks the copies that were staged for good; None before that.
        next_at: when its lane may send again, at the rate that was asked for, in seconds since 1970.
    """

    number: int
    operation: int
    plan: Plan
    state: BatchState
    operation_state: OperationState
    lane: str
    staging_id: str | None = None
    next_at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneInfo:
    """A lane: what goes to one destination, one batch at a time.

    Attributes:
        name: the destination.
        batch: the batch that is being forwarded.
        strays: how many copies were dropped because they belonged to no batch: leftovers of interrupted attempts.
        session: the process that is at work in it.
    """

    name: str
    batch: int | None
    strays: int
    session: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceInfo:
    """A process that serves: it reads failures, and works on operations.

    Attributes:
        session: its name in the ledger, as in ``LaneInfo.session``.
        host: where it is.
        since: when it began.
    """

    session: str
    host: str
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """A message of a batch, to be staged."""

    failure: int
    id: str
    queue: str
    message: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What there is to do.

    Attributes:
        operations: those with messages to be claimed, canaries to be judged, or something to be brought to an end.
        lanes: those with batches to be staged or forwarded.
        next_at: when there will be something that is only a matter of time, in seconds since 1970.
    """

    operations: Sequence[int] = ()
    lanes: Sequence[str] = ()
    next_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationRequest:
    """A request for an operation.

    Attributes:
        plan: what to do.
        actor: who asks.
        reason: why.
        key: the same key twice is the same request.
        asked: what the request looked like; with the same key it has to be the same.
        malformed_ids: what was given as an id and can be none.
    """

    plan: Plan
    actor: str = ""
    reason: str = ""
    key: str | None = None
    asked: str = ""
    malformed_ids: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_words("actor", self.actor)
        check_words("reason", self.reason)
        if self.key is not None:
            check_words("key", self.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRun:
    """What an operation would find.

    Attributes:
        matched: the messages that match.
        free: those of them that it would get.
        taken: those that an operation has already.
        blocking: the oldest of the operations that have them.
        holders: all of the operations that have them, the oldest first.
        by_destination: how many would go where.
        unknown_ids: ids that no failed message has.
    """

    matched: int
    free: int
    taken: int = 0
    blocking: int | None = None
    holders: Sequence[Holder] = ()
    by_destination: Mapping[str, int] = field(default_factory=dict[str, int])
    unknown_ids: Sequence[str] = ()
