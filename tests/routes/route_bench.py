# SPDX-License-Identifier: MIT
"""Routes that run on a real broker, with a source, destinations and a clock in the test's hand."""

import asyncio
from dataclasses import dataclass
from typing import ClassVar

from redrive import connect, open_routes
from redrive.broker import Message
from redrive.routes import (
    EventReceiver,
    EventSender,
    RouteBroken,
    RouteRunner,
    route,
    setting,
    to_debug,
)
from redrive.routes.parts import TextSetting
from redrive.routes.senders.debug import DebugSender
from redrive.testing import ManualClock
from tests.patience import PATIENCE_S


@dataclass(frozen=True, slots=True)
class GateReceiver(EventReceiver):
    """A source that has the events that a test puts into it."""

    kind: ClassVar[str] = "gate"
    name: str = setting(TextSetting(), "which one")
    intakes: ClassVar[dict] = {}

    @property
    def address(self):
        return self.name

    def open(self, environment):
        return _OpenGate(self.name)


class _OpenGate:
    def __init__(self, name):
        self._name = name

    async def run(self, intake):
        GateReceiver.intakes[self._name] = intake
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            del GateReceiver.intakes[self._name]


@dataclass(frozen=True, slots=True)
class PickySender(EventSender):
    """Cannot be opened while a test says so; it holds what it sends until a test lets it go."""

    kind: ClassVar[str] = "picky"
    name: str = setting(TextSetting(), "which one")
    refusals: ClassVar[dict[str, Exception]] = {}
    gates: ClassVar[dict[str, asyncio.Event]] = {}
    begun: ClassVar[list[str]] = []
    closed: ClassVar[list[str]] = []

    @property
    def destination(self):
        return f"picky {self.name}"

    def open(self, environment):
        if self.name in self.refusals:
            raise self.refusals[self.name]
        return _OpenPicky(self.name, to_debug(self.name).open(environment))


class _OpenPicky:
    def __init__(self, name, inner):
        self._name = name
        self._inner = inner

    async def send(self, message, key):
        PickySender.begun.append(key)
        if self._name in PickySender.gates:
            await PickySender.gates[self._name].wait()
        return await self._inner.send(message, key)

    async def close(self):
        PickySender.closed.append(self._name)


class RouteBench:
    """A broker, its routes, and a process that runs them. Time stands still until the test moves it."""

    def __init__(self, tmp_path):
        self.clock = ManualClock()
        self.broker = connect(f"sqlite:///{tmp_path}/routes.db?synchronous=normal", clock=self.clock)
        self.routes = open_routes(self.broker)
        self.events = []
        self.runner = None
        self.task = None
        parts = (PickySender.refusals, PickySender.gates, PickySender.begun, PickySender.closed, GateReceiver.intakes)
        for kept in parts:
            kept.clear()

    def start(self, **options):
        events, listen = self.events.append, "127.0.0.1:0"
        self.runner = RouteRunner(self.routes, listen=listen, on_event=events, chance=lambda: 0.5, **options)
        self.task = asyncio.create_task(self.runner.run())

    async def stop(self):
        if self.task is not None:
            self.runner.stop()
            async with asyncio.timeout(PATIENCE_S):
                await self.task
            self.task = None

    async def apply(self, *routes):
        """Apply routes, and let the process follow."""
        said = await self.routes.apply(*routes)
        await self.follow()
        return said

    async def follow(self):
        """Let the process see what has changed."""
        if self.runner is None:
            self.start()
        await self.runner.reload()
        await self.breathe()

    async def put(self, name, *ids, body=b"{}"):
        """Put events into a source; it has forgotten them when this returns."""
        await self.until(lambda: name in GateReceiver.intakes)
        for each in ids:
            await GateReceiver.intakes[name].accept(Message(body, id=each))

    async def breathe(self, rounds=3):
        """Let everything run while no time passes."""
        for _ in range(rounds):
            await asyncio.to_thread(bool)

    async def until(self, holds, step=0.0):
        """Let everything run until something holds; each time that it does not, move the clock by a step."""
        async with asyncio.timeout(PATIENCE_S):
            while not await _asked(holds):
                if self.task is not None and self.task.done():
                    self.task.result()
                if step:
                    self.clock.advance(step)
                await asyncio.to_thread(bool)

    async def delivered(self, name, ids, step=0.0):
        """Wait until a destination has events, and see that it has no others, each once."""
        await self.until(lambda: len(got(name)) >= len(ids), step)
        assert sorted(got(name)) == sorted(ids)

    async def settled(self, name):
        """Wait until no leg of a route is on its way: a destination has an event before its leg is completed."""

        async def is_settled():
            return (await self.routes.show(name)).waiting == 0

        await self.until(is_settled)

    async def gone(self, name, application="default", step=0.0):
        """Wait until a route is removed."""

        async def is_gone():
            await self.runner.reload()
            there = await self.routes.ledger.routes()
            return (application, name) not in {(each.application, each.name) for each in there}

        await self.until(is_gone, step)

    async def dead(self, queue):
        return sorted(each.message.id for each in await self.broker.peek(f"{queue}/$dead"))

    def reported(self, kind):
        return [each for each in self.events if isinstance(each, kind)]

    @property
    def broken(self):
        return [each.problem for each in self.reported(RouteBroken)]


async def _asked(holds):
    answer = holds()
    return await answer if asyncio.iscoroutine(answer) else answer


def got(name):
    """Return the ids of the events that a destination has, in order."""
    return [attempt.key.partition(":")[0] for attempt in DebugSender.delivered(name)]


def gate(name="orders", **settings):
    return GateReceiver(name=name, **settings)


def line(name, source=None, sender=None, **settings):
    """Return a route from a gate to a destination of its own name."""
    DebugSender.reset(name)
    return route(name, source=source or gate(), **settings) >> (sender or to_debug(name))
