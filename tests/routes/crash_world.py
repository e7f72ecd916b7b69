# SPDX-License-Identifier: MIT
"""Routes in processes that die between any two calls: of the store, of the ledger, of a sender.

Turns and time are those of ``tests.crash.harness``. A ``RouteWorld`` also has the destinations, which note every
delivery, and a client that posts events until it is told that they were taken. Whenever a process dies, the world looks
at what is stored by then: so it knows which deliveries may be repeated, and sees whether something is in two places.
"""

import asyncio
import json
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

from redrive.broker import Broker, Message, State, dead_letter_queue
from redrive.broker.headers import ROUTE_DELIVERED
from redrive.clock import pause
from redrive.engines.sql.routes.ledger import SqlRouteLedger
from redrive.engines.sqlite import SqliteEngine
from redrive.errors import EngineUnavailable, LockLost
from redrive.http import HttpRequest
from redrive.routes import (
    Delivered,
    EventSender,
    RouteRunner,
    Routes,
    TryLater,
    add_kind,
    dedup,
    from_queue,
    http,
    route,
    setting,
    split,
    to_queue,
)
from redrive.routes.parts import TextSetting
from redrive.routes.plan import leg_queue
from tests.crash.harness import Crash, Mishap, Wire, World

SOURCE, TARGET, TAP = "orders", "big", "tap"
LOCK_S = 5.0
LOOK_S = 0.5
"""How often a worker asks for messages: nothing may depend on a hint."""


class RouteWire(Wire):
    """An engine or a ledger, as one process sees it."""

    @property
    def process(self):
        return self._process

    async def wait(self, _queue, seconds):
        await pause(self._process.world.clock, min(seconds, LOOK_S))


@add_kind
@dataclass(frozen=True, slots=True)
class WorldSender(EventSender):
    """Delivers to the world."""

    kind: ClassVar[str] = "world"
    name: str = setting(TextSetting(), "which destination")

    @property
    def destination(self):
        return self.name

    def open(self, environment):
        return _OpenWorldSender(self.name, environment.broker.engine.process)


class _OpenWorldSender:
    def __init__(self, name, process):
        self._name = name
        self._process = process

    async def send(self, message, key):
        if key in self._process.world.killing and not self._process.is_dead:
            await self._process.die()  # at once, whatever else is about to be stored
            raise Crash(key)
        return await self._process.call("send", self._deliver, self._name, message, key)

    async def _deliver(self, name, message, key):
        return self._process.world.deliver(self._process, name, message, key)

    async def close(self):
        pass


class WorldHttp:
    """The HTTP server of a process, and the client that posts to it until it reads 202."""

    port = 0

    def __init__(self, process):
        self._process = process

    async def serve(self, path, methods, answer, max_bytes):
        waiting = self._process.world.unposted()
        await asyncio.gather(*(self._post(path, event, answer) for event in waiting))
        await asyncio.get_running_loop().create_future()

    async def _post(self, path, event, answer):
        world, headers = self._process.world, {"idempotency-key": event.id, "content-type": "application/json"}
        while event.id not in world.accepted:
            answered = await answer(HttpRequest("POST", path, headers, event.body))
            if self._process.is_dead:
                return  # nobody reads it
            if answered.status == 202:
                world.accepted.add(event.id)
            else:
                await pause(world.clock, 1.0)

    async def close(self):
        pass


