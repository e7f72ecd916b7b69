# SPDX-License-Identifier: MIT
"""Every test that asks for a place is run on SQLite and on PostgreSQL."""

import asyncio
from contextlib import AsyncExitStack
from unittest import mock

import pytest

from redrive import open_history
from redrive.broker import Broker
from redrive.broker.rounds import Rounds
from redrive.engines.sql.script import Sql
from tests.clocks import SharedClock
from tests.conformance.homes import PostgresHome, SqliteHome


class Place:
    """A database with brokers of several processes in it, and a clock that tests move."""

    def __init__(self, home):
        self.clock = SharedClock()
        self.home = home
        self._stack = AsyncExitStack()

    async def broker(self):
        """Return the broker of one more process. Its first round of upkeep is over; the test does all others.

        A round of its own would win the minute from one of the test, and still be at it when the test looks.
        """
        with mock.patch.object(Rounds, "run", asyncio.Event().wait):
            broker = await self._stack.enter_async_context(Broker(self.home.engine(self.clock), clock=self.clock))
        await broker.engine.upkeep()
        return broker

    async def history(self, broker):
        return await self._stack.enter_async_context(open_history(broker))

    async def close(self):
        await self._stack.aclose()


async def rows(broker, where="TRUE", columns="name, metric, step, began, n"):
    """Return the stored numbers."""

    def script():
        order = "ORDER BY topic, name, metric, step, began"
        return (yield Sql(f"SELECT {columns} FROM @.tallies WHERE {where} {order}"))  # noqa: S608 - our own text

    return [tuple(row) for row in await broker.engine.look(script)]


async def counted(broker):
    """Return what was counted about queues, by name and metric."""
    await broker.engine.flush_tallies()
    return {(name, metric): n for name, metric, n in await rows(broker, "topic = 'queue'", "name, metric, n")}


@pytest.fixture(params=["sqlite", "postgres"])
async def place(request):
    if request.param == "sqlite":
        home = SqliteHome()
    else:
        home = PostgresHome(*[request.getfixturevalue(name) for name in ("postgres_url", "emptied_schema")])
    place = Place(home)
    yield place
    await place.close()
    if request.param == "sqlite":
        home.remove()


@pytest.fixture
async def broker(place):
    broker = await place.broker()
    await broker.declare("orders")
    return broker


@pytest.fixture
async def history(place, broker):
    return await place.history(broker)
