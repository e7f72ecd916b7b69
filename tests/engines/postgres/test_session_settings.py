# SPDX-License-Identifier: MIT
"""Nothing depends on what a database, a role or a user has set: our transactions say what they need."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from redrive import connect, open_recovery
from redrive.broker import Abandon, Complete, Message, QueueSettings, Send
from redrive.engines.postgres.session_settings import are_usual, settings_for
from tests.engines.postgres.breaking import ORDERS, message, opened
from tests.postgres.server import PostgresServer, run_sql

USUAL = {
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "off",
    "statement_timeout": "0",
    "lock_timeout": "0",
    "transaction_timeout": "0",
}

ODD = {
    "default_transaction_isolation": "serializable",
    "default_transaction_read_only": "on",
    "default_transaction_deferrable": "on",
    "statement_timeout": "20ms",
    "lock_timeout": "20ms",
    "idle_in_transaction_session_timeout": "20ms",
    "search_path": "pg_temp, nowhere",
    "standard_conforming_strings": "off",
    "backslash_quote": "on",
    "TimeZone": "Asia/Kathmandu",
    "DateStyle": "German",
    "IntervalStyle": "sql_standard",
    "bytea_output": "escape",
    "extra_float_digits": "-15",
    "array_nulls": "off",
    "transform_null_equals": "on",
    "lc_messages": "C",
}
"""What may be set; each of it has broken somebody's program."""


def test_defaults_are_usual_unless_one_is_not():
    assert are_usual(USUAL)
    assert are_usual({name: value for name, value in USUAL.items() if name != "transaction_timeout"})
    assert are_usual(USUAL | {"statement_timeout": "30000"})
    for name, value in {
        "default_transaction_isolation": "serializable",
        "default_transaction_read_only": "on",
        "statement_timeout": "500",
        "lock_timeout": "1",
        "transaction_timeout": "9999",
    }.items():
        assert not are_usual(USUAL | {name: value}), name


def test_what_the_url_says_stands_and_what_a_server_does_not_know_is_not_set():
    assert "transaction_timeout" not in settings_for(USUAL, set())
    assert "SET LOCAL transaction_timeout = '0'" in settings_for(USUAL | {"transaction_timeout": "5"}, set())
    assert "SET LOCAL statement_timeout = '0'" in settings_for(USUAL, {"lock_timeout"})
    assert "lock_timeout" not in settings_for(USUAL, {"lock_timeout"})


@pytest.fixture
def set_for_all(postgres_url):
    """Set something for whoever connects to the database from now on."""
    database = run_sql(postgres_url, "SELECT current_database() AS name")[0]["name"]
    yield lambda **settings: run_sql(
        postgres_url, *[f"ALTER DATABASE \"{database}\" SET {name} = '{value}'" for name, value in settings.items()]
    )
    usual = "-c default_transaction_read_only=off -c statement_timeout=0 -c lock_timeout=0"  # 20 ms may be too short
    run_sql(f"{postgres_url}&options={usual}", f'ALTER DATABASE "{database}" RESET ALL')


@pytest.fixture
def url(postgres, postgres_url):
    if not isinstance(postgres, PostgresServer):
        pytest.skip("NOT SHOWN HERE: other defaults. A database of another server is not ours to set them")
    return postgres_url


ALL = ODD | {"default_transaction_isolation": "repeatable read"}


@pytest.mark.parametrize("settings", [ODD, ALL], ids=["serializable", "repeatable read"])
async def test_everything_works_whatever_is_set(url, postgres_schema, set_for_all, settings, caplog):
    set_for_all(**settings)
    async with connect(f"{url}&schema={postgres_schema}") as broker, open_recovery(broker) as recovery:
        await broker.declare(ORDERS, duplicate_detection=60)
        await broker.declare("sessions", requires_session=True)
        assert await broker.send(ORDERS, Message(b"\x00\\'", id="one", headers={"at": 0.1 + 0.2}))
        assert await broker.send(ORDERS, Message(b"", id="one")) is None
        (found,) = await broker.receive(ORDERS)
        assert (found.body, found.headers["at"]) == (b"\x00\\'", 0.1 + 0.2)
        await found.renew()
        await found.defer()
        (found,) = await broker.receive_deferred(ORDERS, [found.sequence])
        await found.dead_letter("wrong", "it is")
        assert await broker.resubmit(ORDERS) == 1
        await broker.send("sessions", Message(b"", session_id="a"))
        session = await broker.accept_session("sessions")
        (found,) = await session.receive()
        await session.remember(b"\x00\\")
        await broker.apply(Abandon(found.lock), Send(ORDERS, Message(b"second")))
        await session.renew()
        await session.release()
        await broker.engine.upkeep()
        await recovery.step()
        assert await recovery.count('text:"a\\\\b"') == 0
        assert await broker.purge(ORDERS) == 2
        assert await broker.purge("sessions") == 1
    assert [record.getMessage() for record in caplog.records] == []


async def test_callers_who_compete_never_hear_that_a_transaction_could_not_be_serialized(
    url, postgres_schema, set_for_all
):
    set_for_all(default_transaction_isolation="serializable")
    async with AsyncExitStack() as stack:
        engines = [await stack.enter_async_context(opened(url, schema=postgres_schema)) for _ in range(4)]
        await engines[0].declare(ORDERS, QueueSettings(duplicate_detection=60))
        done = await asyncio.gather(*(compete(engine, f"{place}") for place, engine in enumerate(engines)))
        while left := await engines[0].lock_next(ORDERS, 100):
            done.append([one.id for one in left])
    assert sorted(name for names in done for name in names) == sorted(f"{p}.{n}" for p in range(4) for n in range(40))


async def compete(engine, name):
    """Send 40 messages and settle as many as there are; return those that were completed."""
    done = []
    for number in range(40):
        await engine.apply([Send(ORDERS, message(f"{name}.{number}"))])
        found = await engine.lock_next(ORDERS, 3)
        if number % 3 == 0:
            await engine.apply([Abandon(one.lock, uncount=True) for one in found])
        else:
            await engine.apply([Complete(one.lock) for one in found])
            done += [one.id for one in found]
        await engine.inspect(ORDERS)
    return done


async def test_what_the_url_says_about_time_is_left_as_it_is(url, postgres_schema):
    limited = f"{url}&schema={postgres_schema}&statement_timeout=9000"
    async with connect(limited) as broker:
        await broker.declare(ORDERS)
        seen = []

        async def look(connection):
            seen.append(await connection.fetchval("SHOW statement_timeout"))

        await broker.apply(Send(ORDERS, message("one")), inside=look)
    assert seen == ["9s"]
