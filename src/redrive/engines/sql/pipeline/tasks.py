# SPDX-License-Identifier: MIT
"""Tasks, their items and their history in SQL: how they are made, changed and read.

The scripts that are part of a transaction with effects raise ``TaskConflict`` if a task is not as the caller has seen
it: then nothing of the transaction is done.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

from redrive.clock import utc
from redrive.engines.sql.script import Inserts, Keyed, Row, Script, Sql, TableColumns, now, plain
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


def _columns(table: str, columns: str) -> TableColumns:
    """Return the columns of a table, from their names and types in order."""
    pairs = (each.partition(" ") for each in columns.split(", "))
    return TableColumns(table, tuple((name, kind) for name, _, kind in pairs))


_TASKS: Final = _columns(
    "pipeline_tasks",
    "id text, pipeline text, stage text, destination text, state smallint, due_at float8, not_after float8,"
    " epoch integer, retries integer, retry_items text, item_count integer, size bigint, version bigint,"
    " slot_at float8, reason text, created_at float8, changed_at float8",
)
_ITEMS: Final = _columns(
    "pipeline_items",
    "task text, position integer, item text, parent_task text, parent_position integer, shipment integer, body text,"
    " size bigint",
)
_JOURNEYS: Final = _columns(
    "journey_entries",
    "message_id text, parent text, at float8, layer text, event text, place text, attempt integer, reason text",
)
_BODIES: Final = _columns("pipeline_bodies", "id text, body bytea")
_SHIPMENTS: Final = _columns(
    "pipeline_shipments",
    "task text, position integer, delivery_id text, state smallint, attempt integer, item_count integer,"
    " content_type text, body text, receipt text, reason text, changed_at float8",
)
_ACTIONS: Final = _columns(
    "pipeline_actions",
    "task text, pipeline text, destination text, name text, attempt integer, at float8, actor text, reason text,"
    " detail text",
)
_OF_TASK: Final = ", ".join(f"t.{name}" for name in TASK_COLUMNS)
_TO_PROCESS: Final = among("t.state", (TaskState.READY, TaskState.FAILED))
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
        rows = yield Keyed(
            "INSERT INTO @.pipeline_submissions (pipeline, key, digest, task, accepted_at) VALUES (?, ?, ?, ?, ?)"
            " ON CONFLICT (pipeline, key) DO NOTHING RETURNING task",
            [task.pipeline, plain(key), digest, task.id, time],
            task.id,
        )
        if not rows:
            yield from _raise_seen(task.pipeline, key, digest)
    noted = [_action_values(task.id, task.pipeline, "", action, time)]
    rows_by_table = {**_rows_of([task], time, TaskEvent.ACCEPT), _ACTIONS: noted}
    if isinstance(parent := action.detail.get("parent"), str):  # so that the message's journey leads here
        entry = (task.id, plain(parent), time, "re-run", "submitted", task.pipeline, 1, "")
        rows_by_table[_JOURNEYS] = [entry]
    yield Inserts(rows_by_table)


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
    yield Inserts(_rows_of(tasks, time, event))


def _rows_of(
    tasks: Sequence[NewTask], time: float, event: TaskEvent | None = None
) -> dict[TableColumns, list[tuple[object, ...]]]:
    """Return the rows of tasks with their items, bodies and shipments, by their tables."""
    rows: dict[TableColumns, list[tuple[object, ...]]] = {_BODIES: [], _TASKS: [], _ITEMS: [], _SHIPMENTS: []}
    for task in tasks:
        rows[_BODIES] += [(item.body_id, item.body) for item in task.items if item.body is not None]
        rows[_BODIES] += [(each.body_id, each.body) for each in task.shipments if each.body is not None]
        rows[_TASKS].append(_task_values(task, time, event))
        rows[_ITEMS] += [
            (task.id, position, item.id, *(item.parent or (None, None)), item.shipment, item.body_id, item.size)
            for position, item in enumerate(task.items, 1)
        ]
        rows[_SHIPMENTS] += [
            (
                *(task.id, position, each.delivery_id, _FIRST_SHIPMENT, 0, each.item_count, each.content_type),
                *(each.body_id, "", "", time),
            )
            for position, each in enumerate(task.shipments, 1)
        ]
    return rows


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
    yield Inserts({_ACTIONS: [_action_values(task, pipeline, destination, action, time)]})


def note_all(tasks: Iterable[tuple[str, str, str]], action: NewAction, time: float) -> Script[None]:
    """Write the same into the history of several tasks, given with their pipelines and destinations."""
    _, _, _, *same = _action_values("", "", "", action, time)
    yield Inserts({_ACTIONS: [(*task, *same) for task in tasks]})


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
    rows = yield from moved(token, event, time, reason, changes=changes)
    if not rows:
        raise TaskConflict(token.task, "it has changed meanwhile; look at it again")
    return rows[0]


def moved(
    token: TaskToken, event: TaskEvent, time: float, reason: str = "", *, changes: str = ""
) -> Script[Sequence[Row]]:
    """Do the same; return no row if the task is another."""
    step = transition(TASKS, event)
    return (
        yield Keyed(
            f"UPDATE @.pipeline_tasks SET {step.to}, reason = ?, changed_at = ?{changes}"
            f" WHERE id = ? AND epoch = ? AND retries = ? AND {step.able} RETURNING id, pipeline, destination, stage",
            [plain(reason), time, token.task, token.epoch, token.retries],
            token.task,
        )
    )


def finish_process(token: TaskToken, children: Sequence[NewTask], action: NewAction) -> Script[None]:
    """End a process task, and store what it has made."""
    time = yield from now()
    rows = yield from moved(token, TaskEvent.FINISH, time)
    if not rows:  # nearly never: its message was recovered from the dead letters, or it has changed
        yield from again_if_failed(token, time)
        rows = [(yield from move(token, TaskEvent.FINISH, time))]
    noted = [_action_values(token.task, rows[0]["pipeline"], "", action, time)]
    yield Inserts({**_rows_of(children, time), _ACTIONS: noted})


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
        "UPDATE @.pipeline_tasks SET state = ?, changed_at = ?"
        f" WHERE id = ? AND epoch = ? AND retries = ? AND {among('state', [TaskState.FAILED])} RETURNING 1",
        [int(TASKS[TaskState.FAILED, TaskEvent.RERUN]), time, token.task, token.epoch, token.retries],
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
    """Return a task, if it is as its message says and in one of some states, and keep it so."""
    rows = yield Keyed(
        f"SELECT {_TASK_LIST} FROM @.pipeline_tasks WHERE id = ? AND epoch = ? AND retries = ?"
        f" AND {among('state', states)} @lock",
        [token.task, token.epoch, token.retries],
        token.task,
    )
    return task_of(rows[0]) if rows else None


def process_input(token: TaskToken) -> Script[tuple[TaskInfo, list[TaskItem]] | None]:
    """Return a process task and its items, with their bytes, in order; None if its message is out of date."""
    rows = yield Keyed(
        f"SELECT {_OF_TASK}, i.position, i.item, i.body AS body_id, b.body FROM @.pipeline_tasks t"
        " LEFT JOIN @.pipeline_items i ON i.task = t.id LEFT JOIN @.pipeline_bodies b ON b.id = i.body"
        f" WHERE t.id = ? AND t.epoch = ? AND t.retries = ? AND {_TO_PROCESS} ORDER BY i.position",
        [token.task, token.epoch, token.retries],
        token.task,
    )
    if not rows:
        return None
    return task_of(rows[0]), [_item_of(token.task, row) for row in rows if row["position"] is not None]


def _item_of(task: str, row: Row) -> TaskItem:
    if row["body"] is None:
        raise TaskConflict(task, "the bytes of its items have been removed, as they were too old")
    return TaskItem(index=row["position"], id=row["item"], body=bytes(row["body"]), body_id=row["body_id"])


def task_of(row: Row) -> TaskInfo:
    """Return the task of a row that begins with all columns."""
    found = dict(zip(TASK_COLUMNS, row, strict=False))  # looking up one name after another is slow
    for name in ("due_at", "created_at", "changed_at"):
        found[name] = utc(found[name])
    for name in ("not_after", "slot_at"):
        found[name] = when(found[name])
    found["state"] = TaskState(found["state"])
    found["retry_items"] = tuple(json.loads(found["retry_items"])) if found["retry_items"] != "[]" else ()
    return TaskInfo(**found)


def when(time: float | None) -> Any:  # noqa: ANN401 - a datetime or None
    """Return a time, if there is one."""
    return None if time is None else utc(time)
