# SPDX-License-Identifier: MIT
"""The embedded engine: queues in a SQLite file.

Acknowledged means on disk: the database is in WAL mode and, unless it is asked to be relaxed, synced with every group
that is committed. Several processes may open the same file. SQLite's own way of waiting for the lock starves some of
them; here each waits a short random time and asks again, which is fair.
"""

import asyncio
import json
import os
import random
import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from redrive.broker import rules
from redrive.broker.port import (
    Capabilities,
    Effect,
    EffectResult,
    Lock,
    QueueInfo,
    QueueSettings,
    Received,
    Rule,
    SessionLock,
    State,
    StoredMessage,
    TopicInfo,
    TopicSettings,
    Upkeep,
)
from redrive.clock import Clock, system_clock, utc
from redrive.engines import stored
from redrive.engines.hints import Hints
from redrive.engines.history_upkeep import HistoryUpkeep, HistoryVerbs
from redrive.engines.sql.dialects import HEADER_FUNCTION
from redrive.engines.sql.runner import run_sqlite
from redrive.engines.sql.script import Script, Together
from redrive.engines.sqlite import browsing, errors
from redrive.engines.sqlite.file_identity import DatabaseFile
from redrive.engines.sqlite.group_commit import Writer
from redrive.engines.sqlite.requests import (
    ApplyRequest,
    Conflict,
    LockRequest,
    OtherRequest,
    ScriptedPart,
    ScriptRequest,
    run_group,
    run_one_by_one,
)
from redrive.engines.sqlite.schema import migrate
from redrive.engines.sqlite.slow_readers import SlowReaders
from redrive.engines.sqlite.store import Store
from redrive.errors import (
    EngineUnavailable,
    InvalidSetting,
    MessageNotFound,
    QueueNotFound,
    TopicNotFound,
    UsageError,
)

if TYPE_CHECKING:
    from redrive.broker.tallies import Key

T = TypeVar("T")

_LONGEST_WAIT_S = 30.0
_LOOK_EVERY_S = 0.1
"""How long a message from another process may wait for a receiver in this one."""

_OLDEST_SQLITE = (3, 35, 0)

_STATEMENTS = 512
"""So many statements are kept: one that inserts or changes several rows has a text for each number of rows."""

_GLANCE_S = 0.004
"""A read of one statement may block the event loop for this long; if the disk takes longer, a thread is used."""


