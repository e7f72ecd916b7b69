# SPDX-License-Identifier: MIT
"""The schema comes about by numbered migrations, whoever is there at the same time, under whatever name."""

import asyncio

import pytest

from redrive.broker import QueueSettings, Send
from redrive.engines.postgres import expected_schema, schema
from redrive.engines.sqlite import schema as sqlite_schema
from redrive.errors import SchemaMismatch, UsageError
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


async def test_what_is_sent_after_numbers_are_taken_in_blocks_has_higher_ones(
    postgres_url, postgres_schema, monkeypatch
):
    names = [name for name, _ in schema.MIGRATIONS]
    numbers = []
    with monkeypatch.context() as before:
        before.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[: names.index("0023_cheaper_legs")])
        async with opened(postgres_url, schema=postgres_schema) as engine:
            await engine.declare(ORDERS, QueueSettings())
            numbers += await engine.apply([Send(ORDERS, message(f"{number}")) for number in range(5)])
    for many in (1, 40, 3):
        async with opened(postgres_url, schema=postgres_schema) as engine:
            numbers += await engine.apply([Send(ORDERS, message(f"{len(numbers)} {each}")) for each in range(many)])
            assert [one.sequence for one in await engine.peek(ORDERS, 100)] == numbers
    assert numbers == sorted(set(numbers))
    assert len(numbers) == 49


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


async def test_a_user_who_may_not_create_a_schema_is_told_who_can(breakable_postgres, breakable_url):
    run_sql(breakable_url, "DROP ROLE IF EXISTS guest", "CREATE ROLE guest LOGIN")
    database = database_of(breakable_url)
    with pytest.raises(UsageError, match='CREATE SCHEMA "redrive" AUTHORIZATION guest'):
        async with opened(url_of(database, host=breakable_postgres.folder, user="guest")):
            pass


async def test_two_schemas_know_nothing_of_each_other(breakable_url):
    async with opened(breakable_url, schema="one") as one, opened(breakable_url, schema="two") as two:
        for engine in (one, two):
            await engine.declare(ORDERS, QueueSettings())
        await one.apply([Send(ORDERS, message("one"))])
        assert await two.peek(ORDERS, 10) == []


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("ALTER TABLE {0}.failures DROP COLUMN edited_as", "table 'failures' has no column 'edited_as'"),
        ("DROP TABLE {0}.seen_ids", "there is no table 'seen_ids'"),
        ("DROP FUNCTION {0}.is_due", "there is no function 'is_due'"),
    ],
    ids=["column", "table", "function"],
)
async def test_a_schema_that_is_not_what_its_migrations_make_is_told(postgres_url, postgres_schema, change, problem):
    async with opened(postgres_url, schema=postgres_schema):
        pass
    run_sql(postgres_url, change.format(f'"{postgres_schema}"'))
    with pytest.raises(SchemaMismatch, match="unreleased version of Redrive") as caught:
        async with opened(postgres_url, schema=postgres_schema):
            pass
    assert caught.value.problem == problem


def test_what_migrations_make_is_read_from_their_scripts():
    scripts = [
        "CREATE TABLE @.a (x text PRIMARY KEY, -- not y text,\n z numeric(1, 2), UNIQUE (x, z)) WITH (b = 1);",
        "CREATE TABLE @.b (x text); CREATE TABLE @.c (x text);",
        "ALTER TABLE @.a ADD COLUMN more text, ADD COLUMN most text; ALTER TABLE @.a DROP COLUMN z; DROP TABLE @.b;",
        "CREATE FUNCTION @.f(x text) RETURNS void AS $redrive$ CREATE TABLE @.no (x text) $redrive$;",
        "ALTER TABLE @.c RENAME COLUMN x TO y; ALTER TABLE @.c ADD CONSTRAINT one UNIQUE (y);",
    ]
    assert expected_schema.tables(scripts) == {"a": {"x", "more", "most"}, "c": {"y"}}
    assert expected_schema.functions(scripts) == {"f"}
