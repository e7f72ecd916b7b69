# SPDX-License-Identifier: MIT
"""Destinations, their slots and what waits for them in SQL.

A process that opens a slot locks the row of its destination first, so any number of processes may decide at once.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from redrive.clock import utc
from redrive.engines.sql.pipeline.tasks import make, note, note_all, when
from redrive.engines.sql.script import Many, Script, Sql, insert, now, plain
from redrive.engines.sql.transition_sql import among, transition
from redrive.errors import DestinationNotFound, TaskConflict
from redrive.pipeline.infos import DestinationInfo, SlotInfo
from redrive.pipeline.ledger import SlotTaken
from redrive.pipeline.records import NewAction, NewTask, SlotKey, TaskItem, WaitingTask
from redrive.pipeline.states import FIRST_SLOT_STATE, SLOTS, TASKS, SlotEvent, SlotState, TaskEvent, TaskState

_WAITING: Final = among("state", [TaskState.WAITING])
_OPEN: Final = among("state", [SlotState.OPEN])


# --- pipelines and destinations


def declare(pipeline: str, definition: str, destinations: Sequence[str]) -> Script[int]:
    """Store a version of a pipeline, if it differs from the last; return its number."""
    time = yield from now()
    rows = yield Sql(
        "SELECT version, definition FROM @.pipeline_versions WHERE pipeline = ? ORDER BY version DESC LIMIT 1 @lock",
        [pipeline],
    )
    version = int(rows[0]["version"]) if rows else 0
    if not rows or rows[0]["definition"] != definition:
        version += 1
        stored = yield Sql(
            "INSERT INTO @.pipeline_versions (pipeline, version, definition, made_at) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (pipeline, version) DO NOTHING RETURNING 1",
            [pipeline, version, plain(definition), time],
        )
        if not stored:  # another process has stored one at the same moment
            return (yield from declare(pipeline, definition, destinations))
    yield Many(
        "INSERT INTO @.pipeline_destinations (pipeline, name, since, is_held, reason, next_at)"
        " VALUES (?, ?, ?, 0, '', 0) ON CONFLICT (pipeline, name) DO NOTHING",
        [(pipeline, name, time) for name in destinations],
    )
    return version


def versions(pipeline: str) -> Script[list[tuple[int, str]]]:
    """Return the versions of a pipeline, the newest first."""
    rows = yield Sql(
        "SELECT version, definition FROM @.pipeline_versions WHERE pipeline = ? ORDER BY version DESC", [pipeline]
    )
    return [(row["version"], row["definition"]) for row in rows]


def pipelines() -> Script[list[tuple[str, int]]]:
    """Return the names of all pipelines, and their last versions."""
    rows = yield Sql("SELECT pipeline, max(version) AS version FROM @.pipeline_versions GROUP BY pipeline")
    return sorted((row["pipeline"], int(row["version"])) for row in rows)


def destinations(pipeline: str, counted: Sequence[str] | None = None) -> Script[list[DestinationInfo]]:
    """Return the destinations of a pipeline, with what waits for them, in order of their names.

    Args:
        pipeline: the pipeline.
        counted: for which of them that is counted; None: for all.
    """
    chosen, names = ("", []) if counted is None else (" AND destination IN @texts", [list(counted)])
    rows = yield Sql(
        "SELECT d.pipeline, d.name, d.since, d.is_held, d.reason, d.last_slot, coalesce(w.many, 0) AS many,"
        " coalesce(w.items, 0) AS items, coalesce(w.bytes, 0) AS bytes, w.oldest,"
        " (SELECT count(*) FROM @.pipeline_slots s WHERE s.pipeline = d.pipeline AND s.destination = d.name"
        f" AND {_OPEN}) AS open_slots FROM @.pipeline_destinations d LEFT JOIN (SELECT destination, count(*) AS many,"
        " sum(item_count) AS items, sum(size) AS bytes, min(created_at) AS oldest FROM @.pipeline_tasks"
        f" WHERE pipeline = ? AND {_WAITING}{chosen} GROUP BY destination) w ON w.destination = d.name"
        " WHERE d.pipeline = ?",
        [pipeline, *names, pipeline],
    )
    found = [
        DestinationInfo(
            pipeline=row["pipeline"],
            name=row["name"],
            since=utc(row["since"]),
            is_held=bool(row["is_held"]),
            reason=row["reason"],
            last_slot=when(row["last_slot"]),
            waiting=int(row["many"]),
            waiting_items=int(row["items"]),
            waiting_size=int(row["bytes"]),
            oldest_at=when(row["oldest"]),
            has_open_slot=bool(row["open_slots"]),
        )
        for row in rows
    ]
    return sorted(found, key=lambda each: each.name)


def hold(pipeline: str, destination: str, action: NewAction, *, is_held: bool) -> Script[None]:
    """Hold a destination, or release it."""
    rows = yield Sql(
        "UPDATE @.pipeline_destinations SET is_held = ?, reason = ? WHERE pipeline = ? AND name = ? RETURNING 1",
        [int(is_held), plain(action.reason) if is_held else "", pipeline, destination],
    )
    if not rows:
        raise DestinationNotFound(pipeline, destination)
    yield from note("", pipeline, destination, action)


# --- slots


def open_slot(slot: SlotKey, closed_by: str) -> Script[None]:
    """Open a slot, once.

    Raises:
        SlotTaken: it, or a later one, was opened before; or another one is open, if this one is not on the timetable.
    """
    time = yield from now()
    rows = yield Sql(
        "SELECT is_held, last_slot FROM @.pipeline_destinations WHERE pipeline = ? AND name = ? @lock", _place(slot)
    )
    if not rows or rows[0]["is_held"]:
        raise SlotTaken(slot.at)
    if closed_by == "time":
        last = rows[0]["last_slot"]
        if last is not None and last >= slot.at:  # the process that opened that has passed this one over
            raise SlotTaken(slot.at)
    else:
        others = yield Sql(
            f"SELECT 1 FROM @.pipeline_slots WHERE pipeline = ? AND destination = ? AND {_OPEN} LIMIT 1", _place(slot)
        )
        if others:
            raise SlotTaken(slot.at)
    columns = ["pipeline", "destination", "at", "state", "closed_by", "tasks", "is_empty", "reason", "changed_at"]
    stored = yield Sql(
        f"{insert('pipeline_slots', columns)} ON CONFLICT (pipeline, destination, at) DO NOTHING RETURNING 1",
        [*_place(slot), slot.at, int(FIRST_SLOT_STATE[SlotEvent.OPEN]), closed_by, 0, 0, "", time],
    )
    if not stored:
        raise SlotTaken(slot.at)
    if closed_by == "time":
        yield from _pass_over(slot)


def open_now(slot: SlotKey, action: NewAction) -> Script[None]:
    """Open a slot that a person wants now, and write down who.

    Raises:
        SlotTaken: another one is open, or the destination is held.
    """
    yield from open_slot(slot, "person")
    yield from note("", slot.pipeline, slot.destination, action)


def _place(slot: SlotKey) -> list[object]:
    return [slot.pipeline, slot.destination]


def _pass_over(slot: SlotKey) -> Script[None]:
    """Note that slots up to this one are not to be opened any more."""
    yield Sql(
        "UPDATE @.pipeline_destinations SET last_slot = ? WHERE pipeline = ? AND name = ?"
        " AND (last_slot IS NULL OR last_slot < ?)",
        [slot.at, *_place(slot), slot.at],
    )


def slots(pipeline: str, destination: str, limit: int) -> Script[list[SlotInfo]]:
    """Return the last slots of a destination, the newest first."""
    rows = yield Sql(
        "SELECT pipeline, destination, at, state, closed_by, tasks, is_empty, reason FROM @.pipeline_slots"
        " WHERE pipeline = ? AND destination = ? ORDER BY at DESC LIMIT ?",
        [pipeline, destination, limit],
    )
    return [
        SlotInfo(
            pipeline=row["pipeline"],
            destination=row["destination"],
            at=utc(row["at"]),
            state=SlotState(row["state"]),
            closed_by=row["closed_by"],
            tasks=row["tasks"],
            is_empty=bool(row["is_empty"]),
            reason=row["reason"],
        )
        for row in rows
    ]


def is_open(slot: SlotKey) -> Script[bool]:
    """Say whether a slot is still to be served."""
    rows = yield Sql(
        f"SELECT 1 FROM @.pipeline_slots WHERE pipeline = ? AND destination = ? AND at = ? AND {_OPEN}",
        [*_place(slot), slot.at],
    )
    return bool(rows)


# --- what waits


def waiting(pipeline: str, destination: str, limit: int) -> Script[list[WaitingTask]]:
    """Return the tasks that wait for a slot and have not expired, the oldest first, with their items."""
    time = yield from now()
    rows = yield Sql(
        f"SELECT id, version FROM @.pipeline_tasks WHERE pipeline = ? AND destination = ? AND {_WAITING}"
        " AND (not_after IS NULL OR not_after > ?) ORDER BY id LIMIT ?",
        [pipeline, destination, time, limit],
    )
    tasks = {task: WaitingTask(task, version, []) for task, version in rows}
    found = yield Sql(
        "SELECT i.task, i.position, i.item, i.body, b.body FROM @.pipeline_items i"
        " JOIN @.pipeline_bodies b ON b.id = i.body WHERE i.task IN @texts ORDER BY i.task, i.position",
        [list(tasks)],
    )
    for task, position, item, body_id, body in found:
        tasks[task].items.append(TaskItem(index=position, id=item, body=body, body_id=body_id))
    return list(tasks.values())


def serve_slot(
    slot: SlotKey,
    members: Sequence[str],
    children: Sequence[NewTask],
    broken: Mapping[str, str],
    *,
    is_empty: bool = False,
) -> Script[None]:
    """Serve a slot: what waited is done, what was made of it is stored; what breaks the merge has failed."""
    time = yield from now()
    yield from _end_slot(slot, SlotEvent.SERVE, time, tasks=len(members), is_empty=is_empty)
    yield from _end_members(members, TaskEvent.FINISH, "", time)
    for task, reason in broken.items():
        yield from _end_members([task], TaskEvent.FAIL, reason, time)
        failed = NewAction(name="batch_error", reason=reason, detail={"slot": slot.at})
        yield from note(task, slot.pipeline, slot.destination, failed)
    yield from make(children)
    made = {item.parent[0]: child.id for child in children for item in child.items if item.parent is not None}
    batches: dict[str | None, list[tuple[str, str, str]]] = {}
    for task in members:
        batches.setdefault(made.get(task), []).append((task, slot.pipeline, slot.destination))
    for child, tasks in batches.items():  # the history of a task has the one that it is in, not those of all others
        done = NewAction(name="batch", detail={"slot": slot.at, "tasks": [] if child is None else [child]})
        yield from note_all(tasks, done)


def _end_members(members: Sequence[str], event: TaskEvent, reason: str, time: float) -> Script[None]:
    if not members:
        return
    step = TASKS[TaskState.WAITING, event]
    rows = yield Sql(
        "UPDATE @.pipeline_tasks SET state = ?, reason = ?, changed_at = ?"
        f" WHERE id IN @texts AND {_WAITING} RETURNING 1",
        [int(step), plain(reason), time, list(members)],
    )
    if len(rows) != len(members):
        raise TaskConflict(members[0], "it or another task of the batch has changed meanwhile; the batch is made again")


def fail_slot(slot: SlotKey, reason: str) -> Script[None]:
    """Note that a slot cannot be served: what waits, waits for the next one."""
    time = yield from now()
    yield from _end_slot(slot, SlotEvent.FAIL, time, reason=reason)
    action = NewAction(name="batch_error", reason=reason, detail={"slot": slot.at})
    yield from note("", slot.pipeline, slot.destination, action)


def _end_slot(
    slot: SlotKey, event: SlotEvent, time: float, *, tasks: int = 0, is_empty: bool = False, reason: str = ""
) -> Script[None]:
    step = transition(SLOTS, event)
    rows = yield Sql(
        f"UPDATE @.pipeline_slots SET {step.to}, tasks = ?, is_empty = ?, reason = ?, changed_at = ?"
        f" WHERE pipeline = ? AND destination = ? AND at = ? AND {step.able} RETURNING 1",
        [tasks, int(is_empty), plain(reason), time, *_place(slot), slot.at],
    )
    if not rows:
        raise SlotTaken(slot.at)


def expire(pipeline: str, limit: int) -> Script[list[str]]:
    """Let tasks expire that have waited for too long; return their ids."""
    time = yield from now()
    rows = yield Sql(
        f"SELECT id, destination FROM @.pipeline_tasks WHERE not_after <= ? AND {_WAITING} AND pipeline = ?"
        " ORDER BY not_after LIMIT ? @lock",
        [time, pipeline, limit],
    )
    reason = "it has waited for longer than the backstop"
    yield from _end_members([row["id"] for row in rows], TaskEvent.EXPIRE, reason, time)
    members = [(row["id"], pipeline, row["destination"]) for row in rows]
    yield from note_all(members, NewAction(name="batch_expired", reason=reason))
    return [row["id"] for row in rows]