class SqliteEngine(HistoryVerbs):
    """Queues in a SQLite file.

    Args:
        path: the file; ``":memory:"`` for queues that end with the process.
        synchronous: ``"full"`` survives a power cut; ``"normal"`` survives the death of the process, and may lose the
            last moments in a power cut.
        clock: decides locks, due times and expiry.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        synchronous: Literal["full", "normal"] = "full",
        clock: Clock = system_clock,
        chance: Callable[[], float] = random.random,  # noqa: TID251 - the default; tests pass their own
    ) -> None:
        if synchronous not in ("full", "normal"):
            raise InvalidSetting("synchronous", synchronous, 'must be "full" or "normal"')
        if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
            raise UsageError(f"SQLite {sqlite3.sqlite_version} is too old; 3.35 or newer is needed")
        self._path = _checked_path(path)
        self._synchronous = synchronous
        self._clock = clock
        self._chance = chance
        self._store: Store | None = None
        self._writer = self._new_writer()
        self._hints = Hints(clock, self._look, _LOOK_EVERY_S)
        self._reader: sqlite3.Connection | None = None
        self._place: DatabaseFile | None = None
        self._was_open = False
        self._reading = ThreadPoolExecutor(1, "redrive-sqlite-reader")
        self._questions = SlowReaders(self._new_connection, clock)
        self._has_reader = threading.Lock()
        self._glance_s = 0.0
        self._is_synced = True
        self._seen_version = -1
        self._woken: set[str] = set()
        self._group_counts: dict[Key, int] = {}
        self._history = HistoryUpkeep(self)
        self._giving_back: set[asyncio.Future[None]] = set()

    @property
    def name(self) -> str:
        """What people call it."""
        return "SQLite"

    @property
    def capabilities(self) -> Capabilities:
        """Everything."""
        return Capabilities()

    # --- opening and closing

    def _new_writer(self) -> Writer:
        return Writer(self._run, self._after_group, self._clock.monotonic)

    async def open(self) -> None:
        """Open the file, and bring the schema up to date."""
        if self._store is not None:
            raise UsageError(f"{self._path} is open already")
        self._reading = ThreadPoolExecutor(1, "redrive-sqlite-reader")
        self._writer = self._new_writer()  # the event loop may be another than the last time
        self._hints.open()
        await asyncio.get_running_loop().run_in_executor(self._reading, self._open)

    def _open(self) -> None:
        try:
            self._guarded(self._connect)
        except BaseException:
            _close(*self._detached())
            raise

    def _connect(self) -> None:
        connection = self._wait_for_lock(self._new_connection)
        self._store = Store(connection)
        self._is_synced = self._synchronous == "full"
        self._wait_for_lock(lambda: connection.execute("PRAGMA journal_mode = WAL").fetchone())
        self._wait_for_lock(lambda: migrate(connection))
        self._reader = self._wait_for_lock(self._new_connection)
        self._place = None if self._path in ("", ":memory:") else DatabaseFile(self._path)

    def _new_connection(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path, timeout=0, isolation_level=None, check_same_thread=False, cached_statements=_STATEMENTS
        )
        try:
            connection.execute(f"PRAGMA synchronous = {self._synchronous}")
            connection.execute("PRAGMA cache_size = -8192")
            connection.execute("PRAGMA temp_store = MEMORY")
            connection.create_function(HEADER_FUNCTION, 2, stored.header_in, deterministic=True)
            # some builds of SQLite write zeros to a page that becomes free, so that a deleted message is written again
            connection.execute("PRAGMA secure_delete = FAST")
        except BaseException:
            connection.close()
            raise
        return connection

    async def close(self) -> None:
        """Finish what was accepted, and close the file."""
        await self._hints.close()
        await self._writer.finish()
        while self._giving_back:
            await asyncio.wait(self._giving_back)
            await self._writer.finish()
        await self._history.finish()
        parts = self._detached()  # from now on a call raises that the engine is closed, and does not use these parts
        await self._writer.close()
        await self._questions.close()
        await self._beside(lambda: _close(*parts))
        self._reading.shutdown(wait=False)

    def _detached(self) -> tuple[Store | None, sqlite3.Connection | None]:
        parts = self._store, self._reader
        self._was_open = self._was_open or self._reader is not None
        self._store = self._reader = None
        return parts

    # --- the port

    async def declare(self, name: str, settings: QueueSettings) -> bool:
        """Create a queue and its dead-letter queue."""
        return await self._other(lambda store, now: store.queues.create(store.connection, name, settings, now))

    async def update(self, name: str, settings: QueueSettings) -> None:
        """Change a queue's settings."""
        await self._other(lambda store, _: store.change_queue(name, settings))

    async def delete(self, name: str) -> None:
        """Remove a queue and all it holds."""
        await self._other(lambda store, _: store.delete_queue(name))

    async def declare_topic(self, name: str, settings: TopicSettings) -> bool:
        """Create a topic and its dead-letter queue."""
        return await self._other(lambda store, now: store.queues.create_topic(store.connection, name, settings, now))

    async def update_topic(self, name: str, settings: TopicSettings) -> None:
        """Change a topic's settings."""
        await self._other(lambda store, _: store.queues.change_topic(store.connection, name, settings))

    async def subscribe(self, topic: str, name: str, rule: Rule, settings: QueueSettings) -> bool:
        """Create a subscription, or give it another rule."""
        return await self._other(
            lambda store, now: store.queues.create_subscription(store.connection, topic, name, rule, settings, now=now)
        )

    async def unsubscribe(self, topic: str, name: str) -> None:
        """Remove a subscription and all its queue holds."""
        await self._other(lambda store, _: store.delete_queue(store.queues.subscription(topic, name)))

    async def topics(self, name: str | None = None) -> list[TopicInfo]:
        """Describe topics."""
        found = await self._read(lambda reader: browsing.topics(reader, name))
        if name is not None and not found:
            is_queue = await self._read(lambda reader: browsing.queue_id(reader, name) is not None)
            raise TopicNotFound(name, is_queue=is_queue)
        return found

    async def apply(self, effects: Sequence[Effect]) -> list[EffectResult]:
        """Apply all effects or none."""
        return await self._writer.submit(ApplyRequest(effects))

    async def apply_inside(
        self, effects: Sequence[Effect], inside: Callable[[sqlite3.Connection], object]
    ) -> list[EffectResult]:
        """Apply all effects or none; ``inside`` runs first, in the same transaction, with the database's connection."""
        return await self._writer.submit(ApplyRequest(effects, inside))

    def scripted(self, script: Callable[[], Script[Any]]) -> Callable[[sqlite3.Connection], object]:
        """Return a script as the part of a transaction that ``apply_inside`` runs."""
        if isinstance(script, Together):
            return ScriptedPart(script, self._clock.time)
        return lambda connection: run_sqlite(connection, script(), self._clock.time())

    async def lock_next(
        self, queue: str, limit: int, *, delete: bool = False, max_bytes: int | None = None
    ) -> list[Received]:
        """Lock the next messages that are ready."""
        self._hints.asked(queue)
        request = LockRequest(queue, stored.bounded(limit), None, self._give_back, delete=delete, max_bytes=max_bytes)
        return await self._writer.submit(request)

    async def lock_in_session(self, session: SessionLock, limit: int, *, delete: bool = False) -> list[Received]:
        """Lock a session's next messages."""
        request = LockRequest(session.queue, stored.bounded(limit), session, self._give_back, delete=delete)
        return await self._writer.submit(request)

    async def lock_deferred(self, queue: str, sequences: Sequence[int]) -> list[Received]:
        """Lock deferred messages by their numbers."""
        return await self._lock_numbered(queue, sequences, deferred=True)

    async def lock_chosen(self, queue: str, sequences: Sequence[int]) -> list[Received]:
        """Lock messages that are ready by their numbers."""
        return await self._lock_numbered(queue, sequences, deferred=False)

    async def _lock_numbered(self, queue: str, sequences: Sequence[int], *, deferred: bool) -> list[Received]:
        found = await self._writer.submit(
            OtherRequest(
                lambda store, now: store.lock_numbered(store.queues.queue(queue), sequences, now, deferred=deferred),
                self._give_back_numbered,
            )
        )
        if isinstance(found, MessageNotFound):  # not raised inside: what had had its deliveries is dead all the same
            raise found
        return found

    async def renew(self, locks: Sequence[Lock]) -> list[datetime | None]:
        """Lengthen locks."""
        renewed = await self._other(lambda store, now: [store.renew(lock, now) for lock in locks])
        return [None if until is None else utc(until) for until in renewed]

    async def lock_session(self, queue: str, session_id: str | None) -> SessionLock | None:
        """Lock a session."""

        def lock(store: Store, now: float) -> SessionLock | None:
            found = store.queues.queue(queue)
            store.bring_in([queue], now)
            return store.lock_session(found, session_id, now)

        return await self._writer.submit(OtherRequest(lock, self._give_back_session))

    async def renew_session(self, session: SessionLock) -> SessionLock:
        """Lengthen a session's lock."""
        until = await self._other(lambda store, now: store.renew_session(session, now))
        return SessionLock(session.queue, session.session_id, session.token, utc(until), session.state)

    async def release_session(self, session: SessionLock, delay: float = 0.0) -> None:
        """Give a session back, now or after a delay."""
        await self._other(lambda store, now: store.release_session(session, now, delay))

    async def upkeep(self, limit: int = 1_000) -> Upkeep:
        """Do a bounded amount of the work that no call asks for."""
        if self._place is not None:
            self._place.check_all()
        waited_for = self._hints.queues
        most = stored.bounded(limit)
        done = await self._other(lambda store, now: _upkeep(store, now, most, waited_for))
        await self._history.round()
        return done

    async def wait(self, queue: str, seconds: float) -> None:
        """Wait for a hint that something may be ready; not so long that an idle queue could be deleted meanwhile."""
        store = self._opened(self._store)
        await self._hints.wait(queue, min(seconds, store.queues.longest_wait_s(queue)))

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
        chosen = tuple(State) if states is None else tuple(states)
        place = stored.nearest(start), chosen
        return await self._peek(queue, limit, place, max_bytes, lambda message: stored.seen(message, queue))

    async def peek_stored(
        self, queue: str, limit: int, *, start: int = 0, max_bytes: int | None = None
    ) -> list[StoredMessage]:
        """Look at messages that are ready, as they are stored."""
        place = stored.nearest(start), (State.READY,)
        return await self._peek(queue, limit, place, max_bytes, StoredMessage._make)

    def decoded(self, message: StoredMessage, queue: str) -> Received:
        """Return a message that was looked at."""
        return stored.seen(message, queue)

    async def _peek(
        self,
        queue: str,
        limit: int,
        place: tuple[int, Sequence[State]],
        max_bytes: int | None,
        read: Callable[[stored.Row], T],
    ) -> list[T]:
        wanted = stored.bounded(limit)
        if not rules.is_queue_name(queue):
            raise self._missing(queue)

        def look(reader: sqlite3.Connection) -> list[T] | None:
            rows = browsing.peek(reader, queue, wanted, place, max_bytes)
            return None if rows is None else [read(row) for row in rows]

        found = await self._read(look)
        if found is None:
            raise self._missing(queue)
        return found

    async def inspect(self, name: str | None = None) -> list[QueueInfo]:
        """Describe queues."""
        if name is not None and not rules.is_queue_name(name):
            raise self._missing(name)
        found = await self._read(lambda reader: browsing.inspect(reader, name))
        if name is not None and not found:
            raise self._missing(name)
        return found

    async def run(self, script: Callable[[], Script[T]]) -> T:
        """Run a script of statements in a transaction."""
        if isinstance(script, Together):
            return await self._writer.submit(ScriptRequest(script))
        return await self._other(lambda store, now: run_sqlite(store.connection, script(), now))

    async def look(self, script: Callable[[], Script[T]]) -> T:
        """Run a script of statements that only reads; a single statement on this thread, if it takes no time."""
        if isinstance(script, Together) and self._path != ":memory:" and self._has_reader.acquire(blocking=False):
            try:
                if self._glance_s < _GLANCE_S:
                    return self._timed_look(self._opened(self._reader), script)  # type: ignore[no-any-return]  # what it returns
            except sqlite3.Error as error:
                if not errors.is_busy(error):
                    raise errors.translated(error, self._path) from error
            finally:
                self._has_reader.release()
        return await self._read(lambda reader: self._timed_look(reader, script))

    def _timed_look(self, reader: sqlite3.Connection, script: Callable[[], Script[T]]) -> T:
        began = self._clock.monotonic()
        try:
            return run_sqlite(reader, script(), self._clock.time())
        finally:
            if isinstance(script, Together):  # a moving average, as that of the writer
                self._glance_s += 0.2 * (self._clock.monotonic() - began - self._glance_s)

    async def ask(self, script: Callable[[], Script[T]], seconds: float) -> T:
        """Run a script that only reads, on a connection of its own; in memory, where there is one, it waits its turn.

        Raises:
            QuestionTooSlow: it was not finished after so many seconds.
        """
        if self._path == ":memory:":
            return await self.look(script)
        self._opened(self._reader)
        try:
            return await self._questions.ask(lambda c: run_sqlite(c, script(), self._clock.time()), seconds)
        except sqlite3.Error as error:
            raise errors.translated(error, self._path) from error

    # --- running

    async def _other(self, do: Callable[[Store, float], T]) -> T:
        return await self._writer.submit(OtherRequest(do))

    async def _read(self, read: Callable[[sqlite3.Connection], T]) -> T:
        """Read beside the writer; in memory there is only one connection, so reading waits its turn."""
        if self._path == ":memory:":
            return await self._other(lambda store, _: read(store.connection))
        self._opened(self._reader)
        return await self._beside(lambda: self._read_now(read))

    async def _beside(self, do: Callable[[], T]) -> T:
        """Do something on the reader's thread.

        While the interpreter ends, a program may close its broker when no thread can be had any more. Then it is done
        here: there is no caller left that this would block.
        """
        try:
            done = asyncio.get_running_loop().run_in_executor(self._reading, do)
        except RuntimeError:
            return do()
        return await done

    def _read_now(self, read: Callable[[sqlite3.Connection], T]) -> T:
        with self._has_reader:
            return self._guarded(lambda: self._wait_for_lock(lambda: _in_one_view(self._opened(self._reader), read)))

    def _missing(self, queue: str) -> QueueNotFound:
        return QueueNotFound(queue, self._opened(self._store).queues.similar(queue))

    def _run(self, group: list[Any], may_wait: bool) -> bool:  # noqa: FBT001 - the writer's signature
        """Do a group in one transaction; False if that needs waiting which is not allowed here."""
        try:
            is_done = self._do(self._opened(self._store), run_group, group, may_wait=may_wait)
        except Conflict:  # a lock is not valid: roll back, and let each request succeed or fail by itself
            self._undo()
            is_done = self._run_one_by_one(group, may_wait=may_wait)
        except BaseException as error:  # noqa: BLE001 - the callers must hear of it, an interrupt included
            is_done = self._fail(group, error)
        return is_done

    def _run_one_by_one(self, group: list[Any], *, may_wait: bool) -> bool:
        try:
            return self._do(self._opened(self._store), run_one_by_one, group, may_wait=may_wait)
        except BaseException as error:  # noqa: BLE001 - as in _run
            return self._fail(group, error)

    def _do(
        self, store: Store, do: Callable[[Store, list[Any], float], None], group: list[Any], *, may_wait: bool
    ) -> bool:
        if store.connection.in_transaction:
            self._roll_back(store)  # what the transaction before has left, as it failed
        self._choose_sync(store, group)
        if not self._begin(store, may_wait=may_wait):
            return False
        now = self._clock.time()
        store.begin(now)
        do(store, group, now)
        store.connection.execute("COMMIT")
        if self._place is not None and any(request.needs_sync for request in group):
            self._place.check()  # after the commit: a file that is gone by now may have been gone before it
        self._woken |= store.woken
        self._group_counts, store.counted = store.counted, {}
        for request in group:
            if isinstance(request.error, sqlite3.Error) and not request.is_the_users:
                request.error = errors.translated(request.error, self._path)
        return True

    def _fail(self, group: list[Any], error: BaseException) -> bool:
        """Give the error that ended the transaction to its own caller; the others get one that names it."""
        self._undo()
        is_ones_own = any(request.error is error for request in group)
        for request in group:
            if isinstance(error, sqlite3.Error | UnicodeDecodeError):
                request.error = errors.translated(error, self._path)
            elif is_ones_own and request.error is not error:
                problem = f"another caller's part ended the transaction ({type(error).__name__}); it may have been done"
                request.error = EngineUnavailable(f"{self._path}: {problem}")
            else:
                request.error = error
        return True

    def _choose_sync(self, store: Store, group: list[Any]) -> None:
        """Wait for the disk unless all that is done is to lock messages: a power cut that undoes a lock loses nothing.

        Whatever is committed after it, and waits for the disk, takes the lock along.
        """
        needs_sync = self._synchronous == "full" and any(request.needs_sync for request in group)
        if needs_sync is not self._is_synced:
            store.connection.execute(f"PRAGMA synchronous = {'FULL' if needs_sync else 'NORMAL'}")
            self._is_synced = needs_sync

    def _begin(self, store: Store, *, may_wait: bool) -> bool:
        """Take the write lock; False if another process has it and there is no waiting."""
        if may_wait:
            self._wait_for_lock(lambda: store.connection.execute("BEGIN IMMEDIATE"))
            return True
        try:
            store.connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if errors.is_busy(error):
                return False
            raise
        return True

    def _wait_for_lock(self, do: Callable[[], T]) -> T:
        """Do something that needs a lock other processes may hold; ask again after a short random time."""
        began = self._clock.monotonic()
        while True:
            try:
                return do()
            except sqlite3.OperationalError as error:
                if not errors.is_busy(error) or self._clock.monotonic() - began > _LONGEST_WAIT_S:
                    raise
            self._clock.sleep(0.0001 + 0.0019 * self._chance())

    def _undo(self) -> None:
        if self._store is not None:
            self._store.forget()
            with suppress(sqlite3.Error):  # then it is done before the next group begins
                self._roll_back(self._store)

    def _roll_back(self, store: Store) -> None:
        if store.connection.in_transaction:
            store.connection.execute("ROLLBACK")

    def _guarded(self, do: Callable[[], T]) -> T:
        try:
            return do()
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise errors.translated(error, self._path) from error

    def _opened(self, part: T | None) -> T:
        if part is None:
            state = "closed; open it again" if self._was_open else "not open; use it inside"
            raise UsageError(f"{self._path} is {state}: async with connect(...) as broker")
        return part

    def _after_group(self) -> None:
        if self._group_counts:
            counted, self._group_counts = self._group_counts, {}
            self._history.tallies.add(counted)
        if self._woken:
            woken, self._woken = self._woken, set()
            self._hints.wake(woken)

    def _give_back(self, locks: list[Lock]) -> None:
        """Unlock messages whose receiver was cancelled before it got them."""
        self._undo_later(lambda store, _: store.unlock(locks))

    def _give_back_numbered(self, found: list[Received] | MessageNotFound) -> None:
        if not isinstance(found, MessageNotFound):
            self._give_back([received.lock for received in found if received.lock is not None])

    def _give_back_session(self, session: SessionLock) -> None:
        self._undo_later(lambda store, _: store.unlock_session(session))

    def _undo_later(self, do: Callable[[Store, float], None]) -> None:
        giving = asyncio.ensure_future(self._other(do))
        self._giving_back.add(giving)
        giving.add_done_callback(self._given_back)

    def _given_back(self, giving: "asyncio.Future[None]") -> None:
        self._giving_back.discard(giving)
        if not giving.cancelled():
            giving.exception()  # the next call reports it, and the lock ends by itself

    async def _look(self, queues: Sequence[str]) -> tuple[Sequence[str], float | None]:
        seen, now = self._seen_version, self._clock.time()
        self._seen_version, found, next_due = await self._read(lambda reader: _glance(reader, queues, seen, now))
        return found, next_due