class RouteProcess:
    """One process that runs routes.

    Attributes:
        calls: the verbs it has called.
        is_dead: whether it makes no more calls.
        is_frozen: whether it makes none for now.
    """

    def __init__(self, world, name, mishap):
        self.world = world
        self.name = name
        self.mishap = mishap
        self.calls = []
        self.is_dead = self.is_frozen = False
        self.died = asyncio.Event()
        self.broker = Broker(RouteWire(self, world.raw), clock=world.clock, new_id=world.new_id)
        self.routes = Routes(self.broker, RouteWire(self, SqlRouteLedger(world.raw, is_shared=True)))
        self.events = []
        self.runner = RouteRunner(self.routes, on_event=self.events.append, chance=lambda: 0.5)
        self.runner.http = WorldHttp(self)

    def __str__(self):
        return self.name

    async def live(self):
        """Run routes until everything is delivered, or until its mishap."""
        running = asyncio.ensure_future(self.runner.run())
        others = [asyncio.ensure_future(each) for each in (self.world.until_done(), self.died.wait())]
        await asyncio.wait((running, *others), return_when=asyncio.FIRST_COMPLETED)
        for other in others:
            other.cancel()
        if self.is_dead:
            running.cancel()
            return
        if others[0].done():
            others[0].result()
        self.runner.stop()
        try:
            await running
        except Crash:  # it dies while it ends
            assert self.is_dead

    async def call(self, verb, found, *values, **more):
        """Make a call when it is our turn."""
        turn = await self.world.turn(self, verb)
        try:
            self.calls.append(verb)
            is_now = len(self.calls) == self.mishap.nth
            if is_now and self.mishap.when == "before":
                await self._befall(verb, values)
            if verb == "apply" and any(getattr(each, "queue", None) in self.world.broken for each in values[0]):
                raise EngineUnavailable("no answer")
            try:
                answer = await found(*values, **more)
            except LockLost:
                self.world.refused += 1
                raise
            if is_now and self.mishap.when == "after":
                await self._befall(verb, values)
            return answer
        finally:
            turn.done.set_result(None)

    async def _befall(self, verb, values):
        if self.mishap.kind == "fails":
            if verb == "send":
                self.world.allowed[values[2]] = 1
                raise ConnectionResetError(f"no answer to {verb}")
            raise EngineUnavailable(f"no answer to {verb}")
        await self.die()
        raise Crash(verb)

    async def die(self):
        """Make no more calls."""
        self.is_dead = True
        self.world.log.append(f"{self.world.clock.monotonic():9.3f} {self} is dead")
        await self.world.autopsy()
        self.world.bury(self)
        self.died.set()


