# SPDX-License-Identifier: MIT
"""Tasks, their items and their history in SQL: how they are made, changed and read.

The scripts that are part of a transaction with effects raise ``TaskConflict`` if a task is not as the caller has seen
it: then nothing of the transaction is done.
"""

import json
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, Final, TypeAlias

from redrive.clock import utc
from redrive.engines.sql.script import Change, Guarded, Inserts, Keyed, Row, Script, Sql, TableColumns, now, plain
from redrive.engines.sql.transition_sql import among, transition
from redrive.errors import SubmissionConflict, TaskConflict, TaskNotFound
from redrive.pipeline import TaskToken
from redrive.pipeline.ledger import Accepted, SubmissionSeen
from redrive.pipeline.records import NewAction, NewTask, TaskInfo, TaskItem
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


def columns(text: str) -> tuple[tuple[str, str], ...]:
    """Return names with their types, from a list in order; what may be NULL has a question mark."""
    return tuple((name, kind[:-1] if kind.endswith("?") else f"{kind}!") for name, kind in _pairs(text))


def _pairs(text: str) -> list[tuple[str, str]]:
    return [(name, rest) for name, _, rest in (each.partition(" ") for each in text.split(", "))]


_TASKS: Final = TableColumns(
    "pipeline_tasks",
    columns(
        "id text, pipeline text, stage text, destination text, state smallint, due_at float8?, not_after float8?,"
        " item_count integer, size bigint, version bigint, slot_at float8?"
    ),
    filled=(
        ("due_at", "coalesce(g.due_at, @time)"),
        *_pairs("epoch 0, retries 0, retry_items '[]', reason '', created_at @time, changed_at @time"),
    ),
)
_ITEMS: Final = TableColumns(
    "pipeline_items",
    columns(
        "task text, position integer, item text, parent_task text?, parent_position integer?, shipment integer?,"
        " body text, size bigint"
    ),
)
_JOURNEYS: Final = TableColumns(
    "journey_entries",
    columns("message_id text, parent text, layer text, event text, place text, attempt integer, reason text"),
    filled=(("at", "@time"),),
)
_BODIES: Final = TableColumns("pipeline_bodies", columns("id text, body bytea"))
_FIRST_SHIPMENT: Final = int(FIRST_SHIPMENT_STATE[ShipmentEvent.MAKE])
_SHIPMENTS: Final = TableColumns(
    "pipeline_shipments",
    columns("task text, position integer, delivery_id text, item_count integer, content_type text?, body text"),
    filled=(*_pairs(f"state {_FIRST_SHIPMENT}, attempt 0, receipt '', reason '', changed_at @time"),),
)
ACTIONS: Final = TableColumns(
    "pipeline_actions",
    columns(
        "task text, pipeline text, destination text, name text, attempt integer, actor text, reason text, detail text"
    ),
    filled=(("at", "@time"),),
)
_SUBMIT: Final = Change(
    "INSERT INTO @.pipeline_submissions (pipeline, key, digest, task, accepted_at)"
    " SELECT g.pipeline, g.key, g.digest, g.task, @time FROM @given WHERE true"
    " ON CONFLICT (pipeline, key) DO NOTHING RETURNING task",
    columns("pipeline text, key text, digest text, task text"),
)
OF_TASK: Final = ", ".join(f"t.{name}" for name in TASK_COLUMNS)
_FIRST_STATES: Final = {
    "process": int(FIRST_TASK_STATE[TaskEvent.ACCEPT]),
    "batch": int(FIRST_TASK_STATE[TaskEvent.OUTPUT_FOR_SLOT]),
    "send": int(FIRST_TASK_STATE[TaskEvent.OUTPUT]),
}
_NO_PARENT: Final = (None, None)
_quoted: Final = json.encoder.encode_basestring_ascii
_Values: TypeAlias = tuple[object, ...]
_TO_PROCESS: Final = among("t.state", (TaskState.READY, TaskState.FAILED))


# --- making


def accept(task: NewTask, key: str | None, digest: str, action: NewAction) -> Script[None]:
    """Store a submission, if its key is new.

    Raises:
        SubmissionSeen: the same submission was stored before.
        SubmissionConflict: another one with this key was stored before.
    """
    noted = [action_values(task.id, task.pipeline, "", action)]
    rows = _rows_of([task])
    rows[ACTIONS] = noted
    if isinstance(parent := action.detail.get("parent"), str):  # so that the message's journey leads here
        rows[_JOURNEYS] = [(task.id, plain(parent), "re-run", "submitted", task.pipeline, 1, "")]
    if key is None:
        yield Guarded((), rows)
        return
    done = yield Guarded([(_SUBMIT, (task.pipeline, plain(key), digest, task.id))], rows)
    if not done:
        yield from _raise_seen(task.pipeline, key, digest)


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


def make(tasks: Sequence[NewTask]) -> Script[None]:
    """Store tasks with their items, bodies and shipments."""
    yield Inserts(_rows_of(tasks))


def _rows_of(tasks: Sequence[NewTask]) -> dict[TableColumns, list[_Values]]:
    """Return the rows of tasks with their items, bodies and shipments, by their tables."""
    bodies, items, shipments = list[_Values](), list[_Values](), list[_Values]()
    for task in tasks:
        id_ = task.id
        for position, item in enumerate(task.items, 1):
            if item.body is not None:
                bodies.append((item.body_id, item.body))
            parent, place = item.parent or _NO_PARENT
            items.append((id_, position, item.id, parent, place, item.shipment, item.body_id, item.size))
        for position, each in enumerate(task.shipments, 1):
            if each.body is not None:
                bodies.append((each.body_id, each.body))
            shipments.append((id_, position, each.delivery_id, each.item_count, each.content_type, each.body_id))
    return {_BODIES: bodies, _TASKS: [_task_values(task) for task in tasks], _ITEMS: items, _SHIPMENTS: shipments}