def _checked_path(path: str | Path) -> str:
    """Return a path that a file can have."""
    try:
        name = os.fsencode(path)
    except (TypeError, UnicodeEncodeError):
        name = b"\0"
    if b"\0" in name:
        raise InvalidSetting("path", path, "must be the path of a file, without a NUL character")
    return str(path)


def _close(store: Store | None, reader: sqlite3.Connection | None) -> None:
    if store is not None:
        store.connection.close()
    if reader is not None:
        reader.close()


def _in_one_view(reader: sqlite3.Connection, read: Callable[[sqlite3.Connection], T]) -> T:
    """Read everything as it was at one moment, whatever others commit meanwhile."""
    reader.execute("BEGIN")
    try:
        return read(reader)
    finally:
        if reader.in_transaction:
            reader.execute("ROLLBACK")


_TO_RECEIVE = """
SELECT waiting.value FROM json_each(?) AS waiting LEFT JOIN redrive_queues q ON q.name = waiting.value
WHERE q.id IS NULL
    OR EXISTS (SELECT 1 FROM redrive_messages m WHERE m.queue = q.id AND m.state = 0)
    OR q.id IN (SELECT queue FROM redrive_messages WHERE due <= ? ORDER BY due LIMIT 1000)
"""


def _glance(
    reader: sqlite3.Connection, queues: Sequence[str], seen: int, now: float
) -> tuple[int, Sequence[str], float | None]:
    """Look what is there for receivers that wait for some queues.

    Returns:
        A number that changes when another connection commits; the queues in which there is something to receive, or
        which are gone, if that number has changed or something has come due; and when the next message comes due.
    """
    version = reader.execute("PRAGMA data_version").fetchone()[0]
    is_due = reader.execute("SELECT 1 FROM redrive_messages WHERE due <= ? LIMIT 1", (now,)).fetchone() is not None
    following = reader.execute("SELECT due FROM redrive_messages WHERE due > ? ORDER BY due LIMIT 1", (now,)).fetchone()
    found: Sequence[str] = ()
    if is_due or version != seen:
        found = [name for (name,) in reader.execute(_TO_RECEIVE, (json.dumps(queues), now))]
    return version, found, following[0] if following else None


def _upkeep(store: Store, now: float, limit: int, waited_for: Sequence[str]) -> Upkeep:
    store.note_use(waited_for, now)
    released, over_delivered = store.release_due(now, limit)
    expired = store.expire_due(now, limit)
    store.forget_seen_ids(now, limit)
    store.forget_old_entries(now, limit)
    return Upkeep(
        released=released,
        expired=expired,
        over_delivered=over_delivered,
        queues_deleted=store.delete_idle_queues(now),
        is_finished=released < limit and expired < limit,
    )
