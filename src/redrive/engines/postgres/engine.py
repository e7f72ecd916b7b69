# SPDX-License-Identifier: MIT
"""The shared engine: queues in PostgreSQL.

Calls that are made at the same time share one round trip and one transaction, as long as they are of the kinds that are
made all the time: sends, completions, receives. Everything else is a transaction of its own. The database's clock
decides locks, due times and expiry, so that machines whose clocks differ agree.
"""

import asyncio
import math
import secrets
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from datetime import datetime
from itertools import count
from typing import Any, TypeVar

from redrive.broker.engine import (
    Capabilities,
    Complete,
    Effect,
    Outcome,
    QueueInfo,
    QueueSettings,
    Send,
    SessionLock,
    Upkeep,
)
from redrive.broker.lifecycle import State, dead_letter_queue
from redrive.broker.message import Lock, Received
from redrive.clock import Clock, system_clock, utc
from redrive.engines import stored
from redrive.engines.hints import Hints
from redrive.engines.postgres import faults
from redrive.engines.postgres.database import TRIES, Database, Theirs, is_lost
from redrive.engines.postgres.driver import Connection, Row
from redrive.engines.postgres.exchange import ApplyAsk, Exchange, LockAsk, queue_of
from redrive.engines.postgres.lane import Ask, Lane
from redrive.engines.postgres.listener import Listener
from redrive.engines.postgres.queues import Queue, Queues, settings_of
from redrive.engines.postgres.schema import migrate
from redrive.engines.postgres.store import COLUMNS, Store
from redrive.engines.postgres.tidying import Tidying
from redrive.engines.postgres.within import call_within
from redrive.errors import (
    EngineBusy,
    InvalidSetting,
    LockLost,
    MessageNotFound,
    QueueNotFound,
    RedriveError,
    SessionLost,
    UsageError,
)

T = TypeVar("T")


class _Refused(Exception):
    """The server did not take what a group asked for, and it may be the fault of one of them."""

    def __init__(self, told: RedriveError) -> None:
        super().__init__(told)
        self.told = told


_LOOK_EVERY_S = 1.0
"""How long a message from another process may wait for a receiver in this one when a hint was lost."""

_MANY_QUEUES = 10_000
_EXCHANGE = "SELECT * FROM @.exchange(" + ", ".join(f"${number}" for number in range(1, 24)) + ")"
_ORDINARY = (Send, Complete)


