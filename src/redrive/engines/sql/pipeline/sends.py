# SPDX-License-Identifier: MIT
"""Sending in SQL: intent, then the effect outside of any transaction, then the outcome."""

import json
from collections.abc import Sequence
from typing import Any, Final

from redrive.clock import utc
from redrive.engines.sql.pipeline.tasks import (
    ACTIONS,
    OF_TASK,
    TASK_COLUMNS,
    action_values,
    again_if_failed,
    columns,
    current,
    moved,
    moving,
    note,
    task_of,
)
from redrive.engines.sql.script import Change, Guarded, Keyed, Row, Script, Sql, now, plain
from redrive.engines.sql.transition_sql import among, transition
from redrive.errors import TaskConflict
from redrive.pipeline import TaskToken
from redrive.pipeline.records import NewAction, SendResult, SendWork, ShipmentInfo, ShipmentResult, ShipmentWork
from redrive.pipeline.states import SHIPMENTS, ShipmentEvent, ShipmentState, TaskState

_COLUMNS: Final = ("task", "position", "delivery_id", "state", "attempt", "item_count", "content_type", "receipt")
_LIST: Final = ", ".join(f"s.{name}" for name in (*_COLUMNS, "reason", "changed_at"))
_UNSENT: Final = (ShipmentState.PENDING, ShipmentState.INTENT)
_IS_REFUSED: Final = among("state", [ShipmentState.REFUSED])
_AGAIN: Final = transition(SHIPMENTS, ShipmentEvent.AGAIN)
_SENDING: Final = among("state", [ShipmentState.INTENT])
_LEFT: Final = among("s.state", (*_UNSENT, ShipmentState.UNKNOWN))
_BEGIN: Final = transition(SHIPMENTS, ShipmentEvent.BEGIN)
_ABLE_TO_BEGIN: Final = transition(SHIPMENTS, ShipmentEvent.BEGIN, "s.state").able
_EARLY_S: Final = 1.0
"""So much may clocks differ."""
_EVENTS: Final = {
    ShipmentState.SENT: ShipmentEvent.ARRIVE,
    ShipmentState.PENDING: ShipmentEvent.DELAY,
    ShipmentState.REFUSED: ShipmentEvent.REFUSE,
    ShipmentState.UNKNOWN: ShipmentEvent.DOUBT,
}


_OF_SHIPMENT: Final = "task, position, delivery_id, state, attempt, item_count, body, receipt, reason, changed_at"
_BEGINNING: Final = Change(
    f"INSERT INTO @.pipeline_shipments AS s ({_OF_SHIPMENT})"
    " SELECT g.task, g.position, '', g.state, g.attempt, 0, '', '', '', @time FROM @given WHERE EXISTS ("
    "SELECT 1 FROM @.pipeline_tasks t WHERE t.id = g.task AND t.epoch = g.epoch AND t.retries = g.retries"
    f" AND {among('t.state', [TaskState.READY])}) ON CONFLICT (task, position) DO UPDATE"
    f" SET {_BEGIN.to}, attempt = s.attempt + 1, changed_at = excluded.changed_at"
    f" WHERE s.state = excluded.state AND s.attempt = excluded.attempt AND {_ABLE_TO_BEGIN} RETURNING delivery_id",
    columns("task text, position integer, state smallint, attempt integer, epoch integer, retries integer"),
)
"""Written as an insertion for the same reason as ``tasks.moving``."""

_STORING: Final = Change(
    f"INSERT INTO @.pipeline_shipments AS s ({_OF_SHIPMENT})"
    " SELECT g.task, g.position, '', g.state, 0, 0, '', g.receipt, g.reason, @time FROM @given WHERE true"
    " ON CONFLICT (task, position) DO UPDATE SET state = excluded.state, receipt = excluded.receipt,"
    f" reason = excluded.reason, changed_at = excluded.changed_at WHERE {among('s.state', [ShipmentState.INTENT])}"
    " RETURNING delivery_id",
    columns("task text, position integer, state smallint, receipt text, reason text"),
)


def to_send(token: TaskToken) -> Script[SendWork | None]:
    """Return a send task that is as its message says, and what is to be sent of it; None if there is no such task."""
    rows = yield Keyed(
        f"SELECT {OF_TASK}, {_LIST}, CASE WHEN {_LEFT} THEN"
        " (SELECT b.body FROM @.pipeline_bodies b WHERE b.id = s.body) END AS bytes"
        " FROM @.pipeline_tasks t JOIN @.pipeline_shipments s ON s.task = t.id"
        f" WHERE t.id = ? AND t.epoch = ? AND t.retries = ? AND {among('t.state', [TaskState.READY])}"
        " ORDER BY s.position",
        [token.task, token.epoch, token.retries],
        token.task,
    )
    if not rows:
        return None
    shipments = [tuple(row)[len(TASK_COLUMNS) :] for row in rows]
    work, others = _divided(shipments, token)
    return SendWork(task=task_of(rows[0]), shipments=work, others=others)


