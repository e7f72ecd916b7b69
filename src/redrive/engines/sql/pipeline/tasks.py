# SPDX-License-Identifier: MIT
"""Tasks, their items and their history in SQL: how they are made, changed and read.

The scripts that are part of a transaction with effects raise ``TaskConflict`` if a task is not as the caller has seen
it: then nothing of the transaction is done.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

from redrive.clock import utc
from redrive.engines.sql.script import Many, Row, Script, Sql, insert, now, plain, scalar
from redrive.engines.sql.transition_sql import among, transition
from redrive.errors import SubmissionConflict, TaskConflict, TaskNotFound
from redrive.pipeline.ledger import Accepted, SubmissionSeen
from redrive.pipeline.records import NewAction, NewTask, TaskInfo, TaskItem, TaskToken
from redrive.pipeline.states import (
    FIRST_SHIPMENT_STATE,
    FIRST_TASK_STATE,
    TASKS,
    ShipmentEvent,
    TaskEvent,
    TaskState,
)

TASK_COLUMNS: Final = (
    *("id", "pipeline", "stage", "destination", "state", "due_at", "not_after", "epoch", "retries", "retry_items"),
    *("item_count", "size", "version", "slot_at", "reason", "created_at", "changed_at"),
)
_TASK_LIST: Final = ", ".join(TASK_COLUMNS)
_INSERT_TASK: Final = insert("pipeline_tasks", TASK_COLUMNS)
_INSERT_ITEM: Final = insert(
    "pipeline_items",
    ["task", "position", "item", "parent_task", "parent_position", "shipment", "body", "size"],
)
_INSERT_BODY: Final = insert("pipeline_bodies", ["id", "body"])
_SHIPMENT_COLUMNS: Final = (
    *("task", "position", "delivery_id", "state", "attempt", "item_count", "content_type", "body"),
    *("receipt", "reason", "changed_at"),
)
_INSERT_SHIPMENT: Final = insert("pipeline_shipments", _SHIPMENT_COLUMNS)
_INSERT_ACTION: Final = insert(
    "pipeline_actions",
    ["task", "pipeline", "destination", "name", "attempt", "at", "actor", "reason", "detail"],
)
_FIRST_SHIPMENT: Final = int(FIRST_SHIPMENT_STATE[ShipmentEvent.MAKE])


# --- making


def accept(task: NewTask, key: str | None, digest: str, action: NewAction) -> Script[None]:
    """Store a submission, if its key is new.

    Raises:
        SubmissionSeen: the same submission was stored before.
        SubmissionConflict: another one with this key was stored before.
    """
    time = yield from now()
    if key is not None:
        rows = yield Sql(
            "INSERT INTO @.pipeline_submissions (pipeline, key, digest, task, accepted_at) VALUES (?, ?, ?, ?, ?)"
            " ON CONFLICT (pipeline, key) DO NOTHING RETURNING 1",
            [task.pipeline, plain(key), digest, task.id, time],
        )
        if not rows:
            yield from _raise_seen(task.pipeline, key, digest)
    yield from make([task], time, TaskEvent.ACCEPT)
    yield from note(task.id, task.pipeline, "", action, time)


def _raise_seen(pipeline: str, key: str, digest: str) -> Script[None]:
    found = yield from submission(pipeline, key)
    if found is None or found.digest != digest:
        raise SubmissionConflict(pipeline, key)
    raise SubmissionSeen(found.task)


def submission(pipeline: str, key: str) -> Script[Accepted | None]:
    """Return what was submitted with a key."""
    rows = yield Sql(
        "SELECT task, digest FROM @.pipeline_submissions WHERE pipeline = ? AND key = ?", [pipeline, plain(key)]
    )
    return Accepted(*rows[0]) if rows else None


def make(tasks: Sequence[NewTask], time: float, event: TaskEvent | None = None) -> Script[None]:
    """Store tasks with their items, bodies and shipments."""
    bodies: list[tuple[str, bytes]] = []
    for task in tasks:
        bodies += [(item.body_id, item.body) for item in task.items if item.body is not None]
        bodies += [(each.body_id, each.body) for each in task.shipments if each.body is not None]
    yield Many(_INSERT_BODY, bodies)
    yield Many(_INSERT_TASK, [_task_values(task, time, event) for task in tasks])
    yield Many(
        _INSERT_ITEM,
        [
            (task.id, position, item.id, *(item.parent or (None, None)), item.shipment, item.body_id, item.size)
            for task in tasks
            for position, item in enumerate(task.items, 1)
        ],
    )
    yield Many(
        _INSERT_SHIPMENT,
        [
            (
                *(task.id, position, each.delivery_id, _FIRST_SHIPMENT, 0, each.item_count, each.content_type),
                *(each.body_id, "", "", time),
            )
            for task in tasks
            for position, each in enumerate(task.shipments, 1)
        ],
    )


def _task_values(task: NewTask, time: float, event: TaskEvent | None) -> tuple[object, ...]:
    is_for_slot = task.stage == "batch"
    state = FIRST_TASK_STATE[event or (TaskEvent.OUTPUT_FOR_SLOT if is_for_slot else TaskEvent.OUTPUT)]
    due_at = time if task.due_at is None else task.due_at
    size = sum(item.size for item in task.items)
    return (
        *(task.id, task.pipeline, task.stage, task.destination, int(state), due_at, task.not_after, 0, 0, "[]"),
        *(len(task.items), size, task.version, task.slot_at, "", time, time),
    )


def note(task: str, pipeline: str, destination: str, action: NewAction, time: float) -> Script[None]:
    """Write into the history."""
    yield Sql(_INSERT_ACTION, _action_values(task, pipeline, destination, action, time))


def note_all(tasks: Iterable[tuple[str, str, str]], action: NewAction, time: float) -> Script[None]:
    """Write the same into the history of several tasks, given with their pipelines and destinations."""
    yield Many(_INSERT_ACTION, [_action_values(*task, action, time) for task in tasks])


def _action_values(task: str, pipeline: str, destination: str, action: NewAction, time: float) -> tuple[object, ...]:
    detail = plain(json.dumps(dict(action.detail)))
    reason, actor = plain(action.reason), plain(action.actor)
    return task, pipeline, destination, action.name, action.attempt, time, actor, reason, detail


# --- changing


def move(token: TaskToken, event: TaskEvent, time: float, reason: str = "", *, changes: str = "") -> Script[Row]:
    """Change the state of a task that is as its message says; return its pipeline and destination.

    Args:
        token: what the message carries.
        event: what happens.
        time: the time.
        reason: why.
        changes: further assignments without values, such as ``, epoch = epoch + 1``.
    """
    step = transition(TASKS, event)
    rows = yield Sql(
        f"UPDATE @.pipeline_tasks SET {step.to}, reason = ?, changed_at = ?{changes}"
        f" WHERE id = ? AND epoch = ? AND retries = ? AND {step.able} RETURNING pipeline, destination, stage",
        [plain(reason), time, token.task, token.epoch, token.retries],
    )
    if not rows:
        raise TaskConflict(token.task, "it has changed meanwhile; look at it again")
    return rows[0]


def finish_process(token: TaskToken, children: Sequence[NewTask], action: NewAction) -> Script[None]:
    """End a process task, and store what it has made."""
    time = yield from now()
    yield from again_if_failed(token, time)
    row = yield from move(token, TaskEvent.FINISH, time)
    yield from make(children, time)
    yield from note(token.task, row["pipeline"], "", action, time)


def fail(token: TaskToken, reason: str, action: NewAction) -> Script[None]:
    """Note that a task failed for good."""
    time = yield from now()
    yield from again_if_failed(token, time)
    row = yield from move(token, TaskEvent.FAIL, time, reason)
    yield from note(token.task, row["pipeline"], row["destination"], action, time)


def warn(token: TaskToken, action: NewAction) -> Script[None]:
    """Note that an attempt failed; the task stays as it is."""
    time = yield from now()
    rows = yield Sql("SELECT pipeline, destination FROM @.pipeline_tasks WHERE id = ?", [token.task])
    if rows:
        yield from note(token.task, rows[0]["pipeline"], rows[0]["destination"], action, time)


def again_if_failed(token: TaskToken, time: float) -> Script[bool]:
    """Let a task that had failed be ready: its message was recovered from the dead letters; return whether it had."""
    rows = yield Sql(
        f"UPDATE @.pipeline_tasks SET state = {int(TASKS[TaskState.FAILED, TaskEvent.RERUN])}, changed_at = ?"
        f" WHERE id = ? AND epoch = ? AND retries = ? AND {among('state', [TaskState.FAILED])} RETURNING 1",
        [time, token.task, token.epoch, token.retries],
    )
    return bool(rows)


# --- reading


def task(id: str) -> Script[TaskInfo]:  # noqa: A002 - its name in the port
    """Return a task."""
    rows = yield Sql(f"SELECT {_TASK_LIST} FROM @.pipeline_tasks WHERE id = ?", [id])
    if not rows:
        raise TaskNotFound(id)
    return task_of(rows[0])


def current(token: TaskToken, states: Sequence[TaskState]) -> Script[TaskInfo | None]:
    """Return a task, if it is as its message says and in one of some states."""
    rows = yield Sql(
        f"SELECT {_TASK_LIST} FROM @.pipeline_tasks WHERE id = ? AND epoch = ? AND retries = ?"
        f" AND {among('state', states)}",
        [token.task, token.epoch, token.retries],
    )
    return task_of(rows[0]) if rows else None


def items(task: str) -> Script[list[TaskItem]]:
    """Return the items of a task, with their bytes, in order."""
    rows = yield Sql(
        "SELECT i.position, i.item, i.body AS body_id, b.body FROM @.pipeline_items i"
        " LEFT JOIN @.pipeline_bodies b ON b.id = i.body WHERE i.task = ? ORDER BY i.position",
        [task],
    )
    return [_item_of(task, row) for row in rows]


def _item_of(task: str, row: Row) -> TaskItem:
    if row["body"] is None:
        raise TaskConflict(task, "the bytes of its items have been removed, as they were too old")
    return TaskItem(index=row["position"], id=row["item"], body=bytes(row["body"]), body_id=row["body_id"])


def process_input(token: TaskToken) -> Script[tuple[TaskInfo, list[TaskItem]] | None]:
    """Return a process task and its items; None if its message is out of date."""
    found = yield from current(token, (TaskState.READY, TaskState.FAILED))
    if found is None:
        return None
    return found, (yield from items(token.task))


def task_of(row: Row) -> TaskInfo:
    """Return the task of a row with all columns."""
    return TaskInfo(
        id=row["id"],
        pipeline=row["pipeline"],
        stage=row["stage"],
        destination=row["destination"],
        state=TaskState(row["state"]),
        due_at=utc(row["due_at"]),
        not_after=when(row["not_after"]),
        epoch=row["epoch"],
        retries=row["retries"],
        retry_items=tuple(json.loads(row["retry_items"])),
        item_count=row["item_count"],
        size=row["size"],
        version=row["version"],
        slot_at=when(row["slot_at"]),
        reason=row["reason"],
        created_at=utc(row["created_at"]),
        changed_at=utc(row["changed_at"]),
    )


def when(time: float | None) -> Any:  # noqa: ANN401 - a datetime or None
    """Return a time, if there is one."""
    return None if time is None else utc(time)


def count(table: str, where: str, values: Sequence[object]) -> Script[int]:
    """Return how many rows there are."""
    return int((yield from scalar(Sql(f"SELECT count(*) FROM @.{table} WHERE {where}", values))) or 0)
