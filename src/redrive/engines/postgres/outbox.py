# SPDX-License-Identifier: MIT
"""Sends and completes messages inside a transaction that the user has opened, with any supported driver.

All arguments go into one text, so that it makes no difference how a driver passes arrays and bytes.
"""

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias

import asyncpg

from redrive.broker.port import Complete, Effect, EffectResult, Send
from redrive.engines import stored
from redrive.engines.postgres import errors
from redrive.engines.postgres.connections import Connections
from redrive.engines.postgres.exchange import OutgoingRow, OutgoingRows, numbers_of
from redrive.engines.postgres.queues import Queue
from redrive.errors import LockLost, QueueNotFound, RedriveError, UsageError

_NO_SCHEMA, _NO_FUNCTION = "3F000", "42883"


async def call_within(
    connection: object,
    database: Connections,
    channel: str,
    effects: Sequence[Effect],
    queues: Mapping[str, Queue],
) -> list[EffectResult] | None:
    """Do sends and completions in the transaction that is open on a connection; None if the queues have changed."""
    run = _runner(connection)
    locks = [effect.lock for effect in effects if isinstance(effect, Complete)]
    sends = [effect for effect in effects if isinstance(effect, Send)]
    outgoing = OutgoingRows()
    taken = [outgoing.add(effect, queues[effect.queue]) for effect in sends]
    based_on = {queue.id: queue for queue in queues.values()} | outgoing.queues
    call = {
        "channel": channel,
        "queues": [[queue.name, queue.id, queue.version] for queue in based_on.values()],
        "complete": [[stored.storable(lock.sequence), stored.storable(lock.token), lock.queue] for lock in locks],
        "send": [_as_json(row) for row in outgoing.rows],
        "count": outgoing.count,
        "legs": outgoing.leg_queues,
        "unmatched": outgoing.unmatched,
        "woken": sorted(outgoing.woken),
    }
    try:
        sequences = await run(f"{database.schema}.within", database.now, json.dumps(call))
    except RedriveError:
        raise
    except Exception as error:
        if _sqlstate(error) == errors.LOCK_LOST and locks:
            raise LockLost(locks[0].queue, locks[0].sequence) from error
        if _sqlstate(error) in (_NO_SCHEMA, _NO_FUNCTION):
            problem = f"must lead to the broker's own database, {database.where}: there is no schema {database.schema}"
            raise UsageError(f"{_named(connection)} {problem}") from error
        raise  # it is the user's connection: the user gets its errors unchanged
    if sequences is None:
        return None
    if len(sequences) != len(outgoing.rows):
        raise await _missing(database, [effect.queue for effect in sends])
    numbers = iter(numbers_of(sequences, taken))
    return [next(numbers) if isinstance(effect, Send) else None for effect in effects]


def _as_json(row: OutgoingRow) -> dict[str, Any]:
    return row._asdict() | {"body": None if row.body is None else base64.b64encode(row.body).decode()}


async def _missing(database: Connections, names: list[str]) -> QueueNotFound:
    """Return the error that names a queue which was there when we last looked, and has been deleted since."""
    rows = await database.read("SELECT name FROM @.queues WHERE name = ANY ($1)", names)
    known = {row["name"] for row in rows}
    return QueueNotFound(next((name for name in names if name not in known), names[0]))


def _sqlstate(error: BaseException | None) -> str:
    """Return PostgreSQL's code of an error, however it is wrapped."""
    while error is not None:
        if code := errors.sqlstate(error) or getattr(error, "pgcode", None):  # psycopg2's name for it
            return str(code)
        error = getattr(error, "orig", None) or error.__cause__
    return ""


# --- whose transaction it is

_Run: TypeAlias = Callable[[str, float | None, str], Awaitable[Any]]
"""Calls a function of the database with the time and a text, and returns its one value."""

_Theirs: TypeAlias = Any
"""A connection of whatever the user uses."""


