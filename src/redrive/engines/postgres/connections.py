# SPDX-License-Identifier: MIT
"""Connections to PostgreSQL, and transactions whose outcome is always known.

When a connection breaks during a commit, the client does not know whether the transaction was committed. So every
transaction writes a receipt, and a client that lost the answer inserts the same receipt. If it was there already, the
transaction was committed; if it was not, it is there now, so that the transaction can no longer commit.
"""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit

import asyncpg

from redrive.clock import Clock, pause, system_clock
from redrive.engines.postgres import errors, grants, session_settings
from redrive.engines.postgres.driver import Connection, Row
from redrive.engines.postgres.session_settings import as_needed, begin
from redrive.errors import EngineBusy, EngineUnavailable, RedriveError, UsageError

T = TypeVar("T")

TRIES = 5
"""How often a transaction is tried when a deadlock or a lost connection rolls it back."""

_BROKEN_RULE = "23"
"""The class of errors of constraints; the broker's own tables break none."""

_PATIENCE_S = 30.0
"""How long an outcome is asked for while the server does not answer."""


PLANNED = "SET LOCAL plan_cache_mode = force_custom_plan; "
"""For statements on tables that grow: a plan that was kept from when a table was small reads all of it."""


class Receipt(NamedTuple):
    """The proof that a transaction was committed, and the sequence numbers it gave."""

    sequences: list[int | None]


