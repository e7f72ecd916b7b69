# SPDX-License-Identifier: MIT
"""A pipeline that runs on a real broker, with destinations and a clock in the test's hand."""

import asyncio
from collections import defaultdict
from dataclasses import dataclass
from typing import ClassVar

import redrive
from redrive.broker import State
from redrive.parts import TextSetting, setting
from redrive.pipeline import (
    Output,
    Pipeline,
    PipelineRunner,
    ShipmentDelayed,
    ShipmentSent,
    TaskState,
    Transport,
)
from redrive.testing import ManualClock
from tests.patience import PATIENCE_S


@dataclass(frozen=True, slots=True)
class ScriptedTransport(Transport):
    """A destination that does what a test says, and then takes everything.

    What it has is in ``arrived``, by name: delivery ids and bodies, in order. ``dedup`` and ``probe`` say what it can.
    """

    kind: ClassVar[str] = "scripted"
    arrived: ClassVar[dict] = defaultdict(list)
    attempts: ClassVar[dict] = defaultdict(list)
    script: ClassVar[dict] = defaultdict(list)
    probes: ClassVar[dict] = defaultdict(list)

    name: str = setting(TextSetting(), "which one")
    can: str = setting(TextSetting(), "what it can: dedup, probe, or nothing", "dedup")

    @property
    def address(self):
        return f"scripted {self.name}"

    @property
    def deduplicates(self):
        return self.can == "dedup"

    @property
    def can_probe(self):
        return self.can == "probe"

    def open(self, environment):
        return _OpenScripted(self)

    @classmethod
    def reset(cls):
        for kept in (cls.arrived, cls.attempts, cls.script, cls.probes):
            kept.clear()

    def bodies(self):
        return [body for _, body in self.arrived[self.name]]


class _OpenScripted:
    def __init__(self, settings):
        self._settings = settings

    async def send(self, shipment):
        """Do the next thing of the script: an outcome, an exception, or a pair of an outcome and whether it arrives."""
        name = self._settings.name
        ScriptedTransport.attempts[name].append((shipment.delivery_id, shipment.body))
        does = ScriptedTransport.script[name].pop(0) if ScriptedTransport.script[name] else ShipmentSent("taken")
        outcome, arrives = does if isinstance(does, tuple) else (does, isinstance(does, ShipmentSent))
        if arrives:
            self._take(shipment)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def _take(self, shipment):
        there = ScriptedTransport.arrived[self._settings.name]
        if not self._settings.deduplicates or shipment.delivery_id not in [key for key, _ in there]:
            there.append((shipment.delivery_id, shipment.body))

    async def probe(self, shipment):
        name = self._settings.name
        ScriptedTransport.probes[name].append(shipment.delivery_id)
        is_there = shipment.delivery_id in [key for key, _ in ScriptedTransport.arrived[name]]
        return ShipmentSent("found") if is_there else ShipmentDelayed("it is not there")

    async def close(self):
        """Nothing is connected."""


def lines(submission):
    return submission.body.split(b"\n")


def joined(items):
    if any(item.body == b"bad" for item in items):
        raise ValueError("bad item")
    return b"|".join(sorted(item.body for item in items))  # tasks of one instant are in any order


def pipeline(*names, process=None, receive=lines, **settings):
    """Return a pipeline that sends every item to each of some destinations, at once."""
    pipe = Pipeline("reports", needs_key=False)
    pipe.receive(receive)

    def route(report):
        for name in names:
            yield Output(name, report.items)

    pipe.process(process or route, tries=3, retry=[5, 20])
    for name in names:
        pipe.destination(name, ScriptedTransport(name), **{"jitter": 0, **settings})
    return pipe


_LOOKS, _MOMENT_S = 100, 0.2
"""After so many looks at a message that is not taken, that much time passes: a receiver may wait for its next poll."""


class PipelineBench:
    """A broker, a pipeline, and a process that runs it. Time stands still until the test moves it."""

    def __init__(self, url):
        ScriptedTransport.reset()
        self.clock = ManualClock()
        self.broker = redrive.connect(url, clock=self.clock)
        self.events = []
        self.reports = self.runner = self.task = None

    async def start(self, pipe):
        if self.reports is None:
            self.reports = redrive.open_pipeline(self.broker, pipe)
            await self.reports.__aenter__()
        self.runner = PipelineRunner(
            self.reports, listen="127.0.0.1:0", on_event=self.events.append, chance=lambda: 0.5
        )
        self.task = asyncio.create_task(self.runner.run())
        return self.reports

    async def stop(self):
        if self.task is not None:
            self.runner.stop()
            async with asyncio.timeout(PATIENCE_S):
                await self.task
            self.task = None

    async def until(self, holds, step=0.0):
        """Let everything run until something holds; whenever nothing is left to do, move the clock by a step."""
        looks = 0
        async with asyncio.timeout(PATIENCE_S):
            while True:
                answer = holds()
                if await answer if asyncio.iscoroutine(answer) else answer:
                    return
                if self.task is not None and self.task.done():
                    self.task.result()
                looks += 1
                if step and await self._is_idle():
                    self.clock.advance(step)
                elif step and looks % _LOOKS == 0:
                    self.clock.advance(_MOMENT_S)
                await asyncio.to_thread(bool)

    async def _is_idle(self):
        """Say whether nothing is being worked on: time that passes then ends no lock."""
        for _ in range(3):  # what the last step has woken gets a chance to begin
            await asyncio.to_thread(bool)
            queues = [await self.broker.peek(name) for name in self.reports.plan.queues]
            if any(self._is_to_be_done(message) for queue in queues for message in queue):
                return False
        return True

    def _is_to_be_done(self, message):
        """Say whether a message can be received now, or is being handled; what is due is still stored as scheduled."""
        if message.state is State.LOCKED:
            return message.locked_until.timestamp() > self.clock.time()
        return message.state is State.READY or (
            message.state is State.SCHEDULED and message.due_at.timestamp() <= self.clock.time()
        )

    async def states(self, **chosen):
        """Return the states of all tasks, by stage and destination."""
        found = defaultdict(list)
        for task in await self.reports.tasks(limit=1_000, **chosen):
            found[task.stage, task.destination].append(task.state.word)
        return {key: sorted(words) for key, words in found.items()}

    async def settled(self, step=0.0):
        """Wait until nothing is ready, and nothing waits."""

        async def is_settled():
            return not await self.reports.tasks(states=(TaskState.READY, TaskState.WAITING))

        await self.until(is_settled, step)

    async def actions(self, task):
        return [each.name for each in (await self.reports.show(task)).history]

    async def only(self, stage, destination=""):
        """Return the only task of a stage."""
        (task,) = [
            each
            for each in await self.reports.tasks(limit=1_000)
            if (each.stage, each.destination) == (stage, destination)
        ]
        return task
