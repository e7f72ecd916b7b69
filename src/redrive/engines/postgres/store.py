# SPDX-License-Identifier: MIT
"""The less frequent operations on messages: settling other than by completion, sessions, deferred messages.

Every method runs inside a transaction that the engine begins and commits. No method relies on queues kept in memory:
its statements join the table of queues instead, since none of them runs often enough to need to be faster.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import assert_never

from redrive.broker import rules, tallies
from redrive.broker.port import (
    Abandon,
    Cancel,
    Complete,
    DeadLetter,
    Defer,
    Effect,
    EffectResult,
    Headers,
    Lock,
    Received,
    Send,
    SessionLock,
    SetSessionState,
    State,
)
from redrive.broker.tallies import Key
from redrive.clock import utc
from redrive.engines import stored
from redrive.engines.journeys import ABANDONED, COMPLETED, DEAD_LETTERED, DEFERRED, SENT, failed_among
from redrive.engines.postgres.connections import Connections
from redrive.engines.postgres.driver import Connection, Row
from redrive.engines.postgres.exchange import OutgoingRows, numbers_of
from redrive.engines.postgres.journeys import NOTE_FAILED, NOTE_TROUBLE, columns_of, stored_text
from redrive.engines.postgres.queues import Queue, check_findable, check_is_queue, queues_of
from redrive.engines.postgres.topics_schema import BODY
from redrive.engines.sql.script import plain
from redrive.errors import LockLost, MessageNotFound, QueueNotFound, SessionLost, SessionRequired

COLUMNS = f"m.sequence, m.enqueued_at, m.expires, m.id, m.properties, m.dead_letter, {BODY} AS body"
_STORE = f"SELECT @.store(@.instant($1), @.new_sequences($2), {', '.join(f'${number}' for number in range(3, 19))})"
_GOOD = "m.sequence = $2 AND m.token = $3 AND q.name = $4 AND m.queue = q.id AND m.due > @.instant($1)"
_HOW_OFTEN_TO_CHOOSE = 10


@dataclass(slots=True)
class Store:
    """The messages, as one transaction sees them.

    Attributes:
        database: whose they are.
        connection: the transaction's connection.
        woken: the names of queues in which something has become ready.
        counted: what it has done so far, for the history.
    """

    database: Connections
    connection: Connection
    woken: set[str] = field(default_factory=set[str])
    counted: dict[Key, int] = field(default_factory=dict[Key, int])

    @property
    def _now(self) -> float | None:
        return self.database.now

    def _count(self, queue: str, metric: str, count: int = 1) -> None:
        key = tallies.QUEUE, queue, metric
        self.counted[key] = self.counted.get(key, 0) + count

    def _count_delivered(self, queue: str, before: Sequence[int]) -> None:
        """Count deliveries of messages that have had so many before."""
        if before:
            self._count(queue, tallies.DELIVERED, len(before))
            self._count(queue, tallies.REDELIVERED, sum(count > 0 for count in before))

    async def _execute(self, text: str, *values: object) -> int:
        """Run a statement; return how many rows it changed."""
        status: str = await self.connection.execute(self.database.sql(text), *values)
        return int(status.rpartition(" ")[2])

    async def _row(self, text: str, *values: object) -> Row:
        return await self.connection.fetchrow(self.database.sql(text), *values)

    async def _rows(self, text: str, *values: object) -> list[Row]:
        found: list[Row] = await self.connection.fetch(self.database.sql(text), *values)
        return found

    async def queue(self, name: str) -> Queue:
        """Return a queue that holds messages, by its name."""
        return check_is_queue(await self._destination(name))

    async def _destination(self, name: str) -> Queue:
        """Return a queue or a topic by its name."""
        check_findable(name)
        found = await queues_of(self._rows, "q.name = $1", name)
        if not found:
            raise QueueNotFound(name)
        return found[0]

    # --- effects

    async def apply_all(self, effects: Sequence[Effect]) -> list[EffectResult]:
        """Do several things."""
        return [await self.apply(effect) for effect in effects]

    async def apply(self, effect: Effect) -> EffectResult:
        """Do one thing."""
        match effect:
            case Send():
                return await self._send(effect)
            case Complete(lock):
                await self._follow(lock, COMPLETED)
                await self._need(lock, f"DELETE FROM @.messages m USING @.queues q WHERE {_GOOD}")
                self._count(lock.queue, tallies.COMPLETED)
            case Abandon():
                await self._abandon(effect)
            case Defer(lock, headers):
                await self._follow(lock, DEFERRED)
                await self._change_headers(lock, headers)
                change = "UPDATE @.messages m SET state = 3, due = NULL, token = NULL FROM @.queues q WHERE "
                await self._need(lock, change + _GOOD)
            case DeadLetter():
                await self._dead_letter(effect)
            case Cancel():
                await self._cancel(effect)
            case SetSessionState():
                await self.check_session(effect.session)
                await self._execute(
                    "UPDATE @.sessions s SET state = $3 FROM @.queues q"
                    " WHERE q.name = $1 AND s.queue = q.id AND s.session = $2",
                    effect.session.queue,
                    effect.session.session_id,
                    effect.state,
                )
            case _:
                assert_never(effect)
        return None

    async def _send(self, effect: Send) -> EffectResult:
        outgoing = OutgoingRows()
        taken = outgoing.add(effect, await self._destination(effect.queue))
        row = await self._row(
            _STORE,
            self._now,
            outgoing.count,
            *outgoing.columns(),
        )
        self.woken |= outgoing.woken
        for (_, name, metric), count in outgoing.counted(row[0] or []).items():
            self._count(name, metric, count)
        for queue in outgoing.used:
            await self.touch(queue)
        await self._note_sent(effect, outgoing, row[0] or [])
        return numbers_of(row[0] or [], [taken])[0]

    async def _note_sent(self, effect: Send, outgoing: OutgoingRows, sequences: Sequence[int | None]) -> None:
        """Note that a message was sent, where its queue wants that, and that a worker has moved it, if it has."""
        numbers = [number for number in sequences if number is not None]
        if numbers and any(queue.follows for queue in outgoing.queues.values()):
            stored_now = "SELECT @.note_followed(@.stored_now($1), $2, @.instant($3))"
            await self._row(stored_now, min(numbers), SENT, self._now)
        if failed := failed_among([effect]):
            await self._execute(NOTE_FAILED, self._now, *columns_of(failed))

    async def _follow(self, lock: Lock, event: str) -> None:
        """Note what happens to a message, where its queue wants that."""
        numbers = [stored.storable(lock.sequence)]
        await self._row("SELECT @.note_followed($1, $2, @.instant($3))", numbers, event, self._now)

    async def touch(self, queue: int) -> None:
        """Note that a queue is being used, as exactly as it needs to be known."""
        await self._execute(
            "UPDATE @.queues SET used_at = @.instant($2) WHERE id = $1"
            " AND (used_at + least(1, coalesce(auto_delete_on_idle, 10) / 10) <= @.instant($2)"
            " OR used_at > @.instant($2))",
            queue,
            self._now,
        )

    async def note_use(self, names: Sequence[str]) -> None:
        """Store that queues which are deleted when idle are in use: a receiver waits for them."""
        await self._execute(
            "UPDATE @.queues SET used_at = @.instant($2) WHERE name = ANY ($1) AND auto_delete_on_idle IS NOT NULL"
            " AND used_at < @.instant($2)",
            names,
            self._now,
        )

    async def _need(self, lock: Lock, statement: str, *values: object) -> None:
        """Run a statement that changes a locked message; raise if the lock on it is not good."""
        if not await self._execute(statement, *self._key(lock), *values):
            await self._lost(lock)

    def _key(self, lock: Lock) -> tuple[object, ...]:
        check_findable(lock.queue)
        return self._now, stored.storable(lock.sequence), stored.storable(lock.token), lock.queue

    async def _lost(self, lock: Lock) -> None:
        await self.queue(lock.queue)  # which raises if that is gone
        raise LockLost(lock.queue, lock.sequence)

    async def _held(self, lock: Lock) -> Row:
        row = await self._row(
            "SELECT m.state, m.delivery_count, m.properties, q.max_delivery_count FROM @.messages m, @.queues q"
            f" WHERE {_GOOD} FOR UPDATE OF m",
            *self._key(lock),
        )
        if row is None:
            await self._lost(lock)
        return row

    async def _change_headers(self, lock: Lock, changes: Headers | None) -> None:
        if not changes:
            return
        row = await self._held(lock)
        changed = stored.with_headers(row["properties"], changes)
        await self._execute("UPDATE @.messages SET properties = $2 WHERE sequence = $1", lock.sequence, changed)

    async def _abandon(self, effect: Abandon) -> None:
        row = await self._held(effect.lock)
        if not effect.uncount:
            await self._note(effect.lock, ABANDONED, effect.reason, effect.delay or None)
        await self._change_headers(effect.lock, effect.headers)
        count = 0 if effect.reset_count else row["delivery_count"] - effect.uncount
        if rules.has_had_its_deliveries(count, row["max_delivery_count"]):
            await self._bury(effect.lock, None)
            return
        is_deferred = row["state"] == State.DEFERRED_LOCKED
        after = State.SCHEDULED if effect.delay > 0 else State.DEFERRED if is_deferred else State.READY
        await self._execute(
            "UPDATE @.messages SET state = $2, due = CASE WHEN $3::float8 > 0 THEN @.instant($4) + $3 END,"
            " token = NULL, delivery_count = $5 WHERE sequence = $1",
            effect.lock.sequence,
            int(after),
            effect.delay,
            self._now,
            count,
        )
        self._count(effect.lock.queue, tallies.ABANDONED)
        if after == State.READY:
            self.woken.add(effect.lock.queue)

    async def _dead_letter(self, effect: DeadLetter) -> None:
        await self._held(effect.lock)
        await self._change_headers(effect.lock, effect.headers)
        said = f"{effect.reason}: {effect.description}" if effect.description else effect.reason
        source = rules.source_queue(effect.lock.queue)
        await self._bury(
            effect.lock, stored.dead_letter_json(effect.reason, effect.description, source), plain(said[:500])
        )

    async def _note(self, lock: Lock, event: str, reason: str | None, delay: float | None = None) -> None:
        """Note what is about to happen to a message, in its journey."""
        number = stored.storable(lock.sequence)
        await self._execute(NOTE_TROUBLE, self._now, number, event, stored_text(reason), delay)

    async def _bury(self, lock: Lock, why: str | None, said: str | None = None) -> None:
        """Make a message a dead letter. It keeps its number, stays for ever, and is counted anew."""
        await self._note(lock, DEAD_LETTERED, said)
        await self._execute(
            "UPDATE @.messages m SET queue = q.dead, state = 0, due = NULL, token = NULL, delivery_count = 0,"
            " expires = NULL, session = NULL, dead_letter = coalesce($2, q.over_delivered)"
            " FROM @.queues q WHERE m.sequence = $1 AND q.id = m.queue",
            lock.sequence,
            why,
        )
        self._count(lock.queue, tallies.DEAD)
        self.woken.add(rules.dead_letter_queue(lock.queue))

    async def _cancel(self, effect: Cancel) -> None:
        queue = await self._destination(effect.queue)
        which = "m.sequence = $1 AND m.queue = $2"
        if queue.topic is not None:  # what was sent together shares its body, and has the number of one of them
            shared = "SELECT o.content FROM @.messages o WHERE o.sequence = $1"
            subscriptions = "SELECT q.id FROM @.queues q WHERE q.subscribes = $2"
            which = f"(m.sequence = $1 OR m.content = ({shared})) AND m.queue IN ({subscriptions})"
        removed = await self._execute(
            f"DELETE FROM @.messages m WHERE {which} AND m.state = 1 AND m.due > @.instant($3)",
            stored.storable(effect.sequence),
            queue.id,
            self._now,
        )
        if not removed:
            raise MessageNotFound(effect.queue, effect.sequence, "scheduled")

    # --- locks

    async def renew(self, lock: Lock) -> float | None:
        """Lengthen a lock; return when it ends now, None if it had ended already."""
        row = await self._row(
            "UPDATE @.messages m SET due = @.instant($1) + q.lock_duration FROM @.queues q"
            f" WHERE {_GOOD} RETURNING m.due, q.id",
            *self._key(lock),
        )
        if row is None:
            await self.queue(lock.queue)
            return None
        await self.touch(row["id"])
        until: float = row["due"]
        return until

    async def unlock(self, locks: Sequence[Lock]) -> None:
        """Give back messages that no caller has seen: their caller was cancelled. They were not delivered."""
        await self._execute(
            "UPDATE @.messages m SET state = CASE m.state WHEN 4 THEN 3 ELSE 0 END, due = NULL, token = NULL,"
            " delivery_count = m.delivery_count - 1 FROM unnest($1::bigint[], $2::bigint[]) AS l (sequence, token)"
            " WHERE m.sequence = l.sequence AND m.token = l.token",
            [lock.sequence for lock in locks],
            [stored.storable(lock.token) for lock in locks],
        )
        self.woken.update(lock.queue for lock in locks)

    async def lock_numbered(
        self, name: str, sequences: Sequence[int], token: int, *, deferred: bool
    ) -> list[Received] | MessageNotFound:
        """Lock messages that are deferred, or ready, by their numbers; say which is not to be had, if one is not."""
        queue = await self.queue(name)
        if queue.settings.requires_session and not deferred:
            raise SessionRequired(name, "accept a session and receive from it")
        waiting, locked = (State.DEFERRED, State.DEFERRED_LOCKED) if deferred else (State.READY, State.LOCKED)
        wanted = [stored.storable(sequence) for sequence in sequences]
        await self._release_numbered(queue, wanted, waiting, locked)
        rows = await self._rows(
            f"SELECT {COLUMNS}, m.delivery_count FROM @.messages m WHERE m.sequence = ANY ($1) AND m.queue = $2"
            f" AND m.state = {int(waiting)} AND (m.expires IS NULL OR m.expires > @.instant($3))"
            " ORDER BY m.sequence FOR UPDATE",  # so that two who choose the same do not wait for each other
            wanted,
            queue.id,
            self._now,
        )
        found = {row["sequence"]: row for row in rows}
        maximum = queue.settings.max_delivery_count
        spent = [number for number, row in found.items() if row["delivery_count"] >= maximum]
        missing = _first_missing(sequences, {number for number in found if number not in spent})
        if missing is not None:
            await self._execute("SELECT @.put_away(@.instant($1), $2)", self._now, spent)
            return MessageNotFound(name, missing, waiting.name.lower())
        await self.touch(queue.id)
        self._count_delivered(name, [found[number]["delivery_count"] for number in sequences])
        return await self._lock_rows(queue, [found[number] for number in sequences], token, locked)

    async def _release_numbered(self, queue: Queue, wanted: Sequence[int], waiting: State, locked: State) -> None:
        """A message whose lock has just ended waits again, or had its deliveries."""
        await self._execute(
            f"UPDATE @.messages SET state = {int(waiting)}, due = NULL, token = NULL"
            f" WHERE sequence = ANY ($1) AND queue = $2 AND state = {int(locked)} AND due <= @.instant($3)",
            wanted,
            queue.id,
            self._now,
        )

    async def _lock_rows(self, queue: Queue, rows: Sequence[Row], token: int, locked: State) -> list[Received]:
        row = await self._row(
            f"WITH locked AS (UPDATE @.messages SET state = {int(locked)}, due = @.instant($2) + $3, token = $4,"
            " delivery_count = delivery_count + 1 WHERE sequence = ANY ($1) RETURNING due) SELECT min(due) FROM locked",
            [row["sequence"] for row in rows],
            self._now,
            queue.settings.lock_duration,
            token,
        )
        until = stored.instant(row[0]) if rows else None
        return [
            stored.received(
                tuple(one)[:7],
                queue.name,
                locked,
                one["delivery_count"] + 1,
                Lock(queue.name, one["sequence"], token),
                locked_until=until,
            )
            for one in rows
        ]

    # --- sessions

    async def lock_session(self, name: str, session_id: str | None, token: int) -> SessionLock | None:
        """Lock a session, or the one whose first message has waited longest."""
        queue = await self.queue(name)
        if not queue.settings.requires_session:
            raise SessionRequired(name, "it does not; declare it with requires_session=True")
        await self._row("SELECT @.release_due(@.instant($1), $2, 1000)", self._now, queue.id)
        await self.touch(queue.id)
        for _ in range(_HOW_OFTEN_TO_CHOOSE):  # another receiver may be faster
            chosen = session_id if session_id is not None else await self._free_session(queue)
            if chosen is None:
                return None
            lock = await self._lock_session(queue, chosen, token)
            if lock is not None or session_id is not None:
                return lock
        return None

    async def _free_session(self, queue: Queue) -> str | None:
        row = await self._row(
            "SELECT m.session FROM @.messages m LEFT JOIN @.sessions s ON s.queue = m.queue AND s.session = m.session"
            " WHERE m.queue = $1 AND m.session IS NOT NULL AND m.state = 0"
            " AND (m.expires IS NULL OR m.expires > @.instant($2))"
            " AND (s.token IS NULL OR s.locked_until <= @.instant($2)) ORDER BY m.sequence + 0 LIMIT 1",
            queue.id,
            self._now,
        )
        return None if row is None else row["session"]

    async def _lock_session(self, queue: Queue, session_id: str, token: int) -> SessionLock | None:
        row = await self._row(
            "INSERT INTO @.sessions AS s (queue, session, token, locked_until)"
            " VALUES ($1, $2, $3, @.instant($4) + $5) ON CONFLICT (queue, session)"
            " DO UPDATE SET token = excluded.token, locked_until = @.instant($4) + $5"  # as late as it is taken
            " WHERE s.token IS NULL OR s.locked_until <= @.instant($4) RETURNING state, locked_until",
            queue.id,
            session_id,
            token,
            self._now,
            queue.settings.lock_duration,
        )
        if row is None:
            return None
        await self._unlock_session(queue.id, session_id)  # what its last holder received and did not settle in time
        return SessionLock(queue.name, session_id, token, utc(row["locked_until"]), row["state"])

    async def _unlock_session(self, queue: int, session_id: str) -> None:
        await self._execute(
            "UPDATE @.messages SET state = 0, due = NULL, token = NULL"
            " WHERE queue = $1 AND session = $2 AND session IS NOT NULL AND state = 2",
            queue,
            session_id,
        )

    async def check_session(self, session: SessionLock) -> tuple[Queue, float]:
        """Return a session's queue and when its lock ends, if the lock is valid; no other call gets it meanwhile."""
        queue = await self.queue(session.queue)
        row = await self._row(
            "SELECT locked_until FROM @.sessions WHERE queue = $1 AND session = $2 AND token = $3"
            " AND locked_until > @.instant($4) FOR UPDATE",
            queue.id,
            session.session_id,
            stored.storable(session.token),
            self._now,
        )
        if row is None:
            raise SessionLost(session.queue, session.session_id)
        return queue, row["locked_until"]

    async def lock_next(self, session: SessionLock, limit: int, token: int, *, delete: bool) -> list[Received]:
        """Lock the next messages of a session."""
        queue, until = await self.check_session(session)
        await self._row("SELECT @.release_due(@.instant($1), $2, 1000)", self._now, queue.id)
        await self.touch(queue.id)
        chosen = await self._choose(queue, session.session_id, limit)
        if delete:
            rows = await self._rows(
                f"DELETE FROM @.messages m WHERE m.ctid = ANY ($1) RETURNING {COLUMNS}, m.delivery_count + 1", chosen
            )
            self._count_delivered(queue.name, [one[7] - 1 for one in rows])
            self._count(queue.name, tallies.COMPLETED, len(rows))
            return [stored.received(tuple(one)[:7], queue.name, State.READY, one[7]) for one in sorted(rows)]
        rows = await self._rows(
            "UPDATE @.messages m SET state = 2, due = $2, token = $3, delivery_count = m.delivery_count + 1"
            f" WHERE m.ctid = ANY ($1) RETURNING {COLUMNS}, m.delivery_count",
            chosen,
            until,
            token,
        )
        self._count_delivered(queue.name, [one[7] - 1 for one in rows])
        return [
            stored.received(
                tuple(one)[:7],
                queue.name,
                State.LOCKED,
                one[7],
                Lock(queue.name, one[0], token),
                locked_until=stored.instant(until),
            )
            for one in sorted(rows)
        ]

    async def _choose(self, queue: Queue, session_id: str, limit: int) -> list[object] | None:
        """Return where the next messages of a session are; its holder alone receives them, in order."""
        # choose passes over rows that others have in hand; here that would change the order, so they are waited for
        await self._rows(
            "SELECT FROM @.messages m WHERE m.queue = $1 AND m.session = $2 AND m.session IS NOT NULL AND m.state = 0"
            " ORDER BY m.sequence + 0 LIMIT $3 FOR UPDATE",
            queue.id,
            session_id,
            limit,
        )
        row = await self._row(
            "SELECT @.choose(@.instant($1), $2, $3, $4, $5, 0)",
            self._now,
            queue.id,
            limit,
            queue.settings.max_delivery_count,
            session_id,
        )
        found: list[object] | None = row[0]
        return found

    async def renew_session(self, session: SessionLock) -> float:
        """Lengthen a session's lock and those of the messages received through it."""
        queue, _ = await self.check_session(session)
        row = await self._row(
            "UPDATE @.sessions SET locked_until = @.instant($3) + $4 WHERE queue = $1 AND session = $2"
            " RETURNING locked_until",
            queue.id,
            session.session_id,
            self._now,
            queue.settings.lock_duration,
        )
        until: float = row["locked_until"]
        await self._execute(
            "UPDATE @.messages SET due = $3 WHERE queue = $1 AND session = $2 AND session IS NOT NULL AND state = 2",
            queue.id,
            session.session_id,
            until,
        )
        await self.touch(queue.id)
        return until

    async def release_session(self, session: SessionLock, delay: float = 0.0, token: int = 0) -> None:
        """Give a session back, and the messages locked through it; with a delay, no receiver gets it until then.

        Args:
            session: the lock on it.
            delay: how long it is held up.
            token: locks it meanwhile.
        """
        queue, _ = await self.check_session(session)
        if delay:
            await self._unlock_session(queue.id, session.session_id)
            await self._execute(
                "UPDATE @.sessions SET token = $3, locked_until = @.instant($4) + $5 WHERE queue = $1 AND session = $2",
                queue.id,
                session.session_id,
                token,
                self._now,
                delay,
            )
            return
        await self._execute(
            "UPDATE @.sessions SET token = NULL, locked_until = NULL WHERE queue = $1 AND session = $2",
            queue.id,
            session.session_id,
        )
        await self._unlock_session(queue.id, session.session_id)
        await self._execute(
            "DELETE FROM @.sessions WHERE queue = $1 AND session = $2 AND state IS NULL", queue.id, session.session_id
        )
        self.woken.add(queue.name)


def _first_missing(wanted: Sequence[int], there: set[int]) -> int | None:
    """Return the first number that is not there, or is asked for twice."""
    seen: set[int] = set()
    for number in wanted:
        if number not in there or number in seen:
            return number
        seen.add(number)
    return None
