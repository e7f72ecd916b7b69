# SPDX-License-Identifier: MIT
"""A pipeline in processes that die between any two calls: of the store, of the ledger, of a transport.

Turns and time are those of ``tests.crash.harness``. A ``PipelineWorld`` also has the destinations, which note what they
get by its delivery id, and a client that submits until it is told that it was taken. ``crash_parts`` has the pipeline.
"""

import asyncio
from collections import Counter

from redrive.broker import Broker
from redrive.clock import pause
from redrive.engines.sql.pipeline.ledger import SqlPipelineLedger
from redrive.engines.sql.script import Sql
from redrive.errors import EngineUnavailable, LockLost, TaskConflict
from redrive.pipeline import (
    DestinationAway,
    OpenPipeline,
    OutcomeUnknown,
    PipelineRunner,
    ShipmentDelayed,
    ShipmentSent,
)
from redrive.pipeline.ledger import SlotTaken
from redrive.pipeline.states import ShipmentState, SlotState, TaskState
from tests.crash.harness import Crash, Mishap, World
from tests.pipeline.crash_checks import check_end
from tests.pipeline.crash_parts import (
    AWAY,
    LOCK_S,
    LOOK_S,
    LOST,
    NOT_OURS,
    REFUSED,
    SLOT_S,
    TARGET,
    PipelineWire,
    WorldHttp,
    plan_of,
)
from tests.routes.crash_world import InMemory, ended


class PipelineProcess:
    """One process that runs the pipeline.

    Attributes:
        calls: what it has called.
        is_dead: whether it makes no more calls.
        is_frozen: whether it makes none for now.
    """

    def __init__(self, world, name, mishap):
        self.world = world
        self.name = name
        self.mishap = mishap
        self.calls = []
        self.events = []
        self.is_dead = self.is_frozen = False
        self.died, self.started = asyncio.Event(), asyncio.Event()
        names = {}
        self.broker = Broker(PipelineWire(self, world.raw, names), clock=world.clock, new_id=world.new_id)
        ledger = PipelineWire(self, SqlPipelineLedger(world.raw, is_shared=True), names)
        self.pipeline = OpenPipeline(self.broker, ledger, world.plan_for(self))
        self.runner = None

    def __str__(self):
        return self.name

    async def live(self, until=None):
        """Run the pipeline until everything is done, or until its mishap."""
        running = asyncio.ensure_future(self._run())
        others = [asyncio.ensure_future(each) for each in (self._until(until), self.died.wait())]
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

    async def _until(self, over):
        await self.started.wait()
        await (self.world.until_done() if over is None else over)

    async def _run(self):
        while True:
            try:
                await self.pipeline.__aenter__()
                break
            except EngineUnavailable:
                await pause(self.world.clock, 1.0)
        self.runner = PipelineRunner(self.pipeline, on_event=self.events.append, chance=lambda: 0.5)
        self.runner.http = WorldHttp(self)
        self.started.set()
        await self.runner.run()

    async def call(self, verb, found, *values, **more):
        """Make a call when it is our turn."""
        turn = await self.world.turn(self, verb)
        try:
            self.calls.append(verb)
            is_now = len(self.calls) == self.mishap.nth
            if verb in self.world.before:
                await self.world.before.pop(verb)()
            if self.world.is_broken and verb not in ("send", "probe"):
                raise EngineUnavailable("no answer")
            if is_now and self.mishap.when == "before":
                await self._befall(verb, values)
            try:
                answer = await found(*values, **more)
            except (LockLost, SlotTaken, TaskConflict):
                self.world.refused += 1
                raise
            if is_now and self.mishap.when == "after":
                await self._befall(verb, values)
            return answer
        finally:
            turn.done.set_result(None)

    async def _befall(self, verb, values):
        if self.mishap.kind == "stops":
            if self.runner is not None:
                self.runner.stop()
            return
        if self.mishap.kind == "fails":
            self.world.log.append(f"{self.world.clock.monotonic():9.3f} {self}: {verb} fails {self.mishap.when}")
            if verb == "send":
                self.world.allowed[values[0].delivery_id] += 1
                raise ConnectionResetError(f"no answer to {verb}")
            raise EngineUnavailable(f"no answer to {verb}")
        await self.die()
        raise Crash(verb)

    async def survive(self, item):
        """Die, if this item kills processes."""
        if item in self.world.killing and not self.is_dead:
            await self.die()  # at once, whatever else is about to be stored
            raise Crash(item)

    async def die(self):
        """Make no more calls."""
        self.is_dead = True
        self.world.log.append(f"{self.world.clock.monotonic():9.3f} {self} is dead")
        await self.world.autopsy()
        self.world.bury(self)
        self.died.set()


