# SPDX-License-Identifier: MIT
"""What a failure adds to the record of a message, whenever and however often it arrives. Pure: no I/O, no clock."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from redrive.recovery.records import Arrival
from redrive.recovery.states import MESSAGES, MessageEvent, Status, changed


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What is known about a failed message, as far as a further failure changes it.

    Attributes:
        status: where it stands.
        attempts: how many failures have been seen.
        first_failed_at: when the first was, in seconds since 1970.
        failed_at: when the last was.
        key: tells the last one from every other.
        keys: tells the earlier ones that are kept from every other.
        settled_at: what failed before then is known, and changes no status.
        operation: the operation that has it now.
    """

    status: Status = Status.UNRESOLVED
    attempts: int = 0
    first_failed_at: float = 0.0
    failed_at: float = float("-inf")
    key: str = ""
    keys: frozenset[str] = frozenset()
    settled_at: float | None = None
    operation: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """A record with what has been added to it.

    Attributes:
        record: the record as it is now.
        is_new: for each arrival, whether it was a failure nobody had seen.
        last: the arrival that is the last failure now; None: that is still the one it was.
        earlier: arrivals that came late: they failed before the last one.
        fails_again: whether the operation that has the message learns from it that it failed again.
    """

    record: Record
    is_new: tuple[bool, ...]
    last: Arrival | None = None
    earlier: tuple[Arrival, ...] = ()
    fails_again: bool = False


def fold(record: Record, arrivals: Iterable[Arrival]) -> Folded:
    """Add failures of one message to its record, in whatever order they come."""
    folded = Folded(record=record, is_new=())
    for arrival in arrivals:
        folded = _fold_one(folded, arrival)
    return folded


def _fold_one(folded: Folded, arrival: Arrival) -> Folded:
    record, failed_at = folded.record, arrival.failure.failed_at.timestamp()
    if arrival.failure.key == record.key or arrival.failure.key in record.keys:
        return replace(folded, is_new=(*folded.is_new, False))
    is_last = failed_at >= record.failed_at
    reopens = _reopens(record, arrival, failed_at)
    known = record.keys | {arrival.failure.key if not is_last else record.key} if record.attempts else record.keys
    grown = replace(
        record,
        attempts=record.attempts + 1,
        first_failed_at=min(record.first_failed_at, failed_at) if record.attempts else failed_at,
        keys=known,
        status=changed(MESSAGES, record.status, MessageEvent.FAIL) if reopens else record.status,
    )
    if is_last:
        grown = replace(grown, failed_at=failed_at, key=arrival.failure.key)
    earlier = folded.earlier
    if not is_last:
        earlier = (*earlier, arrival)
    elif folded.last is not None:
        earlier = (*earlier, folded.last)
    return Folded(
        record=grown,
        is_new=(*folded.is_new, True),
        last=arrival if is_last else folded.last,
        earlier=earlier,
        fails_again=folded.fails_again or (reopens and record.status is not Status.UNRESOLVED),
    )


def _reopens(record: Record, arrival: Arrival, failed_at: float) -> bool:
    """Say whether a failure is news: not one from before the message was sent again, resolved or archived."""
    if record.settled_at is None or failed_at > record.settled_at:
        return True
    return record.status is Status.RETRY_ISSUED and arrival.failure.operation == record.operation is not None


def trimmed(keys: Sequence[tuple[float, str]], kept: int) -> list[str]:
    """Return the keys of those earlier failures that are one too many; the oldest go first."""
    return [key for _, key in sorted(keys)[: max(0, len(keys) - kept)]]
