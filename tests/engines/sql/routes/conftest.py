# SPDX-License-Identifier: MIT
"""Every test that asks for a place is run on SQLite and on PostgreSQL."""

import sqlite3

import psycopg
import pytest

from redrive.engines.registry import route_ledger_in
from redrive.engines.sql.script import Sql
from tests.clocks import SharedClock
from tests.conformance.homes import PostgresHome, SqliteHome


class Place:
    """A database with ledgers of several processes in it, and a clock that tests move."""

    def __init__(self, home):
        self.clock = SharedClock()
        self.home = home
        self._ledgers = []

    async def ledger(self):
        """Return the ledger of one more process."""
        ledger = route_ledger_in(self.home.engine(self.clock), is_shared=False)
        self._ledgers.append(ledger)
        await ledger.open()
        return ledger

    async def sql(self, text, *values):
        """Run a statement beside everybody, and return its rows."""

        def script():
            return (yield Sql(text, list(values)))

        return [tuple(row) for row in await self._ledgers[0].database.run(script)]

    async def close(self):
        for ledger in self._ledgers:
            await ledger.close()


class SqlitePlace(Place):
    """A file."""

    prefix = "redrive_"

    def rival(self):
        """Return a connection of a process that has begun to write."""
        connection = sqlite3.connect(self.home._file, isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        return connection

    def is_waiting(self):
        """Say whether somebody waits for the rival."""
        return bool(self.clock.slept)

    def remove(self):
        self.home.remove()


class PostgresPlace(Place):
    """A schema, which the fixture takes away."""

    @property
    def prefix(self):
        return f'"{self.home._schema}".'

    def rival(self):
        """Return a connection of a process that has begun to write."""
        return psycopg.connect(self.home._url)

    def is_waiting(self):
        """Say whether somebody waits for the rival."""
        with psycopg.connect(self.home._url, autocommit=True) as connection:
            asked = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = %s"
            return connection.execute(asked, ["Lock"]).fetchone() != (0,)

    def remove(self):
        return


@pytest.fixture(params=["sqlite", "postgres"])
async def place(request):
    if request.param == "sqlite":
        place = SqlitePlace(SqliteHome())
    else:
        fixtures = [request.getfixturevalue(name) for name in ("postgres_url", "emptied_schema")]
        place = PostgresPlace(PostgresHome(*fixtures))
    yield place
    await place.close()
    place.remove()


@pytest.fixture
async def ledger(place):
    return await place.ledger()


@pytest.fixture
async def other(place):
    """The ledger of another process."""
    return await place.ledger()