class PipelineWorld(World):
    """The store, the time, the destinations and the client.

    Args:
        flavour: what destinations do with repetitions.
        seed: decides the order of turns.
        home: makes the engine that all processes share; None: one in memory.
        plan: the pipeline, or a function that makes it for a process; None: the usual one.
        submissions: how many reports of two items are submitted.

    Attributes:
        accepted: the task of each submission that was taken.
        arrived: how often each delivery id has had an effect, but for those that were dropped.
        bodies: what arrived with each delivery id.
        allowed: how often delivery ids may arrive once more.
        delaying: how often an item is still to be delayed, by destination and item.
        losing: how often the reply is still to be lost.
        away: how often the destination is still to be away.
        away_after_death: whether destinations are away for a moment after each death.
        killing: items that end the process that processes or sends them.
        before: what is done before the next call of a verb.
        is_broken: whether the store does not answer.
        is_racing: whether a process has stood still between looking at a destination and sending to it.
        is_changed: whether people have changed the course of tasks, so that these may end several times.
    """

    def __init__(self, flavour="drops", *, seed=0, home=None, plan=None, submissions=2):
        super().__init__(home or InMemory(), seed=seed)
        self.flavour = flavour
        self.plan_for = plan if callable(plan) else lambda _: plan or plan_of(flavour)
        self.plan = self.plan_for(None)
        self.raw = self.queues.engine(self.clock)
        self.submissions = {f"s{n}": f"s{n}.a\ns{n}.b".encode() for n in range(submissions)}
        self.accepted = {}
        self.arrived = Counter()
        self.bodies = {}
        self.where = {}
        self.allowed = Counter()
        self.delaying = Counter({("direct", REFUSED): 2})
        self.losing = Counter({("doubt", LOST): 1})
        self.away = Counter({("doubt", item): 1 for item in AWAY})
        self.away_after_death = False
        self.killing = set()
        self.before = {}
        self.is_broken = False
        self.is_changed = self.is_racing = False
        self.slot_s = SLOT_S
        self.most_s = 1_000.0

    # --- before and after

    @property
    def broker(self):
        """A broker that takes no turns."""
        return Broker(self.raw, clock=self.clock, new_id=self.new_id)

    @property
    def pipeline(self):
        """The pipeline, for people: it takes no turns."""
        return OpenPipeline(self.broker, SqlPipelineLedger(self.raw, is_shared=True), self.plan)

    async def open(self):
        await self.raw.open()

    async def close(self):
        await ended()
        await self.raw.close()

    async def prepare(self):
        """Make the queues; locks of a process that has died end soon."""
        await self.broker.declare(TARGET)
        async with self.pipeline:
            for queue in self.plan.queues:
                await self.broker.update(queue, lock_duration=LOCK_S)

    def process(self, mishap=None):
        """Return a new process."""
        process = PipelineProcess(self, f"p{len(self.processes) + 1}", mishap or Mishap())
        self.processes.append(process)
        return process

    async def live(self, *mishaps):
        """Let processes run the pipeline one after the other, each with a mishap, and one without."""
        for mishap in (*mishaps, Mishap()):
            process = self.process(mishap)
            await self.play(process.live())
            self.processes[:] = [process]
            if not process.is_dead:
                return

    def unposted(self):
        """Return what the client has still to submit."""
        return [key for key in self.submissions if key not in self.accepted]

    async def until_done(self):
        """Wait until nothing is left to be done."""
        ends_at = self.clock.monotonic() + self.most_s
        while not await self.is_done():
            assert self.clock.monotonic() < ends_at, f"it does not end\n{self.story()}"
            await pause(self.clock, LOOK_S)

    async def is_done(self):
        """Say whether everything was submitted, the empty batch of the day was sent, and nothing moves."""
        if self.unposted():
            return False
        infos = await self.alone(self.raw.inspect())
        if any(each.ready + each.locked + each.scheduled for each in infos if each.name not in NOT_OURS):
            return False
        tasks = await self.alone(self.rows("SELECT state FROM @.pipeline_tasks"))
        slots = await self.alone(self.rows("SELECT state, is_empty FROM @.pipeline_slots"))
        is_moving = any(task["state"] in (TaskState.READY, TaskState.WAITING) for task in tasks)
        is_open = any(slot["state"] == SlotState.OPEN for slot in slots)
        if any(each.when_empty != "skip" for each in self.plan.destinations.values()):
            is_moving = is_moving or not any(slot["is_empty"] for slot in slots)
        return not is_moving and not is_open

    def answered(self, key, task):
        """Note that the client was told which task its submission is."""
        if self.accepted.setdefault(key, task) != task:
            self.faults.append(f"{key} was accepted as {task}, and as {self.accepted[key]}")

    async def rows(self, text, *values):
        """Return what is stored."""

        def script():
            return [dict(row) for row in (yield Sql(text, values))]

        return await self.raw.look(script)

    # --- destinations

    def deliver(self, process, shipment):
        """Take a shipment, or do not."""
        name, item, id_ = shipment.destination, shipment.body.decode(), shipment.delivery_id
        for counter, outcome in (
            (self.away, DestinationAway("no connection")),
            (self.delaying, ShipmentDelayed("status 500")),
        ):
            for key in ((name, item), (name, "*")):
                if counter[key] > 0:
                    counter[key] -= 1
                    return outcome
        self._note(process, shipment)
        if self.losing[name, item] > 0:
            self.losing[name, item] -= 1
            self.allowed[id_] += 1
            return OutcomeUnknown("no reply")
        return ShipmentSent(f"number {self.arrived[id_]}")

    def _note(self, process, shipment):
        id_ = shipment.delivery_id
        if self.bodies.setdefault(id_, shipment.body) != shipment.body:
            self.faults.append(f"{id_} had another body")
        self.where[id_] = shipment.destination
        if self.arrived[id_]:
            if self.flavour == "drops":
                return
            may_repeat = self.flavour == "repeats" or (self.flavour == "tells" and self.is_racing)
            if not may_repeat or not self.allowed[id_]:
                self.faults.append(f"{process} delivered {id_} ({shipment.body}) again")
            self.allowed[id_] -= 1
        self.arrived[id_] += 1

    # --- what is stored when a process dies

    async def autopsy(self):
        """Note which shipments may be repeated: those that were on their way."""
        for row in await self.rows("SELECT delivery_id, state FROM @.pipeline_shipments"):
            if row["state"] == ShipmentState.INTENT:
                self.allowed[row["delivery_id"]] = 1
        if self.away_after_death:
            self.away.update({("direct", "*"): 1, ("doubt", "*"): 1})

    async def thaw(self, process, seconds):
        """Let a process go on that stands still, after so many seconds, in which others may have taken its work."""
        while not process.is_frozen:
            if process.died.is_set() or await self.is_done():
                process.mishap = Mishap()  # nobody would thaw it
                return
            await pause(self.clock, 0.2)
        await self.alone(self.autopsy())
        if any(turn.process is process and turn.verb == "send" for turn in self.waiting):
            self.is_racing = True  # it has looked, and sends whatever others have sent meanwhile
        await pause(self.clock, seconds)
        process.is_frozen = False

    # --- what must hold in the end

    async def check(self):
        """Say that everything is accounted for, and that a further restart changes nothing."""
        assert self.faults == [], f"{self.faults}\n{self.story()}"
        for _ in range(5):
            if await self.is_done():
                break
            await self.live()  # the last process has opened a slot while it ended
        await check_end(self)
        before = await self._snapshot()
        again = self.process()
        await self.play(again.live(pause(self.clock, LOCK_S + 2 * LOOK_S)))
        assert await self._snapshot() == before, f"a second recovery changed something\n{self.story()}"
        assert self.faults == [], f"{self.faults}\n{self.story()}"

    async def _snapshot(self):
        tables = [
            await self.rows(f"SELECT * FROM @.pipeline_{table} ORDER BY 1, 2")  # noqa: S608 - names of ours
            for table in ("tasks", "items", "shipments", "bodies", "submissions", "actions")
        ]
        return tables, dict(self.arrived)
