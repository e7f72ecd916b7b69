# SPDX-License-Identifier: MIT
"""Reads failures from a queue in the same database without locking their messages, in SQL.

To lock a message writes all of it anew, and to complete it afterwards is a second change. Here, messages are looked at,
and are taken out in the transaction that records their failures, if they are still as they were. So there is no moment
at which a failure is in both places or in neither, and of two processes that looked at the same message one is refused.

What a lock does beside that is to count deliveries: it tells which messages were being read when a process died. A note
does that here, which is there while a process reads: it stays when the process dies, and a process that finds it locks.
"""

from collections.abc import Sequence

from redrive.broker import tallies
from redrive.broker.port import State
from redrive.engines.sql.history.tallies import add
from redrive.engines.sql.recovery.failure_records import AnyArrival, record
from redrive.engines.sql.script import Script, Sql, now
from redrive.engines.sql.transition_sql import among
from redrive.errors import LockLost
from redrive.recovery.port import Recorded

_TAKE = (
    "DELETE FROM @.messages WHERE sequence IN @ints AND +queue = (SELECT id FROM @.queues WHERE name = ?)"
    f" AND {among('+state', [State.READY])} AND delivery_count = 0 AND (expires IS NULL OR +expires > ?)"
    " RETURNING sequence"
)
"""The plus signs keep SQLite to the messages' numbers, of which there are few."""


def record_unlocked(arrivals: Sequence[AnyArrival], *, queue: str, sequences: Sequence[int]) -> Script[list[Recorded]]:
    """Record failures, and take their messages out of their queue, if these are as they were when they were seen."""
    recorded = yield from record(arrivals)
    time = yield from now()
    taken = yield Sql(_TAKE, [list(sequences), queue, time])
    if len(taken) != len(sequences):
        there = {sequence for (sequence,) in taken}
        raise LockLost(queue, next(each for each in sequences if each not in there))
    many = len(taken)
    yield from add({(tallies.QUEUE, queue, tallies.DELIVERED): many, (tallies.QUEUE, queue, tallies.COMPLETED): many})
    return recorded


def begin_reading(queue: str) -> Script[bool]:
    """Note that a process reads a queue without locks; False if that is noted already."""
    time = yield from now()
    noted = yield Sql(
        "INSERT INTO @.leases (name, session, token, until) VALUES (?, '', 1, ?) ON CONFLICT (name) DO NOTHING"
        " RETURNING token",
        [_note_of(queue), time],
    )
    return bool(noted)


def end_reading(queue: str) -> Script[None]:
    """Remove the note that a process reads a queue without locks."""
    yield Sql("DELETE FROM @.leases WHERE name = ?", [_note_of(queue)])


def _note_of(queue: str) -> str:
    return f"reading {queue}"
