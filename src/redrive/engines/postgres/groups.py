# SPDX-License-Identifier: MIT
"""Runs the requests of many callers together: one database call for all callers that are waiting.

A call that fails is repeated, or its receipt is read: a caller gets an error that says nothing was done only if that
is certain.
"""

import asyncio
import secrets
from collections.abc import Callable, Coroutine, Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple, TypeVar

from redrive.broker.port import Lock
from redrive.broker.tallies import Key
from redrive.engines import stored
from redrive.engines.journeys import COMPLETED, SENT
from redrive.engines.postgres import errors
from redrive.engines.postgres.connections import Again, Connections, is_lost
from redrive.engines.postgres.driver import Connection
from redrive.engines.postgres.exchange import Exchange
from redrive.engines.postgres.group_commit import Lane, Request
from redrive.engines.postgres.journeys import NOTE_FAILED as _NOTE_FAILED
from redrive.engines.postgres.journeys import columns_of
from redrive.engines.postgres.queues import Queues, Uses
from redrive.engines.postgres.session_settings import as_needed, in_transaction
from redrive.engines.postgres.store import COLUMNS
from redrive.engines.postgres.upkeep import Tidying
from redrive.errors import LockLost, RedriveError

T = TypeVar("T")

_EXCHANGE = "SELECT * FROM @.exchange(" + ", ".join(f"${number}" for number in range(1, 33)) + ")"

_NOTE_FOLLOWED = "SELECT @.note_followed($1, $2, @.instant($3))"
_NOTE_STORED = "SELECT @.note_followed(@.stored_now($1), $2, @.instant($3))"


class Refused(Exception):
    """The server refused what a group asked for; one request of the group may be the reason."""

    def __init__(self, reason: Exception) -> None:
        super().__init__(reason)
        self.reason = reason


class AfterGroup(NamedTuple):
    """What follows a group that is committed.

    Attributes:
        tell: is called with the names of the queues in which a message has become ready.
        add_up: is called with what the group has done, for the history.
    """

    tell: Callable[[set[str]], None]
    add_up: Callable[[Mapping[Key, int]], None]


