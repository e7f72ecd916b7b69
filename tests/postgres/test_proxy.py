# SPDX-License-Identifier: MIT
"""The proxy cuts where it is told to: before the server has heard it, and after the server has done it."""

import asyncpg
import pytest

from tests.postgres.proxy import ABANDONED, LOST, UNANSWERED, Proxy
from tests.postgres.server import run_sql


@pytest.fixture
async def proxy(breakable_postgres):
    async with Proxy(breakable_postgres) as proxy:
        yield proxy


async def test_what_is_not_cut_passes(proxy, breakable_url):
    connection = await asyncpg.connect(proxy.through(breakable_url))
    assert await connection.fetchval("SELECT $1::int", 5) == 5
    await connection.close()
    assert not proxy.has_cut


@pytest.mark.parametrize(("how", "is_done"), [(LOST, False), (UNANSWERED, True), (ABANDONED, True)])
async def test_a_cut_comes_before_or_after_the_deed(proxy, breakable_url, how, is_done):
    run_sql(breakable_url, "CREATE TABLE deeds (deed int)")
    connection = await asyncpg.connect(proxy.through(breakable_url))
    proxy.cut_at((1, how))
    with pytest.raises((asyncpg.PostgresConnectionError, asyncpg.InterfaceError, ConnectionError)):
        await connection.execute("INSERT INTO deeds VALUES (1)")
    connection.terminate()
    assert proxy.has_cut
    await proxy.settled()
    assert len(run_sql(breakable_url, "SELECT * FROM deeds")) == is_done
