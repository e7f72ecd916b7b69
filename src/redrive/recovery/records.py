# SPDX-License-Identifier: MIT
"""What the ledger keeps and gives back, as values. Pure: no I/O, no clock, no randomness."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from redrive.broker import Message
from redrive.errors import InvalidSetting
from redrive.recovery.group_state import GroupState
from redrive.recovery.list_order import Place
from redrive.recovery.operation import Plan
from redrive.recovery.states import BatchState, OperationState, Outcome, Status

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")  # PostgreSQL takes no NUL, no encoding takes half of a surrogate pair

ATTEMPTS_KEPT = 10
"""How many attempts of a message are kept, the last one included."""


def check_words(name: str, text: str, longest: int = 1_024) -> str:
    """Return a text that a person wrote, if every store can keep it."""
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
        id: its id, which never changes.
        message_id: the message's own id.
        queue: the queue it failed in.
        status: where it stands.
        message_type: what it is.
        exception_type: the class of the last exception.
        exception_message: the message of that exception.
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

    @property
    def place(self) -> Place:
        """Where it is in a list: what ``after`` takes for the next page."""
        return Place(self.number, self.failed_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedAttempt:
    """One failure of a message.

    Attributes:
        failed_at: when.
        operation: the operation that had sent it; None: it comes from its sender.
        details: everything that the message says about the failure, by name.
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
        reason: why, if there is something to say.
        at: when the outcome was reached.
    """

    operation: int
    failure: int
    id: str
    outcome: Outcome
    reason: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A person's note about a group, a failed message or an operation."""

    number: int
    subject: str
    text: str
    actor: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedDetail:
    """Everything that is stored about one failed message.

    Attributes:
        summary: what lists show.
        message: the message itself, without what it says about its failure.
        attempts: its failures, the last one first.
        parts: the operations it was in, the last one first.
        notes: what people wrote about it.
    """

    summary: FailedMessage
    message: Message
    attempts: Sequence[FailedAttempt]
    parts: Sequence[Part]
    notes: Sequence[Note] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """What a search has found so far.

    Attributes:
        messages: the messages.
        place: the last message that was looked at: the next page begins after it.
        is_over: whether all were looked at.
    """

    messages: Sequence[FailedMessage]
    place: Place
    is_over: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupInfo:
    """Failures that belong together.

    Attributes:
        id: the group's id; give it to a filter.
        title: what they have in common.
        classifier: what they were compared by.
        count: how many there are.
        first_failed_at: when the first one failed, of those that have been in it since it was last empty.
        last_failed_at: when the last one failed, of the same.
        notes: how many notes there are about it.
        state: what people decided about it, and what became of its messages; null for groups by queue or type.
    """

    id: str
    title: str
    classifier: str
    count: int
    first_failed_at: datetime
    last_failed_at: datetime
    notes: int = 0
    state: GroupState | None = None

    @property
    def is_snoozed(self) -> bool:
        """Whether it is snoozed: what needs a person leaves it out."""
        return self.state is not None and self.state.is_snoozed


@dataclass(frozen=True, slots=True, kw_only=True)
class CountDifference:
    """Failed messages of one kind whose stored count is wrong, or older than they are.

    Attributes:
        status: their status.
        group: the id of their exception group.
        queue: where they failed.
        message_type: what their type is called.
        exception_type: what their exception is called.
        counted: how many there are by the count.
        rows: how many there are.
    """

    status: Status
    group: str
    queue: str
    message_type: str
    exception_type: str
    counted: int
    rows: int


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


@dataclass(frozen=True, slots=True, kw_only=True)
class TrailFilter:
    """Which entries of the audit trail are meant: those that match every setting. None matches all.

    Attributes:
        subject: what they are about.
        actor: who did it.
        action: what was done.
        since: written then or later.
        until: written before then.
    """

    subject: str | None = None
    actor: str | None = None
    action: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    def __post_init__(self) -> None:
        for name in ("subject", "actor", "action"):
            if (text := getattr(self, name)) is not None:
                check_words(name, text, 10_000)
        for name in ("since", "until"):
            if (at := getattr(self, name)) is not None and (not isinstance(at, datetime) or at.utcoffset() is None):
                raise InvalidSetting(name, at, "must be a datetime with a zone")


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to work on something, for a while. Each step of the work shows it; an old one is refused.

    Attributes:
        name: what it is for.
        session: the process that has it.
        token: distinguishes it from earlier leases with the same name.
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
        state: its state.
        operation_state: its operation's state.
        lane: its destination.
        staging_id: the id of the attempt at staging that succeeded; None before that.
        next_at: when its lane may send again, at the requested rate, in seconds since 1970.
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
    """A lane: the work for one destination, one batch at a time.

    Attributes:
        name: the destination.
        batch: the batch that is being forwarded.
        strays: how many copies were dropped because they belonged to no batch: leftovers of interrupted attempts.
        session: the process that works in it.
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
        operations: operations that have messages to claim or canaries to judge, or that are ready to start or end.
        lanes: lanes with batches to stage or forward.
        next_at: when the next scheduled operation is due, in seconds since 1970.
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
        asked: the request as a text; a second request with the same key must have the same text.
        malformed_ids: given ids that do not have the form of an id.
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
