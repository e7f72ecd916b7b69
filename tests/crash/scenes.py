# SPDX-License-Identifier: MIT
"""What processes do while they die. The next one begins a script again, as a person does who had no answer."""

import asyncio

from redrive.broker import Message, QueueSettings
from redrive.clock import pause
from redrive.recovery import Canary, Outcome, Status, Transform
from redrive.recovery.states import ENDED
from tests.crash.harness import DESTINATIONS, tolerating


class Scenario:
    """Failed messages, and what is done about them. A name is what its tests are called by."""

    each = 4
    """How many messages fail in each queue."""

    async def prepare(self, world, process):
        """Let messages fail, turn and turn about, and read them."""
        made = [world.failed(queue) for _ in range(self.each) for queue in DESTINATIONS]
        await process.broker.send_many("error", made)
        await process.recovery.ingest()

    async def script(self, world, process):
        """Ask for something, and work."""
        await self.asked(world, process)
        await process.work()

    async def asked(self, world, process, **how):
        """Ask for everything that failed in this run, with a key: the second time it is the same operation."""
        return await process.recovery.recover(sorted(world.failures), key=f"run-{world.run}", **how)

    async def check(self, world, process):
        """Say what else must have come of it."""

    async def mend(self, world, process):
        """Put right what kept messages from being sent."""


class Plain(Scenario):
    """Two destinations, two batches for each, two pages for each batch."""

    async def check(self, world, process):
        (operation,) = await operations(world, process)
        assert operation.progress.forwarded == operation.progress.total == 2 * self.each, operation


class Ingest(Scenario):
    """Failures are read, recovered, handled; half of them fail again, and word of both is read."""

    each = 2

    async def prepare(self, world, process):
        made = [world.failed(queue) for _ in range(self.each) for queue in DESTINATIONS]
        await process.broker.send_many("error", [*made, Message(b"?", id=f"unreadable-{world.run}")])

    async def script(self, world, process):
        await process.recovery.ingest()
        while (await process.engine.inspect("error"))[0].locked:  # the answer was lost: they come when their locks end
            await pause(world.clock, 10.0)
            await process.recovery.ingest()
        await self.asked(world, process)
        await process.work()
        for queue in DESTINATIONS:
            await world.consume(process, queue, fails=lambda id_: id_ in sorted(world.failures)[: self.each])
        await process.work()

    async def check(self, world, process):
        failing = sorted(world.failures)[: self.each]
        for id_ in world.failures:
            summary = (await process.recovery.show(id_)).summary
            assert summary.status is (Status.UNRESOLVED if id_ in failing else Status.RESOLVED), summary
            assert summary.attempts == (2 if id_ in failing else 1), summary
        aside = [each.received.id for each in await process.recovery.aside(limit=1_000)]
        assert aside.count(f"unreadable-{world.run}") == 1


class PassedOn(Scenario):
    """Recovered messages are passed on with all their headers; there half of them fail. All of it is read at the end.

    What was recovered is confirmed, what failed where it was passed on to is a failure of its own, and nothing else.
    """

    each = 2

    async def prepare(self, world, process):
        await process.engine.declare("next", QueueSettings())
        await super().prepare(world, process)

    async def script(self, world, process):
        await self.asked(world, process)
        await process.work()
        for queue in DESTINATIONS:
            await world.consume(process, queue, to="next")
        await world.consume(process, "next", fails=lambda id_: id_ in sorted(world.failures)[: self.each])
        await process.work()

    async def check(self, world, process):
        waiting = ("error", "next", *DESTINATIONS)
        while any([(await process.engine.inspect(queue))[0].locked for queue in waiting]):
            await pause(world.clock, 100.0)  # somebody died with them in hand
            await self.script(world, process)
        for id_ in world.failures:
            summary = (await process.recovery.show(id_)).summary
            assert (summary.status, summary.attempts) == (Status.RESOLVED, 1), f"{summary}\n{world.story()}"
        there = [each for each in await process.recovery.failed(limit=500) if each.queue == "next"]
        mine = {each.message_id: each.attempts for each in there if each.message_id in world.ids}
        failing = sorted(world.failures)[: self.each]
        assert mine == {id_: 1 for id_, record in world.ids.items() if record in failing}, f"{mine}\n{world.story()}"


class Canaries(Scenario):
    """Two go first, and the rest when word of their success has come."""

    async def script(self, world, process):
        operation = await self.asked(world, process, canary=Canary(count=2, patience=10_000.0))
        for _ in range(6):
            await process.work()
            for queue in DESTINATIONS:
                await world.consume(process, queue)
            if (await process.recovery.operation(operation.number)).state in ENDED:
                break
        await process.work()

    async def check(self, world, process):
        (operation,) = await operations(world, process)
        assert operation.progress.succeeded == operation.progress.total == 2 * self.each, operation


class Rated(Scenario):
    """Two at a time, five times a second."""

    async def script(self, world, process):
        await self.asked(world, process, rate=20.0)
        await process.work()


