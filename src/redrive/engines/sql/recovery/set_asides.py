# SPDX-License-Identifier: MIT
"""Messages from error queues that could not be read, in SQL."""

import json
from collections.abc import Sequence

from redrive.broker.lifecycle import State
from redrive.broker.message import DeadLetterInfo, Received
from redrive.clock import utc
from redrive.engines import stored
from redrive.engines.sql.script import Many, Row, Script, Sql
from redrive.recovery.arrivals import SetAside


def set_aside(now: float, messages: Sequence[SetAside]) -> Script[None]:
    """Keep messages; one that is there already is not kept twice."""
    yield Many(
        "INSERT INTO @.set_asides (queue, sequence, message_id, properties, dead_letter, body, enqueued_at, reason, at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (queue, sequence, enqueued_at) DO NOTHING",
        [_row_of(each, now) for each in messages],
    )


def _row_of(aside_: SetAside, now: float) -> tuple[object, ...]:
    received = aside_.received
    dead = received.dead_letter_info
    return (
        received.queue,
        received.sequence,
        received.id,
        stored.properties_of(received.message),
        None if dead is None else stored.dead_letter_json(dead.reason, dead.description, dead.source),
        received.body,
        received.enqueued_at.timestamp(),
        aside_.reason,
        now,
    )


def aside(_now: float, *, after: int = 0, limit: int = 100) -> Script[list[SetAside]]:
    """Return messages that could not be read."""
    rows = yield Sql(
        "SELECT number, queue, sequence, message_id, properties, dead_letter, body, enqueued_at, reason, at"
        " FROM @.set_asides WHERE number > ? ORDER BY number LIMIT ?",
        [after, limit],
    )
    return [_aside_of(row) for row in rows]


def _aside_of(row: Row) -> SetAside:
    received = Received(
        stored.message_of(row[3], row[4], row[6]),
        row[1],
        row[2],
        State.READY,
        utc(row[7]),
        1,
        dead_letter_info=None if row[5] is None else DeadLetterInfo(*json.loads(row[5])),
    )
    return SetAside(number=row[0], received=received, reason=row[8], at=utc(row[9]))


def drop_aside(_now: float, number: int) -> Script[None]:
    """Forget a message that was set aside."""
    yield Sql("DELETE FROM @.set_asides WHERE number = ?", [number])
