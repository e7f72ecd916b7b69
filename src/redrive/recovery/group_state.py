# SPDX-License-Identifier: MIT
"""What people decide about a group of failures, and what became of its messages. Pure: no I/O, no clock.

A group that is snoozed is counted and listed as any other; only what needs a person leaves it out. It wakes by itself
when its time is over, or before, when more of its messages are unresolved than the snooze allows: a person who says
*not now* has seen so many failures, and not ten times as many.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypedDict

from redrive.errors import InvalidSetting

_MOST = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupState:
    """What people decided about a group, and what became of its messages that were sent again.

    Attributes:
        first_seen_at: when its first failure was stored, whatever became of that.
        owner: who takes care of it; empty: it has no owner.
        snoozed_until: until when it is snoozed, unless it wakes before; null: it is not.
        wake_above: it wakes before that if more of its messages are unresolved; null: it does not.
        is_snoozed: whether it is snoozed now.
        succeeded: how many of its messages were handled after they had been sent again.
        failed_again: how many failed again after that.
        failed_again_share: the share of these among both, from 0 to 1; null: there are none.
    """

    first_seen_at: datetime
    owner: str = ""
    snoozed_until: datetime | None = None
    wake_above: int | None = None
    is_snoozed: bool = False
    succeeded: int = 0
    failed_again: int = 0
    failed_again_share: float | None = None


class GroupChange(TypedDict, total=False):
    """What is decided about a group; what is left out stays as it is.

    Attributes:
        owner: who takes care of it; empty: it has no owner.
        snoozed_until: until when it is snoozed, as an instant or as a length of time from now; None: it wakes now.
        wake_above: it wakes before that if more of its messages are unresolved; only with ``snoozed_until``.
        actor: who decides it.
        reason: why.
    """

    owner: str
    snoozed_until: datetime | timedelta | float | None
    wake_above: int | None
    actor: str
    reason: str


def is_snoozed(*, until: float | None, above: int | None, unresolved: int, now: float) -> bool:
    """Say whether a group is snoozed.

    Args:
        until: the end of its snooze, in seconds since 1970.
        above: how many may be unresolved.
        unresolved: how many are.
        now: the time, in seconds since 1970.
    """
    return until is not None and now < until and (above is None or unresolved <= above)


def share_of(failed_again: int, succeeded: int) -> float | None:
    """Return the share of messages that failed again among those of which something was heard."""
    heard = failed_again + succeeded
    return round(failed_again / heard, 4) if heard else None


def check_change(change: Mapping[str, Any]) -> None:
    """Refuse a decision that means nothing."""
    if not change.keys() & {"owner", "snoozed_until"}:
        raise InvalidSetting("change", sorted(change), "must have an owner or snoozed_until")
    above = change.get("wake_above")
    if above is None:
        return
    if not isinstance(above, int) or isinstance(above, bool) or not 0 <= above <= _MOST:
        raise InvalidSetting("wake_above", above, f"must be a whole number from 0 to {_MOST:,}")
    if change.get("snoozed_until") is None:
        raise InvalidSetting("wake_above", above, "must come with snoozed_until")


def decision_text(change: Mapping[str, Any]) -> str:
    """Return what the audit trail says of a decision, whose instants are settled."""
    said: list[str] = []
    if "owner" in change:
        said.append(f"owner {change['owner']}" if change["owner"] else "no owner")
    if "snoozed_until" in change:
        until, above = change["snoozed_until"], change.get("wake_above")
        less = "" if above is None else f", or until more than {above:,} are unresolved"
        said.append("awake" if until is None else f"snoozed until {until.isoformat()}{less}")
    return "; ".join(said)
