# SPDX-License-Identifier: MIT
"""The pipeline of ``crash_world``, its destinations, and how a process reaches them.

There are four destinations: one gets each item by itself and refuses one twice; one has slots and a merge; one loses a
reply and is away for a moment; one is a queue of the same broker.
"""

import asyncio
from dataclasses import dataclass
from typing import ClassVar

from redrive.broker import Message, Send
from redrive.broker.rules import RECOVERY_HINTS
from redrive.clock import pause
from redrive.engines.sql.pipeline.ledger import SqlPipelineLedger
from redrive.http.request import HttpRequest
from redrive.parts import TextSetting, setting
from redrive.pipeline import (
    BrokerTransport,
    Every,
    Output,
    Pipeline,
    ShipmentDelayed,
    ShipmentSent,
    Transport,
    add_transport,
)
from tests.crash.harness import Wire

TARGET = "laboratory"
NOT_OURS = (TARGET, RECOVERY_HINTS)
"""Queues in which messages are left: what has arrived, and hints on which nothing depends."""

LOCK_S = 5.0
LOOK_S = 2.5
"""How often a worker asks for messages: nothing may depend on a hint."""

SLOT_S = 8.0
RETRIES = (3.0, 3.0, 3.0, 3.0)
FLAVOURS = ("drops", "tells", "repeats", "once")
"""A destination drops what it has; tells what it has; does neither, and may get it again; neither, and may not."""

REFUSED, LOST, AWAY = "s0.a", "s0.a", ("s0.b", "s1.b")
"""The item that is refused twice, the one whose reply is lost, and those that come when the destination is away."""


class PipelineWire(Wire):
    """An engine or a ledger, as one process sees it. A transaction is called by what is done inside."""

    def __init__(self, process, target, names):
        super().__init__(process, target)
        self._names = names

    @property
    def process(self):
        return self._process

    def __getattr__(self, verb):
        found = super().__getattr__(verb)
        if verb == "apply_inside":
            return self._apply_inside
        if verb in SqlPipelineLedger.__dict__ and not asyncio.iscoroutinefunction(found):
            return lambda *values, **more: self._named(verb, found(*values, **more))
        return found

    def _named(self, verb, inside):
        self._names[inside] = verb
        return inside

    async def _apply_inside(self, effects, inside):
        name = self._names.get(inside, "apply_inside")
        return await self._process.call(name, self._target.apply_inside, effects, inside)

    async def wait(self, _queue, seconds):
        await pause(self._process.world.clock, min(seconds, LOOK_S))


@add_transport
@dataclass(frozen=True, slots=True)
class WorldTransport(Transport):
    """Delivers to the world."""

    kind: ClassVar[str] = "world"
    name: str = setting(TextSetting(), "which destination")
    flavour: str = setting(TextSetting(), "what it does with repetitions")

    @property
    def address(self):
        return self.name

    @property
    def deduplicates(self):
        return self.flavour == "drops"

    @property
    def can_probe(self):
        return self.flavour == "tells"

    def open(self, environment):
        return _OpenWorldTransport(environment.broker.engine.process)


class _OpenWorldTransport:
    def __init__(self, process):
        self._process = process

    async def send(self, shipment):
        await self._process.survive(shipment.body.decode())
        return await self._process.call("send", self._deliver, shipment)

    async def _deliver(self, shipment):
        return self._process.world.deliver(self._process, shipment)

    async def probe(self, shipment):
        return await self._process.call("probe", self._look, shipment)

    async def _look(self, shipment):
        is_there = self._process.world.arrived[shipment.delivery_id]
        return ShipmentSent("found") if is_there else ShipmentDelayed("it is not there")

    async def close(self):
        pass


@add_transport
@dataclass(frozen=True, slots=True)
class WorldQueue(BrokerTransport):
    """Delivers to a queue of the same broker."""

    kind: ClassVar[str] = "world_queue"
    queue: str = setting(TextSetting(), "which queue")

    @property
    def address(self):
        return self.queue

    def effect(self, shipment):
        return Send(self.queue, Message(shipment.body, id=shipment.delivery_id))


class WorldHttp:
    """The HTTP server of a process, and the client that posts to it until it reads 201 or 200."""

    port = 0

    def __init__(self, process):
        self._process = process

    async def serve(self, path, methods, answer, max_bytes):
        waiting = self._process.world.unposted()
        await asyncio.gather(*(self._post(path, key, answer) for key in waiting))
        await asyncio.get_running_loop().create_future()

    async def _post(self, path, key, answer):
        world = self._process.world
        while key not in world.accepted:
            answered = await answer(HttpRequest("POST", path, {"idempotency-key": key}, world.submissions[key]))
            if self._process.is_dead:
                return  # nobody reads it
            if answered.status in (200, 201):
                world.answered(key, answered.body["task"])
            else:
                await pause(world.clock, 1.0)

    async def close(self):
        pass


# --- the pipeline


async def split(submission):
    """Take a submission apart: a line is an item."""
    return submission.body.split(b"\n")


async def route(report):
    """Send everything everywhere."""
    for name in ("direct", "batched", "doubt", "stored"):
        yield Output(name, report.items)


async def merge(items):
    """Make one shipment of all items."""
    return b"+".join(item.body for item in items)


def plan_of(flavour, **more):
    """Return the pipeline."""
    pipe = Pipeline("reports", path="/reports")
    pipe.receive(split)
    pipe.process(retry=[2.0])(route)
    how = {"retry": RETRIES, "probe_after": 2.0, "breaker_failures": 50, **more}
    if flavour == "once":
        how["guarantee"] = "at_most_once"
    pipe.destination("direct", WorldTransport("direct", flavour), **how)
    slots = {"timing": Every(SLOT_S), "merge": merge, "when_empty": "send_once_per_day", "catch_up": "all"}
    pipe.destination("batched", WorldTransport("batched", flavour), **slots, **how)
    pipe.destination("doubt", WorldTransport("doubt", flavour), **how)
    pipe.destination("stored", WorldQueue(TARGET), retry=RETRIES)
    return pipe.plan
