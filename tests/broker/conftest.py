# SPDX-License-Identifier: MIT
"""A clock that stands still, and a broker in memory that goes by it."""

import pytest

from redrive.broker import Broker
from redrive.engines.sqlite import SqliteEngine
from redrive.testing import ManualClock


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
async def engine(clock):
    engine = SqliteEngine(":memory:", clock=clock)
    await engine.open()
    yield engine
    await engine.close()


@pytest.fixture
async def broker(engine, clock):
    """A broker without upkeep of its own."""
    broker = Broker(engine, clock=clock)
    await broker.declare("orders", lock_duration=60)
    return broker
