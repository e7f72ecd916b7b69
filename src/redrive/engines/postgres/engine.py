# SPDX-License-Identifier: MIT
"""The shared engine: queues in PostgreSQL.

Calls that are made at the same time share one round trip and one transaction if they are of the most frequent kinds:
sends, completions, receives. Every other call is a transaction of its own. The database's clock
decides locks, due times and expiry, so that machines whose clocks differ agree.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from redrive.broker.port import (
    Capabilities,
    Complete,
    Effect,
    EffectResult,
    Lock,
    QueueInfo,
    QueueSettings,
    Received,
    Rule,
    Send,
    SessionLock,
    State,
    StoredMessage,
    TopicInfo,
    TopicSettings,
    Upkeep,
)
from redrive.broker.rules import dead_letter_queue
from redrive.broker.tallies import COMPLETED, QUEUE, SENT, Key
from redrive.broker.topics import subscription_queue
from redrive.clock import Clock, system_clock, utc
from redrive.engines import stored
from redrive.engines.hints import Hints
from redrive.engines.history_upkeep import HistoryUpkeep, HistoryVerbs
from redrive.engines.postgres import errors
from redrive.engines.postgres.busy_rows import Holders, There
from redrive.engines.postgres.connections import PLANNED, TRIES, Connections, Theirs, is_lost
from redrive.engines.postgres.driver import Connection, Row
from redrive.engines.postgres.exchange import check_session_id
from redrive.engines.postgres.groups import AfterGroup, Groups
from redrive.engines.postgres.notify import Listener
from redrive.engines.postgres.outbox import call_within
from redrive.engines.postgres.queues import (
    Queue,
    Queues,
    check_findable,
    check_is_queue,
    is_text,
    queues_of,
    settings_of,
)
from redrive.engines.postgres.requests import (
    MOST_AT_ONCE,
    ApplyRequest,
    LockRequest,
    ScriptedPart,
    ScriptRequest,
    queue_of,
)
from redrive.engines.postgres.schema import QUOTE, migrate
from redrive.engines.postgres.script_groups import Looks, ScriptGroups, ScriptLanes
from redrive.engines.postgres.slow_readers import SIZE, SlowReaders
from redrive.engines.postgres.store import COLUMNS, Store
from redrive.engines.postgres.upkeep import Tidying
from redrive.engines.sql.runner import PostgresDriver
from redrive.engines.sql.runner import run as run_script
from redrive.engines.sql.script import Script, Together
from redrive.errors import (
    EngineBusy,
    InvalidSetting,
    MessageNotFound,
    QueueNotFound,
    TopicNotFound,
    UsageError,
)

T = TypeVar("T")
F = TypeVar("F", list[Received], SessionLock | None)


_LOOK_EVERY_S = 1.0
"""How long a message from another process may wait for a receiver in this one when a hint was lost."""

_LOOKS = 4
"""How often a receive that finds no message, though there is one, looks again: another may be faster each time."""

_ORDINARY = frozenset((Send, Complete))


class PostgresEngine(HistoryVerbs):
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
        _check_schema(schema)
        if pool_size < 2:
            raise InvalidSetting("pool_size", pool_size, "must be 2 or more: groups of calls have one to themselves")
        quoted = '"' + schema.replace('"', '""') + '"'
        connections = partial(
            Connections,
            url,
            quoted,
            acquire_timeout=acquire_timeout,
            statement_cache_size=statement_cache_size,
            clock=clock,
        )
        self._database = connections(pool_size=pool_size)
        self._questions = SlowReaders(connections(pool_size=SIZE), clock)
        self._clock = clock
        self._queues = Queues(quoted)
        self._hints = Hints(clock, self._look, _LOOK_EVERY_S)
        self._listener = Listener(self._database, self._hints.wake)
        self._tidying = Tidying(self._database)
        self._holders = Holders(self._database)
        self._giving_back: set[asyncio.Future[None]] = set()
        self._history = HistoryUpkeep(self)
        done = AfterGroup(self._tell, self._history.tallies.add)
        shared = self._database, self._queues, self._tidying, self._giving_back, done
        self._groups = Groups(*shared)
        self._script_lanes = ScriptLanes(partial(ScriptGroups, *shared), self._driver)
        self._looks = Looks(self._database, self._driver)
        self._looked_at = -math.inf
        self._under_way: set[asyncio.Future[Any]] = set()

    @property
    def name(self) -> str:
        """What people call it."""
        return "PostgreSQL"

    @property
    def capabilities(self) -> Capabilities:
        """Everything."""
        return Capabilities()

    # --- opening and closing

    async def open(self) -> None:
        """Connect, and bring the schema up to date."""
        await self._database.open()
        self._hints.open()
        try:
            async with self._database.connection() as connection:
                await migrate(connection, self._database.schema)
        except BaseException:
            await self._database.close()
            raise

    async def close(self) -> None:
        """Finish what was accepted, and disconnect."""
        self._database.check_loop()
        await self._hints.close()
        for lane in (self._groups, self._script_lanes, self._looks):
            await lane.finish()
        while self._giving_back or self._under_way:  # what is under way may find that its caller has left
            await asyncio.gather(*self._giving_back, *self._under_way, return_exceptions=True)
        await self._history.finish()
        await self._holders.close()
        await self._listener.close()
        await self._groups.let_go(is_good=True)
        await self._questions.close()
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

    async def declare_topic(self, name: str, settings: TopicSettings) -> bool:
        """Create a topic and its dead-letter queue."""
        return await self._change_queue(
            name, lambda connection: self._queues.create_topic(connection, name, settings, self._database.now)
        )

    async def update_topic(self, name: str, settings: TopicSettings) -> None:
        """Change a topic's settings."""
        await self._change_queue(name, lambda connection: self._queues.change_topic(connection, name, settings))

    async def subscribe(self, topic: str, name: str, rule: Rule, settings: QueueSettings) -> bool:
        """Create a subscription, or give it another rule."""
        return await self._change_queue(
            topic,
            lambda connection: self._queues.create_subscription(
                connection, topic, name, rule, settings, now=self._database.now
            ),
        )

    async def unsubscribe(self, topic: str, name: str) -> None:
        """Remove a subscription and all its queue holds."""
        await self._change_queue(topic, lambda connection: self._queues.remove_subscription(connection, topic, name))
        self._wake({subscription_queue(topic, name)})

    async def topics(self, name: str | None = None) -> list[TopicInfo]:
        """Describe topics."""
        found = stored.topics_of(tuple(row) for row in await self._database.read(_TOPICS, name))
        if name is not None and not found:
            is_queue = await self._database.read("SELECT FROM @.queues WHERE name = $1", name)
            raise TopicNotFound(name, is_queue=bool(is_queue))
        return found

    async def _change_queue(self, name: str, change: Callable[[Any], Awaitable[T]]) -> T:
        result = await self._database.transaction(change)
        self._queues.forget([name, dead_letter_queue(name)])
        return result

    async def inspect(self, name: str | None = None) -> list[QueueInfo]:
        """Describe queues."""
        if name is not None:
            check_findable(name)
        rows = await self._database.read(_INSPECT, name)
        if name is not None and not rows:
            raise QueueNotFound(name)
        return [_info(row) for row in rows]

    # --- messages

    async def apply(self, effects: Sequence[Effect]) -> list[EffectResult]:
        """Apply all effects or none."""
        if _ORDINARY.issuperset(map(type, effects)):
            return await self._groups.submit(ApplyRequest(effects))
        return await self._alone(lambda store: store.apply_all(effects))

    async def apply_inside(
        self, effects: Sequence[Effect], inside: Callable[[Any], Awaitable[object]]
    ) -> list[EffectResult]:
        """Apply all effects or none; ``inside``, a coroutine function of the driver's connection, runs first."""
        if isinstance(inside, ScriptedPart) and _ORDINARY.issuperset(map(type, effects)):
            return await self._script_lanes.submit(ScriptRequest(inside.script, effects))

        async def do(store: Store) -> list[EffectResult]:
            await _do_theirs(inside, store.connection)
            return await store.apply_all(effects)

        return await self._alone(do)

    def scripted(self, script: Callable[[], Script[Any]]) -> Callable[[Connection], Awaitable[object]]:
        """Return a script as the part of a transaction that ``apply_inside`` runs."""

        async def inside(connection: Connection) -> None:
            await self._run_script(connection, script)

        return ScriptedPart(script, inside) if isinstance(script, Together) else inside

    async def apply_within(self, effects: Sequence[Effect], connection: object) -> list[EffectResult]:
        """Make sends and completions part of a transaction open on a connection of asyncpg, psycopg or SQLAlchemy."""
        if not _ORDINARY.issuperset(map(type, effects)):
            raise UsageError("only Send and Complete can be part of a transaction of yours")
        for effect in effects:
            check_findable(queue_of(effect))
        needed = {queue_of(effect) for effect in effects}
        for _ in range(TRIES):
            await self._queues.load(self._database.read, needed)
            queues = {name: self._queues.get(name) for name in needed}
            done = await call_within(connection, self._database, self._listener.channel, effects, queues)
            if done is not None:
                self._history.tallies.add(_counted(effects, done, queues))
                await self._note_use(queues.values())
                return done
        raise EngineBusy(f"{self._database.where}: queues are being changed all the time")

    async def _note_use(self, queues: Iterable[Queue]) -> None:
        """Note a use of queues that go away without one; not in a user's transaction, which would make others wait."""
        noted = self._groups.uses.worth_noting(
            [queue for queue in queues if queue.settings.auto_delete_on_idle is not None]
        )

        async def touch(store: Store) -> None:
            for queue in noted:
                await store.touch(queue)

        if noted:
            await self._alone(touch)
            self._groups.uses.note(noted)

    async def lock_next(
        self, queue: str, limit: int, *, delete: bool = False, max_bytes: int | None = None
    ) -> list[Received]:
        """Lock the next messages that are ready."""
        self._hints.asked(queue)
        most = min(stored.bounded(limit), MOST_AT_ONCE)
        if max_bytes is not None:
            check_findable(queue)
            rows = await self._database.read(_SIZES, queue, most, self._database.now)
            most = stored.fitting([row[0] for row in rows], most, max_bytes)

        def ask() -> Coroutine[Any, Any, list[Received]]:
            # a stage that stores a task makes room for the next one: both are one transaction, as completions are
            groups = self._script_lanes if self._script_lanes.is_waited_for else self._groups
            return groups.submit(LockRequest(queue, most, self._give_back, delete=delete))

        return await self._found(ask, lambda: self._is_there(queue))

    async def lock_in_session(self, session: SessionLock, limit: int, *, delete: bool = False) -> list[Received]:
        """Lock a session's next messages."""
        most = min(stored.bounded(limit), MOST_AT_ONCE)

        def ask() -> Coroutine[Any, Any, list[Received]]:
            token = next(self._groups.tokens)
            return self._lock_alone(lambda store: store.lock_next(session, most, token, delete=delete))

        return await self._found(ask, lambda: self._holders.let_go(session.queue, session=session.session_id))

    async def _found(
        self, ask: Callable[[], Coroutine[Any, Any, F]], is_there: Callable[[], Coroutine[Any, Any, There]]
    ) -> F:
        """Make a request; return that it found none only if there is none, or another transaction holds it for long."""
        for _ in range(_LOOKS):
            found = await ask()
            there = There.NOTHING if found else await is_there()
            if there is There.NOTHING:
                return found
            if there is There.HELD:
                break
        return await ask()

    async def _is_there(self, queue: str) -> There:
        """Return whether there is a message to receive in a queue in which a receive found none."""
        number = await self._number(queue)
        start = self._tidying.began_at.get(number, 0)
        there = await self._holders.let_go(queue, start=start)
        if there is There.NOTHING and start:
            self._tidying.look_again()
            return There.NOTHING if self._tidying.head(number) else There.SOMETHING
        return there

    async def _number(self, queue: str) -> int:
        if not self._queues.knows(queue):
            await self._queues.load(self._database.read, [queue])
        return self._queues.get(queue).id

    async def lock_deferred(self, queue: str, sequences: Sequence[int]) -> list[Received]:
        """Lock deferred messages by their numbers."""
        return await self._lock_numbered(queue, sequences, deferred=True)

    async def lock_chosen(self, queue: str, sequences: Sequence[int]) -> list[Received]:
        """Lock messages that are ready by their numbers."""
        return await self._lock_numbered(queue, sequences, deferred=False)

    async def _lock_numbered(self, queue: str, sequences: Sequence[int], *, deferred: bool) -> list[Received]:
        token = next(self._groups.tokens)
        found = await self._lock_alone(lambda store: store.lock_numbered(queue, sequences, token, deferred=deferred))
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
        if session_id is not None:
            check_session_id(session_id)

        def ask() -> Coroutine[Any, Any, SessionLock | None]:
            token = next(self._groups.tokens)
            return self._lock_alone(lambda store: store.lock_session(queue, session_id, token))

        if session_id is not None:
            return await ask()
        return await self._found(ask, lambda: self._holders.let_go(queue))

    async def renew_session(self, session: SessionLock) -> SessionLock:
        """Lengthen a session's lock."""
        until = await self._alone(lambda store: store.renew_session(session))
        return SessionLock(session.queue, session.session_id, session.token, utc(until), session.state)

    async def release_session(self, session: SessionLock, delay: float = 0.0) -> None:
        """Give a session back, now or after a delay."""
        token = next(self._groups.tokens)
        await self._alone(lambda store: store.release_session(session, delay, token))

    async def peek(
        self,
        queue: str,
        limit: int,
        *,
        start: int = 0,
        states: Sequence[State] | None = None,
        max_bytes: int | None = None,
    ) -> list[Received]:
        """Look at messages in order of their numbers."""
        rows = await self._peek(queue, limit, start, list(State) if states is None else states, max_bytes)
        return [stored.seen(tuple(row), queue) for row in rows]

    async def peek_stored(
        self, queue: str, limit: int, *, start: int = 0, max_bytes: int | None = None
    ) -> list[StoredMessage]:
        """Look at messages that are ready, as they are stored."""
        rows = await self._peek(queue, limit, start, [State.READY], max_bytes)
        return [StoredMessage(*row) for row in rows]

    def decoded(self, message: StoredMessage, queue: str) -> Received:
        """Return a message that was looked at."""
        return stored.seen(message, queue)

    async def _peek(
        self, queue: str, limit: int, start: int, chosen: Sequence[State], max_bytes: int | None
    ) -> list[Row]:
        check_findable(queue)
        rows: list[Row] = []
        if chosen:
            given = [queue, stored.nearest(start), stored.bounded(limit)]
            if max_bytes is None:
                rows = await self._database.read(_peek(chosen), *given)
            else:
                rows = await self._database.read(_FITTING.format(_peek(chosen)), *given, max_bytes)
        if not rows:
            found = await queues_of(self._database.read, "q.name = $1", queue)
            if not found:
                raise QueueNotFound(queue)
            check_is_queue(found[0])
        return rows

    async def upkeep(self, limit: int = 1_000) -> Upkeep:
        """Do a bounded amount of the work that no call asks for."""
        if waited_for := self._hints.queues:
            await self._alone(lambda store: store.note_use(waited_for))
        done = await self._tidying.tidy(min(stored.bounded(limit), MOST_AT_ONCE))
        if done.queues_deleted:
            self._queues.forget_all()
        await self._history.round()
        return done

    async def wait(self, queue: str, seconds: float) -> None:
        """Wait for a hint that something may be ready; not so long that an idle queue could be deleted meanwhile."""
        check_findable(queue)
        self._database.check_loop()
        self._listener.listen()
        await self._hints.wait(queue, min(seconds, self._queues.longest_wait_s(queue)))

    async def run(self, script: Callable[[], Script[T]]) -> T:
        """Run a script of statements in a transaction."""
        if isinstance(script, Together):
            return await self._script_lanes.run(script)  # type: ignore[no-any-return]  # what the script returns
        return await self._database.transaction(lambda connection: self._run_script(connection, script), PLANNED)

    async def look(self, script: Callable[[], Script[T]]) -> T:
        """Run a script of statements that only reads, all of it as it was at one moment."""
        if isinstance(script, Together):
            return await self._looks.look(script)  # type: ignore[no-any-return]  # what the script returns
        return await self._database.view(lambda connection: self._run_script(connection, script))

    async def ask(self, script: Callable[[], Script[T]], seconds: float) -> T:
        """Run a script that only reads, on a connection of its own.

        Raises:
            QuestionTooSlow: it was not finished after so many seconds.
        """
        self._database.check_loop()
        return await self._questions.ask(lambda connection: self._run_script(connection, script), seconds)

    async def _run_script(self, connection: Connection, script: Callable[[], Script[T]]) -> T:
        return await run_script(script(), self._driver(connection))

    def _driver(self, connection: Connection) -> PostgresDriver:
        async def time() -> float:
            now = self._database.now
            return now if now is not None else await connection.fetchval(_NOW)

        return PostgresDriver(connection, self._database.schema, time)

    # --- a transaction of its own

    async def _alone(self, do: Callable[[Store], Awaitable[T]]) -> T:
        stores: list[Store] = []

        async def run(connection: Connection) -> T:
            stores.append(Store(self._database, connection))
            return await do(stores[-1])

        result = await self._database.transaction(run)
        self._wake(stores[-1].woken)
        self._history.tallies.add(stores[-1].counted)
        return result

    async def _lock_alone(self, do: Callable[[Store], Awaitable[T]]) -> T:
        """Lock messages or a session; for a caller who is cancelled meanwhile, what was locked is given back."""
        locking = self._finished(self._alone(do))
        try:
            return await asyncio.shield(locking)
        except asyncio.CancelledError:
            locking.add_done_callback(self._give_back_result)
            raise

    def _give_back_result(self, locking: "asyncio.Future[Any]") -> None:
        if locking.cancelled() or locking.exception() is not None:
            return
        locked = locking.result()
        if isinstance(locked, SessionLock):
            self._give_back_by(self._alone(lambda store: store.release_session(locked)))
        elif isinstance(locked, list) and (locks := [one.lock for one in locked if one.lock is not None]):
            self._give_back(locks)

    def _finished(self, coroutine: Coroutine[Any, Any, T]) -> "asyncio.Future[T]":
        """Run a coroutine to its end even if its caller is cancelled."""
        task = asyncio.ensure_future(coroutine)
        self._under_way.add(task)
        task.add_done_callback(self._has_ended)
        return task

    def _has_ended(self, task: "asyncio.Future[Any]") -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            task.exception()  # the caller gets it, if there is one yet; asyncio would log it otherwise

    def _give_back(self, locks: list[Lock]) -> None:
        """Unlock messages whose receiver was cancelled before it got them."""
        self._give_back_by(self._alone(lambda store: store.unlock(locks)))

    def _give_back_by(self, doing: Coroutine[Any, Any, None]) -> None:
        giving = asyncio.ensure_future(doing)
        self._giving_back.add(giving)
        giving.add_done_callback(self._given_back)

    def _given_back(self, giving: "asyncio.Future[None]") -> None:
        self._giving_back.discard(giving)
        if not giving.cancelled():
            giving.exception()  # their locks end by themselves

    def _wake(self, queues: set[str]) -> None:
        if queues:
            self._tidying.look_again()
            self._tell(queues)

    def _tell(self, queues: set[str]) -> None:
        self._hints.wake(queues)
        self._listener.tell(queues)

    # --- waiting

    async def _look(self, queues: Sequence[str]) -> tuple[Sequence[str], float | None]:
        """Look what is there for receivers that wait for some queues: a notification may have been lost."""
        began = self._clock.time()  # what is left is left from then on: later it would be less, and found too late
        # run to its end even if no receiver waits any more: to cancel a statement costs its connection
        reading = self._finished(self._database.read(_TO_RECEIVE, list(queues), self._database.now))
        ((ready, due, left),) = await asyncio.shield(reading)
        # a receiver that finds no message after all waits again: without a pause it would ask all the time
        if self._clock.monotonic() - self._looked_at >= _LOOK_EVERY_S:
            self._looked_at = self._clock.monotonic()
        else:
            ready = None
        return [*(ready or ()), *(due or ())], None if left is None else began + left


