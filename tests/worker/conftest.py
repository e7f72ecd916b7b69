# SPDX-License-Identifier: MIT
"""A worker on a real engine, with time and faults under the test's control."""

import asyncio
from collections.abc import Callable

import pytest

from redrive.broker import Broker
from redrive.engines.sqlite import SqliteEngine
from redrive.errors import EngineUnavailable
from redrive.testing import ManualClock
from redrive.worker import Worker


class FlakyEngine(SqliteEngine):
    """A SQLite engine some of whose verbs can be broken, and that knows whether it has anything to do."""

    def __init__(self, path, *, clock):
        super().__init__(path, clock=clock)
        self.broken: set[str] = set()
        self.calls: list[str] = []
        self.limits: list[int] = []
        self.renewed: list[int] = []

    def _meet(self, verb):
        self.calls.append(verb)
        if verb in self.broken:
            raise EngineUnavailable(f"no {verb} today")

    @property
    def is_idle(self):
        """Whether nothing that was asked of it, by whatever verb, is under way in its thread or waits for it."""
        return self._writer._is_idle()

    async def apply(self, effects):
        self._meet("apply")
        return await super().apply(effects)

    async def lock_next(self, queue, limit, **how):
        self._meet("lock_next")
        self.limits.append(limit)
        return await super().lock_next(queue, limit, **how)

    async def lock_in_session(self, session, limit, **how):
        self._meet("lock_in_session")
        return await super().lock_in_session(session, limit, **how)

    async def renew(self, locks):
        self._meet("renew")
        self.renewed.append(len(locks))
        return await super().renew(locks)


class Lab:
    """A broker, a worker, and what happened.

    Attributes:
        events: the telemetry events, in order.
        faults: what ``on_error`` was told.
    """

    def __init__(self):
        self.clock = ManualClock()
        self.engine = FlakyEngine(":memory:", clock=self.clock)
        self.broker = Broker(self.engine, clock=self.clock)
        self.events = []
        self.faults = []
        self.worker = Worker(
            "testing",
            on_event=self.events.append,
            on_error=lambda error, doing: self.faults.append((type(error).__name__, doing)),
            chance=lambda: 0.5,
        )
        self.running = None

    async def start(self, **how):
        self.running = asyncio.create_task(self.worker.run(self.broker, **how))
        await self.ticks()

    async def stop(self, **how):
        self.worker.stop(**how)
        await self.running

    async def ticks(self, count=20):
        """Let everybody else run until nobody has anything to do; no time passes."""
        quiet = 0
        while quiet < count:
            await self.clock.sleep_async(0)
            quiet = quiet + 1 if self.engine.is_idle else 0

    async def until(self, holds: Callable[[], object]):
        while not holds():
            await self.clock.sleep_async(0)
            if self.running is not None and self.running.done():
                self.running.result()

    async def advance(self, seconds, step=None):
        """Move the clock, in steps that let everybody else run."""
        step = step or seconds
        while seconds > 0:
            self.clock.advance(min(step, seconds))
            seconds -= step
            await self.ticks()

    def told(self, kind):
        return [event for event in self.events if isinstance(event, kind)]

    async def counts(self, queue="orders"):
        info = await self.broker.inspect(queue)
        return {"ready": info.ready, "locked": info.locked, "scheduled": info.scheduled, "dead": info.dead}

    async def dead(self, queue="orders"):
        return await self.broker.peek(f"{queue}/$dead")


@pytest.fixture
async def lab():
    made = Lab()
    async with made.broker:
        await made.broker.declare("orders")
        yield made
        if made.running is not None and not made.running.done():
            made.worker.stop(now=True)
            await made.running
