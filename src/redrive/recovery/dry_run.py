# SPDX-License-Identifier: MIT
"""What an operation would find, as a value. Pure: no I/O, no clock."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from redrive.recovery.operation import Holder, in_the_way


@dataclass(frozen=True, slots=True, kw_only=True)
class StillFailing:
    """An exception of messages that are to be sent, with which messages still fail where they would go.

    Attributes:
        destination: the queue that they would go to.
        exception_type: the class of their last exception.
        count: how many of the messages have it.
        last_failed_at: when a message last failed there with it.
    """

    destination: str
    exception_type: str
    count: int
    last_failed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRun:
    """What an operation would find.

    Attributes:
        matched: the messages that match.
        free: those of them that the operation would get.
        taken: those that another operation has already.
        blocking: the oldest of the operations that have them.
        holders: all operations that have them, the oldest first.
        by_destination: how many would go to which queue.
        still_failing: where messages failed in the last ten minutes with an exception that these have, too.
        unknown_ids: ids that no failed message has.
    """

    matched: int
    free: int
    taken: int = 0
    blocking: int | None = None
    holders: Sequence[Holder] = ()
    by_destination: Mapping[str, int] = field(default_factory=dict[str, int])
    still_failing: Sequence[StillFailing] = ()
    unknown_ids: Sequence[str] = ()

    def conflict(self, *, again: str = "again=True") -> str:
        """Return a sentence about the operations that have the messages, and the way out; empty if there are none.

        Args:
            again: what to write to have messages sent once more whose results are not known.
        """
        return in_the_way(self.holders, again=again) if self.holders else ""
