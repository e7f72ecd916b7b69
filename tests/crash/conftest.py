# SPDX-License-Identifier: MIT
"""Batches so small that a few messages make several, and the homes that worlds have."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from redrive.clock import system_clock
from redrive.engines.sqlite import SqliteEngine
from redrive.recovery.transformer import Transformer
from tests.clocks import SharedClock
from tests.conformance.homes import NatsHome, PostgresHome, SqliteHome
from tests.crash.harness import CHANGING, World


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr("redrive.recovery.operation.LARGEST_BATCH", 6)


@pytest.fixture(autouse=True)
def time_stands_still_while_messages_are_changed(monkeypatch):
    exchange = Transformer._exchange

    async def noted(self, transform, message):
        CHANGING.append(message)
        try:
            return await exchange(self, transform, message)
        finally:
            CHANGING.remove(message)

    monkeypatch.setattr(Transformer, "_exchange", noted)


@pytest.fixture
def new_world():
    """Make worlds in one SQLite file each, with an engine for each process."""

    @asynccontextmanager
    async def make(seed=0):
        home = SqliteHome()
        try:
            yield World(home, seed=seed)
        finally:
            await ended()
            home.remove()

    return make


@pytest.fixture
def quick_world():
    """Make worlds in memory, with one engine for all processes: they take half the time."""

    @asynccontextmanager
    async def make(seed=0):
        world = World(InMemory(), seed=seed, is_shared=True)
        engine = world.queues.engine(world.clock)
        await engine.open()
        try:
            yield world
        finally:
            await ended()
            await engine.close()

    return make


class InMemory:
    """A home that is gone when its engine is closed."""

    def engine(self, clock):
        """Return an engine that is not open yet."""
        return SqliteEngine(":memory:", clock=clock)


@pytest.fixture(params=["one-schema", "queues-in-postgres", "ledger-in-postgres"])
async def lasting_world(request, postgres_url, emptied_schema):
    """A world with PostgreSQL in it, for many runs: engines that are open already and a schema that is there."""
    schema, file = PostgresHome(postgres_url, emptied_schema), SqliteHome()
    queues, store = {
        "one-schema": (schema, schema),
        "queues-in-postgres": (schema, file),
        "ledger-in-postgres": (file, schema),
    }[request.param]
    world = World(queues, store, is_shared=True)
    engines = {id(engine): engine for home in (world.queues, world.store) for engine in [home.engine(world.clock)]}
    for engine in engines.values():
        await engine.open()
    yield world
    await ended()
    for engine in engines.values():
        await engine.close()
    file.remove()


class WaitingClock(SharedClock):
    """A clock that really waits when it is moved, so that a server with a clock of its own ends locks in time."""

    pace = 1 / 20
    late_s = 0.35
    longest_s = 60 * pace * 1.05 + late_s
    """As long as the longest lock."""

    def advance(self, seconds):
        """Wait, and move the clock."""
        late = self.late_s if seconds >= 1 else 0.0
        system_clock.sleep(min(self.longest_s, seconds * self.pace * 1.05 + late))
        super().advance(seconds)


@pytest.fixture
async def nats_world(engine_server, nats_namespace):
    """A world with its queues on NATS and its ledger in a file, for many runs."""
    queues, store = NatsHome(engine_server.url, nats_namespace, WaitingClock.pace), SqliteHome()
    world = World(queues, store, is_shared=True, clock=WaitingClock())
    engines = [home.engine(world.clock) for home in (world.queues, world.store)]
    for engine in engines:
        await engine.open()
    yield world
    for engine in engines:
        await engine.close()
    await ended()
    store.remove()


async def ended():
    """End whatever dead processes have left running."""
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    mine = [task for task in others if not str(task.get_coro()).startswith("<coroutine object pytest")]
    for task in mine:
        task.cancel()
