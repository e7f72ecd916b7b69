# SPDX-License-Identifier: MIT
"""Questions about tasks in SQL: what is stuck, what has failed, where an item is."""

import json
from collections.abc import Sequence
from typing import Final

from redrive.clock import utc
from redrive.engines.sql.pipeline.tasks import TASK_COLUMNS, task_of
from redrive.engines.sql.script import Row, Script, Sql, now
from redrive.engines.sql.transition_sql import among
from redrive.pipeline.infos import ActionInfo, LineageEdge
from redrive.pipeline.records import TaskInfo, first_task
from redrive.pipeline.states import TROUBLED, UNFINISHED, TaskState

_TASKS: Final = f"SELECT {', '.join(TASK_COLUMNS)} FROM @.pipeline_tasks"
_ACTIONS: Final = (
    "SELECT number, task, pipeline, destination, name, attempt, at, actor, reason, detail FROM @.pipeline_actions"
)
_EDGES: Final = "SELECT task, position, item, parent_task, parent_position, shipment FROM @.pipeline_items"
_LONGEST_CHAIN: Final = 50


def stuck(overdue: float, limit: int, pipeline: str | None = None) -> Script[list[TaskInfo]]:
    """Return what should have been done ``overdue`` seconds ago, and what a person has to look at; the oldest first."""
    time = yield from now()
    ours = "" if pipeline is None else " AND pipeline = ?"
    names = () if pipeline is None else (pipeline,)
    late = f"{_TASKS} WHERE {among('state', UNFINISHED)} AND due_at < ?{ours} ORDER BY due_at LIMIT ?"
    troubled = f"{_TASKS} WHERE {among('state', TROUBLED)}{ours} ORDER BY due_at LIMIT ?"
    rows = yield Sql(
        f"SELECT * FROM (SELECT * FROM ({late}) AS late UNION ALL SELECT * FROM ({troubled}) AS troubled) AS found"
        " ORDER BY due_at, id LIMIT ?",
        [time - overdue, *names, limit, *names, limit, limit],
    )
    return [task_of(row) for row in rows]


def tasks(
    pipeline: str | None = None,
    destination: str | None = None,
    states: Sequence[TaskState] = (),
    limit: int = 100,
    before: str | None = None,
) -> Script[list[TaskInfo]]:
    """Return tasks, the newest first.

    Args:
        pipeline: only those of this pipeline.
        destination: only those for this destination.
        states: only those in one of these states.
        limit: how many at most.
        before: only those with a smaller id: for the next page.
    """
    conditions, values = ["1 = 1"], list[object]()
    for column, value in (("pipeline", pipeline), ("destination", destination)):
        if value is not None:
            conditions.append(f"{column} = ?")
            values.append(value)
    order = "id"
    if states:
        conditions.append(among("state", states))
        for few in (TROUBLED, UNFINISHED):  # found by an index for these, instead of among all by their ids
            if set(states) <= set(few):
                conditions.append(among("state", few))
                order = "id || ''"
    if before is not None:
        conditions.append("id < ?")
        values.append(before)
    rows = yield Sql(f"{_TASKS} WHERE {' AND '.join(conditions)} ORDER BY {order} DESC LIMIT ?", [*values, limit])
    return [task_of(row) for row in rows]


def counts(pipeline: str) -> Script[dict[tuple[str, str, TaskState], int]]:
    """Return how many tasks there are, by stage, destination and state."""
    rows = yield Sql(
        "SELECT stage, destination, state, count(*) AS many FROM @.pipeline_tasks WHERE pipeline = ?"
        " GROUP BY stage, destination, state",
        [pipeline],
    )
    return {(row["stage"], row["destination"], TaskState(row["state"])): int(row["many"]) for row in rows}


def history(task: str | None, pipeline: str | None, limit: int) -> Script[list[ActionInfo]]:
    """Return the history of a task, from its beginning, or what was done last in a pipeline."""
    if task is not None:
        rows = yield Sql(f"{_ACTIONS} WHERE task = ? ORDER BY number LIMIT ?", [task, limit])
    elif pipeline is not None:
        rows = yield Sql(f"{_ACTIONS} WHERE pipeline = ? ORDER BY number DESC LIMIT ?", [pipeline, limit])
    else:
        rows = yield Sql(f"{_ACTIONS} ORDER BY number DESC LIMIT ?", [limit])
    return [_action_of(row) for row in rows]


def _action_of(row: Row) -> ActionInfo:
    return ActionInfo(
        number=row["number"],
        task=row["task"],
        pipeline=row["pipeline"],
        destination=row["destination"],
        name=row["name"],
        attempt=row["attempt"],
        at=utc(row["at"]),
        actor=row["actor"],
        reason=row["reason"],
        detail=json.loads(row["detail"]),
    )


# --- where an item is


def lineage(item: str) -> Script[list[LineageEdge]]:
    """Return every step of an item, and of what has become of it, from its beginning.

    Args:
        item: an item's id, or the id of a task: then the steps of all its items, forward and back.
    """
    found: dict[tuple[str, int], LineageEdge] = {}
    rows = yield Sql(f"{_EDGES} WHERE task IN @texts", [[item, first_task(item)]])
    edges = [edge for edge in map(_edge_of, rows) if item in (edge.item, edge.child[0])]
    forward = backward = edges
    for _ in range(_LONGEST_CHAIN):
        found |= {edge.child: edge for edge in (*forward, *backward)}
        parents = [edge.parent for edge in backward if edge.parent is not None and edge.parent not in found]
        backward = yield from _edges_at(parents)
        children = [edge.child for edge in forward]
        forward = [edge for edge in (yield from _children(children)) if edge.child not in found]
        if not forward and not backward:
            break
    return sorted(found.values(), key=lambda edge: edge.child)


def _edges_at(places: Sequence[tuple[str, int]]) -> Script[list[LineageEdge]]:
    rows = yield Sql(f"{_EDGES} WHERE task IN @texts", [sorted({task for task, _ in places})])
    wanted = set(places)
    return [edge for edge in map(_edge_of, rows) if edge.child in wanted]


def _children(places: Sequence[tuple[str, int]]) -> Script[list[LineageEdge]]:
    rows = yield Sql(f"{_EDGES} WHERE parent_task IN @texts", [sorted({task for task, _ in places})])
    wanted = set(places)
    return [edge for edge in map(_edge_of, rows) if edge.parent in wanted]


def _edge_of(row: Row) -> LineageEdge:
    parent = None if row["parent_task"] is None else (row["parent_task"], row["parent_position"])
    child = row["task"], row["position"]
    return LineageEdge(item=row["item"], parent=parent, child=child, shipment=row["shipment"])
