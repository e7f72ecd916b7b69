# SPDX-License-Identifier: MIT
"""What can never work is not reported as if it might work later, and is nobody else's trouble."""

import asyncio

import pytest

from redrive.broker import Abandon, Cancel, Complete, Lock, Message, QueueSettings, Send
from redrive.engines.postgres import PostgresEngine
from redrive.errors import (
    EngineUnavailable,
    InvalidMessage,
    InvalidSetting,
    LockLost,
    MessageNotFound,
    QueueNotFound,
    UsageError,
)
from tests.engines.postgres.breaking import ORDERS, message, opened
from tests.postgres.fixtures import names
from tests.postgres.server import PostgresServer, run_sql

UNSTORABLE = ["with\0NUL", "half of a pair \ud800"]
TOO_LARGE = 2**63


@pytest.fixture
async def engine(postgres_url, postgres_schema):
    async with opened(postgres_url, schema=postgres_schema) as engine:
        await engine.declare(ORDERS, QueueSettings())
        await engine.declare("sessions", QueueSettings(requires_session=True))
        yield engine


@pytest.mark.parametrize("name", UNSTORABLE)
async def test_a_queue_whose_name_cannot_be_stored_is_not_there(engine, name):
    for call in (
        lambda: engine.apply([Send(name, message("one"))]),
        lambda: engine.apply([Complete(Lock(name, 1, 1))]),
        lambda: engine.apply([Abandon(Lock(name, 1, 1))]),
        lambda: engine.apply([Cancel(name, 1)]),
        lambda: engine.lock_next(name, 1),
        lambda: engine.lock_deferred(name, [1]),
        lambda: engine.lock_session(name, None),
        lambda: engine.renew([Lock(name, 1, 1)]),
        lambda: engine.peek(name, 1),
        lambda: engine.inspect(name),
        lambda: engine.update(name, QueueSettings()),
        lambda: engine.delete(name),
        lambda: engine.wait(name, 0.01),
    ):
        with pytest.raises(QueueNotFound):
            await call()


@pytest.mark.parametrize("name", UNSTORABLE)
async def test_a_bad_name_in_a_group_is_only_its_callers_trouble(engine, name):
    told = await asyncio.gather(
        engine.apply([Send(ORDERS, message("one"))]),
        engine.apply([Send(name, message("two"))]),
        engine.lock_next(name, 1),
        engine.apply([Send(ORDERS, message("three"))]),
        return_exceptions=True,
    )
    assert [type(each) for each in told] == [list, QueueNotFound, QueueNotFound, list]
    assert [one.id for one in await engine.peek(ORDERS, 10)] == ["one", "three"]


@pytest.mark.parametrize("session_id", [*UNSTORABLE, "ü" * 1_001], ids=["NUL", "surrogate", "long"])
async def test_a_session_whose_name_cannot_be_stored_is_refused(engine, session_id):
    with pytest.raises(InvalidMessage, match="session_id"):
        await engine.lock_session("sessions", session_id)


async def test_numbers_beyond_64_bits_are_nobodys_and_limits_beyond_are_as_good_as_none(engine):
    await engine.apply([Send(ORDERS, message("one"))])
    assert len(await engine.peek(ORDERS, TOO_LARGE)) == 1
    assert await engine.peek(ORDERS, 1, start=TOO_LARGE) == []
    both = await asyncio.gather(engine.lock_next(ORDERS, TOO_LARGE), engine.lock_next(ORDERS, TOO_LARGE))
    assert sorted(len(each) for each in both) == [0, 1]
    assert (await engine.upkeep(TOO_LARGE)).is_finished
    session = await engine.lock_session("sessions", "a")
    assert await engine.lock_in_session(session, TOO_LARGE) == []
    for number in (TOO_LARGE, -TOO_LARGE - 1, 10**30):
        with pytest.raises(MessageNotFound):
            await engine.lock_deferred(ORDERS, [number])
        with pytest.raises(MessageNotFound):
            await engine.apply([Cancel(ORDERS, number)])
        with pytest.raises(LockLost):
            await engine.apply([Complete(Lock(ORDERS, number, number))])
        assert await engine.renew([Lock(ORDERS, number, number)]) == [None]


async def test_what_the_server_cannot_take_is_not_called_unavailable(engine):
    """Whatever gets past the checks: the server's word decides, and it is not one to try again."""
    with pytest.raises(UsageError, match="correct what was given") as raised:
        await engine._database.read("SELECT $1::text", "\0")
    assert not isinstance(raised.value, EngineUnavailable)
    with pytest.raises(UsageError, match="correct what was given"):
        await engine._database.read("SELECT $1::integer", TOO_LARGE)
    assert await engine.inspect(ORDERS)


@pytest.mark.parametrize("schema", ["pg_x", "x$redrive$y", "it's", "", "a\0b", "\ud800", "ü" * 32])
def test_a_schema_that_cannot_be_is_refused_before_anybody_connects(schema):
    with pytest.raises(InvalidSetting, match="schema"):
        PostgresEngine("postgresql:///nowhere", schema=schema)


@pytest.mark.parametrize("schema", ['"', "x$$y", "$redrive", "@.", "a b", "PG", "%s", ":x", "ü"])
async def test_every_other_schema_can_be(postgres_url, schema):
    async with opened(postgres_url, schema=schema) as engine:
        try:
            await engine.declare(ORDERS, QueueSettings(duplicate_detection=60))
            await engine.apply([Send(ORDERS, message("one"))])
            assert len(await engine.lock_next(ORDERS, 1)) == 1
            await engine.upkeep()
        finally:
            run_sql(postgres_url, 'DROP SCHEMA "{}" CASCADE'.format(schema.replace('"', '""')))


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
async def test_a_database_that_lacks_characters_is_refused_with_the_way_to_make_a_better_one(postgres, encoding):
    if not isinstance(postgres, PostgresServer):
        pytest.skip("NOT SHOWN HERE: other encodings. Databases of another server are not ours to make")
    name = next(names)
    postgres.sql(f"CREATE DATABASE \"{name}\" ENCODING '{encoding}' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
    engine = PostgresEngine(postgres.url(name))
    with pytest.raises(UsageError, match=f"{encoding}.*create the database with ENCODING 'UTF8'"):
        await engine.open()
    postgres.sql(f'DROP DATABASE "{name}"')


async def test_every_character_is_stored(engine):
    sent = Message(b"\0", id="\x01\U0010ffff", subject="'\\", headers={"\0": "\0 \u2028 ü", "x": 0.1})
    await engine.apply([Send(ORDERS, sent)])
    (found,) = await engine.lock_next(ORDERS, 1)
    assert found.message == sent