def _task_values(task: NewTask) -> _Values:
    state = _FIRST_STATES[task.stage]
    many, size, version = len(task.items), task.size, task.version
    place = task.id, task.pipeline, task.stage, task.destination
    return *place, state, task.due_at, task.not_after, many, size, version, task.slot_at


def note(task: str, pipeline: str, destination: str, action: NewAction) -> Script[None]:
    """Write into the history."""
    yield Inserts({ACTIONS: [action_values(task, pipeline, destination, action)]})


def note_all(tasks: Iterable[tuple[str, str, str]], action: NewAction) -> Script[None]:
    """Write the same into the history of several tasks, given with their pipelines and destinations."""
    _, _, _, *same = action_values("", "", "", action)
    yield Inserts({ACTIONS: [(*task, *same) for task in tasks]})


def action_values(task: str, pipeline: str, destination: str, action: NewAction) -> tuple[object, ...]:
    """Return the row of an entry in the history."""
    actor, reason = plain(action.actor) if action.actor else "", plain(action.reason) if action.reason else ""
    return task, pipeline, destination, action.name, action.attempt, actor, reason, _json(action.detail)


def _json(value: object) -> str:
    """Return JSON in ASCII, which every database can store. Most is short, and an encoder takes a while to begin."""
    if type(value) is str:
        return _quoted(value)
    if type(value) is int:
        return str(value)
    if type(value) is dict:
        parts = [f"{_quoted(name)}: {_json(each)}" for name, each in value.items()]
        return f"{{{', '.join(parts)}}}"
    return json.dumps(value)


# --- changing


@cache
def moving(event: TaskEvent, *, is_retry: bool = False) -> Change:
    """Return the change of the state of a task that is as its message says.

    It is written as an insertion that finds its row there, because that is always looked for by the key: a statement
    that joins tables may be planned while they are small, and would read all of them later.
    """
    step = transition(TASKS, event)
    able = transition(TASKS, event, "t.state").able
    more = ", retries = t.retries + 1, retry_items = excluded.retry_items, due_at = excluded.due_at" if is_retry else ""
    due_at, retry_items = ("g.due_at", "g.retry_items") if is_retry else ("0", "''")
    return Change(
        f"INSERT INTO @.pipeline_tasks AS t ({_TASK_LIST})"
        f" SELECT g.id, '', '', '', 0, {due_at}, NULL, g.epoch, g.retries, {retry_items}, 0, 0, 0, NULL, g.reason, 0,"
        " @time FROM @given WHERE true"
        f" ON CONFLICT (id) DO UPDATE SET {step.to}, reason = excluded.reason, changed_at = excluded.changed_at{more}"
        f" WHERE t.epoch = excluded.epoch AND t.retries = excluded.retries AND {able} RETURNING stage",
        columns("id text, epoch integer, retries integer, reason text")
        + (columns("retry_items text, due_at float8") if is_retry else ()),
    )


_FINISHING: Final = moving(TaskEvent.FINISH)


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


def finish_process(token: TaskToken, pipeline: str, children: Sequence[NewTask], action: NewAction) -> Script[None]:
    """End a process task, and store what it has made."""
    rows = _rows_of(children)
    rows[ACTIONS] = [action_values(token.task, pipeline, "", action)]
    done = yield Guarded([(_FINISHING, (token.task, token.epoch, token.retries, ""))], rows)
    if done:
        return
    time = yield from now()  # nearly never: its message was recovered from the dead letters, or it has changed
    yield from again_if_failed(token, time)
    yield from move(token, TaskEvent.FINISH, time)
    yield Inserts(rows)


def fail(token: TaskToken, reason: str, action: NewAction) -> Script[None]:
    """Note that a task failed for good."""
    time = yield from now()
    yield from again_if_failed(token, time)
    row = yield from move(token, TaskEvent.FAIL, time, reason)
    yield from note(token.task, row["pipeline"], row["destination"], action)


def warn(token: TaskToken, action: NewAction) -> Script[None]:
    """Note that an attempt failed; the task stays as it is."""
    rows = yield Sql("SELECT pipeline, destination FROM @.pipeline_tasks WHERE id = ?", [token.task])
    if rows:
        yield from note(token.task, rows[0]["pipeline"], rows[0]["destination"], action)


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


def process_input(token: TaskToken) -> Script[tuple[int, list[TaskItem]] | None]:
    """Return the version that made a process task, and its items in order; None if its message is out of date."""
    rows = yield Keyed(
        "SELECT t.id, t.version, i.position, i.item, i.body AS body_id, b.body FROM @.pipeline_tasks t"
        " LEFT JOIN @.pipeline_items i ON i.task = t.id LEFT JOIN @.pipeline_bodies b ON b.id = i.body"
        f" WHERE t.id = ? AND t.epoch = ? AND t.retries = ? AND {_TO_PROCESS} ORDER BY i.position",
        [token.task, token.epoch, token.retries],
        token.task,
    )
    if not rows:
        return None
    return rows[0]["version"], [_item_of(row) for row in rows if row["position"] is not None]


def _item_of(row: Row) -> TaskItem:
    if row["body"] is None:
        raise TaskConflict(row["id"], "the bytes of its items have been removed, as they were too old")
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
