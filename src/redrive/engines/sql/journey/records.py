# SPDX-License-Identifier: MIT
"""What the tables of all layers know of messages, in SQL: one snapshot of all of them."""

import json
from collections.abc import Sequence
from typing import Any, Final

from redrive.broker.headers import FAILED_EXCEPTION_TYPE, FAILED_QUEUE, PARENT
from redrive.broker.lifecycle import State
from redrive.broker.rules import is_dead_letter_queue
from redrive.engines.sql.journey.failures import failures
from redrive.engines.sql.journey.tasks import tasks
from redrive.engines.sql.script import Row, Script, Sql, now, plain, scalars
from redrive.journey.records import Entry, QueuedMessage, Records

_ENTRIES: Final = (
    "SELECT message_id, parent, at, since, until, layer, event, place, attempt, reason FROM @.journey_entries"
)
_MOST_ENTRIES: Final = 10_000
_QUEUED: Final = (
    "SELECT f.id, q.name, f.state, f.enqueued_at, f.due, f.delivery_count, f.properties, f.dead_letter, q.settings"
    " FROM (SELECT m.sequence, m.queue, m.id, m.state, m.enqueued_at, m.due, m.delivery_count, m.properties,"
    " m.dead_letter FROM @.messages m ORDER BY m.sequence DESC LIMIT ?) AS f JOIN @.queues q ON q.id = f.queue"
)


def records(ids: Sequence[str], most_queued: int, *, back: bool = False) -> Script[Records]:
    """Return what is known of messages with these ids, of their children, and of what pipelines made of them."""
    wanted = [plain(each) for each in ids]
    time = yield from now()
    entries = yield from _entries(wanted)
    queued = yield from _queued(wanted, most_queued)
    found = {each.message_id for each in entries if each.layer == "redeliver"} | {each.message_id for each in queued}
    failed = yield from failures(sorted({*wanted, *found}))
    submitted = {(each.parent, each.message_id) for each in entries if each.event == "submitted" and each.parent}
    made, keyed = yield from tasks(wanted, sorted(task for _, task in submitted), back=back)
    topics = yield from scalars(Sql("SELECT name FROM @.queues WHERE topic IS NOT NULL"))
    was_cut = yield from scalars(Sql("SELECT 1 FROM @.messages ORDER BY sequence LIMIT 1 OFFSET ?", [most_queued]))
    return Records(
        entries=tuple(entries),
        queued=tuple(queued),
        failures=tuple(failed),
        tasks=tuple(made),
        submissions=frozenset(submitted | keyed),
        topics=frozenset(topics),
        was_cut=bool(was_cut),
        now=time,
    )


def _entries(ids: Sequence[str]) -> Script[list[Entry]]:
    found: dict[int, Row] = {}
    for column in ("message_id", "parent"):
        rows = yield Sql(
            f"SELECT number, * FROM ({_ENTRIES.replace('SELECT ', 'SELECT number, ', 1)} WHERE {column} IN @texts) AS e"
            " ORDER BY number LIMIT ?",
            [list(ids), _MOST_ENTRIES],
        )
        found |= {row["number"]: row for row in rows}
    return [_entry(found[number]) for number in sorted(found)]


def _entry(row: Row) -> Entry:
    return Entry(
        message_id=row["message_id"],
        parent=row["parent"],
        at=row["at"],
        since=row["since"],
        until=row["until"],
        layer=row["layer"],
        event=row["event"],
        place=row["place"],
        attempt=row["attempt"],
        reason=row["reason"],
    )


def _queued(ids: Sequence[str], most: int) -> Script[list[QueuedMessage]]:
    named = " OR ".join("@contains(f.properties)" for _ in ids)
    marks = [f'"{PARENT}":{json.dumps(each, ensure_ascii=False)}' for each in ids]
    rows = yield Sql(f"{_QUEUED} WHERE f.id IN @texts OR {named} ORDER BY f.sequence", [most, list(ids), *marks])
    return [_message(row) for row in rows]


def _message(row: Row) -> QueuedMessage:
    headers: dict[str, Any] = json.loads(row["properties"]).get("headers", {}) if row["properties"] else {}
    why: dict[str, Any] = json.loads(row["dead_letter"]) if row["dead_letter"] else {}
    settings = row["settings"] if isinstance(row["settings"], dict) else json.loads(row["settings"])
    state, due = State(row["state"]), row["due"]
    is_locked = state in (State.LOCKED, State.DEFERRED_LOCKED) and due is not None
    failed_queue, parent = headers.get(FAILED_QUEUE), headers.get(PARENT)
    return QueuedMessage(
        message_id=row["id"],
        parent=parent if isinstance(parent, str) else None,
        queue=row["name"],
        state=state.name.lower().replace("_", "-"),
        enqueued_at=row["enqueued_at"],
        due_at=due,
        locked_since=due - settings["lock_duration"] if is_locked else None,
        delivery_count=row["delivery_count"],
        is_dead=is_dead_letter_queue(row["name"]),
        failed_queue=failed_queue if isinstance(failed_queue, str) else None,
        reason=str(why.get("reason") or headers.get(FAILED_EXCEPTION_TYPE) or ""),
    )