class Groups:
    """Runs requests in groups, one group after another, on a connection of its own.

    Args:
        database: where.
        queues: the queues as this process knows them.
        tidying: knows where a receive starts to scan.
        giving_back: what a group waits for before it begins: tasks that give messages back to their queue.
        after: what follows a group.

    Attributes:
        tokens: what locks are known by.
        uses: when the use of a queue was last stored.
    """

    def __init__(
        self,
        database: Connections,
        queues: Queues,
        tidying: Tidying,
        giving_back: set[asyncio.Future[None]],
        after: AfterGroup,
    ) -> None:
        self.tokens = count(secrets.randbits(62))  # no other process has begun anywhere near
        self.uses = Uses(database.clock)
        self.database = database
        self._queues = queues
        self._tidying = tidying
        self._giving_back = giving_back
        self._after = after
        self._lane: Lane[Any] = Lane(self.carry_out)
        self._connection: Any = None
        self.exchange_sql = database.sql(_EXCHANGE)

    def submit(self, ask: Request[T]) -> Coroutine[Any, Any, T]:
        """Run a request with the next group; return its result, to be awaited."""
        self.database.check_loop()
        return self._lane.submit(ask)

    @property
    def is_waited_for(self) -> bool:
        """Whether a request waits for the next group to begin."""
        return self._lane.is_waited_for

    async def finish(self) -> None:
        """Wait until everything that was submitted is done."""
        await self._lane.close()

    async def carry_out(self, group: list[Any]) -> None:
        """Run a group in one transaction; if one of its locks is no longer valid, run each request by itself."""
        if self._giving_back:  # so that this group finds the messages that earlier callers give back
            await asyncio.wait(self._giving_back)
        try:
            await self._exchange(group)
        except (LockLost, Refused) as refused:
            if len(group) == 1:
                raise refused.reason if isinstance(refused, Refused) else refused from None
            for ask in group:
                await self._run_one(ask)

    async def _run_one(self, ask: Any) -> None:  # noqa: ANN401 - an ask of any kind
        """Run one request of a group that failed as a whole; if it fails again, only its caller gets the error."""
        try:
            await self._exchange([ask])
        except Refused as refused:
            ask.fail(refused.reason)
        except Exception as error:  # noqa: BLE001 - the caller gets it, whatever it is
            ask.fail(error)

    async def _exchange(self, group: list[Any]) -> None:
        await self.database.until_done(lambda: self._exchange_once(group))

    async def _exchange_once(self, group: list[Any]) -> None:
        exchange = await self._prepared([ask for ask in group if not ask.future.done()])
        if exchange.is_empty:
            return
        connection = await self._held_connection()
        with self.database.numbered() as number:
            try:
                await self._call(connection, exchange, number)
            except errors.Trouble as error:
                await self._find_out(exchange, number, error)

    async def _prepared(self, group: list[Any]) -> Exchange:
        """Put a group together; a request that is impossible fails, and is left out."""
        exchange = Exchange(next(self.tokens), self._tidying.head)
        for ask in group:
            try:
                exchange.add(ask, self._queues.get)
            except RedriveError:
                await self._add_after_another_look(exchange, ask)
        return exchange

    async def _add_after_another_look(self, exchange: Exchange, ask: Any) -> None:  # noqa: ANN401 - an ask of any kind
        """Before a caller is refused, see whether another process has changed the queues just now."""
        try:
            await self._queues.load(self.database.read, ask.queues)
            exchange.add(ask, self._queues.get)
        except RedriveError as error:
            ask.fail(error)

    async def _call(self, connection: Connection, exchange: Exchange, number: int) -> None:
        database = self.database
        began = database.clock.monotonic()
        used = self.uses.worth_noting(exchange.used.values())
        versions = [queue.version for queue in exchange.queues.values()]
        values = (database.now, list(exchange.queues), versions, database.writer, number, *exchange.values(used))
        rows = await self._fetched(connection, exchange, values)
        if used:
            self.uses.note(used)
        sequences: Sequence[int | None] = (rows.pop(0)["sequences"] or ()) if rows and rows[0][0] == 0 else ()
        if self._tidying.is_held_back:
            self._tidying.note_heads(exchange.heads(rows), began)
        self._deliver(exchange, sequences, rows)

    async def _fetched(self, connection: Connection, exchange: Exchange, values: Sequence[object]) -> list[Any]:
        """Carry an exchange out, and return its rows."""
        if exchange.is_noted:
            async with in_transaction(connection):
                return await self._noted(connection, exchange, values)
        async with as_needed(connection):
            rows: list[Any] = await connection.fetch(self.exchange_sql, *values)
        return rows

    async def _noted(self, connection: Connection, exchange: Exchange, values: Sequence[object]) -> list[Any]:
        """Carry an exchange out inside a transaction, and note what is to be noted of the journeys of its messages."""
        if not exchange.is_noted:
            return await connection.fetch(self.exchange_sql, *values)  # type: ignore[no-any-return]  # rows
        sql, now = self.database.sql, self.database.now
        numbers = [stored.storable(number) for number in exchange.removals]
        if numbers:
            await connection.execute(sql(_NOTE_FOLLOWED), numbers, COMPLETED, now)
        rows: list[Any] = await connection.fetch(self.exchange_sql, *values)
        sent = [each for each in (rows[0]["sequences"] or ()) if each is not None] if rows and rows[0][0] == 0 else []
        if sent:
            await connection.execute(sql(_NOTE_STORED), min(sent), SENT, now)
        if exchange.failed:
            await connection.execute(sql(_NOTE_FAILED), now, *columns_of(exchange.failed))
        return rows

    def _deliver(self, exchange: Exchange, sequences: Sequence[int | None], found: Sequence[Any]) -> None:
        exchange.give(sequences, found)
        self._after.add_up(exchange.counted(sequences, found))
        if exchange.woken:
            self._after.tell(exchange.woken)

    async def _find_out(self, exchange: Exchange, number: int, error: BaseException) -> None:
        """Find out whether a group whose call failed was committed, and answer its callers; raise if it was not."""
        code = errors.sqlstate(error)
        if code == errors.LOCK_LOST:
            lock = await self._first_lost(exchange.locks)
            raise LockLost(lock.queue, lock.sequence) from None
        if code == errors.QUEUES_CHANGED:
            self._queues.forget([queue.name for queue in exchange.queues.values()])
            raise Again(error) from error
        if errors.is_worth_repeating(error):
            raise Again(error) from error
        if not errors.is_connection_lost(error):
            raise Refused(await self.database.translated(error)) from error
        await self.let_go(is_good=False)
        receipt = await self.database.receipt(number)
        if receipt is None:
            raise Again(error) from error
        self._deliver(exchange, receipt.sequences, await self._found_again(exchange))

    async def _first_lost(self, locks: Sequence[Lock]) -> Lock:
        """Return the first lock that is not valid; the first of all if every lock is valid by now."""
        good = await self.database.read(
            "SELECT m.sequence, m.token, q.name FROM @.messages m JOIN @.queues q ON q.id = m.queue"
            " WHERE m.sequence = ANY ($1) AND m.due > @.instant($2)",
            [stored.storable(lock.sequence) for lock in locks],
            self.database.now,
        )
        known = {Lock(row["name"], row["sequence"], row["token"]) for row in good}
        return next((lock for lock in locks if lock not in known), locks[0])

    async def _found_again(self, exchange: Exchange) -> list[tuple[Any, ...]]:
        """Return the messages that a group locked when its answer was lost."""
        rows = await self.database.read(
            f"SELECT m.queue, m.due, m.delivery_count, {COLUMNS} FROM @.messages m WHERE m.token = $1 AND m.state = 2",
            exchange.token,
        )
        return [(exchange.place_of(row[0]), *tuple(row)[1:]) for row in rows]

    # --- the connection

    async def _held_connection(self) -> Connection:
        if self._connection is not None and is_lost(self._connection):
            await self.let_go(is_good=False)
        if self._connection is None:
            self._connection = await self.database.acquire()
        return self._connection

    async def let_go(self, *, is_good: bool) -> None:
        """Give the connection back, until the next group needs one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await self.database.release(connection, is_good=is_good)
