# SPDX-License-Identifier: MIT
"""What a person asks for, and how far it has come: plans, operations, their figures. Pure: no I/O, no clock."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any, Final, TypeAlias

from redrive.printable import one_line
from redrive.recovery.filter import Filter
from redrive.recovery.settings import LARGEST_BATCH, Canary, RecoverySettings
from redrive.recovery.states import ENDED, SENT, FailureEvent, OperationState, Outcome

_PACED_BATCH_S: Final = 10.0
"""A batch that is sent slowly is so small that others have their turn after that long."""


class Kind(Enum):
    """What an operation does with its messages."""

    RECOVER = "recover"
    ARCHIVE = "archive"
    RESTORE = "restore"
    RESOLVE = "resolve"

    @property
    def event(self) -> FailureEvent:
        """What happens to each message."""
        return _EVENTS[self]


_EVENTS: Final = {
    Kind.RECOVER: FailureEvent.STAGE,
    Kind.ARCHIVE: FailureEvent.ARCHIVE,
    Kind.RESTORE: FailureEvent.RESTORE,
    Kind.RESOLVE: FailureEvent.RESOLVE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(RecoverySettings):
    """What is to be done with which messages, and how: the settings of ``recover``, and these.

    Attributes:
        kind: what is done.
        filter: which messages.
        is_edit: whether it is one message that a person has edited: it gets an id of its own.
    """

    kind: Kind = Kind.RECOVER
    filter: Filter = field(default_factory=Filter)
    is_edit: bool = False

    def __post_init__(self) -> None:
        RecoverySettings.__post_init__(self)  # super() does not find the class that slots have made anew
        if self.kind is not Kind.RECOVER:
            self.check_sends_nothing(self.kind.value)

    @property
    def batch_size(self) -> int:
        """How many messages a batch has at most."""
        if self.rate is None:
            return LARGEST_BATCH
        return max(1, min(LARGEST_BATCH, int(self.rate * _PACED_BATCH_S)))

    def to_json(self) -> dict[str, Any]:
        """Return it as it is stored: what is as usual is left out."""
        edit = {"is_edit": True} if self.is_edit else {}
        return {"kind": self.kind.value, "filter": self.filter.to_json(), **self.settings_to_json(), **edit}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "Plan":
        """Return what was stored."""
        return cls(
            kind=Kind(stored["kind"]),
            filter=Filter.from_json(stored["filter"]),
            is_edit=stored.get("is_edit", False),
            **cls.settings_from_json(stored),
        )


Counts: TypeAlias = Mapping[Outcome, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far an operation is.

    ``total = forwarded + skipped + failed + cancelled + remaining``, and
    ``forwarded = succeeded + failed_again + waiting + closed + superseded + done``, always.

    Attributes:
        total: the messages that matched when it was requested.
        forwarded: those that were sent on or, by an operation that sends nothing, changed.
        skipped: those that another operation had, or that had changed or were gone when their turn came.
        failed: those that could not be sent, and are unresolved again.
        cancelled: those that were not sent because the operation was cancelled.
        remaining: those whose turn is still to come.
        succeeded: of those forwarded, how many were confirmed.
        failed_again: how many failed again.
        waiting: how many nothing was heard of yet.
        closed: how many a person resolved or archived before anything was heard of them.
        superseded: how many a later operation sent once more, as nothing was heard of them.
        done: how many were archived, restored or resolved by the operation, which sends nothing.
    """

    total: int = 0
    forwarded: int = 0
    skipped: int = 0
    failed: int = 0
    cancelled: int = 0
    remaining: int = 0
    succeeded: int = 0
    failed_again: int = 0
    waiting: int = 0
    closed: int = 0
    superseded: int = 0
    done: int = 0

    @property
    def share(self) -> float:
        """How much is behind it, from 0 to 1."""
        return 1.0 if not self.total else (self.total - self.remaining) / self.total


