# SPDX-License-Identifier: MIT
"""What people do with tasks, in SQL: each change has its entry in the history, with who and why."""

import json
from collections.abc import Sequence

from redrive.broker import State, dead_letter_queue
from redrive.engines.sql.pipeline.tasks import move, note
from redrive.engines.sql.script import Many, Row, Script, Sql, now, scalars
from redrive.engines.sql.transition_sql import among, transition
from redrive.errors import TaskConflict
from redrive.pipeline import TaskToken
from redrive.pipeline.records import DEAD_LETTER, NewAction, owns, process_queue, send_queue
from redrive.pipeline.states import (
    ENDED_TASKS,
    SHIPMENTS,
    TASKS,
    ShipmentEvent,
    ShipmentState,
    SlotState,
    TaskEvent,
)

_AGAIN = transition(SHIPMENTS, ShipmentEvent.AGAIN)
_ARRIVE = transition(SHIPMENTS, ShipmentEvent.ARRIVE)
_NEW_COURSE = ", epoch = epoch + 1, retries = 0"


def rerun(token: TaskToken, items: Sequence[int], action: NewAction, *, again: bool) -> Script[None]:
    """Let a task that has ended, or failed, be ready again; its message is sent in the same transaction.

    Args:
        token: the task as it was seen.
        items: the shipments to be sent, if it is a send task; empty: it has none.
        action: who does that, and why.
        again: whether shipments that have arrived are among them: these get another delivery id.
    """
    time = yield from now()
    row = yield from move(token, TaskEvent.RERUN, time, changes=_NEW_COURSE)
    yield Sql(
        "UPDATE @.pipeline_tasks SET retry_items = ?, due_at = ? WHERE id = ?",
        [json.dumps(list(items)), time, token.task],
    )
    if again:
        yield Sql(
            "UPDATE @.pipeline_shipments SET delivery_id = delivery_id || ? WHERE task = ? AND position IN @ints"
            f" AND {among('state', [ShipmentState.SENT])}",
            [f"-{token.epoch + 1}", token.task, list(items)],
        )
    yield Sql(
        f"UPDATE @.pipeline_shipments SET {_AGAIN.to}, changed_at = ? WHERE task = ? AND position IN @ints"
        f" AND {_AGAIN.able}",
        [time, token.task, list(items)],
    )
    yield from _drop_dead_letter(row)
    yield from note(token.task, row["pipeline"], row["destination"], action)


def _drop_dead_letter(task: Row) -> Script[None]:
    """Remove the message of a task that failed from the dead letters, if it is still there: it is out of date."""
    details = yield from scalars(
        Sql(
            "SELECT detail FROM @.pipeline_actions WHERE task = ? AND name IN ('process_error', 'send_error')"
            " ORDER BY number DESC LIMIT 1",
            [task["id"]],
        )
    )
    numbers = [json.loads(detail).get(DEAD_LETTER) for detail in details]
    is_send = task["stage"] == "send"
    queue = send_queue(task["pipeline"], task["destination"]) if is_send else process_queue(task["pipeline"])
    for number in numbers:
        if isinstance(number, int):
            yield Sql(
                f"DELETE FROM @.messages WHERE sequence = ? AND {among('state', [State.READY])}"
                " AND queue = (SELECT id FROM @.queues WHERE name = ?)",
                [number, dead_letter_queue(queue)],
            )


def revive(token: TaskToken, due_at: float, not_after: float | None, action: NewAction) -> Script[None]:
    """Let a task wait for a slot again."""
    time = yield from now()
    row = yield from move(token, TaskEvent.REVIVE, time, changes=_NEW_COURSE)
    yield Sql("UPDATE @.pipeline_tasks SET due_at = ?, not_after = ? WHERE id = ?", [due_at, not_after, token.task])
    yield from note(token.task, row["pipeline"], row["destination"], action)


