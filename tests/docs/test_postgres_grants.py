# SPDX-License-Identifier: MIT
"""The grants on the page about PostgreSQL are enough for what it says they are for."""

import re
from pathlib import Path

import asyncpg
import pytest

import redrive
from redrive.broker import Complete, Message, Send
from tests.engines.postgres.transactions import asyncpg_connection
from tests.postgres.fixtures import names
from tests.postgres.server import PostgresServer, run_sql, url_of

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "share-queues-on-postgres.md"
OWNER, EVERYBODY_ELSE, DURABLE, DEFAULTS, LONG, DROP = re.findall(
    r"^```sql\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL
)


def statements(block):
    return [part for part in re.sub(r"--.*", "", block).split(";") if part.strip()]


@pytest.fixture
def roles(postgres):
    """A database with the roles of the page; returns its URL for one of them."""
    if not isinstance(postgres, PostgresServer):
        pytest.skip("NOT SHOWN HERE: that the page's grants are enough. Roles of another server are not ours to make")
    name = next(names)
    url = postgres.create_database(name)
    run_sql(url, *statements(OWNER), "CREATE ROLE shop LOGIN", "GRANT CREATE ON SCHEMA public TO shop")
    yield lambda user="postgres": url_of(name, host=postgres.folder, user=user)
    run_sql(url, *[f"DROP OWNED BY {role} CASCADE" for role in ("shop", "redrive")], "DROP ROLE redrive, shop")


async def test_the_owner_needs_nothing_else(roles, caplog):
    async with redrive.connect(roles("redrive")) as broker:
        await broker.declare("orders", duplicate_detection=60)
        await broker.send_many("orders", [b"", b""])
        await broker.purge("orders")
        await broker.engine.upkeep()
    assert caplog.records == []


@pytest.mark.parametrize("is_granted_first", [True, False])
async def test_everybody_else_can_send_receive_and_join(roles, is_granted_first):
    if is_granted_first:
        run_sql(roles(), *statements(EVERYBODY_ELSE))
    async with redrive.connect(roles("redrive")) as broker:
        await broker.declare("orders", duplicate_detection=60)
    if not is_granted_first:
        run_sql(roles(), *statements(EVERYBODY_ELSE))
    async with redrive.connect(roles("shop")) as broker:
        async with asyncpg_connection(roles("shop")) as opened:
            await opened.run("CREATE TABLE orders (id integer)")
            await broker.apply(Send("orders", Message(b"")), within=opened.within)
        (order,) = await broker.receive("orders", wait=10)
        async with asyncpg_connection(roles("shop")) as opened:
            await broker.apply(Complete(order.lock), within=opened.within)
        await broker.send("orders", b"")
        await broker.purge("orders")
        await broker.declare("answers")
        await broker.delete("answers")
        await broker.engine.upkeep()


async def test_the_other_statements_are_ones(roles):
    run_sql(roles(), *[each.replace("shop", f'"{await database(roles)}"') for each in statements(DURABLE + DEFAULTS)])
    listed, *_ = statements(LONG)
    run_sql(roles(), listed)
    run_sql(roles(), "CREATE SCHEMA billing", *statements(DROP))


async def database(roles):
    connection = await asyncpg.connect(roles())
    try:
        return await connection.fetchval("SELECT current_database()")
    finally:
        await connection.close()