def is_usual(work: SendWork, version: int) -> bool:
    """Say whether a task may be sent by that version, and is no retry: when that is due, the store has to say."""
    return work.task.version <= version and work.task.due_at <= work.task.changed_at


def begin(token: TaskToken, work: SendWork) -> Script[bool]:
    """Note that shipments are about to be sent, if they are as they were seen; return whether they are."""
    changes = [
        (
            _BEGINNING,
            (token.task, each.info.index, int(each.info.state), each.info.attempt, token.epoch, token.retries),
        )
        for each in work.shipments
    ]
    return bool((yield Guarded(changes, {})))


def begin_send(token: TaskToken, per_second: float | None, version: int) -> Script[SendWork | None]:
    """Note that the shipments of a task are about to be sent; None if its message is out of date.

    A task that a later version of the pipeline has made stays as it is: nothing of it is to be sent.

    Args:
        token: what the message carries.
        per_second: how many shipments a second the destination takes; None: any number.
        version: the version of the pipeline that is to send it.
    """
    time = yield from now()
    found = yield from current(token, (TaskState.READY,))
    if found is None and (yield from again_if_failed(token, time)):  # then what had failed is sent, and nothing else
        yield Sql(
            f"UPDATE @.pipeline_shipments SET {_AGAIN.to}, changed_at = ? WHERE task = ? AND {_IS_REFUSED}",
            [time, token.task],
        )
        found = yield from current(token, (TaskState.READY,))
    if found is None or found.version > version:
        return None if found is None else SendWork(task=found, shipments=())
    if (early := found.due_at.timestamp() - time) > _EARLY_S:  # a second message for it, from elsewhere
        return SendWork(task=found, shipments=(), wait=early)
    rows = yield Keyed(
        f"SELECT {_LIST}, CASE WHEN {_LEFT} THEN (SELECT b.body FROM @.pipeline_bodies b WHERE b.id = s.body) END"
        " AS body FROM @.pipeline_shipments s WHERE s.task = ? ORDER BY s.position @lock",
        [token.task],
        token.task,
    )
    work, others = _divided([tuple(row) for row in rows], token)
    if per_second is not None and work:
        wait = yield from _reserve(found.pipeline, found.destination, len(work) / per_second, time)
        if wait > 0:
            return SendWork(task=found, shipments=(), wait=wait)
    yield Keyed(
        f"UPDATE @.pipeline_shipments SET {_BEGIN.to}, attempt = attempt + 1, changed_at = ?"
        f" WHERE task = ? AND position IN @ints AND {_BEGIN.able} RETURNING task",
        [time, token.task, [each.info.index for each in work]],
        token.task,
    )
    return SendWork(task=found, shipments=work, others=others)


def _divided(
    rows: Sequence[tuple[Any, ...]], token: TaskToken
) -> tuple[tuple[ShipmentWork, ...], tuple[ShipmentInfo, ...]]:
    """Return what is to be sent now of the shipments of a task, given with their bytes, and the rest."""
    work: list[ShipmentWork] = []
    others: list[ShipmentInfo] = []
    for *row, body in rows:
        info = shipment_of(row)
        if not _is_chosen(info, token):
            others.append(info)
        elif body is None:
            raise TaskConflict(info.task, "its bytes have been removed, as they were too old")
        else:
            is_new = info.state is ShipmentState.PENDING
            work.append(ShipmentWork(info=info, body=bytes(body), may_be_there=not is_new))
    return tuple(work), tuple(others)


def _is_chosen(info: ShipmentInfo, token: TaskToken) -> bool:
    """Say whether a shipment is to be sent now; one with an unknown outcome only if it was meant."""
    is_meant = not token.items or info.index in token.items
    return info.state in _UNSENT or (info.state is ShipmentState.UNKNOWN and is_meant)


def _reserve(pipeline: str, destination: str, seconds: float, time: float) -> Script[float]:
    """Take a place in the stream to a destination; return how long to wait if there is none yet."""
    rows = yield Keyed(
        "SELECT name, next_at FROM @.pipeline_destinations WHERE pipeline = ? AND name = ? @lock",
        [pipeline, destination],
        destination,
    )
    next_at = rows[0]["next_at"] if rows else None
    if next_at is None or next_at > time:
        return 0.0 if next_at is None else float(next_at) - time
    yield Sql(
        "UPDATE @.pipeline_destinations SET next_at = ? WHERE pipeline = ? AND name = ?",
        [time + seconds, pipeline, destination],
    )
    return 0.0


