# SPDX-License-Identifier: MIT
"""The operations on messages, in SQL. Every method runs inside a transaction that the engine begins and commits."""

import math
import secrets
import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any

from redrive.broker import rules, tallies
from redrive.broker.port import (
    Abandon,
    Cancel,
    DeadLetter,
    Defer,
    Headers,
    Lock,
    QueueSettings,
    Received,
    Send,
    SessionLock,
    SetSessionState,
    State,
)
from redrive.clock import utc
from redrive.engines import stored
from redrive.engines.journeys import (
    ABANDONED,
    COMPLETED,
    DEAD_LETTERED,
    DEFERRED,
    EXPIRED,
    LOCK_EXPIRED,
    SENT,
    failed_among,
)
from redrive.engines.sql.script import plain
from redrive.engines.sqlite import journeys, rows
from redrive.engines.sqlite.outgoing_messages import OutgoingMessages
from redrive.engines.sqlite.queues import QueueRow, Queues
from redrive.errors import (
    LockLost,
    MessageNotFound,
    SessionLost,
    SessionRequired,
)

_AT_ONCE = 1_000
"""How many ended locks, due messages and expired messages one receive sees to; the rest is for upkeep."""

_PAGES_TO_CLEAR = 10
"""How often a receive asks anew because what it found first was expired or had had its deliveries."""

_WORTH_A_RANGE = 4
"""From how many rows on one statement over a range is cheaper than one for each."""

_READ = f"SELECT {rows.COLUMNS} FROM redrive_messages m "
_NEXT = _READ + "WHERE m.queue = ? AND m.state = 0 ORDER BY m.sequence LIMIT ?"
_LOCK = "UPDATE redrive_messages SET state = 2, due = ?, token = ?, delivery_count = delivery_count + 1 WHERE "
_DUE_COLUMNS = "sequence, queue, state, delivery_count"


