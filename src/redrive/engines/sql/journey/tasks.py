# SPDX-License-Identifier: MIT
"""What pipelines made of messages, in SQL: tasks, their history and their shipments."""

from collections.abc import Sequence
from typing import Final

from redrive.engines.sql.script import Row, Script, Sql
from redrive.journey.records import TaskAction, TaskRecord, TaskShipment
from redrive.pipeline.records import first_task
from redrive.pipeline.states import ShipmentState, TaskState

_TASKS: Final = (
    "SELECT id, pipeline, stage, destination, state, created_at, changed_at, slot_at, item_count, reason"
    " FROM @.pipeline_tasks WHERE id IN @texts ORDER BY id"
)
_MOST_STEPS: Final = 20
_MOST_TASKS: Final = 500


def tasks(
    ids: Sequence[str], submitted: Sequence[str], *, back: bool = False
) -> Script[tuple[list[TaskRecord], set[tuple[str, str]]]]:
    """Return the tasks that came from messages, and which came from which message by its key.

    Args:
        ids: ids of messages, which may be the keys of submissions, or ids of tasks, items and shipments.
        submitted: tasks that are known to come from these messages.
        back: whether the tasks that a task came from are returned, too.
    """
    keyed = yield Sql(
        "SELECT key, task FROM @.pipeline_submissions WHERE pipeline IN (SELECT pipeline FROM @.pipeline_versions)"
        " AND key IN @texts",  # with the pipelines, there is an index for it
        [list(ids)],
    )
    asked: set[str] = set()
    before: set[tuple[str, str]] = set()
    if back:
        asked = {*ids, *(each.rpartition("-")[0] for each in ids if "-" in each), *map(first_task, ids)} - {""}
        before = yield from _closure(sorted(asked), "task")
    start = {*submitted, *(row["task"] for row in keyed), *asked, *(parent for _, parent in before)}
    edges = yield from _closure(sorted(start), "parent_task")
    every = {*start, *(child for child, _ in edges)}
    rows = yield Sql(_TASKS, [sorted(every)[:_MOST_TASKS]])
    found: list[TaskRecord] = []
    for row in rows:
        found.append((yield from _task(row, edges | before)))  # noqa: PERF401 - a comprehension cannot yield
    return found, {(row["key"], row["task"]) for row in keyed}


def _closure(start: Sequence[str], column: str) -> Script[set[tuple[str, str]]]:
    """Return the steps from tasks to others, forward or back, by the column that is looked at."""
    edges: set[tuple[str, str]] = set()
    following, other = list(start), "child" if column == "parent_task" else "parent"
    for _ in range(_MOST_STEPS):
        if not following:
            break
        rows = yield Sql(
            "SELECT DISTINCT task AS child, parent_task AS parent FROM @.pipeline_items"
            f" WHERE {column} IN @texts AND parent_task IS NOT NULL LIMIT ?",
            [following, _MOST_TASKS],
        )
        new = {(row["child"], row["parent"]) for row in rows} - edges
        edges |= new
        following = sorted({child if other == "child" else parent for child, parent in new})
    return edges


def _task(row: Row, edges: set[tuple[str, str]]) -> Script[TaskRecord]:
    actions = yield Sql(
        "SELECT name, at, attempt, actor, reason FROM @.pipeline_actions WHERE task = ? ORDER BY number LIMIT ?",
        [row["id"], _MOST_TASKS],
    )
    shipments = yield Sql(
        "SELECT delivery_id, state, attempt, receipt, reason, changed_at FROM @.pipeline_shipments WHERE task = ?"
        " ORDER BY position LIMIT ?",
        [row["id"], _MOST_TASKS],
    )
    return TaskRecord(
        id=row["id"],
        pipeline=row["pipeline"],
        stage=row["stage"],
        destination=row["destination"],
        state=TaskState(row["state"]).word,
        created_at=row["created_at"],
        changed_at=row["changed_at"],
        slot_at=row["slot_at"],
        item_count=row["item_count"],
        reason=row["reason"],
        parents=tuple(sorted(parent for child, parent in edges if child == row["id"])),
        actions=tuple(
            TaskAction(name=name, at=at, attempt=attempt, actor=actor, reason=reason)
            for name, at, attempt, actor, reason in actions
        ),
        shipments=tuple(
            TaskShipment(
                delivery_id=delivery_id,
                state=ShipmentState(state).word,
                attempt=attempt,
                receipt=receipt,
                reason=reason,
                changed_at=changed_at,
            )
            for delivery_id, state, attempt, receipt, reason, changed_at in shipments
        ),
    )
