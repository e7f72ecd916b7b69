# SPDX-License-Identifier: MIT
"""Sending inside a transaction that the user has opened, with whatever driver he uses.

All that has to be said goes into one text, so that it makes no difference how a driver passes arrays and bytes.
"""

import asyncio
import base64
import inspect
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

from redrive.broker.engine import Complete, Effect, Outcome, Send
from redrive.engines import stored
from redrive.engines.postgres import faults
from redrive.engines.postgres.database import Database
from redrive.engines.postgres.exchange import outgoing
from redrive.engines.postgres.queues import Queue
from redrive.errors import LockLost, UsageError


async def call_within(
    connection: object,
    database: Database,
    channel: str,
    effects: Sequence[Effect],
    queues: Callable[[str], Queue],
) -> list[Outcome]:
    """Do sends and completions in the transaction that is open on a connection."""
    locks = [effect.lock for effect in effects if isinstance(effect, Complete)]
    call = {
        "channel": channel,
        "complete": [[stored.storable(lock.sequence), stored.storable(lock.token), lock.queue] for lock in locks],
        "send": [_told(effect, queues(effect.queue)) for effect in effects if isinstance(effect, Send)],
    }
    run = _runner(connection)
    try:
        sequences = await run(database.sql("SELECT @.within({}, {})"), database.now, json.dumps(call))
    except Exception as error:
        if _sqlstate(error) == faults.LOCK_LOST and locks:
            raise LockLost(locks[0].queue, locks[0].sequence) from error
        raise  # it is his connection: its errors are his to see as they are
    numbers = iter(sequences or ())
    return [next(numbers) if isinstance(effect, Send) else None for effect in effects]


def _told(effect: Send, queue: Queue) -> dict[str, Any]:
    one = outgoing(effect, queue)
    return one._asdict() | {"queue": queue.name, "body": base64.b64encode(one.body).decode()}


def _sqlstate(error: BaseException | None) -> str:
    """Return PostgreSQL's code of an error, however it is wrapped."""
    while error is not None:
        if code := faults.sqlstate(error):
            return code
        error = getattr(error, "orig", None) or error.__cause__
    return ""


_Run: TypeAlias = Callable[..., Awaitable[Any]]
_Theirs: TypeAlias = Any
"""A connection of whatever the user uses."""


def _runner(connection: _Theirs) -> _Run:
    """Return a function that runs a statement on a connection and returns its one value."""
    kind = type(connection)
    modules = {base.__module__.partition(".")[0] for base in kind.__mro__}
    if "asyncpg" in modules:
        return _asyncpg(connection)
    if "psycopg" in modules:
        return _psycopg(connection)
    if "sqlalchemy" in modules:
        return _sqlalchemy(connection)
    told = "must be a connection of asyncpg or psycopg, or a connection or session of SQLAlchemy"
    raise UsageError(f"within={kind.__module__}.{kind.__qualname__}: {told}")


def _asyncpg(connection: _Theirs) -> _Run:
    async def run(text: str, *values: object) -> object:
        return await connection.fetchval(text.format("$1::float8", "$2::text"), *values)

    return run


def _psycopg(connection: _Theirs) -> _Run:
    async def run(text: str, *values: object) -> object:
        statement = text.format("%s::float8", "%s::text")
        if inspect.iscoroutinefunction(connection.execute):
            row = await (await connection.execute(statement, values)).fetchone()
        else:  # it blocks, and whoever called waits for us and does not use it meanwhile
            row = await asyncio.to_thread(lambda: connection.execute(statement, values).fetchone())
        return row[0] if not isinstance(row, dict) else next(iter(row.values()))

    return run


def _sqlalchemy(connection: _Theirs) -> _Run:
    from sqlalchemy import text as as_sql

    async def run(text: str, *values: object) -> object:
        statement = as_sql(text.format("CAST(:now AS float8)", "CAST(:call AS text)"))
        named = dict(zip(("now", "call"), values, strict=True))
        if inspect.iscoroutinefunction(connection.execute):
            return (await connection.execute(statement, named)).scalar()
        return await asyncio.to_thread(lambda: connection.execute(statement, named).scalar())

    return run
