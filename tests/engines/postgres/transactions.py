# SPDX-License-Identifier: MIT
"""Transactions as users open them, with every driver that ``within=`` takes.

Each is an async context manager of a URL: it commits at the end of its block, and rolls back if the block raises.
"""

from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import asyncpg
import psycopg
from sqlalchemy import NullPool, create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session


class Open(NamedTuple):
    """A transaction that is open."""

    within: Any
    """What the broker is given."""

    run: Callable[[str], Awaitable[list[Any]]]
    """Runs the user's own statement, and returns its rows."""


# --- asyncpg


@asynccontextmanager
async def asyncpg_connection(url):
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction():
            yield Open(connection, connection.fetch)
    finally:
        await connection.close()


@asynccontextmanager
async def asyncpg_pool(url):
    async with (
        asyncpg.create_pool(url, min_size=1, max_size=1) as pool,
        pool.acquire() as connection,
        connection.transaction(),
    ):
        yield Open(connection, connection.fetch)


# --- psycopg


@asynccontextmanager
async def psycopg_async(url):
    async with await psycopg.AsyncConnection.connect(url) as connection:

        async def run(statement):
            cursor = await connection.execute(statement)
            return await cursor.fetchall() if cursor.description else []

        yield Open(connection, run)


@asynccontextmanager
async def psycopg_blocking(url):
    with psycopg.connect(url) as connection:

        async def run(statement):
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

        yield Open(connection, run)


# --- SQLAlchemy


def async_engine(url, driver):
    """Return an engine of SQLAlchemy that connects to a URL as PostgreSQL writes it."""
    connect = {"asyncpg": asyncpg.connect, "psycopg": psycopg.AsyncConnection.connect}[driver]
    return create_async_engine(f"postgresql+{driver}://", async_creator=lambda: connect(url), poolclass=NullPool)


def blocking_engine(url):
    """Return a blocking engine of SQLAlchemy."""
    return create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(url), poolclass=NullPool)


def ran_on(theirs):
    async def run(statement):
        answer = await theirs.execute(text(statement))
        return answer.all() if answer.returns_rows else []

    return run


def ran_on_blocking(theirs):
    async def run(statement):
        answer = theirs.execute(text(statement))
        return answer.all() if answer.returns_rows else []

    return run


def async_session(driver):
    @asynccontextmanager
    async def transaction(url):
        async with AsyncSession(async_engine(url, driver)) as session, session.begin():
            yield Open(session, ran_on(session))

    return transaction


def async_connection(driver):
    @asynccontextmanager
    async def transaction(url):
        async with async_engine(url, driver).begin() as connection:
            yield Open(connection, ran_on(connection))

    return transaction


@asynccontextmanager
async def blocking_session(url):
    with Session(blocking_engine(url)) as session, session.begin():
        yield Open(session, ran_on_blocking(session))


@asynccontextmanager
async def blocking_connection(url):
    with blocking_engine(url).begin() as connection:
        yield Open(connection, ran_on_blocking(connection))


TRANSACTIONS = {
    "asyncpg": asyncpg_connection,
    "asyncpg-pool": asyncpg_pool,
    "psycopg-async": psycopg_async,
    "psycopg": psycopg_blocking,
    "sqlalchemy-async-session-asyncpg": async_session("asyncpg"),
    "sqlalchemy-async-connection-asyncpg": async_connection("asyncpg"),
    "sqlalchemy-async-session-psycopg": async_session("psycopg"),
    "sqlalchemy-async-connection-psycopg": async_connection("psycopg"),
    "sqlalchemy-session": blocking_session,
    "sqlalchemy-connection": blocking_connection,
}