class Connections:
    """The connections of one engine.

    Args:
        url: where PostgreSQL is, as it understands it.
        schema: the schema of the broker's tables, quoted.
        pool_size: how many connections there may be.
        acquire_timeout: seconds to wait for one that is free.
        statement_cache_size: how many statements a connection keeps prepared; 0 behind PgBouncer in transaction mode.
        clock: what waiting goes by and, unless it is the system's, what decides locks and due times.
    """

    def __init__(
        self,
        url: str,
        schema: str,
        *,
        pool_size: int,
        acquire_timeout: float,
        statement_cache_size: int,
        clock: Clock,
    ) -> None:
        self.url = url
        self.schema = schema
        self.clock = clock
        self.writer = secrets.randbits(62)
        self._pool_size = pool_size
        self._acquire_timeout = acquire_timeout
        self._statement_cache_size = statement_cache_size
        self._numbers = count(1)
        self._outstanding: set[int] = set()
        self._pool: Any = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closing = False
        self.where = _without_password(url)

    async def open(self) -> None:
        """Prepare to connect, when there is something to do."""
        self.check_loop()
        if self._pool is not None:
            raise UsageError(f"{self.where} is open already")
        self._is_closing = False
        try:
            self._pool = await asyncpg.create_pool(
                self.url,
                min_size=0,  # with a floor, the pool would try to restore it, loudly, while the server is away
                max_size=self._pool_size,
                connection_class=session_settings.Connection,
                init=self._ask_defaults,
                reset=_nothing,
                timeout=10,
                command_timeout=60,
                statement_cache_size=self._statement_cache_size,
                server_settings={"application_name": "redrive"},
            )
        except (*errors.Trouble, ValueError) as error:
            raise errors.translated(error, self.where) from error
        self._loop = asyncio.get_running_loop()

    def check_loop(self) -> None:
        """See that the caller is in the event loop to which the connections belong."""
        if self._loop is not None and self._loop is not asyncio.get_running_loop():
            raise UsageError(
                f"{self.where} was opened in another event loop, and its connections cannot be used in this one: open"
                " a broker in each, with async with connect(...) as broker inside the coroutine that asyncio.run runs,"
                " or use connect_blocking, which works in every thread"
            )

    async def _ask_defaults(self, connection: Connection) -> None:
        await connection.ask_defaults(self.url)

    async def close(self) -> None:
        """Close all connections."""
        self._is_closing = True  # a call that has a connection may give it back, and no call gets another
        if self._pool is not None:
            try:
                async with asyncio.timeout(5):
                    await self._pool.close()
            except errors.Trouble:  # a call that still has a connection must not keep the program from ending
                self._pool.terminate()
            finally:
                self._pool = self._loop = None

    @property
    def now(self) -> float | None:
        """The time to go by; None: the database's own."""
        return None if self.clock is system_clock else self.clock.time()

    def sql(self, text: str) -> str:
        """Return a statement in which ``@.`` is the schema."""
        return text.replace("@.", f"{self.schema}.")

    # --- connections

    async def acquire(self) -> Connection:
        """Return a connection, to be given back with ``release``."""
        if self._pool is None or self._is_closing:
            raise UsageError(f"{self.where} is not open; use it inside: async with connect(...) as broker")
        self.check_loop()
        try:
            return await self._pool.acquire(timeout=self._acquire_timeout)
        except TimeoutError as error:
            problem = f"all {self._pool_size} connections are busy; raise pool_size in the URL, or wait"
            raise EngineBusy(f"{self.where}: {problem}") from error
        except errors.Trouble as error:
            raise errors.translated(error, self.where) from error

    async def release(self, connection: Connection, *, is_good: bool = True) -> None:
        """Give a connection back; one that is not good is thrown away."""
        with suppress(*errors.Trouble):  # it was lost meanwhile, and the pool has noticed and taken it back
            if not is_good:
                connection.terminate()
            if self._pool is not None:
                await self._pool.release(connection)

    async def connect_alone(self) -> Connection:
        """Return a connection beside the pool, to be closed by who asked for it."""
        try:
            return await asyncpg.connect(
                self.url, timeout=10, statement_cache_size=0, server_settings={"application_name": "redrive listener"}
            )
        except errors.Trouble as error:
            raise errors.translated(error, self.where) from error

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[Connection]:
        """Lend a connection for reading, or for statements that need no receipt."""
        connection = await self.acquire()
        is_good = False
        try:
            yield connection
            is_good = True
        except errors.Trouble as error:
            is_good = isinstance(error, asyncpg.PostgresError) and not errors.is_connection_lost(error)
            raise await self.translated(error) from error
        finally:
            await self.release(connection, is_good=is_good)

    async def read(self, statement: str, *values: object) -> list[Row]:
        """Read something; once more if the connection was lost, as one that was idle may have been for long."""
        return await self.until_done(lambda: self.lent(lambda lent: _fetched(lent, self.sql(statement), values)))

    async def view(self, do: Callable[[Any], Awaitable[T]]) -> T:
        """Read several things as they were at one moment; once more if the connection was lost."""
        return await self.until_done(lambda: self.lent(lambda lent: _in_one_view(lent, do)))

    async def lent(self, do: Callable[[Any], Awaitable[T]]) -> T:
        """Call a function with a connection; raise ``Again`` if the connection was lost and nothing was done."""
        connection = await self.acquire()
        is_good = False
        try:
            result = await do(connection)
            is_good = True
        except RedriveError:
            is_good = True
            raise
        except errors.Trouble as error:
            is_good = not errors.is_connection_lost(error)
            if is_good and not errors.is_worth_repeating(error):
                raise await self.translated(error) from error
            raise Again(error) from error
        else:
            return result
        finally:
            await self.release(connection, is_good=is_good)

    async def translated(self, error: BaseException) -> RedriveError:
        """Return the error to raise for one of the driver's; if a right is missing, it says which one."""
        if errors.sqlstate(error) != grants.DENIED:
            return errors.translated(error, self.where)
        try:
            alone = await self.connect_alone()
        except RedriveError:
            return errors.translated(error, self.where)
        try:
            return UsageError(f"{self.where}: {await grants.explained(alone, self.schema)} ({error})")
        finally:
            await self.dismiss(alone)

    async def dismiss(self, alone: Connection) -> None:
        """Close a connection that is beside the pool."""
        try:
            await alone.close(timeout=5)
        except errors.Trouble:
            alone.terminate()

    async def until_done(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Make an attempt, and repeat it while it raises ``Again``, at most ``TRIES`` times in all."""
        last: BaseException = TimeoutError()
        for _ in range(TRIES):
            try:
                return await attempt()
            except Again as again:
                last = again.error
        raise errors.translated(last, self.where) from last

    # --- transactions

    async def transaction(self, do: Callable[[Any], Awaitable[T]], settings: str = "") -> T:
        """Do something in a transaction of its own, once, whatever happens to the connection.

        Args:
            do: what to do with the connection; it is called again if the transaction was rolled back.
            settings: statements that set something for the transaction, each with a semicolon behind it.
        """
        return await self.until_done(lambda: self._transaction(do, settings))

    async def _transaction(self, do: Callable[[Any], Awaitable[T]], settings: str) -> T:
        connection = await self.acquire()
        with self.numbered() as number:
            is_good, is_committing = False, False
            result: Any = None
            try:
                await connection.execute(
                    self.sql(f"{begin(connection)}{settings}INSERT INTO @.receipts VALUES ({self.writer}, {number})")
                )
                result = await do(connection)
                is_committing = True
                if await connection.execute("COMMIT") != "COMMIT":
                    raise asyncpg.InFailedSQLTransactionError("a statement had failed, so it was rolled back")
                is_good = True
            except (RedriveError, Theirs) as error:
                with suppress(*errors.Trouble):  # then it is thrown away, and undone by that
                    await connection.execute("ROLLBACK")
                    is_good = True
                if isinstance(error, Theirs):
                    raise error.error from None
                raise
            except errors.Trouble as error:
                if is_committing and errors.sqlstate(error)[:2] == _BROKEN_RULE:
                    raise  # a rule of the user's tables that is only checked now
                if is_committing and errors.is_connection_lost(error):
                    if await self.receipt(number) is None:
                        raise Again(error) from error
                elif errors.is_connection_lost(error) or errors.is_worth_repeating(error):
                    raise Again(error) from error
                else:
                    raise await self.translated(error) from error
            finally:
                await self.release(connection, is_good=is_good)
        return result  # type: ignore[no-any-return]  # what do returned

    def numbered(self) -> "_Numbered":
        """Return the number of a transaction's receipt, as a block within which it may be asked for."""
        return _Numbered(self._outstanding, next(self._numbers))

    async def receipt(self, number: int) -> Receipt | None:
        """Say whether a transaction was committed, and make sure that it never is if it was not."""
        began, wait = self.clock.monotonic(), 0.05
        while True:
            try:
                async with self.connection() as connection, as_needed(connection):
                    return await self._receipt(connection, number)
            except EngineUnavailable as error:
                if self.clock.monotonic() - began > _PATIENCE_S:
                    problem = (
                        "the connection was lost during a commit, and the server cannot be asked what became of it"
                    )
                    unknown = EngineUnavailable(f"{self.where}: {problem}; it may have been done")
                    unknown.may_be_done = True
                    raise unknown from error
            await pause(self.clock, wait)
            wait = min(1.0, wait * 2)

    async def _receipt(self, connection: Connection, number: int) -> Receipt | None:
        insert = "INSERT INTO @.receipts VALUES ($1, $2, NULL, true) ON CONFLICT DO NOTHING RETURNING number"
        if await connection.fetchval(self.sql(insert), self.writer, number) is not None:
            return None
        read = "SELECT sequences, is_asked FROM @.receipts WHERE writer = $1 AND number = $2"
        row = await connection.fetchrow(self.sql(read), self.writer, number)
        return None if row["is_asked"] else Receipt(row["sequences"] or [])  # asked: by us, and the answer was lost

    async def drop_receipts(self, connection: Connection) -> None:
        """Remove receipts that no client will read any more."""
        oldest = min(self._outstanding, default=next(self._numbers))
        await connection.execute(
            self.sql("DELETE FROM @.receipts WHERE writer = $1 AND number < $2 AND NOT is_asked"), self.writer, oldest
        )
        await connection.execute(self.sql("DELETE FROM @.receipts WHERE at < now() - interval '1 day'"))  # of the dead


async def _fetched(connection: Connection, statement: str, values: tuple[object, ...]) -> list[Row]:
    async with as_needed(connection):
        found: list[Row] = await connection.fetch(statement, *values)
    return found


async def _in_one_view(connection: Connection, do: Callable[[Any], Awaitable[T]]) -> T:
    await connection.execute(f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {connection.settings}{PLANNED}")
    try:
        return await do(connection)
    finally:
        await connection.execute("ROLLBACK")  # there is nothing to commit


def is_lost(connection: Connection) -> bool:
    """Say whether a connection from the pool is gone."""
    try:
        return bool(connection.is_closed())
    except asyncpg.InterfaceError:  # a connection that the pool has taken back cannot be asked
        return True


class Theirs(Exception):
    """What the user's own part of a transaction raised; the user gets it unchanged."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


class Again(Exception):
    """An attempt certainly changed nothing, and may succeed when it is repeated."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


class _Numbered:
    """A receipt's number, while it may be asked for."""

    def __init__(self, outstanding: set[int], number: int) -> None:
        self._outstanding = outstanding
        self._number = number

    def __enter__(self) -> int:
        self._outstanding.add(self._number)
        return self._number

    def __exit__(self, *_: object) -> None:
        self._outstanding.discard(self._number)


async def _nothing(_connection: Connection) -> None:
    """Reset nothing when a connection is given back: its settings never change, and it would cost a round trip."""


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    credentials, at, place = parts.netloc.rpartition("@")
    parameters = [(name, value) for name, value in parse_qsl(parts.query) if name not in ("password", "sslpassword")]
    netloc = credentials.partition(":")[0] + at + place
    query = urlencode(parameters, safe="/,")
    return f"{parts.scheme}://{netloc}{parts.path}" + (f"?{query}" if query else "")
