# SPDX-License-Identifier: MIT
"""Sending in SQL: intent, then the effect outside of any transaction, then the outcome."""

import json
from collections.abc import Sequence
from typing import Final

from redrive.clock import utc
from redrive.engines.sql.pipeline.tasks import again_if_failed, current, moved, note
from redrive.engines.sql.script import Keyed, Row, Script, Sql, now, plain
from redrive.engines.sql.transition_sql import among, transition
from redrive.errors import TaskConflict
from redrive.pipeline.records import (
    NewAction,
    SendResult,
    SendWork,
    ShipmentInfo,
    ShipmentResult,
    ShipmentWork,
    TaskToken,
)
from redrive.pipeline.states import SHIPMENTS, ShipmentEvent, ShipmentState, TaskState

_COLUMNS: Final = ("task", "position", "delivery_id", "state", "attempt", "item_count", "content_type", "receipt")
_LIST: Final = ", ".join(f"s.{name}" for name in (*_COLUMNS, "reason", "changed_at"))
_UNSENT: Final = (ShipmentState.PENDING, ShipmentState.INTENT)
_IS_REFUSED: Final = among("state", [ShipmentState.REFUSED])
_AGAIN: Final = transition(SHIPMENTS, ShipmentEvent.AGAIN)
_SENDING: Final = among("state", [ShipmentState.INTENT])
_LEFT: Final = among("s.state", (*_UNSENT, ShipmentState.UNKNOWN))
_BEGIN: Final = transition(SHIPMENTS, ShipmentEvent.BEGIN)
_EARLY_S: Final = 1.0
"""So much may clocks differ."""
_EVENTS: Final = {
    ShipmentState.SENT: ShipmentEvent.ARRIVE,
    ShipmentState.PENDING: ShipmentEvent.DELAY,
    ShipmentState.REFUSED: ShipmentEvent.REFUSE,
    ShipmentState.UNKNOWN: ShipmentEvent.DOUBT,
}


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
    work = tuple(_work_of(row) for row in rows if _is_chosen(row, token))
    others = tuple(shipment_of(row) for row in rows if not _is_chosen(row, token))
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


def _is_chosen(row: Row, token: TaskToken) -> bool:
    """Say whether a shipment is to be sent now; one with an unknown outcome only if it was meant."""
    state = ShipmentState(row["state"])
    is_meant = not token.items or row["position"] in token.items
    return state in _UNSENT or (state is ShipmentState.UNKNOWN and is_meant)


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


def finish_send(token: TaskToken, result: SendResult) -> Script[None]:
    """Store what came of an attempt to send, and what follows; a task that was cancelled meanwhile stays so."""
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
    yield from note(token.task, row["pipeline"], row["destination"], result.action, time)


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
            yield from note(token.task, row["pipeline"], row["destination"], action, time)


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


def shipment_of(row: Row) -> ShipmentInfo:
    """Return the shipment of a row."""
    return ShipmentInfo(
        task=row["task"],
        index=row["position"],
        delivery_id=row["delivery_id"],
        state=ShipmentState(row["state"]),
        attempt=row["attempt"],
        item_count=row["item_count"],
        content_type=row["content_type"],
        receipt=row["receipt"],
        reason=row["reason"],
        changed_at=utc(row["changed_at"]),
    )


def _work_of(row: Row) -> ShipmentWork:
    if row["body"] is None:
        raise TaskConflict(row["task"], "its bytes have been removed, as they were too old")
    info = shipment_of(row)
    return ShipmentWork(info=info, body=bytes(row["body"]), may_be_there=info.state is not ShipmentState.PENDING)
