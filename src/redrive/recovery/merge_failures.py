# SPDX-License-Identifier: MIT
"""What a failure adds to the record of a message, whenever and however often it arrives. Pure: no I/O, no clock.

Nothing here depends on the time that a failure carries: the clock of its machine may be wrong. A failure that is not
recorded yet is new. Its tag says which copy failed, and the outcome of that copy's part says what that means.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

from redrive.broker.port import unsealed
from redrive.recovery.arrivals import Arrival
from redrive.recovery.states import (
    FIRST_STATUS,
    MESSAGES,
    PARTS,
    SPENT,
    FailureEvent,
    Outcome,
    PartEvent,
    Status,
)
from redrive.transition_table import changed


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What is known about a failed message, as far as a further failure changes it.

    Attributes:
        status: where it stands.
        attempts: how many failures have been seen.
        first_failed_at: when the first was, in seconds since 1970.
        failed_at: when the last was.
        key: the key of the last failure.
        keys: the keys of the earlier failures that are kept.
        claim: the operation that has it now.
        outcomes: what has become of it in operations whose copies may have failed.
    """

    status: Status = FIRST_STATUS[FailureEvent.FAIL_FIRST]
    attempts: int = 0
    first_failed_at: float = 0.0
    failed_at: float = float("-inf")
    key: str = ""
    keys: frozenset[str] = frozenset()
    claim: int | None = None
    outcomes: Mapping[int, Outcome] = field(default_factory=dict[int, Outcome])

    def knows(self, key: str) -> bool:
        """Say whether a failure was seen before."""
        return bool(self.attempts) and (key == self.key or key in self.keys)


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """A record with what has been added to it.

    Attributes:
        record: the record as it is now.
        is_new: for each arrival, whether its failure was not recorded before.
        last: the arrival that is the last failure now; None: the last failure has not changed.
        earlier: arrivals that came late: they failed before the last one.
        failed_again: the operations whose copy failed, each with the failure.
        untagged: a failure without a tag, if there was one. A message just like the copies that are on their way has
            failed, and it is not known which one: so no copy that was sent before may resolve the message any more.
    """

    record: Record
    is_new: tuple[bool, ...]
    last: Arrival | None = None
    earlier: tuple[Arrival, ...] = ()
    failed_again: Mapping[int, Arrival] = field(default_factory=dict[int, Arrival])
    untagged: Arrival | None = None


_OpenRecord, _OpenFolded = unsealed(Record), unsealed(Folded)
_NO_KEYS: Final[frozenset[str]] = frozenset()
_NOTHING_YET: Final[Mapping[int, Any]] = MappingProxyType({})
"""One for all: to make one for each of thousands takes a while, and to look for those that are garbage another."""

NOTHING: Final = Folded(record=Record(), is_new=())
"""Of a message that has not failed before."""


def belongs(arrival: Arrival, record: Record) -> bool:
    """Say whether a failure is one of the copy that its tag names, and not of another message with the same tag.

    A tag counts once. A failure with a tag whose copy has already succeeded or failed belongs to another message: one
    that a program made from the copy, and sent to the same queue with the same id and body.
    """
    if arrival.tag is None or arrival.tag.is_edited:
        return False
    if record.knows(arrival.failure.key):
        return True
    outcome = record.outcomes.get(arrival.tag.operation)
    return outcome is not None and outcome not in SPENT


def untagged(arrival: Arrival) -> Arrival:
    """Return a failure without its tag."""
    if arrival.tag is None and arrival.failure.operation is None:
        return arrival
    return replace(arrival, tag=None, failure=replace(arrival.failure, operation=None))


def add(folded: Folded, arrival: Arrival) -> Folded:
    """Add one failure to the record of the message that it belongs to."""
    record, failure = folded.record, arrival.failure
    if not record.attempts and arrival.tag is None:
        return _first(arrival)
    if record.knows(failure.key):
        return replace(folded, is_new=(*folded.is_new, False))
    operation = None if arrival.tag is None or arrival.tag.is_edited else arrival.tag.operation
    is_current = _is_current(record, arrival)
    # only a tag makes the order certain; without one it follows the failure's own time, which is for people to read
    is_last = (is_current and arrival.tag is not None) or failure.failed_at.timestamp() >= record.failed_at
    grown = _grown(record, arrival, is_last=is_last)
    if is_current:
        grown = replace(grown, status=changed(MESSAGES, record.status, FailureEvent.FAIL))
    grown = replace(grown, claim=None, outcomes={}) if operation is None else _failed_in(grown, operation)
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
        failed_again=folded.failed_again if operation is None else {**folded.failed_again, operation: arrival},
        untagged=arrival if operation is None else folded.untagged,
    )


def _first(arrival: Arrival) -> Folded:
    """Return the record of a message that has failed for the first time, which is what most do."""
    record, folded = _OpenRecord(), _OpenFolded()
    record.status, record.attempts, record.key = FIRST_STATUS[FailureEvent.FAIL_FIRST], 1, arrival.failure.key
    record.first_failed_at = record.failed_at = arrival.failure.failed_at.timestamp()
    record.keys, record.claim, record.outcomes = _NO_KEYS, None, _NOTHING_YET
    record.__class__ = Record
    folded.record, folded.is_new, folded.last, folded.untagged = record, (True,), arrival, arrival
    folded.earlier, folded.failed_again = (), _NOTHING_YET
    folded.__class__ = Folded
    return folded  # type: ignore[no-any-return]  # now it is one


def _is_current(record: Record, arrival: Arrival) -> bool:
    """Say whether a failure is about the message's present state, not about a copy that a later operation superseded.

    A message that a person resolved or archived while its copy was on its way is reopened.
    """
    if arrival.tag is None or arrival.tag.is_edited:
        return True
    operation = arrival.tag.operation
    is_open = record.outcomes.get(operation) in (Outcome.PENDING, Outcome.FORWARDED, Outcome.CLOSED)
    return is_open and record.claim in (None, operation)


def _grown(record: Record, arrival: Arrival, *, is_last: bool) -> Record:
    key, failed_at = arrival.failure.key, arrival.failure.failed_at.timestamp()
    if not record.attempts:
        return replace(record, attempts=1, first_failed_at=failed_at, failed_at=failed_at, key=key)
    grown = replace(
        record,
        attempts=record.attempts + 1,
        first_failed_at=min(record.first_failed_at, failed_at),
        keys=record.keys | {record.key if is_last else key},
    )
    return replace(grown, failed_at=failed_at, key=key) if is_last else grown


def _failed_in(record: Record, operation: int) -> Record:
    """Note that the copy of an operation has failed, which uses up its tag and ends its claim."""
    after = {**record.outcomes, operation: changed(PARTS, record.outcomes[operation], PartEvent.FAIL)}
    return replace(record, outcomes=after, claim=None if record.claim == operation else record.claim)


def trimmed(keys: Sequence[tuple[float, str]], kept: int) -> list[str]:
    """Return the keys of the earlier failures that exceed the number to keep; the oldest go first."""
    return [key for _, key in sorted(keys)[: max(0, len(keys) - kept)]]
