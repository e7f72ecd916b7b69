# SPDX-License-Identifier: MIT
"""The schema comes about by numbered migrations, whoever is there at the same time, under whatever name."""

import asyncio

import pytest

from redrive.broker import QueueSettings, Send
from redrive.engines.postgres import schema
from redrive.engines.sqlite import schema as sqlite_schema
from redrive.errors import RedriveError, SchemaMismatch
from tests.engines.postgres.breaking import ORDERS, message, opened
from tests.postgres.server import database_of, run_sql, url_of


def migrations(url, name):
    return [tuple(row) for row in run_sql(url, f'SELECT number, name FROM "{name}".redrive_migrations ORDER BY number')]  # noqa: S608


def test_migrations_have_the_numbers_and_names_of_the_other_engines():
    assert [name for name, _ in schema.MIGRATIONS] == [name for name, _ in sqlite_schema.MIGRATIONS]


async def test_opening_again_migrates_once(postgres_url, postgres_schema):
    for _ in range(2):
        async with opened(postgres_url, schema=postgres_schema):
            found = migrations(postgres_url, postgres_schema)
    assert found == [(number, name) for number, (name, _) in enumerate(schema.MIGRATIONS, 1)]


async def test_any_number_may_migrate_at_once(postgres_url, postgres_schema):
    async def work(number):
        async with opened(postgres_url, schema=postgres_schema) as engine:
            await engine.declare(ORDERS, QueueSettings())
            return await engine.apply([Send(ORDERS, message(f"{number}"))])

    numbers = await asyncio.gather(*(work(number) for number in range(6)))
    assert len({one for (one,) in numbers}) == 6


async def test_a_schema_that_a_newer_version_made_is_left_alone(postgres_url, postgres_schema):
    async with opened(postgres_url, schema=postgres_schema):
        run_sql(postgres_url, f"INSERT INTO \"{postgres_schema}\".redrive_migrations VALUES (99, '0099_later')")  # noqa: S608
    with pytest.raises(SchemaMismatch):
        async with opened(postgres_url, schema=postgres_schema):
            pass


@pytest.mark.parametrize("odd", ["With Capitals", 'a "quote"', "semi;colon", "dollar$$", "naïve", "@.", "select"])
async def test_a_schema_may_have_any_name(breakable_url, odd):
    async with opened(breakable_url, schema=odd) as engine:
        await engine.declare(ORDERS, QueueSettings())
        await engine.apply([Send(ORDERS, message("one"))])
        assert [one.id for one in await engine.lock_next(ORDERS, 1)] == ["one"]


async def test_a_user_who_may_not_create_a_schema_is_told_what_to_grant(breakable_postgres, breakable_url):
    run_sql(breakable_url, "DROP ROLE IF EXISTS guest", "CREATE ROLE guest LOGIN")
    database = database_of(breakable_url)
    with pytest.raises(RedriveError, match="grant"):
        async with opened(url_of(database, host=breakable_postgres.folder, user="guest")):
            pass


async def test_two_schemas_know_nothing_of_each_other(breakable_url):
    async with opened(breakable_url, schema="one") as one, opened(breakable_url, schema="two") as two:
        for engine in (one, two):
            await engine.declare(ORDERS, QueueSettings())
        await one.apply([Send(ORDERS, message("one"))])
        assert await two.peek(ORDERS, 10) == []