def cancel(token: TaskToken, action: NewAction) -> Script[None]:
    """Let nothing more be done with a task; a message for it is out of date from now on."""
    time = yield from now()
    row = yield from move(token, TaskEvent.CANCEL, time, action.reason, changes=_NEW_COURSE)
    yield from _drop_dead_letter(row)
    yield from note(token.task, row["pipeline"], row["destination"], action)


def resolve_sent(token: TaskToken, items: Sequence[int], action: NewAction) -> Script[bool]:
    """Note that shipments have arrived, because a person says so; return whether the task is done with that."""
    time = yield from now()
    rows = yield Sql(
        f"UPDATE @.pipeline_shipments SET {_ARRIVE.to}, receipt = 'said by a person', changed_at = ?"
        f" WHERE task = ? AND position IN @ints AND {_ARRIVE.able} RETURNING 1",
        [time, token.task, list(items)],
    )
    if len(rows) != len(items):
        raise TaskConflict(token.task, "it has no such shipments, or they have arrived already")
    left = yield Sql(
        f"SELECT 1 FROM @.pipeline_shipments WHERE task = ? AND NOT ({among('state', [ShipmentState.SENT])}) LIMIT 1",
        [token.task],
    )
    step = transition(TASKS, TaskEvent.RESOLVE_SENT)
    rows = yield Sql(
        "UPDATE @.pipeline_tasks SET changed_at = ?"
        + ("" if left else f", {step.to}, reason = ''")
        + f" WHERE id = ? AND epoch = ? AND {step.able} RETURNING pipeline, destination",
        [time, token.task, token.epoch],
    )
    if not rows:
        raise TaskConflict(token.task, "only what failed, or has an unknown outcome, can be resolved")
    yield from note(token.task, rows[0]["pipeline"], rows[0]["destination"], action)
    return not left


# --- what is old


def prune(ended_before: float, limit: int, pipeline: str | None = None) -> Script[int]:
    """Remove tasks that ended before an instant, with their items, shipments, bodies and history; return how many.

    A task goes after all that has come of it, as that may use its bytes. With them go keys, slots and the history of
    destinations that are as old.

    Args:
        ended_before: the instant.
        limit: how many at most.
        pipeline: only those of this pipeline.
    """
    ours, names = ("", []) if pipeline is None else (" AND pipeline = ?", [pipeline])
    ids = yield from scalars(
        Sql(
            f"SELECT t.id FROM @.pipeline_tasks t WHERE {among('t.state', ENDED_TASKS)} AND t.changed_at <= ?{ours}"
            " AND NOT EXISTS (SELECT 1 FROM @.pipeline_items i WHERE i.parent_task = t.id)"
            " ORDER BY t.changed_at, t.id LIMIT ? @lock",
            [ended_before, *names, limit],
        )
    )
    bodies = yield Sql(
        "SELECT task, body FROM @.pipeline_items WHERE task IN @texts"
        " UNION SELECT task, body FROM @.pipeline_shipments WHERE task IN @texts",
        [ids, ids],
    )
    yield Many("DELETE FROM @.pipeline_bodies WHERE id = ?", [(body,) for task, body in bodies if owns(task, body)])
    yield Sql("DELETE FROM @.pipeline_shipments WHERE task IN @texts", [ids])
    yield Sql("DELETE FROM @.pipeline_items WHERE task IN @texts", [ids])
    yield Sql("DELETE FROM @.pipeline_actions WHERE task IN @texts", [ids])
    yield Sql("DELETE FROM @.pipeline_tasks WHERE id IN @texts", [ids])
    yield Sql(
        f"DELETE FROM @.pipeline_submissions WHERE accepted_at <= ?{ours}"
        " AND NOT EXISTS (SELECT 1 FROM @.pipeline_tasks t WHERE t.id = task)",
        [ended_before, *names],
    )
    yield Sql(f"DELETE FROM @.pipeline_actions WHERE task = '' AND at <= ?{ours}", [ended_before, *names])
    yield Sql(
        f"DELETE FROM @.pipeline_slots WHERE {among('state', [SlotState.SERVED, SlotState.FAILED])} AND at <= ?{ours}",
        [ended_before, *names],
    )
    return len(ids)
