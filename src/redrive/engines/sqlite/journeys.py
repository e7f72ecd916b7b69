# SPDX-License-Identifier: MIT
"""Notes of the journeys of messages, in SQLite: each in the transaction of what it notes."""

import sqlite3
from collections.abc import Iterable, Sequence

from redrive.broker.headers import PARENT
from redrive.engines.journeys import COLUMNS, FAILED, KEPT_S, LOCK_EXPIRED, REDELIVER, Failed, is_followed
from redrive.engines.sqlite.queues import QueueRow

_PLACES = "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_INSERT = f"INSERT INTO redrive_journey_entries ({COLUMNS}) VALUES {_PLACES}"
_FROM_ROW = (
    f"INSERT INTO redrive_journey_entries ({COLUMNS}) SELECT m.id,"
    f" json_extract(m.properties, '$.headers.\"{PARENT}\"'), ?1,"
    " CASE WHEN m.state IN (2, 4) THEN m.due - ?2 END, ?3, ?4, ?5, ?6, m.delivery_count, ?7"
    " FROM redrive_messages m WHERE m.sequence = ?8"
)
_LOCK_ENDED = _FROM_ROW.replace("?1,", "min(m.due, ?1),")


def note(
    connection: sqlite3.Connection,
    queue: QueueRow,
    sequences: Iterable[int],
    event: str,
    now: float,
    *,
    reason: str = "",
    until: float | None = None,
) -> None:
    """Note what is about to happen to messages, while their rows are still as they were."""
    facts = (now, queue.settings.lock_duration, until, REDELIVER, event, queue.name, reason)
    statement = _LOCK_ENDED if event == LOCK_EXPIRED else _FROM_ROW
    connection.executemany(statement, [(*facts, sequence) for sequence in sequences])


def note_followed(
    connection: sqlite3.Connection, queue: QueueRow, sequences: Sequence[int], event: str, now: float
) -> None:
    """Note what happens to messages in a queue that notes all of them, or a sample."""
    read = "SELECT id FROM redrive_messages WHERE sequence = ? AND queue = ?"
    chosen: list[int] = []
    for sequence in sequences:
        row = connection.execute(read, (sequence, queue.id)).fetchone()
        if row is not None and is_followed(row[0], queue.follows):
            chosen.append(sequence)
    note(connection, queue, chosen, event, now)


def note_failed(connection: sqlite3.Connection, failed: Iterable[Failed], now: float) -> None:
    """Note messages that a worker moves to an error queue."""
    rows = [
        (each.message_id, each.parent, now, None, None, REDELIVER, FAILED, each.place, each.attempt, each.reason)
        for each in failed
    ]
    connection.executemany(_INSERT, rows)


def forget_old(connection: sqlite3.Connection, now: float, limit: int) -> None:
    """Remove a bounded number of entries that are too old."""
    connection.execute(
        "DELETE FROM redrive_journey_entries WHERE number IN"
        " (SELECT number FROM redrive_journey_entries WHERE at < ? ORDER BY at LIMIT ?)",
        (now - KEPT_S, limit),
    )