class Interrupted(Scenario):
    """Somebody interferes while it is under way, at a moment that depends on chance."""

    async def script(self, world, process):
        operation = await self.asked(world, process)
        await asyncio.gather(process.work(), self._later(world, process, operation.number))
        await process.work()

    async def _later(self, world, process, number):
        for _ in range(world.chance.randrange(40)):
            (await world.turn(process, "hesitates")).done.set_result(None)
        await self.interfere(world, process, number)

    async def interfere(self, world, process, number):
        raise NotImplementedError


class Paused(Interrupted):
    """It is paused, and resumed."""

    async def interfere(self, world, process, number):
        await tolerating(process.recovery.pause(number))
        for _ in range(world.chance.randrange(20)):
            (await world.turn(process, "hesitates")).done.set_result(None)
        await tolerating(process.recovery.resume(number))

    async def check(self, world, process):
        (operation,) = await operations(world, process)
        assert operation.progress.forwarded == operation.progress.total == 2 * self.each, operation


class Cancelled(Interrupted):
    """It is cancelled."""

    async def interfere(self, world, process, number):
        if await tolerating(process.recovery.cancel(number)):  # else it was over, or is being cancelled already
            await world.collect(process, *DESTINATIONS)
            before = dict(world.arrived)
            await process.work()
            await world.collect(process, *DESTINATIONS)
            assert world.arrived == before


class Archived(Scenario):
    """Messages are archived, and restored."""

    async def script(self, world, process):
        await tolerating(process.recovery.archive(sorted(world.failures), key=f"archive-{world.run}"))
        await process.work()
        await tolerating(process.recovery.restore(sorted(world.failures), key=f"restore-{world.run}"))
        await process.work()

    async def check(self, world, process):
        for operation in await operations(world, process):
            assert operation.progress.forwarded == 2 * self.each, operation
        for id_ in world.failures:
            assert (await process.recovery.show(id_)).summary.status is Status.UNRESOLVED


class Edited(Scenario):
    """One message is edited, and its copy fails."""

    each = 1

    async def script(self, world, process):
        id_ = min(world.failures)
        await tolerating(process.recovery.edit(id_, Transform(set_headers={"edited": "yes"}), key=f"edit-{world.run}"))
        await process.work()
        await world.consume(process, world.failures[id_], fails=lambda _: True)
        await process.work()

    async def check(self, world, process):
        id_ = min(world.failures)
        found = (await process.recovery.show(id_)).summary
        assert found.status is Status.ARCHIVED, found
        assert (await process.recovery.show(found.edited_as)).summary.edit_of == id_
        assert len(world.arrived) == 1


class Poisoned(Scenario):
    """One destination is not there; in another a message is too large."""

    async def prepare(self, world, process):
        for queue in ("gone", "small"):
            await process.engine.declare(queue, QueueSettings())
            await process.engine.delete(queue)
        await process.engine.declare("small", QueueSettings(max_message_bytes=2_000))
        made = [
            world.failed(queue, size=size)
            for queue, size in (("a", 1), ("gone", 1), ("small", 1), ("small", 5_000), ("small", 1), ("gone", 1))
        ]
        await process.broker.send_many("error", made)
        await process.recovery.ingest()

    async def check(self, world, process):
        (operation,) = await operations(world, process)
        assert operation.progress.failed == 3, operation
        assert operation.progress.forwarded == 3, operation

    async def mend(self, world, process):
        await process.engine.declare("gone", QueueSettings())
        await process.engine.update("small", QueueSettings())


class Racing(Scenario):
    """Two operations want some of the same messages."""

    async def script(self, world, process):
        ids = sorted(world.failures)
        asked = [
            process.recovery.recover(ids[: len(ids) * 3 // 4], key=f"first-{world.run}"),
            process.recovery.recover(ids[len(ids) // 4 :], key=f"second-{world.run}"),
        ]
        await asyncio.gather(*(tolerating(each) for each in asked), process.work())
        await process.work()

    async def check(self, world, process):
        for queue in DESTINATIONS:
            await world.collect(process, queue)
        assert world.arrived_ids == dict.fromkeys(world.ids, 1)


class Mended(Scenario):
    """A function changes the messages of one queue, and its process dies of those of the other."""

    each = 1

    async def prepare(self, world, process):
        made = [world.failed(queue, size=size) for queue, size in zip(DESTINATIONS, (2, 3), strict=True)]
        await process.broker.send_many("error", made)
        await process.recovery.ingest()

    async def script(self, world, process):
        await self.asked(world, process, transform=Transform(function="tests.recovery.functions:die_of_three"))
        await process.work()

    async def check(self, world, process):
        (operation,) = await operations(world, process)
        assert (operation.progress.forwarded, operation.progress.failed) == (1, 1), operation
        (failed,) = await process.recovery.outcomes(operation.number, [Outcome.FAILED])
        assert "ended its process: exit status 3" in failed.reason


async def operations(world, process):
    """Return the operations of this run, the oldest first."""
    found = [each for each in await process.recovery.operations(limit=500) if each.number > world.first_operation]
    return found[::-1]


SCENARIOS = {
    "plain": Plain(),
    "ingest": Ingest(),
    "passed-on": PassedOn(),
    "canaries": Canaries(),
    "rated": Rated(),
    "paused": Paused(),
    "cancelled": Cancelled(),
    "archived": Archived(),
    "edited": Edited(),
    "poisoned": Poisoned(),
    "racing": Racing(),
}