def finish_send(token: TaskToken, result: SendResult, pipeline: str, destination: str) -> Script[None]:
    """Store what came of an attempt to send, and what follows; a task that was cancelled meanwhile stays so."""
    values: tuple[object, ...] = (token.task, token.epoch, token.retries, plain(result.action.reason))
    if result.retry is not None:
        values = (*values, json.dumps(result.retry.items), result.due_at)
    moved_on = moving(result.event, is_retry=result.retry is not None)
    changes: list[tuple[Change, tuple[object, ...]]] = [(moved_on, values)]
    for each in result.shipments:
        step = SHIPMENTS[ShipmentState.INTENT, _EVENTS[each.state]]
        outcome = (token.task, each.index, int(step), plain(each.receipt), plain(each.reason))
        changes.append((_STORING, outcome))
    done = yield Guarded(changes, {ACTIONS: [action_values(token.task, pipeline, destination, result.action)]})
    if not done:
        yield from _finish_in_turn(token, result)


def _finish_in_turn(token: TaskToken, result: SendResult) -> Script[None]:
    """Do the same for a task that is not as its message says; raise if that has not been cancelled."""
    time = yield from now()
    for shipment in result.shipments:
        yield from _store(token.task, shipment, time)
    changes = "" if result.retry is None else ", retries = retries + 1"
    rows = yield from moved(token, result.event, time, result.action.reason, changes=changes)
    row = rows[0] if rows else (yield from _cancelled(token))
    if row is None:
        raise TaskConflict(token.task, "it has changed meanwhile; look at it again")
    if rows and result.retry is not None:  # a message for a further attempt at a cancelled one is out of date
        yield Sql(
            "UPDATE @.pipeline_tasks SET retry_items = ?, due_at = ? WHERE id = ?",
            [json.dumps(result.retry.items), result.due_at, token.task],
        )
    yield from note(token.task, row["pipeline"], row["destination"], result.action)


def put_back(token: TaskToken, results: Sequence[ShipmentResult], action: NewAction | None) -> Script[None]:
    """Store what came of shipments of a task that stays as it is: its destination was away."""
    time = yield from now()
    found = yield from current(token, (TaskState.READY,))
    if found is None and (yield from _cancelled(token)) is None:
        return  # a person has let it begin anew: what is stored of its shipments is another attempt's
    for result in results:
        yield from _store(token.task, result, time)
    if action is not None:
        rows = yield Sql("SELECT pipeline, destination FROM @.pipeline_tasks WHERE id = ?", [token.task])
        for row in rows:
            yield from note(token.task, row["pipeline"], row["destination"], action)


def _cancelled(token: TaskToken) -> Script[Row | None]:
    """Return the pipeline and the destination of a task that a person has cancelled; None: it is not."""
    rows = yield Sql(
        "SELECT pipeline, destination, state FROM @.pipeline_tasks WHERE id = ? AND epoch > ? @lock",
        [token.task, token.epoch],
    )
    return rows[0] if rows and rows[0]["state"] == TaskState.CANCELLED else None


def _store(task: str, result: ShipmentResult, time: float) -> Script[None]:
    step = SHIPMENTS[ShipmentState.INTENT, _EVENTS[result.state]]
    rows = yield Keyed(
        "UPDATE @.pipeline_shipments SET state = ?, receipt = ?, reason = ?, changed_at = ?"
        f" WHERE task = ? AND position = ? AND {_SENDING} RETURNING task",
        [int(step), plain(result.receipt), plain(result.reason), time, task, result.index],
        task,
    )
    if not rows:
        raise TaskConflict(task, "another process has noted what came of it")


def shipments(task: str) -> Script[list[ShipmentInfo]]:
    """Return the shipments of a task, in order."""
    rows = yield Sql(f"SELECT {_LIST} FROM @.pipeline_shipments s WHERE s.task = ? ORDER BY s.position", [task])
    return [shipment_of(row) for row in rows]


def shipment_of(row: Sequence[Any]) -> ShipmentInfo:
    """Return the shipment of a row."""
    task, index, delivery_id, state, attempt, item_count, content_type, receipt, reason, changed_at = row
    return ShipmentInfo(
        task=task,
        index=index,
        delivery_id=delivery_id,
        state=ShipmentState(state),
        attempt=attempt,
        item_count=item_count,
        content_type=content_type,
        receipt=receipt,
        reason=reason,
        changed_at=utc(changed_at),
    )
