# SPDX-License-Identifier: MIT
"""What every behaviour of the suite starts from: a clock that stands still and an engine that is open."""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Protocol, TypeAlias, cast

import pytest
import pytest_asyncio

from redrive.broker import Broker, Effect
from redrive.broker.port import (
    Browsing,
    Choosing,
    Deferral,
    EffectResult,
    Engine,
    Maintenance,
    Sessions,
    Topics,
    check_effects,
    find_ability,
)
from redrive.errors import NotSupported
from redrive.testing.manual_clock import ManualClock

EngineFactory: TypeAlias = Callable[[ManualClock], Engine]


class FullEngine(Engine, Sessions, Deferral, Choosing, Browsing, Maintenance, Topics, Protocol):
    """An engine that can do all that a behaviour may ask of it."""


class _Partial:
    """An engine that cannot do everything: a behaviour that needs what it lacks is skipped there."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def __getattr__(self, verb: str) -> Any:  # noqa: ANN401 - any verb
        if not hasattr(self._engine, verb):
            pytest.skip(f"the engine has no {verb}")
        return getattr(self._engine, verb)

    async def apply(self, effects: Sequence[Effect]) -> list[EffectResult]:
        """Do what the engine can do."""
        try:
            check_effects(self._engine, effects)
        except NotSupported as error:
            pytest.skip(str(error))
        return await self._engine.apply(effects)


_ABILITIES: tuple[Any, ...] = (Sessions, Deferral, Choosing, Browsing, Maintenance, Topics)


def full(engine: Engine) -> FullEngine:
    """Return an engine of which a behaviour may ask anything; what it cannot do skips the behaviour."""
    has_all = all(find_ability(engine, each) is not None for each in _ABILITIES)
    return cast("FullEngine", engine if has_all and engine.capabilities.cancels_schedules else _Partial(engine))


def has_sessions(engine: Engine) -> bool:
    """Say whether an engine knows sessions."""
    return find_ability(engine, Sessions) is not None


def goes_by_clock(engine: Engine) -> bool:
    """Say whether an engine's clock decides everything; otherwise its store has a clock of its own."""
    return engine.capabilities.time_resolution_s == 0


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
    async def engine(self, make_engine: EngineFactory, clock: ManualClock) -> AsyncIterator[FullEngine]:
        """An engine that is open."""
        engine = make_engine(clock)
        await engine.open()
        yield full(engine)
        await engine.close()

    @pytest_asyncio.fixture
    async def other(
        self, make_engine: EngineFactory, clock: ManualClock, engine: FullEngine
    ) -> AsyncIterator[FullEngine]:
        """A second engine over the same store, as another process would have."""
        if not self.has_shared_store:
            pytest.skip("the store cannot be opened twice")
        other = make_engine(clock)
        await other.open()
        yield full(other)
        await other.close()

    @pytest.fixture
    def broker(self, engine: FullEngine, clock: ManualClock) -> Broker:
        """The facade over the engine, without upkeep of its own."""
        return Broker(engine, clock=clock)


def needs(has_it: bool, what: str) -> None:  # noqa: FBT001 - a capability
    """Skip a behaviour that rests on something the engine says it has not."""
    if not has_it:
        pytest.skip(f"the engine's capabilities say: {what}")
