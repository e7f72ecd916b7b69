# SPDX-License-Identifier: MIT
"""Callers who leave while something is being locked for them, and callers who come from another event loop."""

import asyncio
from contextlib import asynccontextmanager, suppress

import asyncpg
import pytest

from redrive import connect
from redrive.broker import Defer, Message, QueueSettings, Send
from redrive.errors import UsageError
from tests.engines.postgres.breaking import ORDERS, message, opened

# A transaction that has changed one of the tables waits in its COMMIT, until the test lets it go.
HELD = """
CREATE FUNCTION {0}.hold() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    PERFORM pg_advisory_xact_lock_shared(4711); RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER hold AFTER INSERT OR UPDATE ON {0}.{1} DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION {0}.hold()
"""
WAITS = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND objid = 4711"


@pytest.fixture
async def engine(postgres_url, postgres_schema):
    async with opened(postgres_url, schema=postgres_schema) as engine:
        await engine.declare(ORDERS, QueueSettings())
        await engine.declare("sessions", QueueSettings(requires_session=True))
        yield engine


@pytest.fixture
async def other(postgres_url, postgres_schema, engine):  # noqa: ARG001 - after engine
    async with opened(postgres_url, schema=postgres_schema) as other:
        yield other


@pytest.fixture
def commits_held(postgres_url, postgres_schema):
    @asynccontextmanager
    async def held(table):
        """Hold whoever commits a change of a table; the block is given what waits until somebody is."""
        connection = await asyncpg.connect(postgres_url)
        try:
            await connection.execute(HELD.format(postgres_schema, table))
            await connection.execute("SELECT pg_advisory_lock(4711)")

            async def one_waits():
                while not await connection.fetchval(WAITS):
                    pass

            yield one_waits
        finally:
            await connection.close()

    return held


async def leave(call):
    """Cancel a caller, and see that it has left."""
    call.cancel()
    with suppress(asyncio.CancelledError):
        await call
    assert call.cancelled()


@pytest.mark.parametrize("session_id", ["a", None])
async def test_a_session_whose_caller_left_during_the_commit_is_nobodys(engine, other, commits_held, session_id):
    await engine.apply([Send("sessions", Message(b"", id="one", session_id="a"))])
    async with commits_held("sessions") as one_waits:
        call = asyncio.create_task(engine.lock_session("sessions", session_id))
        await one_waits()
        await leave(call)
    await engine.close()
    assert await other.lock_session("sessions", session_id) is not None
    await engine.open()


async def test_deferred_messages_whose_caller_left_during_the_commit_are_nobodys(engine, other, commits_held):
    await engine.apply([Send(ORDERS, message("one"))])
    (found,) = await engine.lock_next(ORDERS, 1)
    await engine.apply([Defer(found.lock)])
    async with commits_held("messages") as one_waits:
        call = asyncio.create_task(engine.lock_deferred(ORDERS, [found.sequence]))
        await one_waits()
        await leave(call)
    await engine.close()
    (again,) = await other.lock_deferred(ORDERS, [found.sequence])
    assert again.delivery_count == 2
    await engine.open()


# --- another event loop


def test_a_broker_that_was_opened_in_another_event_loop_says_so_and_what_to_do(postgres_url, postgres_schema):
    broker = connect(f"{postgres_url}&schema={postgres_schema}")
    asyncio.run(broker.__aenter__())
    for call in (
        lambda: broker.declare(ORDERS),
        lambda: broker.send(ORDERS, b""),
        lambda: broker.receive(ORDERS),
        broker.queues,
        lambda: broker.engine.wait(ORDERS, 1.0),
        broker.close,
        broker.engine.open,
    ):
        with pytest.raises(UsageError, match=r"another event loop.*async with connect.*connect_blocking"):
            asyncio.run(call())


def test_a_broker_that_was_closed_can_be_opened_in_another_event_loop(postgres_url, postgres_schema):
    broker = connect(f"{postgres_url}&schema={postgres_schema}")

    async def use(name):
        async with broker:
            await broker.declare(ORDERS)
            waiting = asyncio.create_task(broker.receive(ORDERS, wait=30))
            await broker.send(ORDERS, name)
            (found,) = await waiting
            await found.complete()
            return found.body.decode()

    assert [asyncio.run(use("first")), asyncio.run(use("second"))] == ["first", "second"]