def _counted(effects: Sequence[Effect], done: Sequence[EffectResult], queues: Mapping[str, Queue]) -> dict[Key, int]:
    """Return what was done in a transaction of the user's; whether the user commits it is not known."""
    counts: dict[Key, int] = {}
    for effect, result in zip(effects, done, strict=True):
        queue = queue_of(effect)
        if isinstance(effect, Complete) or (result is not None and queues[queue].topic is None):
            key = QUEUE, queue, COMPLETED if isinstance(effect, Complete) else SENT
            counts[key] = counts.get(key, 0) + 1
    return counts


def _check_schema(schema: str) -> None:
    """See that PostgreSQL and our scripts can take the name of a schema."""
    if not schema or not is_text(schema) or "'" in schema or len(schema.encode()) > 63:
        raise InvalidSetting("schema", schema, "must be the name of a schema, 1 to 63 bytes, without quotes")
    if schema.startswith("pg_"):
        raise InvalidSetting("schema", schema, "must not begin with pg_: PostgreSQL keeps such names for itself")
    if QUOTE in schema:
        raise InvalidSetting("schema", schema, f"must not have {QUOTE} in it, which is how our functions are quoted")


# Those that are ready, and those that a receive brings in because their time has come.
_SIZES = """
SELECT coalesce(octet_length(n.body), (SELECT octet_length(c.body) FROM @.contents c WHERE c.id = n.content))
    + coalesce(octet_length(n.properties), 0)
FROM @.queues q,
    LATERAL ((SELECT m.body, m.content, m.properties FROM @.messages m WHERE m.queue = q.id AND m.state = 0
            ORDER BY m.sequence + 0 LIMIT $2)
        UNION ALL
        (SELECT m.body, m.content, m.properties FROM @.messages m WHERE m.queue = q.id AND m.state IN (2, 4)
            AND m.due <= @.instant($3) ORDER BY m.due LIMIT $2)
        UNION ALL
        (SELECT m.body, m.content, m.properties FROM @.messages m WHERE m.queue = q.id AND m.state = 1
            AND m.due <= @.instant($3) ORDER BY m.due LIMIT $2)) n
WHERE q.name = $1
"""

