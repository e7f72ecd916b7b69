# SPDX-License-Identifier: MIT
"""Messages from error queues that could not be read, in SQL."""

import json
from collections.abc import Sequence
from typing import NamedTuple

from redrive.broker.port import DeadLetterInfo, Received, State
from redrive.clock import utc
from redrive.engines import stored
from redrive.engines.sql.script import Many, Row, Script, Sql, insert, now
from redrive.recovery.port import SetAside


class _Columns(NamedTuple):
    """A row of ``set_asides``, without its number."""

    queue: str
    sequence: int
    message_id: str
    properties: str | None
    dead_letter: str | None
    body: bytes
    enqueued_at: float
    reason: str
    at: float


_INSERT = f"{insert('set_asides', _Columns._fields)} ON CONFLICT (queue, sequence, enqueued_at) DO NOTHING"


def set_aside(messages: Sequence[SetAside]) -> Script[None]:
    """Keep messages; one that is kept already is not kept twice."""
    time = yield from now()
    yield Many(_INSERT, [_columns_of(each, time) for each in messages])


def _columns_of(aside: SetAside, time: float) -> _Columns:
    received = aside.received
    dead = received.dead_letter_info
    return _Columns(
        queue=received.queue,
        sequence=received.sequence,
        message_id=received.id,
        properties=stored.properties_of(received.message),
        dead_letter=None if dead is None else stored.dead_letter_json(dead.reason, dead.description, dead.source),
        body=received.body,
        enqueued_at=received.enqueued_at.timestamp(),
        reason=aside.reason,
        at=time,
    )


def aside(*, after: int = 0, limit: int = 100) -> Script[list[SetAside]]:
    """Return messages that could not be read."""
    rows = yield Sql(
        f"SELECT number, {', '.join(_Columns._fields)} FROM @.set_asides WHERE number > ? ORDER BY number LIMIT ?",
        [after, limit],
    )
    return [_aside_of(row) for row in rows]


def _aside_of(row: Row) -> SetAside:
    dead = row["dead_letter"]
    received = Received(
        stored.message_of(row["message_id"], row["properties"], row["body"]),
        row["queue"],
        row["sequence"],
        State.READY,
        utc(row["enqueued_at"]),
        1,
        dead_letter_info=None if dead is None else DeadLetterInfo(*json.loads(dead)),
    )
    return SetAside(number=row["number"], received=received, reason=row["reason"], at=utc(row["at"]))


def drop_aside(number: int) -> Script[None]:
    """Forget a message that was set aside."""
    yield Sql("DELETE FROM @.set_asides WHERE number = ?", [number])