def _runner(connection: _Theirs) -> _Run:
    """Return what calls a function on a connection; raise if it is none, or has no transaction open."""
    modules = {base.__module__.partition(".")[0] for base in type(connection).__mro__}
    known = (("asyncpg", _asyncpg), ("psycopg", _psycopg), ("sqlalchemy", _sqlalchemy))
    run = next((found for name, of in known if name in modules and (found := of(connection)) is not None), None)
    if run is None:
        problem = "must be a connection of asyncpg or psycopg, or a connection or session of SQLAlchemy on PostgreSQL"
        raise UsageError(f"{_named(connection)} {problem}")
    return run


def _named(connection: object) -> str:
    kind = type(connection)
    return f"within={kind.__module__}.{kind.__qualname__}:"


def _no_transaction(connection: object) -> UsageError:
    return UsageError(f"{_named(connection)} no transaction is open on it; begin one, to have something to be part of")


def _asyncpg(connection: _Theirs) -> _Run | None:
    if not isinstance(connection, asyncpg.Connection | asyncpg.pool.PoolConnectionProxy):
        return None
    if not connection.is_in_transaction():
        raise _no_transaction(connection)

    async def run(function: str, *values: object) -> object:
        return await connection.fetchval(f"SELECT {function}($1::float8, $2::text)", *values)

    return run


def _psycopg(connection: _Theirs) -> _Run | None:
    import psycopg
    from psycopg.rows import tuple_row

    if not isinstance(connection, psycopg.Connection | psycopg.AsyncConnection):
        return None
    if connection.autocommit and connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
        raise _no_transaction(connection)

    theirs: _Theirs = connection

    # Cursors of our own: the user's may be of another class, and return other rows.
    def block(statement: _Theirs, values: tuple[object, ...]) -> _Theirs:
        with psycopg.Cursor(theirs, row_factory=tuple_row) as cursor:
            return cursor.execute(statement, values).fetchone()

    async def wait(statement: _Theirs, values: tuple[object, ...]) -> _Theirs:
        async with psycopg.AsyncCursor(theirs, row_factory=tuple_row) as cursor:
            return await (await cursor.execute(statement, values)).fetchone()

    async def run(function: str, *values: object) -> object:
        statement = "SELECT {}(%s::float8, %s::text)".format(function.replace("%", "%%"))
        if isinstance(theirs, psycopg.AsyncConnection):
            return (await wait(statement, values))[0]
        # it blocks; the caller waits for this call and does not use the connection meanwhile
        return (await asyncio.to_thread(block, statement, values))[0]

    return run


def _sqlalchemy(connection: _Theirs) -> _Run | None:
    from sqlalchemy import Connection, text
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session
    from sqlalchemy.orm import Session, scoped_session

    theirs = connection() if isinstance(connection, async_scoped_session | scoped_session) else connection
    if not isinstance(theirs, AsyncConnection | AsyncSession | Connection | Session):
        return None
    bind: _Theirs = theirs.get_bind() if isinstance(theirs, AsyncSession | Session) else theirs
    if bind.dialect.name != "postgresql":
        raise UsageError(f"{_named(connection)} must lead to the broker's own database, not to {bind.dialect.name}")

    def ask(either: _Theirs, statement: _Theirs, values: dict[str, object]) -> object:
        real = either.connection() if isinstance(either, Session) else either
        if getattr(real.connection.dbapi_connection, "autocommit", False):
            raise _no_transaction(connection)
        return real.execute(statement, values).scalar()

    async def run(function: str, *values: object) -> object:
        call = "SELECT {}(CAST(:now AS float8), CAST(:call AS text))".format(function.replace(":", r"\:"))
        now, arguments = values
        named = {"now": now, "call": arguments}
        if isinstance(theirs, AsyncConnection | AsyncSession):
            return await theirs.run_sync(ask, text(call), named)
        return await asyncio.to_thread(ask, theirs, text(call), named)

    return run