class Store:
    """The messages of one database.

    Attributes:
        connection: where they are.
        queues: the queues they are in.
        woken: the names of queues in which something has become ready since the transaction began.
        counted: what the transaction has done so far, for the history.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.queues = Queues()
        self.woken: set[str] = set()
        self.counted: dict[tallies.Key, int] = {}
        self._tokens = count(secrets.randbits(62))  # no other process has begun anywhere near
        self._data_version = -1
        self._last_sequence = 0
        self._last_now = math.inf  # so that the first transaction looks for locks from before the clock was set back
        self._has_shortened = False

    def begin(self, now: float) -> None:
        """Read, at the start of a transaction, what is kept in memory, if another connection has changed it."""
        self.woken.clear()
        self.counted = {}
        self.queues.is_changed = False
        (data_version,) = self.connection.execute("PRAGMA data_version").fetchone()
        if data_version != self._data_version:
            last = self.connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'redrive_messages'").fetchone()
            self._last_sequence = last[0] if last else 0
            self.queues.refresh(self.connection)
            self._data_version = data_version
        self._has_shortened = now < self._last_now
        if self._has_shortened:
            self._shorten_locks(now)
        self._last_now = now

    def forget(self) -> None:
        """Learn everything anew next time: a transaction was undone."""
        self._data_version = -1
        self.queues.forget()
        self.counted = {}
        if self._has_shortened:
            self._last_now = math.inf

    def _count(self, queue: str, metric: str, n: int) -> None:
        key = tallies.QUEUE, queue, metric
        self.counted[key] = self.counted.get(key, 0) + n

    # --- sending

    def send(self, sends: Sequence[Send], texts: Sequence[str | None], now: float) -> list[int | None]:
        """Store messages; return their sequence numbers, None for each duplicate.

        Args:
            sends: what to send.
            texts: the properties of each message, as ``stored.properties_of`` makes them.
            now: the time.
        """
        outgoing = OutgoingMessages(self.connection, self._last_sequence, now)
        outcomes = [
            outgoing.add(self.queues.get(effect.queue), effect, properties)
            for effect, properties in zip(sends, texts, strict=True)
        ]
        first, self._last_sequence = self._last_sequence + 1, outgoing.sequence
        outgoing.store()
        self.woken |= outgoing.woken
        for queue in outgoing.used.values():
            self._touch(queue, now)
            if queue.follows:
                journeys.note_followed(self.connection, queue, range(first, outgoing.sequence + 1), SENT, now)
        for number, sent in outgoing.sent_to().items():
            to = self.queues.by_id(number)
            if to.dead_id == number:  # no subscription gets it
                self._count(rules.source_queue(to.name), tallies.DEAD, sent)
            else:
                self._count(to.name, tallies.SENT, sent)
        if failed := failed_among(sends):
            known = [each for each in failed if self.queues.has(each.place) and self.queues.get(each.place).notes]
            journeys.note_failed(self.connection, known, now)
        return outcomes

    def cancel(self, effect: Cancel, now: float) -> None:
        """Remove a scheduled message; one whose time has come is not scheduled any more."""
        queue, sequence = self.queues.get(effect.queue), stored.storable(effect.sequence)
        where = "sequence = ?1 AND queue = ?2"
        if queue.topic is not None:  # what was sent together has the number of the first
            subscriptions = "SELECT id FROM redrive_queues WHERE subscribes = ?2"
            where = f"(sequence = ?1 OR content = ?1) AND queue IN ({subscriptions})"
        delete = f"DELETE FROM redrive_messages WHERE {where} AND state = 1 AND due > ?3"
        if self.connection.execute(delete, (sequence, queue.id, now)).rowcount == 0:
            raise MessageNotFound(effect.queue, effect.sequence, "scheduled")

    # --- settling

    def complete(self, locks: Sequence[Lock], now: float) -> bool:
        """Remove locked messages; False if not all of those locks were good."""
        keys: list[tuple[Any, ...]] = [
            (lock.sequence, lock.token, self.queues.get(lock.queue).id, now) for lock in locks
        ]
        if self.queues.is_following:
            self._note_completed(locks, now)
        delete = "DELETE FROM redrive_messages WHERE sequence = ? AND token = ? AND queue = ? AND due > ?"
        try:
            deleted = self.connection.executemany(delete, keys).rowcount
        except (OverflowError, sqlite3.Error):
            if any(stored.storable(one) != one for key in keys for one in key[:2]):
                return False  # a token or a number that no lock of ours has
            raise
        for queue, done in Counter([lock.queue for lock in locks]).items():
            self._count(queue, tallies.COMPLETED, done)
        return deleted == len(keys)

    def _note_completed(self, locks: Sequence[Lock], now: float) -> None:
        for name in {lock.queue for lock in locks}:
            if (queue := self.queues.get(name)).follows:
                followed = [stored.storable(lock.sequence) for lock in locks if lock.queue == name]
                journeys.note_followed(self.connection, queue, followed, COMPLETED, now)

    def abandon(self, effect: Abandon, now: float) -> None:
        """Give a locked message back."""
        queue, state, count, properties = self._held(effect.lock, now)
        if queue.notes and not effect.uncount:
            until = now + effect.delay if effect.delay > 0 else None
            sequences = [effect.lock.sequence]
            journeys.note(self.connection, queue, sequences, ABANDONED, now, reason=effect.reason, until=until)
        if effect.headers:
            self._change_headers(effect.lock, properties, effect.headers)
        count = 0 if effect.reset_count else count - effect.uncount
        if rules.has_had_its_deliveries(count, queue.settings.max_delivery_count):
            self._bury_over_delivered(queue, [effect.lock.sequence])
            return
        is_deferred = state == State.DEFERRED_LOCKED
        after = State.SCHEDULED if effect.delay > 0 else State.DEFERRED if is_deferred else State.READY
        self.connection.execute(
            "UPDATE redrive_messages SET state = ?, due = ?, token = NULL, delivery_count = ? WHERE sequence = ?",
            (after, now + effect.delay if effect.delay > 0 else None, count, effect.lock.sequence),
        )
        self._count(queue.name, tallies.ABANDONED, 1)
        if after == State.READY:
            self.woken.add(queue.name)

    def defer(self, effect: Defer, now: float) -> None:
        """Set a locked message aside."""
        queue, _, _, properties = self._held(effect.lock, now)
        if queue.follows:
            journeys.note_followed(self.connection, queue, [effect.lock.sequence], DEFERRED, now)
        if effect.headers:
            self._change_headers(effect.lock, properties, effect.headers)
        self.connection.execute(
            "UPDATE redrive_messages SET state = 3, due = NULL, token = NULL WHERE sequence = ?",
            (effect.lock.sequence,),
        )

    def dead_letter(self, effect: DeadLetter, now: float) -> None:
        """Move a locked message to the dead-letter queue."""
        queue, _, _, properties = self._held(effect.lock, now)
        if effect.headers:
            self._change_headers(effect.lock, properties, effect.headers)
        self._bury(queue, [effect.lock.sequence], effect.reason, effect.description)

    def _change_headers(self, lock: Lock, properties: str | None, changes: Headers) -> None:
        changed = stored.with_headers(properties, changes)
        self.connection.execute(
            "UPDATE redrive_messages SET properties = ? WHERE sequence = ?", (changed, lock.sequence)
        )

    def _held(self, lock: Lock, now: float) -> tuple[QueueRow, int, int, str | None]:
        """Return the state, the delivery count and the properties of a message, if the lock on it is good."""
        queue = self.queues.get(lock.queue)
        found = self.connection.execute(
            "SELECT state, delivery_count, properties FROM redrive_messages"
            " WHERE sequence = ? AND token = ? AND queue = ? AND due > ?",
            (stored.storable(lock.sequence), stored.storable(lock.token), queue.id, now),
        ).fetchone()
        if found is None:
            raise LockLost(lock.queue, lock.sequence)
        return queue, *found

    def _bury(self, queue: QueueRow, sequences: Sequence[int], reason: str, description: str) -> None:
        """Make messages dead letters. They keep their numbers, stay for ever, and are counted anew."""
        if sequences:
            self._count(queue.name, tallies.DEAD, len(sequences))
        if queue.notes:
            said = f"{reason}: {description}" if description else reason
            journeys.note(self.connection, queue, sequences, DEAD_LETTERED, self._last_now, reason=plain(said[:500]))
        why = stored.dead_letter_json(reason, description, rules.source_queue(queue.name))
        self.connection.executemany(
            "UPDATE redrive_messages SET queue = ?, state = 0, due = NULL, token = NULL, delivery_count = 0,"
            " expires = NULL, session = NULL, dead_letter = ? WHERE sequence = ?",
            [(queue.dead_id, why, sequence) for sequence in sequences],
        )
        self.woken.add(rules.dead_letter_queue(queue.name))

    def _bury_over_delivered(self, queue: QueueRow, sequences: Sequence[int]) -> None:
        text = rules.over_delivered_text(queue.settings.max_delivery_count)
        self._bury(queue, sequences, rules.MAX_DELIVERY_COUNT_EXCEEDED, text)

    def _drop(self, sequences: Sequence[int]) -> None:
        self.connection.executemany(
            "DELETE FROM redrive_messages WHERE sequence = ?", [(sequence,) for sequence in sequences]
        )

    # --- receiving

    def lock(self, queue: QueueRow, limit: int, now: float, session: SessionLock | None = None) -> list[Received]:
        """Lock the next messages that are ready."""
        found = self._next_live(queue, limit, now, session)
        if not found:
            return []
        until = now + queue.settings.lock_duration if session is None else self._session_until(queue, session)
        token = next(self._tokens)
        self._count_delivered(queue, found)
        self._mark_locked(queue, found, (until, token), now, session)
        return rows.locked(found, queue.name, State.LOCKED, token, until)

    def _count_delivered(self, queue: QueueRow, found: Sequence[stored.Row]) -> None:
        self._count(queue.name, tallies.DELIVERED, len(found))
        if again := sum([row[rows.DELIVERY_COUNT] > 0 for row in found]):
            self._count(queue.name, tallies.REDELIVERED, again)

    def fitting(self, queue: QueueRow, limit: int, max_bytes: int) -> int:
        """Return how many of the next messages fit into some bytes; one at least."""
        sizes = self.connection.execute(
            f"SELECT length({rows.BODY})"
            " + coalesce(length(m.properties), 0) FROM redrive_messages m WHERE m.queue = ? AND m.state = 0"
            " ORDER BY m.sequence LIMIT ?",
            (queue.id, limit),
        ).fetchall()
        return stored.fitting([size for (size,) in sizes], limit, max_bytes)

    def _mark_locked(
        self,
        queue: QueueRow,
        found: Sequence[stored.Row],
        lock: tuple[float, int],  # until when, and its token
        now: float,
        session: SessionLock | None,
    ) -> None:
        if len(found) < _WORTH_A_RANGE:
            self.connection.executemany(_LOCK + "sequence = ?", [(*lock, row[0]) for row in found])
            return
        # they are the first that may be delivered, so one statement finds them all in one place of the index
        where = (
            "queue = ? AND state = 0 AND sequence BETWEEN ? AND ?"
            " AND (expires IS NULL OR expires > ?) AND delivery_count < ?"
        )
        keys = [*lock, queue.id, found[0][0], found[-1][0], now, queue.settings.max_delivery_count]
        if session is not None:
            where += " AND session = ?"
            keys.append(session.session_id)
        self.connection.execute(_LOCK + where, keys)

    def take(self, queue: QueueRow, limit: int, now: float, session: SessionLock | None = None) -> list[Received]:
        """Take the next messages that are ready out of the queue for good."""
        found = self._next_live(queue, limit, now, session)
        self._drop([row[0] for row in found])
        if found:
            self._count_delivered(queue, found)
            self._count(queue.name, tallies.COMPLETED, len(found))
        return rows.taken(found, queue.name)

    def _next_live(self, queue: QueueRow, limit: int, now: float, session: SessionLock | None) -> list[stored.Row]:
        """Return the next rows that may be delivered; those that may not are put where they belong on the way."""
        if queue.settings.requires_session and session is None:
            raise SessionRequired(queue.name, "accept a session and receive from it")
        self._touch(queue, now)
        maximum = queue.settings.max_delivery_count
        for _ in range(_PAGES_TO_CLEAR):
            found = self._next_ready(queue, limit, session)
            over = [row for row in found if row[rows.DELIVERY_COUNT] >= maximum or _is_expired(row, now)]
            if not over:
                return found
            expired = [row[0] for row in over if _is_expired(row, now)]
            self._expire(queue, expired)
            self._bury_over_delivered(queue, [row[0] for row in over if row[0] not in expired])
        self.expire_due(now, _AT_ONCE)  # there are many: upkeep will see to the rest
        return self._next_ready(queue, limit, session, live_at=now)

    def _next_ready(
        self, queue: QueueRow, limit: int, session: SessionLock | None, live_at: float | None = None
    ) -> list[stored.Row]:
        """Return the next rows that are ready; with ``live_at`` only those that may be delivered."""
        if session is None and live_at is None:
            return self.connection.execute(_NEXT, (queue.id, limit)).fetchall()
        where = "m.queue = ? AND m.state = 0"
        keys: list[object] = [queue.id]
        if session is not None:
            where = "m.queue = ? AND m.session = ? AND m.state = 0"
            keys.append(session.session_id)
        if live_at is not None:
            where += " AND (m.expires IS NULL OR m.expires > ?) AND m.delivery_count < ?"
            keys += [live_at, queue.settings.max_delivery_count]
        return self.connection.execute(f"{_READ} WHERE {where} ORDER BY m.sequence LIMIT ?", [*keys, limit]).fetchall()

    def lock_numbered(
        self, queue: QueueRow, sequences: Sequence[int], now: float, *, deferred: bool
    ) -> list[Received] | MessageNotFound:
        """Lock messages that are deferred, or ready, by their numbers; say which is not to be had, if one is not."""
        if queue.settings.requires_session and not deferred:
            raise SessionRequired(queue.name, "accept a session and receive from it")
        waiting, locked = (State.DEFERRED, State.DEFERRED_LOCKED) if deferred else (State.READY, State.LOCKED)
        found: dict[int, stored.Row] = {}
        spent: list[int] = []
        missing: int | None = None
        for sequence in sequences:
            row = None if sequence in found else self._numbered(queue, sequence, now, waiting, locked)
            if row is not None and rules.has_had_its_deliveries(
                row[rows.DELIVERY_COUNT], queue.settings.max_delivery_count
            ):
                spent.append(sequence)
                row = None
            if row is None:
                missing = sequence if missing is None else missing
            else:
                found[sequence] = row
        if missing is not None:
            self._bury_over_delivered(queue, spent)
            return MessageNotFound(queue.name, missing, waiting.name.lower())
        return self._locked_numbered(queue, list(found.values()), now, locked)

    def _numbered(self, queue: QueueRow, sequence: int, now: float, waiting: State, locked: State) -> stored.Row | None:
        """Return a message that may be delivered; one whose lock has just ended waits again."""
        key = (stored.storable(sequence), queue.id, now)
        lapsed = (
            f"SELECT {_DUE_COLUMNS} FROM redrive_messages WHERE sequence = ? AND queue = ? AND due <= ?"
            f" AND state = {int(locked)}"
        )
        self._release(self.connection.execute(lapsed, key).fetchall())
        where = "WHERE m.sequence = ? AND m.queue = ? AND (m.expires IS NULL OR m.expires > ?)"
        where += f" AND m.state = {int(waiting)}"
        row: stored.Row | None = self.connection.execute(f"{_READ} {where}", key).fetchone()
        return row

    def _locked_numbered(
        self, queue: QueueRow, found: Sequence[stored.Row], now: float, locked: State
    ) -> list[Received]:
        until, token = now + queue.settings.lock_duration, next(self._tokens)
        self.connection.executemany(
            "UPDATE redrive_messages SET state = ?, due = ?, token = ?, delivery_count = delivery_count + 1"
            " WHERE sequence = ?",
            [(int(locked), until, token, row[0]) for row in found],
        )
        self._count_delivered(queue, found)
        self._touch(queue, now)
        return rows.locked(found, queue.name, locked, token, until)

    def renew(self, lock: Lock, now: float) -> float | None:
        """Lengthen a lock; return when it ends now, None if it had ended already."""
        queue = self.queues.get(lock.queue)
        until = now + queue.settings.lock_duration
        renewed = self.connection.execute(
            "UPDATE redrive_messages SET due = ? WHERE sequence = ? AND token = ? AND queue = ? AND due > ?",
            (until, stored.storable(lock.sequence), stored.storable(lock.token), queue.id, now),
        ).rowcount
        self._touch(queue, now)
        return until if renewed else None

    def unlock(self, locks: Sequence[Lock]) -> None:
        """Give back messages that no caller has seen: their caller was cancelled. They were not delivered."""
        self.connection.executemany(
            "UPDATE redrive_messages SET state = CASE state WHEN 4 THEN 3 ELSE 0 END, due = NULL, token = NULL,"
            " delivery_count = delivery_count - 1 WHERE sequence = ? AND token = ?",
            [(lock.sequence, stored.storable(lock.token)) for lock in locks],
        )
        self.woken.update(lock.queue for lock in locks)

    # --- sessions

    def lock_session(self, queue: QueueRow, session_id: str | None, now: float) -> SessionLock | None:
        """Lock a session, or the one whose first message has waited longest."""
        if not queue.settings.requires_session:
            raise SessionRequired(queue.name, "it does not; declare it with requires_session=True")
        chosen = session_id if session_id is not None else self._free_session(queue, now)
        if chosen is None:
            return None
        until, token = now + queue.settings.lock_duration, next(self._tokens)
        locked = self.connection.execute(
            "INSERT INTO redrive_sessions (queue, session, token, locked_until) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (queue, session) DO UPDATE SET token = excluded.token, locked_until = excluded.locked_until"
            " WHERE redrive_sessions.token IS NULL OR redrive_sessions.locked_until <= ? RETURNING state",
            (queue.id, chosen, token, until, now),
        ).fetchone()
        self._touch(queue, now)
        if locked is None:
            return None
        self._unlock_session(queue, chosen)  # what its last holder received and did not settle in time
        return SessionLock(queue.name, chosen, token, utc(until), locked[0])

    def _unlock_session(self, queue: QueueRow, session_id: str) -> None:
        self.connection.execute(
            "UPDATE redrive_messages SET state = 0, due = NULL, token = NULL"
            " WHERE queue = ? AND session = ? AND state = 2",
            (queue.id, session_id),
        )

    def _free_session(self, queue: QueueRow, now: float) -> str | None:
        found = self.connection.execute(
            "SELECT m.session FROM redrive_messages m"
            " LEFT JOIN redrive_sessions s ON s.queue = m.queue AND s.session = m.session"
            " WHERE m.queue = ? AND m.session IS NOT NULL AND m.state = 0"
            " AND (m.expires IS NULL OR m.expires > ?) AND (s.token IS NULL OR s.locked_until <= ?)"
            " ORDER BY m.sequence LIMIT 1",
            (queue.id, now, now),
        ).fetchone()
        return found[0] if found else None

    def _session_until(self, queue: QueueRow, session: SessionLock) -> float:
        """Return when a session's lock ends: no message received through it is held for longer."""
        read = "SELECT locked_until FROM redrive_sessions WHERE queue = ? AND session = ?"
        until: float = self.connection.execute(read, (queue.id, session.session_id)).fetchone()[0]
        return until

    def check_session(self, session: SessionLock, now: float) -> QueueRow:
        """Return the session's queue, if the lock on it is good."""
        queue = self.queues.get(session.queue)
        held = self.connection.execute(
            "SELECT 1 FROM redrive_sessions WHERE queue = ? AND session = ? AND token = ? AND locked_until > ?",
            (queue.id, session.session_id, stored.storable(session.token), now),
        ).fetchone()
        if held is None:
            raise SessionLost(session.queue, session.session_id)
        return queue

    def renew_session(self, session: SessionLock, now: float) -> float:
        """Lengthen a session's lock and those of the messages received through it."""
        queue = self.check_session(session, now)
        until = now + queue.settings.lock_duration
        key = (until, queue.id, session.session_id)
        self.connection.execute("UPDATE redrive_sessions SET locked_until = ? WHERE queue = ? AND session = ?", key)
        self.connection.execute(
            "UPDATE redrive_messages SET due = ? WHERE queue = ? AND session = ? AND state = 2", key
        )
        self._touch(queue, now)
        return until

    def release_session(self, session: SessionLock, now: float, delay: float) -> None:
        """Give a session back, and the messages locked through it; with a delay, no receiver gets it until then."""
        queue = self.check_session(session, now)
        if not delay:
            self.unlock_session(session)
            return
        self._unlock_session(queue, session.session_id)
        self.connection.execute(
            "UPDATE redrive_sessions SET token = ?, locked_until = ? WHERE queue = ? AND session = ?",
            (next(self._tokens), now + delay, queue.id, session.session_id),
        )

    def unlock_session(self, session: SessionLock) -> None:
        """Give a session back if it is still locked with this token."""
        queue = self.queues.get(session.queue)
        key = (queue.id, session.session_id)
        freed = self.connection.execute(
            "UPDATE redrive_sessions SET token = NULL, locked_until = NULL"
            " WHERE queue = ? AND session = ? AND token = ?",
            (*key, stored.storable(session.token)),
        ).rowcount
        if freed:
            self._unlock_session(queue, session.session_id)
            self.connection.execute(
                "DELETE FROM redrive_sessions WHERE queue = ? AND session = ? AND state IS NULL", key
            )
            self.woken.add(queue.name)

    def set_session_state(self, effect: SetSessionState, now: float) -> None:
        """Store what a session wants to remember."""
        queue = self.check_session(effect.session, now)
        self.connection.execute(
            "UPDATE redrive_sessions SET state = ? WHERE queue = ? AND session = ?",
            (effect.state, queue.id, effect.session.session_id),
        )

    # --- upkeep

    def _shorten_locks(self, now: float) -> None:
        """End locks one duration from now at the latest: what ends later was locked before the clock was set back.

        Its holder keeps it at least as long as it was promised, as that was one duration from when it was locked.
        """
        for queue in self.queues.all():
            longest = now + queue.settings.lock_duration
            for state in rules.LOCKED_STATES:
                self.connection.execute(
                    "UPDATE redrive_messages SET due = ?1 WHERE queue = ?2 AND state = ?3 AND due > ?1",
                    (longest, queue.id, state.value),
                )
            if queue.settings.requires_session:
                self.connection.execute(
                    "UPDATE redrive_sessions SET locked_until = ?1 WHERE queue = ?2 AND locked_until > ?1",
                    (longest, queue.id),
                )

    def note_use(self, names: Iterable[str], now: float) -> None:
        """Store that queues are in use: a receiver waits for them."""
        for name in names:
            if self.queues.has(name):
                self._touch(self.queues.get(name), now)

    def release_due(self, now: float, limit: int) -> tuple[int, int]:
        """End locks that are over and bring in what is due; return how many, and how many of them had had enough."""
        due = self.connection.execute(
            f"SELECT {_DUE_COLUMNS} FROM redrive_messages WHERE due <= ? ORDER BY due LIMIT ?",
            (now, limit),
        ).fetchall()
        return len(due), self._release(due) if due else 0

    def bring_in(self, queues: Iterable[str], now: float) -> None:
        """Before a receive: end locks and bring in messages whose time has come, in these queues if it is too much."""
        released, _ = self.release_due(now, _AT_ONCE)
        if released < _AT_ONCE:
            return
        for name in queues:
            where = "queue = ? AND state IN (1, 2, 4) AND due <= ? LIMIT ?"
            due = f"SELECT {_DUE_COLUMNS} FROM redrive_messages WHERE {where}"
            self._release(self.connection.execute(due, (self.queues.get(name).id, now, _AT_ONCE)).fetchall())

    def _release(self, due: Sequence[stored.Row]) -> int:
        """Make messages available, from rows of ``_DUE_COLUMNS``; return how many had had enough instead."""
        if not due:
            return 0
        self._note_lost(due)
        self.connection.executemany(
            "UPDATE redrive_messages SET state = CASE state WHEN 4 THEN 3 ELSE 0 END, due = NULL, token = NULL"
            " WHERE sequence = ?",
            [(row[0],) for row in due],
        )
        buried = 0
        for queue_id in {row[1] for row in due}:
            queue = self.queues.by_id(queue_id)
            self.woken.add(queue.name)
            limit_here = queue.settings.max_delivery_count
            locks = [row for row in due if row[1] == queue_id and row[2] != State.SCHEDULED]
            spent = [row[0] for row in locks if row[3] >= limit_here]
            self._bury_over_delivered(queue, spent)
            buried += len(spent)
        return buried

    def _note_lost(self, due: Sequence[stored.Row]) -> None:
        """Note the locks that have ended, among rows of ``_DUE_COLUMNS``."""
        for queue_id in {row[1] for row in due if row[2] != State.SCHEDULED}:
            if (queue := self.queues.by_id(queue_id)).notes:
                lost = [row[0] for row in due if row[1] == queue_id and row[2] != State.SCHEDULED]
                journeys.note(self.connection, queue, lost, LOCK_EXPIRED, self._last_now)

    def expire_due(self, now: float, limit: int) -> int:
        """Drop or dead-letter messages whose time to live is over."""
        found = self.connection.execute(
            "SELECT sequence, queue FROM redrive_messages"
            " WHERE expires IS NOT NULL AND state IN (0, 3) AND expires <= ? ORDER BY expires LIMIT ?",
            (now, limit),
        ).fetchall()
        for queue_id in {row[1] for row in found}:
            self._expire(self.queues.by_id(queue_id), [row[0] for row in found if row[1] == queue_id])
        return len(found)

    def _expire(self, queue: QueueRow, sequences: Sequence[int]) -> None:
        if not sequences:
            return
        if queue.settings.dead_letter_on_expiration:
            self._bury(queue, sequences, rules.TTL_EXPIRED, rules.EXPIRED_TEXT)
        else:
            if queue.notes:
                journeys.note(self.connection, queue, sequences, EXPIRED, self._last_now)
            self._drop(sequences)
            self._count(queue.name, tallies.EXPIRED, len(sequences))

    def forget_old_entries(self, now: float, limit: int) -> None:
        """Forget what was noted of journeys long ago."""
        journeys.forget_old(self.connection, now, limit)

    def forget_seen_ids(self, now: float, limit: int) -> None:
        """Forget message ids whose window is over."""
        self.connection.execute(
            "DELETE FROM redrive_seen_ids"
            " WHERE (queue, id) IN (SELECT queue, id FROM redrive_seen_ids WHERE until <= ? LIMIT ?)",
            (now, limit),
        )

    def delete_idle_queues(self, now: float) -> int:
        """Delete the queues that have been idle for longer than their ``auto_delete_on_idle``."""
        idle = [
            queue.name
            for queue in self.queues.all()
            if queue.settings.auto_delete_on_idle is not None
            and self._used_at(queue) + queue.settings.auto_delete_on_idle + queue.use_granularity_s <= now
        ]
        for name in idle:
            self.delete_queue(name)
        return len(idle)

    def change_queue(self, name: str, settings: QueueSettings) -> None:
        """Change a queue's settings; its waiting receivers ask again, and wait by the new settings."""
        self.queues.change(self.connection, name, settings)
        self.woken.add(name)

    def delete_queue(self, name: str) -> None:
        """Delete a queue, its dead-letter queue, and all they hold."""
        for queue in self.queues.remove(self.connection, name):
            for table in ("redrive_messages", "redrive_sessions", "redrive_seen_ids"):
                self.connection.execute(f"DELETE FROM {table} WHERE queue = ?", (queue.id,))
            self.woken.add(queue.name)

    def _used_at(self, queue: QueueRow) -> float:
        """Return when a queue was last used, by any process."""
        found = self.connection.execute("SELECT used_at FROM redrive_queues WHERE id = ?", (queue.id,)).fetchone()
        used_at: float = found[0]
        return used_at

    def _touch(self, queue: QueueRow, now: float) -> None:
        if now - queue.used_at >= queue.use_granularity_s or now < queue.used_at:
            queue.used_at = now
            self.connection.execute("UPDATE redrive_queues SET used_at = ? WHERE id = ?", (now, queue.id))


def _is_expired(row: stored.Row, now: float) -> bool:
    expires = row[rows.EXPIRES]
    return expires is not None and expires <= now