class RouteWorld(World):
    """The store, the time, the destinations and the client.

    Args:
        routes: the routes.
        events: the events, in order.
        seed: decides the order of turns.
        home: makes the engine that all processes share; None: one in memory.

    Attributes:
        delivered: how often each key was delivered.
        bodies: what was delivered with each key.
        allowed: how often keys may be delivered once more.
        failing: how often a delivery with this key still fails.
        answers: what a destination answers, if it does not take what it gets: by its name, a function of the key.
        killing: keys that end the process.
        broken: queues to which nothing can be sent.
    """

    def __init__(self, routes, events, *, seed=0, home=None):
        super().__init__(home or InMemory(), seed=seed)
        self.routes = list(routes)
        self.events = list(events)
        self.raw = self.queues.engine(self.clock)
        self.accepted = set()
        self.delivered = Counter()
        self.bodies = {}
        self.allowed = Counter()
        self.failing = Counter()
        self.answers = {}
        self.killing = set()
        self.broken = set()
        self.most_s = 1_000.0

    # --- before and after

    @property
    def broker(self):
        """A broker that takes no turns."""
        return Broker(self.raw, clock=self.clock, new_id=self.new_id)

    async def open(self):
        await self.raw.open()

    async def close(self):
        await ended()
        await self.raw.close()

    async def prepare(self):
        """Make the queues, store the routes, and send the events if they come from a queue."""
        broker = self.broker
        for queue in (SOURCE, TARGET):
            await broker.declare(queue, lock_duration=LOCK_S)
        await Routes(broker, SqlRouteLedger(self.raw, is_shared=True)).apply(*self.routes)
        for each in self.routes:
            await broker.update(leg_queue(each), lock_duration=LOCK_S)
        if self.is_from_queue:
            for event in self.events:
                await broker.send(SOURCE, event)

    async def follow(self, name):
        """Let a person follow a route."""
        await self.broker.declare(TAP)
        await SqlRouteLedger(self.raw, is_shared=True).add_tap("default", name, TAP, 600.0)

    @property
    def is_from_queue(self):
        return self.routes[0].source.kind == "queue"

    def process(self, mishap=None):
        """Return a new process."""
        process = RouteProcess(self, f"p{len(self.processes) + 1}", mishap or Mishap())
        self.processes.append(process)
        return process

    async def live(self, *mishaps):
        """Let processes run the routes one after the other, each with a mishap, and one without; return the calls."""
        calls = []
        for mishap in (*mishaps, Mishap()):
            process = self.process(mishap)
            await self.play(process.live())
            calls.append(len(process.calls))
            self.processes[:] = [process]
            if not process.is_dead:
                break
        return calls

    def unposted(self):
        """Return the events that the client has still to post."""
        return [event for event in self.events if event.id not in self.accepted]

    async def until_done(self):
        """Wait until nothing is left to be delivered."""
        ends_at = self.clock.monotonic() + self.most_s
        while not await self._is_done():
            assert self.clock.monotonic() < ends_at, f"it does not end\n{self.story()}"
            await pause(self.clock, LOOK_S)

    async def _is_done(self):
        if not self.is_from_queue and self.unposted():
            return False
        infos = await self.alone(self.raw.inspect())
        return not any(each.ready + each.locked + each.scheduled for each in infos if each.name not in (TARGET, TAP))

    # --- destinations

    def deliver(self, process, name, message, key):
        """Take a delivery, or refuse it."""
        if name in self.answers and (answer := self.answers[name](key)) is not None:
            return answer
        if self.failing[key] > 0:
            self.failing[key] -= 1
            return TryLater("status 500")
        if self.delivered[key]:
            if not self.allowed[key]:
                self.faults.append(f"{process} delivered {key} again, and nobody had died meanwhile")
            self.allowed[key] -= 1
        self.delivered[key] += 1
        if self.bodies.setdefault(key, message.body) != message.body:
            self.faults.append(f"{key} had another body")
        return Delivered()

    # --- what is stored when a process dies

    async def legs(self):
        """Return what is stored: for each route, its legs by their events."""
        return {each.name: await self._stored(leg_queue(each)) for each in self.routes}

    async def _stored(self, queue):
        found = {}
        for received in await self.raw.peek(queue, 1_000):
            if received.id in found:
                self.faults.append(f"{received.id} is twice in {queue}")
            found[received.id] = received
        return found

    async def autopsy(self):
        """Note which deliveries may be repeated: those of legs that were on their way, except parts that were noted."""
        legs = await self.legs()
        for key in self.delivered:
            if is_on_its_way(legs, key):
                self.allowed[key] = 1
        await self._check_places(legs)

    async def thaw(self, process, seconds):
        """Let a process go on that stands still, after so many seconds, in which others may have taken its legs."""
        while not process.is_frozen:
            if process.died.is_set() or await self._is_done():
                process.mishap = Mishap()  # nobody would thaw it
                return
            await pause(self.clock, LOOK_S / 5)
        legs = await self.alone(self.legs())
        for key in set().union(*(self.keys(each) for each in self.routes)):
            self.allowed[key] = int(is_on_its_way(legs, key))
        await pause(self.clock, seconds)
        process.is_frozen = False

    async def _check_places(self, legs):
        """See that an event is at its source, or else all routes have it."""
        at_source = await self._stored(SOURCE) if self.is_from_queue else {}
        for event in self.events:
            names = [name for name in legs if event.id in legs[name]]
            moved = [key for key in self.delivered if key.startswith(f"{event.id}:")]
            if event.id in at_source and (names or moved):
                self.faults.append(f"{event.id} is at its source, and also in {names} {moved}")
        arrived = Counter(each.id for each in await self.raw.peek(TARGET, 1_000))
        for key, times in arrived.items():
            event, name = key.split(":")
            if times > 1 or event in legs.get(name, {}):
                self.faults.append(f"{key} is {times} times in {TARGET}, and its leg is in {legs.get(name)}")

    async def dead(self, name):
        """Return the dead legs of a route."""
        queue = next(leg_queue(each) for each in self.routes if each.name == name)
        return await self.raw.peek(dead_letter_queue(queue), 1_000)

    # --- what must hold in the end

    async def check(self):
        """Say that every event was delivered on every route, and nothing is left."""
        assert self.faults == [], f"{self.faults}\n{self.story()}"
        for info in await self.raw.inspect():
            left = (info.ready, info.locked, info.scheduled, info.deferred, info.dead)
            assert info.name in (TARGET, TAP) or left == (0, 0, 0, 0, 0), f"{info}\n{self.story()}"
        for name, keys in {each.name: self.wanted(each) for each in self.routes}.items():
            missing = keys - self.arrived_at(name)
            assert not missing, f"{name} has never had {missing}\n{self.story()}"
            assert self.arrived_at(name) <= keys, f"{name} has had more than {keys}\n{self.story()}"
        stored = [each.id for each in await self.raw.peek(TARGET, 1_000)]
        copies = [each.name for each in self.routes if each.sender.kind == "queue"]
        exactly = sorted(f"{event.id}:{name}" for name in copies for event in self.events)
        assert sorted(stored) == exactly, f"{stored}\n{self.story()}"

    def arrived_at(self, name):
        """Return the keys that were delivered on a route."""
        return {key for key in self.delivered if key.split(":")[1] == name}

    def keys(self, each):
        """Return the keys of all deliveries on a route."""
        paths = [f":{place}" for place in range(3)] if each.name == "parts" else [""]
        return {f"{event.id}:{each.name}{path}" for event in self.events for path in paths}

    def wanted(self, each):
        """Return the keys that must have been delivered on a route."""
        if each.sender.kind == "queue":
            return set()
        return self._unique() if each.name == "unique" else self.keys(each)

    def _unique(self):
        """Return one key for each order: of the event that was first, whichever that was."""
        orders = {event.id: json.loads(event.body)["order"] for event in self.events}
        had = Counter(orders[key.split(":")[0]] for key in self.arrived_at("unique"))
        assert set(had) == set(orders.values()), f"{had}\n{self.story()}"
        assert set(had.values()) == {1}, f"{had}\n{self.story()}"
        return self.arrived_at("unique")