def progress(matched: int, counts: Counts) -> Progress:
    """Return the figures of an operation from the outcomes of its messages.

    Args:
        matched: how many messages matched when it was requested.
        counts: how many of these have which outcome; the others have not had their turn yet.
    """
    return Progress(
        total=matched,
        forwarded=sum(counts.get(each, 0) for each in (*SENT, Outcome.DONE)),
        skipped=counts.get(Outcome.SKIPPED, 0),
        failed=counts.get(Outcome.FAILED, 0),
        cancelled=counts.get(Outcome.CANCELLED, 0),
        remaining=matched - sum(counts.values()) + counts.get(Outcome.PENDING, 0),
        succeeded=counts.get(Outcome.SUCCEEDED, 0),
        failed_again=counts.get(Outcome.FAILED_AGAIN, 0),
        waiting=counts.get(Outcome.FORWARDED, 0),
        closed=counts.get(Outcome.CLOSED, 0),
        superseded=counts.get(Outcome.SUPERSEDED, 0),
        done=counts.get(Outcome.DONE, 0),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A request on its way, or done.

    Attributes:
        number: its number.
        plan: what was asked for.
        state: how far it is.
        state_reason: why it is in that state, if a person or the service said so.
        actor: who asked for it.
        reason: why.
        key: the idempotency key of the request.
        progress: its figures.
        batches: how many batches it has had so far.
        batches_left: how many of them are not done.
        newcomers: messages that match, and failed or changed after the request: they are not part of it.
        unknown_ids: ids that were asked for and that no failed message has.
        requested_at: when it was requested.
        started_at: when its first batch was made.
        ended_at: when it was over.
        acknowledged_by: the person who has seen how it ended, if any.
    """

    number: int
    plan: Plan
    state: OperationState
    state_reason: str = ""
    actor: str = ""
    reason: str = ""
    key: str | None = None
    progress: Progress = field(default_factory=Progress)
    batches: int = 0
    batches_left: int = 0
    newcomers: int = 0
    unknown_ids: tuple[str, ...] = ()
    requested_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None
    acknowledged_by: str | None = None

    @property
    def is_over(self) -> bool:
        """Whether nothing more will be done."""
        return self.state in ENDED


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """An operation that has messages which another one wants.

    Attributes:
        operation: its number.
        state: how far it is.
        count: how many of the messages it has: on their way, or sent and not heard of yet.
        actor: who asked for it.
    """

    operation: int
    state: OperationState
    count: int
    actor: str = ""

    @property
    def is_over(self) -> bool:
        """Whether the operation has ended: it has sent the messages, and their results are not known yet."""
        return self.state in ENDED


def in_the_way(holders: Sequence[Holder], *, again: str = "again=True") -> str:
    """Say which operations have the requested messages, and what to do about it.

    Args:
        holders: the operations, at least one.
        again: the option that sends messages again that were sent and not heard of.
    """
    names = [f"operation {each.operation} ({_state_and_actor(each)})" for each in holders[:_MOST_NAMED]]
    if len(holders) > _MOST_NAMED:
        names.append(f"{len(holders) - _MOST_NAMED:,} more")
    who = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    count = sum(each.count for each in holders)
    what = "this one" if count == 1 else f"these {count:,}"
    if all(each.state in ENDED for each in holders):
        heard = "nothing was heard of it yet" if count == 1 else "nothing was heard of them yet"
        return f"{who} sent {what}, and {heard}; {again} sends {'it' if count == 1 else 'them'} once more"
    way_out = "wait for it, or cancel it" if len(holders) == 1 else "wait for those under way, or cancel them"
    if all(each.state is OperationState.PAUSED for each in holders):
        way_out = "resume it, or cancel it" if len(holders) == 1 else "resume them, or cancel them"
    return f"{who} {'has' if len(holders) == 1 else 'have'} {what}; {way_out}"


_MOST_NAMED: Final = 5


def _state_and_actor(holder: Holder) -> str:
    return holder.state.word + (f", requested by {one_line(holder.actor, 100)}" if holder.actor else "")


class Verdict(Enum):
    """What is to be done after the canaries."""

    WAIT = "wait"
    APPROVE = "approve"
    STOP = "stop"


def judge(canary: Canary, counts: Counts, silent_s: float) -> tuple[Verdict, str]:
    """Say whether the rest may follow the canaries, and why.

    Args:
        canary: what was asked for.
        counts: what became of the canaries so far.
        silent_s: how long ago the last of them was sent.
    """
    bad = counts.get(Outcome.FAILED_AGAIN, 0) + counts.get(Outcome.FAILED, 0)
    if bad > canary.max_failures:
        return Verdict.STOP, f"{bad} of the first {sum(counts.values())} failed again"
    unheard = counts.get(Outcome.PENDING, 0) + counts.get(Outcome.FORWARDED, 0)
    if not unheard:
        return Verdict.APPROVE, ""
    if silent_s >= canary.patience and not counts.get(Outcome.PENDING, 0):
        return Verdict.STOP, f"nothing was heard of {unheard} of the first messages for {canary.patience:g} s"
    return Verdict.WAIT, ""