_NOW = "SELECT extract(epoch FROM clock_timestamp())::float8"

# The queues in which there is something to receive, or which are gone; those in which something has come due; and the
# seconds until the next message comes due.
_TO_RECEIVE = """
SELECT array_agg(w.name) FILTER (WHERE w.is_ready), array_agg(w.name) FILTER (WHERE w.left <= 0),
    min(w.left) FILTER (WHERE w.left > 0)
FROM (
    SELECT n.name, q.id IS NULL OR EXISTS (SELECT FROM @.messages m WHERE m.queue = q.id AND m.state = 0) AS is_ready,
        least(
            (SELECT m.due FROM @.messages m WHERE m.queue = q.id AND m.state = 1 ORDER BY m.due LIMIT 1),
            (SELECT m.due FROM @.messages m WHERE m.queue = q.id AND m.state IN (2, 4) ORDER BY m.due LIMIT 1)
        ) - @.instant($2) AS left
    FROM unnest($1::text[]) AS n (name) LEFT JOIN @.queues q ON q.name = n.name
) w
"""

_INSPECT = """
SELECT q.*, c.*, d.ready + d.scheduled + d.locked + d.deferred AS dead_letters,
    (SELECT m.enqueued_at FROM @.messages m WHERE m.queue = q.id AND m.state = 0
        ORDER BY m.sequence + 0 LIMIT 1) AS oldest
FROM @.queues q, LATERAL @.count_messages(q.id) c, LATERAL @.count_messages(q.dead) d
WHERE q.name = $1 OR ($1::text IS NULL AND q.source IS NULL) ORDER BY q.name COLLATE "C"
"""


