# SPDX-License-Identifier: MIT
"""Servers that go away, have no room, only read, or are not there: a named error, and nothing acknowledged is lost.

The worker and the engine go by real time here: what they wait for is a server that comes back.
"""

import asyncio
from contextlib import AsyncExitStack
from itertools import count

import asyncpg
import pytest

import redrive
from redrive.broker import QueueSettings, Send
from redrive.engines.postgres import PostgresEngine
from redrive.errors import EngineUnavailable, InvalidSetting, RedriveError, StorageReadOnly
from redrive.retry import Fixed
from redrive.worker import Context, Worker
from tests.engines.postgres.breaking import DEAD, ORDERS, UNAVAILABLE, message, opened, outcome, until_it_answers
from tests.postgres.server import NEEDS_PASSWORD, database_of, run_sql, url_of


@pytest.fixture
async def engine(breakable_url):
    async with opened(breakable_url) as engine:
        await engine.declare(ORDERS, QueueSettings())
        yield engine


# --- a server that goes away


@pytest.mark.parametrize("mode", ["fast", "immediate"])
async def test_a_worker_comes_back_after_a_restart_and_no_attempt_is_used_up(breakable_postgres, breakable_url, mode):
    deliveries, started, may_end = [], asyncio.Event(), asyncio.Event()
    worker = Worker(reconnect=Fixed(0.2, max_attempts=4), chance=lambda: 0.0)

    @worker.handler(ORDERS, concurrency=4)
    async def handle(order: str, context: Context) -> None:
        deliveries.append((order, context.attempt, context.delivery_count))
        if order == "slow":
            started.set()
            await may_end.wait()

    async with redrive.connect(breakable_url) as broker:
        await broker.declare(ORDERS)
        await broker.send(ORDERS, "slow")
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(worker.run(broker))
            await started.wait()
            await asyncio.to_thread(breakable_postgres.stop, mode)
            may_end.set()
            await asyncio.to_thread(breakable_postgres.start)
            names = [f"{number}" for number in range(20)]
            await until_it_answers.call_async(broker.send_many, ORDERS, names)
            await until_it_answers.call_async(is_empty, broker)
            worker.stop()
        assert sorted(deliveries) == sorted((name, 1, 1) for name in ["slow", *names])
        assert await broker.peek(DEAD) == []


async def is_empty(broker):
    """Say that a queue is empty."""
    info = await broker.inspect(ORDERS)
    if info.ready or info.locked or info.scheduled:
        raise EngineUnavailable(f"there are messages yet: {info}")
    return True


async def test_a_server_that_is_away_is_an_error_and_the_engine_works_when_it_is_back(
    breakable_postgres, breakable_url
):
    async with opened(breakable_url) as engine:
        await engine.declare(ORDERS, QueueSettings())
        await engine.apply([Send(ORDERS, message("before"))])
        await asyncio.to_thread(breakable_postgres.stop, "immediate")
        for call in (
            lambda: engine.apply([Send(ORDERS, message("during"))]),
            lambda: engine.lock_next(ORDERS, 1),
            lambda: engine.peek(ORDERS, 1),
            engine.inspect,
            engine.upkeep,
        ):
            with pytest.raises(EngineUnavailable):
                await call()
        await asyncio.to_thread(breakable_postgres.start)
        await until_it_answers.call_async(engine.apply, [Send(ORDERS, message("after"))])
        assert [one.id for one in await engine.lock_next(ORDERS, 10)] == ["before", "after"]


async def test_an_engine_can_be_closed_while_its_server_is_away(breakable_postgres, breakable_url):
    async with opened(breakable_url) as engine:
        await engine.declare(ORDERS, QueueSettings())
        await asyncio.to_thread(breakable_postgres.stop, "immediate")


# --- a server that has no room, no time, or no right to write


async def test_more_callers_than_connections_all_get_their_answer(engine):
    answers = await asyncio.gather(
        *(engine.peek(ORDERS, 1) for _ in range(300)), *(engine.inspect() for _ in range(50))
    )
    assert len(answers) == 350


@pytest.fixture
async def crowd(breakable_url):
    """Takes every connection that the server has."""
    taken = []
    while (connection := await connection_if_any(breakable_url)) is not None:
        taken.append(connection)
    yield
    for connection in taken:
        await connection.close()


async def connection_if_any(url):
    """Return a connection, None if there is none left."""
    try:
        return await asyncpg.connect(url)
    except asyncpg.TooManyConnectionsError:
        return None


