# SPDX-License-Identifier: MIT
"""What people decide about groups, and what became of their messages, in SQL."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from redrive.clock import utc
from redrive.engines.sql.recovery.audit import write_audit
from redrive.engines.sql.recovery.state_sql import among
from redrive.engines.sql.script import Many, Row, Script, Sql, assigned, now
from redrive.errors import GroupNotFound
from redrive.recovery.port import ADDED, GroupState, Status, decision_text, is_snoozed, share_of

_COLUMNS = "id, first_seen_at, owner, snoozed_until, wake_above, succeeded, failed_again"


def states_of(ids: Sequence[str]) -> Script[dict[str, GroupState]]:
    """Return the states of groups; those of queues and types have none."""
    rows = yield Sql(f"SELECT {_COLUMNS} FROM @.group_states WHERE id IN @texts", [list(ids)])
    snoozed = [row for row in rows if row["snoozed_until"] is not None]
    time = (yield from now()) if snoozed else 0.0
    unresolved = yield from _unresolved([row["id"] for row in snoozed if row["wake_above"] is not None])
    return {row["id"]: _state_of(row, unresolved.get(row["id"], 0), time) for row in rows}


def _state_of(row: Row, unresolved: int, time: float) -> GroupState:
    until, above = row["snoozed_until"], row["wake_above"]
    return GroupState(
        first_seen_at=utc(row["first_seen_at"]),
        owner=row["owner"],
        snoozed_until=None if until is None else utc(until),
        wake_above=above,
        is_snoozed=is_snoozed(until=until, above=above, unresolved=unresolved, now=time),
        succeeded=row["succeeded"],
        failed_again=row["failed_again"],
        failed_again_share=share_of(row["failed_again"], row["succeeded"]),
    )


def _unresolved(ids: Sequence[str]) -> Script[dict[str, int]]:
    """Count the unresolved messages of groups."""
    if not ids:
        return {}
    is_unresolved = among("f.status", [Status.UNRESOLVED])
    ours = yield Sql(
        "SELECT f.exception_group, CAST(sum(f.n) AS bigint) FROM @.failure_counts f"
        f" WHERE {is_unresolved} AND f.exception_group IN @texts GROUP BY f.exception_group",
        [[each for each in ids if not each.startswith(ADDED)]],
    )
    theirs = yield Sql(
        "SELECT g.group_id, count(*) FROM @.failure_groups g JOIN @.failures f ON f.number = g.failure"
        f" WHERE {is_unresolved} AND g.group_id IN @texts GROUP BY g.group_id",
        [[each for each in ids if each.startswith(ADDED)]],
    )
    return dict([*ours, *theirs])


def group_state(id: str) -> Script[GroupState]:  # noqa: A002 - it is called that everywhere
    """Return the state of a group."""
    found = yield from states_of([id])
    if id not in found:
        raise GroupNotFound(id)
    return found[id]


def set_group_state(
    id: str,  # noqa: A002 - as above
    change: Mapping[str, Any],
    *,
    actor: str = "",
    reason: str = "",
) -> Script[GroupState]:
    """Store what is decided about a group: its owner, its snooze, or both."""
    columns: dict[str, object] = {}
    if "owner" in change:
        columns["owner"] = change["owner"]
    if "snoozed_until" in change:
        until = change["snoozed_until"]
        columns |= {"snoozed_until": until and until.timestamp(), "wake_above": change.get("wake_above")}
    yield Sql("UPDATE @.ledger_changes SET value = value + 1")
    rows = yield Sql(
        f"UPDATE @.group_states SET {assigned(list(columns))} WHERE id = ? RETURNING id", [*columns.values(), id]
    )
    if not rows:
        raise GroupNotFound(id)
    yield from write_audit(actor, "group-state", f"group:{id}", reason, decision_text(change))
    return (yield from group_state(id))


# --- what became of messages that were sent again


def count_outcomes(column: str, failures: Sequence[int]) -> Script[None]:
    """Count messages in the groups that they are in.

    Args:
        column: ``succeeded`` or ``failed_again``.
        failures: their numbers, each as often as it counts.
    """
    if not failures:
        return
    rows = yield Sql(
        "SELECT f.number, f.exception_group FROM @.failures f WHERE f.number IN @ints"
        " UNION ALL SELECT g.failure, g.group_id FROM @.failure_groups g WHERE g.failure IN @ints",
        [list(failures), list(failures)],
    )
    times, counts = Counter(failures), Counter[str]()
    for number, group in rows:
        counts[group] += times[number]
    yield Many(
        f"UPDATE @.group_states SET {column} = {column} + ? WHERE id = ?",
        [(many, group) for group, many in sorted(counts.items())],
    )