class PostgresEngine:
    """Queues in PostgreSQL.

    Args:
        url: where it is: ``postgresql://user:password@host/database``.
        schema: the schema of the broker's tables; it is created if it is not there.
        pool_size: how many connections this process may have, beside one that listens.
        acquire_timeout: seconds to wait for a connection when all are busy.
        statement_cache_size: how many statements a connection keeps prepared; 0 behind PgBouncer in transaction mode.
        clock: what waiting goes by. Locks, due times and expiry go by the database's clock, unless this is another than
            the system's.
    """

    def __init__(
        self,
        url: str,
        *,
        schema: str = "redrive",
        pool_size: int = 5,
        acquire_timeout: float = 10.0,
        statement_cache_size: int = 100,
        clock: Clock = system_clock,
    ) -> None:
        if not schema or not {"\0", "'"}.isdisjoint(schema) or len(schema.encode()) > 63:
            raise InvalidSetting("schema", schema, "must be the name of a schema, 1 to 63 bytes, without quotes")
        if pool_size < 2:
            raise InvalidSetting("pool_size", pool_size, "must be 2 or more: groups of calls have one to themselves")
        quoted = '"' + schema.replace('"', '""') + '"'
        self._database = Database(
            url,
            quoted,
            pool_size=pool_size,
            acquire_timeout=acquire_timeout,
            statement_cache_size=statement_cache_size,
            clock=clock,
        )
        self._clock = clock
        self._queues = Queues(quoted)
        self._tokens = count(secrets.randbits(62))  # no other process has begun anywhere near
        self._lane: Lane[Any] = Lane(self._run)
        self._connection: Any = None
        self._hints = Hints(clock, self._look, _LOOK_EVERY_S)
        self._listener = Listener(self._database, self._hints.wake)
        self._tidying = Tidying(self._database)
        self._giving_back: set[asyncio.Future[None]] = set()
        self._used_at: dict[int, float] = {}
        self._looked_at = -math.inf
        self._under_way: set[asyncio.Future[Any]] = set()

    @property
    def capabilities(self) -> Capabilities:
        """Everything."""
        return Capabilities(joins_open_transaction=True)

    # --- opening and closing

    async def open(self) -> None:
        """Connect, and bring the schema up to date."""
        await self._database.open()
        try:
            async with self._database.connection() as connection:
                await migrate(connection, self._database.schema)
        except BaseException:
            await self._database.close()
            raise

    async def close(self) -> None:
        """Finish what was accepted, and disconnect."""
        await self._hints.close()
        await self._lane.close()
        await asyncio.gather(*self._giving_back, *self._under_way, return_exceptions=True)
        await self._listener.close()
        await self._let_go(is_good=True)
        await self._database.close()

    # --- queues

    async def declare(self, name: str, settings: QueueSettings) -> bool:
        """Create a queue and its dead-letter queue."""
        return await self._change_queue(
            name, lambda connection: self._queues.create(connection, name, settings, self._database.now)
        )

    async def update(self, name: str, settings: QueueSettings) -> None:
        """Change a queue's settings."""
        await self._change_queue(name, lambda connection: self._queues.change(connection, name, settings))

    async def delete(self, name: str) -> None:
        """Remove a queue and all it holds."""
        await self._change_queue(name, lambda connection: self._queues.remove(connection, name))
        self._wake({name})

    async def _change_queue(self, name: str, change: Callable[[Any], Awaitable[T]]) -> T:
        result = await self._database.transaction(change)
        self._queues.forget([name, dead_letter_queue(name)])
        return result

    async def inspect(self, name: str | None = None) -> list[QueueInfo]:
        """Describe queues."""
        rows = await self._database.read(_INSPECT, name)
        if name is not None and not rows:
            raise QueueNotFound(name)
        return [_info(row) for row in rows]

    # --- messages

    async def apply(
        self,
        effects: Sequence[Effect],
        inside: Callable[[Any], Awaitable[object]] | None = None,
        *,
        within: object | None = None,
    ) -> list[Outcome]:
        """Do all of it or nothing.

        Args:
            effects: what to do.
            inside: your own part of the transaction, a coroutine function of the driver's connection; it runs first.
            within: a connection, of asyncpg, psycopg or SQLAlchemy, whose open transaction this becomes part of.
        """
        if within is not None:
            if inside is not None:
                raise UsageError("give inside= or within=, not both: a transaction is yours or the broker's")
            return await self._apply_within(within, effects)
        if inside is None and all(type(effect) in _ORDINARY for effect in effects):
            return await self._submit(ApplyAsk(effects))

        async def do(store: Store) -> list[Outcome]:
            if inside is not None:
                await _do_theirs(inside, store.connection)
            return [await store.apply(effect) for effect in effects]

        return await self._alone(do)

    async def _apply_within(self, connection: object, effects: Sequence[Effect]) -> list[Outcome]:
        if any(type(effect) not in _ORDINARY for effect in effects):
            raise UsageError("only Send and Complete can be part of a transaction of yours")
        needed = {queue_of(effect) for effect in effects}
        for _ in range(TRIES):
            await self._queues.load(self._database.read, needed)
            queues = {name: self._queues.get(name) for name in needed}
            done = await call_within(connection, self._database, self._listener.channel, effects, queues)
            if done is not None:
                await self._note_use(queues.values())
                return done
        raise EngineBusy(f"{self._database.where}: queues are being changed all the time")

    async def _note_use(self, queues: Iterable[Queue]) -> None:
        """Note a use of queues that go away without one; not in a user's transaction, which would make others wait."""
        noted = self._worth_noting([queue for queue in queues if queue.settings.auto_delete_on_idle is not None])

        async def touch(store: Store) -> None:
            for queue in noted:
                await store.touch(queue)

        if noted:
            await self._alone(touch)
            self._note(noted)

    async def lock_next(
        self, queue: str, limit: int, *, session: SessionLock | None = None, delete: bool = False
    ) -> list[Received]:
        """Lock the next messages that are ready."""
        if session is None:
            return await self._submit(LockAsk(queue, limit, self._give_back, delete=delete))
        if session.queue != queue:
            raise SessionLost(queue, session.session_id)
        token = next(self._tokens)
        return await self._lock_alone(lambda store: store.lock_next(session, limit, token, delete=delete))

    async def lock_deferred(self, queue: str, sequences: Sequence[int]) -> list[Received]:
        """Lock deferred messages by their numbers."""
        token = next(self._tokens)
        found = await self._lock_alone(lambda store: store.lock_deferred(queue, sequences, token))
        if isinstance(found, MessageNotFound):  # not raised inside: what had had its deliveries is dead all the same
            raise found
        return found

    async def renew(self, locks: Sequence[Lock]) -> list[datetime | None]:
        """Lengthen locks."""

        async def renew(store: Store) -> list[float | None]:
            return [await store.renew(lock) for lock in locks]

        return [None if until is None else utc(until) for until in await self._alone(renew)]

    async def lock_session(self, queue: str, session_id: str | None) -> SessionLock | None:
        """Lock a session."""
        token = next(self._tokens)
        return await self._alone(lambda store: store.lock_session(queue, session_id, token))

    async def renew_session(self, session: SessionLock) -> SessionLock:
        """Lengthen a session's lock."""
        until = await self._alone(lambda store: store.renew_session(session))
        return SessionLock(session.queue, session.session_id, session.token, utc(until), session.state)

    async def release_session(self, session: SessionLock) -> None:
        """Give a session back."""
        await self._alone(lambda store: store.release_session(session))

    async def peek(
        self, queue: str, limit: int, *, start: int = 0, states: Sequence[State] | None = None
    ) -> list[Received]:
        """Look at messages in order of their numbers."""
        chosen = list(State) if states is None else list(states)
        rows: list[Row] = []
        if chosen:
            rows = await self._database.read(_peek(chosen), queue, max(0, min(start, 2**63 - 1)), limit)
        if not rows and not await self._database.read("SELECT FROM @.queues WHERE name = $1", queue):
            raise QueueNotFound(queue)
        return [_seen(row, queue) for row in rows]

    async def upkeep(self, limit: int = 1_000) -> Upkeep:
        """Do a bounded amount of what nobody has asked for yet."""
        done = await self._tidying.tidy(limit)
        if done.queues_deleted:
            self._queues = Queues(self._database.schema)
        return done

    async def wait(self, queue: str, seconds: float) -> None:
        """Wait for a hint that something may be ready."""
        self._listener.listen()
        await self._hints.wait(queue, seconds)

    # --- a transaction of its own

    async def _alone(self, do: Callable[[Store], Awaitable[T]]) -> T:
        stores: list[Store] = []

        async def run(connection: Connection) -> T:
            stores.append(Store(self._database, connection))
            return await do(stores[-1])

        result = await self._database.transaction(run)
        self._wake(stores[-1].woken)
        return result

    async def _lock_alone(self, do: Callable[[Store], Awaitable[T]]) -> T:
        """Lock messages; a caller who is cancelled meanwhile gives back what he would have got."""
        locking = self._finished(self._alone(do))
        try:
            return await asyncio.shield(locking)
        except asyncio.CancelledError:
            locking.add_done_callback(self._give_back_result)
            raise

    def _give_back_result(self, locking: "asyncio.Future[Any]") -> None:
        if locking.cancelled() or locking.exception() is not None or not isinstance(locking.result(), list):
            return
        locks = [one.lock for one in locking.result() if one.lock is not None]
        if locks:
            self._give_back(locks)

    def _finished(self, coroutine: Coroutine[Any, Any, T]) -> "asyncio.Future[T]":
        """Run something that is finished even if nobody waits for it any more."""
        task = asyncio.ensure_future(coroutine)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return task

    def _give_back(self, locks: list[Lock]) -> None:
        """Unlock messages whose receiver was cancelled before it got them."""
        giving = asyncio.ensure_future(self._alone(lambda store: store.unlock(locks)))
        self._giving_back.add(giving)
        giving.add_done_callback(self._given_back)

    def _given_back(self, giving: "asyncio.Future[None]") -> None:
        self._giving_back.discard(giving)
        if not giving.cancelled():
            giving.exception()  # their locks end by themselves

    def _wake(self, queues: set[str]) -> None:
        self._tidying.forget_heads()
        self._hints.wake(queues)
        self._listener.tell(queues)

    # --- groups

    async def _submit(self, ask: Ask[T]) -> T:
        return await self._lane.submit(ask)  # type: ignore[return-value]  # it is what its future holds

    async def _run(self, group: list[Any]) -> None:
        """Do a group in one transaction; if somebody's lock is not good, everybody by himself."""
        if self._giving_back:  # what those before have left is there for those who come now
            await asyncio.wait(self._giving_back)
        try:
            await self._exchange(group)
        except (LockLost, _Refused) as refused:
            if len(group) == 1:
                raise refused.told if isinstance(refused, _Refused) else refused from None
            for ask in group:
                await self._run_one(ask)

    async def _run_one(self, ask: Any) -> None:  # noqa: ANN401 - an ask of any kind
        """Do for one caller what could not be done for all; if that fails too, only he hears of it."""
        try:
            await self._exchange([ask])
        except _Refused as refused:
            ask.fail(refused.told)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told to whom it belongs
            ask.fail(error)

    async def _exchange(self, group: list[Any]) -> None:
        last: BaseException = TimeoutError()
        for _ in range(TRIES):
            exchange = await self._prepared([ask for ask in group if not ask.future.done()])
            if exchange.is_empty:
                return
            connection = await self._held_connection()
            with self._database.numbered() as number:
                try:
                    await self._call(connection, exchange, number)
                except faults.Trouble as error:
                    last = error
                    if await self._came_to_something(exchange, number, error):
                        return
                else:
                    return
        raise faults.translated(last, self._database.where) from last

    async def _prepared(self, group: list[Any]) -> Exchange:
        """Put a group together; whoever asks for something impossible is told so, and left out."""
        exchange = Exchange(next(self._tokens), self._tidying.head)
        for ask in group:
            try:
                exchange.add(ask, self._queues.get)
            except RedriveError:
                await self._add_after_another_look(exchange, ask)
        return exchange

    async def _add_after_another_look(self, exchange: Exchange, ask: Any) -> None:  # noqa: ANN401 - an ask of any kind
        """Before a caller is refused, see whether another process has changed the queues just now."""
        try:
            await self._queues.load(self._database.read, ask.queues)
            exchange.add(ask, self._queues.get)
        except RedriveError as error:
            ask.fail(error)

    async def _call(self, connection: Connection, exchange: Exchange, number: int) -> None:
        database = self._database
        used = self._worth_noting(exchange.used)
        rows = await connection.fetch(
            database.sql(_EXCHANGE),
            database.now,
            [queue.id for queue in exchange.queues],
            [queue.version for queue in exchange.queues],
            database.writer,
            number,
            *exchange.values(used),
        )
        self._note(used)
        sequences: Sequence[int | None] = rows.pop(0)["sequences"] if rows and rows[0][0] == 0 else ()
        self._deliver(exchange, sequences, rows)

    def _deliver(self, exchange: Exchange, sequences: Sequence[int | None], found: Sequence[Any]) -> None:
        self._tidying.note_heads(exchange.heads(found))
        exchange.give(sequences, found)
        if exchange.woken:
            self._hints.wake(exchange.woken)
            self._listener.tell(exchange.woken)

    async def _came_to_something(self, exchange: Exchange, number: int, error: BaseException) -> bool:
        """Find out what became of a group whose call failed; False if it is to be called again."""
        code = faults.sqlstate(error)
        if code == faults.LOCK_LOST:
            lock = await self._first_lost(exchange.locks)
            raise LockLost(lock.queue, lock.sequence) from None
        if code == faults.QUEUES_CHANGED:
            self._queues.forget([queue.name for queue in exchange.queues])
            return False
        if faults.is_worth_repeating(error):
            return False
        if not faults.is_connection_lost(error):
            raise _Refused(faults.translated(error, self._database.where)) from error
        await self._let_go(is_good=False)
        receipt = await self._database.receipt(number)
        if receipt is None:
            return False
        self._deliver(exchange, receipt.sequences, await self._found_again(exchange))
        return True

    async def _first_lost(self, locks: Sequence[Lock]) -> Lock:
        """Return the first lock that is not good; the first of all if they are by now."""
        good = await self._database.read(
            "SELECT m.sequence, m.token, q.name FROM @.messages m JOIN @.queues q ON q.id = m.queue"
            " WHERE m.sequence = ANY ($1) AND m.due > @.instant($2)",
            [stored.storable(lock.sequence) for lock in locks],
            self._database.now,
        )
        known = {Lock(row["name"], row["sequence"], row["token"]) for row in good}
        return next((lock for lock in locks if lock not in known), locks[0])

    async def _found_again(self, exchange: Exchange) -> list[tuple[Any, ...]]:
        """Return the messages that a group locked when its answer was lost."""
        rows = await self._database.read(
            f"SELECT m.queue, m.sequence, m.due, m.delivery_count, {COLUMNS.partition(', ')[2]}"
            " FROM @.messages m WHERE m.token = $1 AND m.state = 2",
            exchange.token,
        )
        return [(exchange.place_of(row[0]), *tuple(row)[1:]) for row in rows]

    def _worth_noting(self, used: Iterable[Queue]) -> list[int]:
        """Return the queues whose use has not been stored for a while."""
        now = self._clock.time()
        return sorted(
            queue.id
            for queue in used
            if not 0 <= now - self._used_at.get(queue.id, -math.inf) < queue.use_granularity_s
        )

    def _note(self, used: Iterable[int]) -> None:
        """Remember that a use was stored."""
        if len(self._used_at) > _MANY_QUEUES:
            self._used_at.clear()
        self._used_at.update(dict.fromkeys(used, self._clock.time()))

    # --- the lane's own connection

    async def _held_connection(self) -> Connection:
        if self._connection is not None and is_lost(self._connection):
            await self._let_go(is_good=False)
        if self._connection is None:
            self._connection = await self._database.acquire()
        return self._connection

    async def _let_go(self, *, is_good: bool) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await self._database.release(connection, is_good=is_good)

    async def _look(self, queues: Sequence[str]) -> tuple[bool, float | None]:
        """Say when the next message comes due; whether others have changed anything is only known by asking."""
        # finished even if nobody waits any more: a statement that is broken off costs its connection
        reading = self._finished(self._database.read(_NEXT_DUE, list(queues), self._database.now))
        ((left,),) = await asyncio.shield(reading)
        # whoever is woken looks, and waits again: to say so each time would let him look all the time
        is_time = self._clock.monotonic() - self._looked_at >= _LOOK_EVERY_S
        if is_time:
            self._looked_at = self._clock.monotonic()
        return is_time, None if left is None else self._clock.time() + left


