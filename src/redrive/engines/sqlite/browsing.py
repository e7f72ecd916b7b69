# SPDX-License-Identifier: MIT
"""Looks at queues and messages without touching them, in SQL."""

import sqlite3
from collections.abc import Sequence

from redrive.broker import rules
from redrive.broker.port import QueueInfo, QueueSettings, State, TopicInfo
from redrive.clock import utc
from redrive.engines.sqlite import rows
from redrive.engines.stored import Row, topics_of
from redrive.errors import NotAQueue


def peek(
    reader: sqlite3.Connection, queue: str, limit: int, place: tuple[int, Sequence[State]], max_bytes: int | None
) -> list[Row] | None:
    """Return rows of messages in order of their numbers; None if there is no such queue.

    Args:
        reader: where to look.
        queue: the queue.
        limit: how many at most.
        place: the number to begin with, and the states they may have.
        max_bytes: into how many bytes they have to fit, but for the first; None: into any.
    """
    found_in = queue_id(reader, queue)
    if found_in is None:
        return None
    if is_topic := topics(reader, queue):
        raise NotAQueue(queue, tuple(each.queue for each in is_topic[0].subscriptions))
    start, states = place
    found: list[Row] = []
    for state in states:  # the index is in order within a state
        where = "m.queue = ? AND m.state = ? AND m.sequence >= ? ORDER BY m.sequence LIMIT ?"
        text = f"SELECT {rows.COLUMNS} FROM redrive_messages m WHERE {where}"
        found += rows.fitting(reader.execute(text, (found_in, state, start, limit)), max_bytes)
    if len(states) > 1:
        found.sort(key=lambda row: row[0])
        found = rows.fitting(found[:limit], max_bytes)
    return found


def queue_id(reader: sqlite3.Connection, name: str) -> int | None:
    """Return the number of a queue; None if there is none."""
    found = reader.execute("SELECT id FROM redrive_queues WHERE name = ?", (name,)).fetchone()
    return None if found is None else found[0]


def inspect(reader: sqlite3.Connection, name: str | None) -> list[QueueInfo]:
    """Describe one queue, or all."""
    # by their names, of which there is an index: a store may have thousands of queues
    where, values = ("q.source IS NULL ORDER BY q.name", ()) if name is None else ("q.name = ?", (name,))
    found = reader.execute(
        "SELECT q.id, q.name, q.settings, q.created_at, q.used_at, q.topic IS NOT NULL, d.id"
        f" FROM redrive_queues q LEFT JOIN redrive_queues d ON d.name = q.name || '{rules.DEAD_LETTER_SUFFIX}'"
        f" WHERE {where}",
        values,
    ).fetchall()
    return [_info(reader, row) for row in found]


def topics(reader: sqlite3.Connection, name: str | None) -> list[TopicInfo]:
    """Describe one topic, or all."""
    found = reader.execute(
        "SELECT t.name, t.topic, t.unmatched, t.created_at, s.name, s.rule FROM redrive_queues t"
        " LEFT JOIN redrive_queues s ON s.subscribes = t.id"
        " WHERE t.topic IS NOT NULL AND (?1 IS NULL OR t.name = ?1) ORDER BY t.name, s.name",
        (name,),
    ).fetchall()
    return topics_of(found)


def _info(reader: sqlite3.Connection, row: Row) -> QueueInfo:
    queue_id, name, settings, created_at, used_at, is_topic, dead_id = row
    counted = reader.execute(
        "SELECT state, count(*), max(sequence) FROM redrive_messages WHERE queue = ? GROUP BY state", (queue_id,)
    ).fetchall()
    counts = {state: count for state, count, _ in counted}
    dead = reader.execute("SELECT count(*) FROM redrive_messages WHERE queue = ?", (dead_id,)).fetchone()[0]
    oldest = reader.execute(
        "SELECT enqueued_at FROM redrive_messages WHERE queue = ? AND state = 0 ORDER BY sequence LIMIT 1", (queue_id,)
    ).fetchone()
    return QueueInfo(
        name=name,
        settings=QueueSettings.from_json(settings),
        ready=counts.get(State.READY, 0),
        scheduled=counts.get(State.SCHEDULED, 0),
        locked=counts.get(State.LOCKED, 0) + counts.get(State.DEFERRED_LOCKED, 0),
        deferred=counts.get(State.DEFERRED, 0),
        dead=dead,
        last_sequence=max((last for _, _, last in counted), default=0),
        oldest_at=utc(oldest[0]) if oldest else None,
        created_at=utc(created_at),
        used_at=utc(used_at),
        is_topic=bool(is_topic),
    )
