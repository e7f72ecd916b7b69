# SPDX-License-Identifier: MIT
"""A part of a route at work on a real broker, with time and answers under the test's control."""

import asyncio
from collections import deque

from redrive import connect
from redrive.broker import Message, Send
from redrive.routes.ack_tree import Ack, AckTree, Nack
from redrive.routes.environment import PartEnvironment
from redrive.testing import ManualClock
from tests.patience import PATIENCE_S


def nack(reason="refused"):
    """Return a nack as an ack tree gives it."""
    tree = AckTree(["billing"])
    answer = tree.nack(tree.legs["billing"], reason).answer
    assert isinstance(answer, Nack)
    return answer


class ScriptedIntake:
    """An intake that answers as a test says, and then takes everything.

    Args:
        script: answers and exceptions for the first events.
        queue: where it stores events, like ``durable`` delivery; None: nowhere.
    """

    def __init__(self, script=(), queue=None):
        self.script = deque(script)
        self.queue = queue
        self.offered: list[Message] = []
        self.taken: list[Message] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def accept(self, message, *, settle=None):
        self.offered.append(message)
        await self.gate.wait()
        answer = self.script.popleft() if self.script else Ack()
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(answer, Ack):
            if settle is not None:
                await settle([] if self.queue is None else [Send(self.queue, message)])
            self.taken.append(message)
        return answer

    @property
    def ids(self):
        return [message.id for message in self.taken]

    @property
    def bodies(self):
        return [message.body for message in self.taken]


class PartBench:
    """An environment for parts, and receivers that run in it.

    Attributes:
        events: what was reported, in order.
    """

    def __init__(self, tmp_path):
        self.clock = ManualClock()
        self.broker = connect(f"sqlite:///{tmp_path}/queues.db", clock=self.clock)
        self.events = []
        self.environment = PartEnvironment(
            application="default",
            name="the part",
            broker=self.broker,
            ledger=None,
            clock=self.clock,
            chance=lambda: 0.5,
            report=self.events.append,
            http=None,
        )
        self.running = []

    def start(self, receiver, intake):
        task = asyncio.create_task(receiver.open(self.environment).run(intake))
        self.running.append(task)
        return task

    async def stop(self, task):
        task.cancel()
        await self.ended(task)

    async def ended(self, task):
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.wait([task])

    async def until(self, holds, step=0.0):
        """Let everything run until something holds; each time that it does not, move the clock by a step."""
        async with asyncio.timeout(PATIENCE_S):
            while not holds():
                for task in self.running:
                    if task.done() and not task.cancelled():
                        task.result()
                if step:
                    self.clock.advance(step)
                await asyncio.to_thread(bool)  # lets other threads run, too

    async def until_is(self, value, ask):
        """Let everything run until a coroutine function returns a value; no time passes."""
        async with asyncio.timeout(PATIENCE_S):
            while await ask() != value:
                await asyncio.to_thread(bool)

    async def settle_down(self, rounds=30):
        """Let everything run while no time passes, to see that something does not happen."""
        for _ in range(rounds):
            await asyncio.to_thread(bool)

    async def close(self):
        for task in self.running:
            await self.stop(task)

    async def counts(self, queue):
        info = await self.broker.inspect(queue)
        return {"ready": info.ready, "locked": info.locked, "scheduled": info.scheduled, "dead": info.dead}