_NEXT_DUE = """
SELECT min(d.due) - @.instant($2) FROM @.queues q,
    LATERAL ((SELECT m.due FROM @.messages m WHERE m.queue = q.id AND m.state = 1 ORDER BY m.due LIMIT 1)
        UNION ALL
        (SELECT m.due FROM @.messages m WHERE m.queue = q.id AND m.state IN (2, 4) ORDER BY m.due LIMIT 1)) d
WHERE q.name = ANY ($1)
"""

_INSPECT = """
SELECT q.*, c.*, d.ready + d.scheduled + d.locked + d.deferred AS dead_letters,
    (SELECT m.enqueued_at FROM @.messages m WHERE m.queue = q.id AND m.state = 0
        ORDER BY m.sequence + 0 LIMIT 1) AS oldest
FROM @.queues q, LATERAL @.count_messages(q.id) c, LATERAL @.count_messages(q.dead) d
WHERE q.name = $1 OR ($1::text IS NULL AND q.source IS NULL) ORDER BY q.name COLLATE "C"
"""


def _peek(states: Sequence[State]) -> str:
    """Return the statement that looks at messages in some states, one by one, since that is how they are indexed."""
    parts = [
        f"(SELECT {COLUMNS}, m.state, m.due, m.delivery_count FROM @.messages m, @.queues q WHERE q.name = $1"
        f" AND m.queue = q.id AND m.state = {int(state)} AND m.sequence + 0 >= $2 ORDER BY m.sequence + 0 LIMIT $3)"
        for state in states
    ]
    return f"SELECT * FROM ({' UNION ALL '.join(parts)}) f ORDER BY f.sequence LIMIT $3"


def _info(row: Row) -> QueueInfo:
    return QueueInfo(
        name=row["name"],
        settings=settings_of(row),
        ready=row["ready"],
        scheduled=row["scheduled"],
        locked=row["locked"],
        deferred=row["deferred"],
        dead=row["dead_letters"],
        last_sequence=row["last_sequence"],
        oldest_at=None if row["oldest"] is None else utc(row["oldest"]),
        created_at=utc(row["created_at"]),
        used_at=utc(row["used_at"]),
    )


def _seen(row: Row, queue: str) -> Received:
    state = State(row["state"])
    due_at = row["due"] if state == State.SCHEDULED else None
    return stored.received(tuple(row)[:7], queue, state, row["delivery_count"], due_at=due_at)


async def _do_theirs(inside: Callable[[Any], Awaitable[object]], connection: Connection) -> None:
    try:
        await inside(connection)
    except Exception as error:
        if is_lost(connection) or faults.is_worth_repeating(error):
            raise  # that is nothing he did
        raise Theirs(error) from error
