# SPDX-License-Identifier: MIT
"""An intake that records what it gets, and what a receiver needs beside one."""

import asyncio
from contextlib import asynccontextmanager

from redrive.clock import pause, system_clock
from redrive.routes.ack_tree import Ack, AckTree
from redrive.routes.environment import PartEnvironment
from tests.patience import PATIENCE_S


def nack(text="the shop is closed"):
    """Return the answer for an event that its one route did not take."""
    tree = AckTree(["shop"])
    return tree.nack(tree.legs["shop"], text).answer


class RecordingIntake:
    """Notes every event, and answers as it is told to.

    Args:
        answer: what it answers, or a function that is given the event; what is an exception is raised.
    """

    def __init__(self, answer=None):
        self.answer = answer or Ack()
        self.messages = []
        self.accepted = []
        self.most_at_once = 0
        self._at_once = 0
        self._changed = asyncio.Event()

    async def accept(self, message, *, settle=()):
        self.messages.append(message)
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        self._changed.set()
        try:
            answer = self.answer(message) if callable(self.answer) else self.answer
            if asyncio.iscoroutine(answer):
                answer = await answer
            if isinstance(answer, Exception):
                raise answer
        finally:
            self._at_once -= 1
        if answer == Ack():
            self.accepted.append(message)
            self._changed.set()
        return answer

    def __len__(self):
        return len(self.messages)

    @property
    def bodies(self):
        return [message.body for message in self.messages]

    async def until(self, holds, what="the events"):
        """Wait until something holds of this intake."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not holds(self):
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"no sign of {what}; there is {self.bodies}") from None

    async def has(self, count):
        """Wait until it was given that many events."""
        await self.until(lambda intake: len(intake) >= count, f"{count} events")


def environment(report=None, name="in"):
    """Return what a part works with; the parts of servers outside use no broker."""
    return PartEnvironment(
        application="tests",
        name=name,
        broker=None,
        ledger=None,
        clock=system_clock,
        chance=lambda: 0.5,
        report=report or (lambda _: None),
        http=None,
    )


@asynccontextmanager
async def running(part, intake, report=None):
    """Run a receiver for the length of a block; it yields the task."""
    task = asyncio.create_task(part.open(environment(report)).run(intake))
    try:
        yield task
        assert not task.done() or task.cancelled(), f"the receiver has ended: {task}"
    finally:
        await stop(task)


async def stop(task):
    """Cancel a receiver and wait until it has finished what it has begun."""
    task.cancel()
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(task, return_exceptions=True)


async def eventually(holds, what):
    """Wait until a server says that something holds; it cannot be waited for in any other way."""
    ends_at = system_clock.monotonic() + PATIENCE_S
    while not await holds():
        assert system_clock.monotonic() < ends_at, f"no sign of {what} after {PATIENCE_S:g} s"
        await pause(system_clock, 0.02)