def is_on_its_way(legs, key):
    """Say whether a process has the leg of a delivery, and nobody has noted yet that this part was delivered."""
    event, name, *path = key.split(":")
    leg = legs[name].get(event)
    noted = [] if leg is None else str(leg.headers.get(ROUTE_DELIVERED, "")).split(",")
    return leg is not None and leg.state is State.LOCKED and not (path and path[0] in noted)


class InMemory:
    """A home that is gone when its engine is closed."""

    def engine(self, clock):
        return SqliteEngine(":memory:", clock=clock)


async def ended():
    """End whatever dead processes have left running."""
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    mine = [task for task in others if not str(task.get_coro()).startswith("<coroutine object pytest")]
    for _ in range(10):
        for task in mine:
            task.cancel()
        await asyncio.sleep(0)  # noqa: TID251 - takes no time, lets others run
    for task in mine:
        if task.done() and not task.cancelled():
            with suppress(BaseException):
                task.result()


def event(number, **more):
    """Return an event; every second one is about the same order."""
    body = {"order": number % 2, "items": ["a", "b", "c"], **more}
    return Message(json.dumps(body).encode(), id=f"e{number}", content_type="application/json")


def sources():
    """Return the sources: a queue of this broker, and HTTP."""
    return {"queue": from_queue(SOURCE), "http": http("/orders")}


def routes_from(source, **settings):
    """Return a route that is plain, one that splits, one that drops duplicates, and one to a queue."""
    return [
        route("plain", source=source, **settings) >> WorldSender("plain"),
        route("parts", source=source, **settings) | split("body.items") >> WorldSender("parts"),
        route("unique", source=source, **settings) | dedup("body.order") >> WorldSender("unique"),
        route("stored", source=source, **settings) >> to_queue(TARGET),
    ]
