# SPDX-License-Identifier: MIT
"""What every behaviour of the suite starts from: a clock that stands still and an engine that is open."""

from collections.abc import AsyncIterator, Callable
from typing import TypeAlias

import pytest
import pytest_asyncio

from redrive.broker import Broker, Engine
from redrive.testing.manual_clock import ManualClock

EngineFactory: TypeAlias = Callable[[ManualClock], Engine]


class EngineFixtures:
    """The fixtures of the suite. A subclass overrides ``make_engine``, and perhaps ``clock``.

    Attributes:
        has_shared_store: whether all engines from one ``make_engine`` have one store, as those of two processes have.
            Behaviours that need a second engine are skipped where it is False, as with queues that live in memory.
    """

    has_shared_store = True

    @pytest.fixture
    def clock(self) -> ManualClock:
        """What the engine goes by; behaviours move it forward, and with ``jump`` set the wall clock alone."""
        return ManualClock()

    @pytest.fixture
    def make_engine(self) -> EngineFactory:
        """Return a function of a clock that returns an engine, not yet open, over a store that began empty."""
        raise NotImplementedError("override the fixture make_engine in your class")

    @pytest_asyncio.fixture
    async def engine(self, make_engine: EngineFactory, clock: ManualClock) -> AsyncIterator[Engine]:
        """An engine that is open."""
        engine = make_engine(clock)
        await engine.open()
        yield engine
        await engine.close()

    @pytest_asyncio.fixture
    async def other(self, make_engine: EngineFactory, clock: ManualClock, engine: Engine) -> AsyncIterator[Engine]:
        """A second engine over the same store, as another process would have."""
        if not self.has_shared_store:
            pytest.skip("the store cannot be opened twice")
        other = make_engine(clock)
        await other.open()
        yield other
        await other.close()

    @pytest.fixture
    def broker(self, engine: Engine, clock: ManualClock) -> Broker:
        """The facade over the engine, without upkeep of its own."""
        return Broker(engine, clock=clock)


def needs(has_it: bool, what: str) -> None:  # noqa: FBT001 - a capability
    """Skip a behaviour that rests on something the engine says it has not."""
    if not has_it:
        pytest.skip(f"the engine's capabilities say: {what}")
