# SPDX-License-Identifier: MIT
"""An operation over time: what had become of its messages, and how fast it is. Pure: no I/O, no clock."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from redrive.recovery import Outcome

_SENT: Final = frozenset(Outcome) - {Outcome.PENDING, Outcome.SKIPPED, Outcome.FAILED, Outcome.CANCELLED}
_LATELY_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationSample:
    """What had become of the messages of an operation by a time.

    Attributes:
        at: when.
        lanes: how many messages had which outcome, by destination; those that have no destination yet are under "".
    """

    at: datetime
    lanes: Mapping[str, Mapping[Outcome, int]]

    @property
    def outcomes(self) -> dict[Outcome, int]:
        """How many messages had which outcome, of all destinations."""
        total: dict[Outcome, int] = {}
        for counts in self.lanes.values():
            for outcome, count in counts.items():
                total[outcome] = total.get(outcome, 0) + count
        return total

    @property
    def sent(self) -> int:
        """How many messages had been sent, or were changed by an operation that sends nothing."""
        return sum(count for outcome, count in self.outcomes.items() if outcome in _SENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationPace:
    """How fast an operation is.

    Attributes:
        per_second: how many messages were sent a second, lately.
        left_s: in how many seconds it will have sent the rest at that pace; None if it does not move.
    """

    per_second: float
    left_s: float | None


def pace_of(samples: Sequence[OperationSample], remaining: int) -> OperationPace:
    """Return how fast an operation is, from what it did in the last minute that was sampled.

    Args:
        samples: what is known, the oldest first.
        remaining: how many messages are not sent yet.
    """
    if len(samples) < 2:
        return OperationPace(per_second=0.0, left_s=None)
    last = samples[-1]
    recent = [each for each in samples[:-1] if (last.at - each.at).total_seconds() <= _LATELY_S] or [samples[-2]]
    seconds = (last.at - recent[0].at).total_seconds()
    per_second = max(0.0, (last.sent - recent[0].sent) / seconds) if seconds > 0 else 0.0
    return OperationPace(per_second=per_second, left_s=remaining / per_second if per_second else None)