_TOPICS = """
SELECT t.name, t.topic, t.unmatched, t.created_at, s.name, s.rule
FROM @.queues t LEFT JOIN @.queues s ON s.subscribes = t.id
WHERE t.topic IS NOT NULL AND ($1::text IS NULL OR t.name = $1) ORDER BY t.name COLLATE "C", s.name COLLATE "C"
"""


def _peek(states: Sequence[State]) -> str:
    """Return the statement that looks at messages in some states, one by one, since that is how they are indexed."""
    parts = [
        f"(SELECT {COLUMNS}, m.state, m.due, m.delivery_count FROM @.messages m, @.queues q WHERE q.name = $1"
        f" AND m.queue = q.id AND m.state = {int(state)} AND m.sequence + 0 >= $2 ORDER BY m.sequence + 0 LIMIT $3)"
        for state in states
    ]
    return f"SELECT * FROM ({' UNION ALL '.join(parts)}) f ORDER BY f.sequence LIMIT $3"


_FITTING = """
SELECT sequence, enqueued_at, expires, id, properties, dead_letter, body, state, due, delivery_count
FROM (SELECT p.*, row_number() OVER of_all AS place,
    sum(octet_length(p.body) + coalesce(octet_length(p.properties), 0)) OVER of_all AS bytes
    FROM ({}) AS p WINDOW of_all AS (ORDER BY p.sequence ROWS UNBOUNDED PRECEDING)) AS f
WHERE f.place = 1 OR f.bytes <= $4 ORDER BY f.sequence
"""


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
        is_topic=row["topic"] is not None,
    )


async def _do_theirs(inside: Callable[[Any], Awaitable[object]], connection: Connection) -> None:
    try:
        await inside(connection)
    except Exception as error:
        if is_lost(connection) or errors.is_worth_repeating(error):
            raise  # the user's code is not the cause
        raise Theirs(error) from error