@pytest.mark.usefixtures("crowd")
async def test_a_server_without_a_free_connection_says_so(breakable_url):
    with pytest.raises(EngineUnavailable, match="connections"):
        await PostgresEngine(breakable_url).open()


async def test_a_statement_that_takes_too_long_is_an_error_and_changes_nothing(breakable_url):
    database = database_of(breakable_url)
    async with AsyncExitStack() as stack:
        patient = await stack.enter_async_context(opened(breakable_url))
        await patient.declare(ORDERS, QueueSettings())
        run_sql(breakable_url, f"ALTER DATABASE {database} SET statement_timeout = '1s'")
        engine = await stack.enter_async_context(opened(breakable_url))
        blocker = await asyncpg.connect(breakable_url)
        async with blocker.transaction():
            await blocker.execute("LOCK TABLE redrive.messages")
            with pytest.raises(EngineUnavailable, match="statement"):
                await engine.apply([Send(ORDERS, message("late"))])
            with pytest.raises(EngineUnavailable, match="statement"):
                await engine.lock_next(ORDERS, 1)
        await blocker.close()
        assert await patient.peek(ORDERS, 10) == []
        await patient.apply([Send(ORDERS, message("in time"))])
        assert [one.id for one in await patient.lock_next(ORDERS, 10)] == ["in time"]


async def test_a_standby_is_named_read_only(breakable_postgres, breakable_url):
    async with opened(breakable_url) as engine:
        await engine.declare(ORDERS, QueueSettings())
    database = database_of(breakable_url)
    with breakable_postgres.standby() as standby:
        for schema in ("redrive", "another"):
            with pytest.raises(StorageReadOnly):
                await send_once(standby.url(database), schema)


async def send_once(url, schema):
    async with opened(url, schema=schema) as engine:
        await engine.apply([Send(ORDERS, message("refused"))])


# --- failover


async def test_acknowledged_messages_are_kept_when_a_standby_takes_over(breakable_postgres, breakable_url):
    database = database_of(breakable_url)
    with breakable_postgres.standby() as standby:
        hosts = f"{breakable_postgres.folder},{standby.folder}"
        url = url_of(database, host=hosts, user="postgres", target_session_attrs="read-write")
        async with redrive.connect(url) as broker:
            await broker.declare(ORDERS)
            stop = asyncio.Event()
            sending = asyncio.create_task(send_until(broker, stop))
            await asyncio.to_thread(breakable_postgres.stop, "immediate")
            await asyncio.to_thread(standby.promote)
            await until_it_answers.call_async(broker.send, ORDERS, message("after"))
            stop.set()
            told = await sending
            there = [one.id async for one in browsed(broker)]
        assert "after" in there
        assert len(there) == len(set(there))
        assert set(told) <= set(there)


async def send_until(broker, stop):
    """Send until told to stop; return the ids that the broker has said are stored."""
    told = []
    for number in count():
        if stop.is_set():
            return told
        if await outcome(broker.send(ORDERS, message(f"{number}"))) != UNAVAILABLE:
            told.append(f"{number}")
    return told


async def browsed(broker):
    """Yield everything in the queue."""
    start = 0
    while page := await broker.engine.peek(ORDERS, 1_000, start=start):
        for one in page:
            yield one
        start = page[-1].sequence + 1


# --- a wrong address


async def test_a_server_that_is_not_there_is_named(tmp_path):
    with pytest.raises(EngineUnavailable, match="nowhere"):
        await PostgresEngine(url_of("shop", host=tmp_path / "nowhere", user="postgres")).open()


async def test_a_database_that_is_not_there_is_named(breakable_postgres):
    with pytest.raises(RedriveError, match="no_such_database"):
        await PostgresEngine(breakable_postgres.url("no_such_database")).open()


async def test_a_wrong_password_is_an_error_that_does_not_repeat_it(breakable_postgres):
    breakable_postgres.sql(
        f"DROP ROLE IF EXISTS {NEEDS_PASSWORD}", f"CREATE ROLE {NEEDS_PASSWORD} LOGIN PASSWORD 'right'"
    )
    url = url_of("postgres", host=breakable_postgres.folder, user=NEEDS_PASSWORD, password="hunter2")  # noqa: S106
    with pytest.raises(RedriveError, match=NEEDS_PASSWORD) as caught:
        await PostgresEngine(url).open()
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("url", ["postgresql://[", "postgresql:///db?port=many", "postgresql:///db?nonsense=1"])
def test_an_address_that_is_none_is_refused_before_anything_is_done(url):
    with pytest.raises(InvalidSetting):
        redrive.connect(url)
