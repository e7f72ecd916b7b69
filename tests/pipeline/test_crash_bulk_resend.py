# SPDX-License-Identifier: MIT
"""O2 of the table of crashes: who sends all failed tasks again dies half-way.

To send them again is an operation of recovery on the dead letters of their stage: they are read, asked for with a key,
sent to their queue and followed until word of all has come. The process that does that dies before or after any of its
calls, while another one runs the pipeline or none does, and the next one asks for the same again.
"""

import asyncio
import random

import pytest

from redrive.broker import dead_letter_queue
from redrive.clock import pause
from redrive.engines.sql.recovery.ledger import SqlLedger
from redrive.errors import OperationConflict
from redrive.pipeline import TaskState
from redrive.recovery import Filter, Recovery, ServiceSettings
from redrive.recovery.states import ENDED
from tests.conformance.homes import PostgresHome
from tests.crash.harness import LANES, Crash, Mishap, Wire, spread
from tests.pipeline.crash_parts import LOCK_S
from tests.pipeline.crash_plans import new_world, one, tasks_of, words
from tests.pipeline.crash_world import PipelineProcess

long = [pytest.mark.torture, pytest.mark.timeout(3_600)]
FAILED = ("s0.a", "s1.b", "s2.a")
"""The items that are refused until a person says that they are to be sent again; the other one of each task is sent."""

CHANGES = {"record", "request", "settle", "claim", "apply", "staged", "forwarded", "finish", "confirm"}
SEED = 7


class ResendingProcess(PipelineProcess):
    """A process that sends all failed tasks again, and follows what comes of it."""

    def __init__(self, world, name, mishap):
        super().__init__(world, name, mishap)
        self.queue = world.plan.send_queue("one")
        self.recovery = Recovery(
            self.broker,
            Wire(self, SqlLedger(world.raw, is_shared=True, is_with_queues=True)),
            sources=[dead_letter_queue(self.queue)],
            settings=ServiceSettings(lanes=LANES),
            new_id=lambda: f"{name}-{world.new_id()}",
            chance=lambda: 0.5,
        )
        self.has_ended = asyncio.Event()

    async def live(self):
        """Ask for it, and work until word of every message has come, or until its mishap."""
        try:
            async with self.recovery:
                await self._work()
        except Crash:
            assert self.is_dead
        finally:
            self.has_ended.set()

    async def _work(self):
        operation = await self._asked()
        while operation.state not in ENDED or operation.progress.waiting or not await self.world.is_done():
            step = await self.recovery.step()
            if not step:
                await pause(self.world.clock, min(step.next_in or 1.0, 1.0))
            operation = await self.recovery.operation(operation.number)
        self.world.operation = operation

    async def _asked(self):
        await self.recovery.ingest()
        while (await self.world.alone(self.world.raw.inspect(self.queue)))[0].dead:
            await pause(self.world.clock, LOCK_S)  # another process has died with them: they come when its locks end
            await self.recovery.ingest()
        return await self.recovery.recover(Filter(queues=(self.queue,)), key="resend", actor="ann")


def resending(world, mishap=None):
    """Return a new process that sends everything again."""
    process = ResendingProcess(world, f"r{len(world.processes) + 1}", mishap or Mishap())
    world.processes.append(process)
    return process


async def fail(world):
    """Let a task of each submission fail with one of its two items."""
    world.delaying.update({("one", item): 99 for item in FAILED})
    await world.live()
    world.delaying.clear()
    world.is_changed = True
    assert [each.state for each in await tasks_of(world)] == [TaskState.FAILED] * len(FAILED)
    assert sorted(body.decode() for body in world.bodies.values()) == ["s0.b", "s1.a", "s2.b"]
    world.processes.clear()


async def check(world):
    """Say that every task was sent once, and the operation knows of every one."""
    progress = world.operation.progress
    assert (progress.total, progress.succeeded) == (len(FAILED), len(FAILED)), f"{progress}\n{world.story()}"
    for task in await tasks_of(world):
        assert task.state is TaskState.DONE, f"{task}\n{world.story()}"
        assert words(await world.pipeline.ledger.shipments(task.id)) == ["sent", "sent"]
    assert set(world.arrived.values()) == {1}, f"{world.arrived}\n{world.story()}"
    assert len(world.arrived) == 2 * len(FAILED)
    await world.check()


async def resent(*mishaps, seed=SEED, home=None, beside=True):
    """Send all failed tasks again, each process with a mishap, the last without; return the calls of the first one.

    Args:
        mishaps: what befalls them.
        seed: decides the order of turns.
        home: where the store is.
        beside: whether the pipeline runs while it does, or only afterwards, when the next one is at work.
    """
    async with new_world(one("repeats", retry=()), "repeats", seed=seed, home=home, submissions=3) as world:
        await fail(world)
        for mishap in (*mishaps, Mishap()):
            process, runner = resending(world, mishap), world.process()
            await world.play(process.live(), *([runner.live(process.has_ended.wait())] if beside else []))
            if not process.is_dead:
                break
            beside = True
        calls = world.processes[0].calls
        await check(world)
        return calls


@pytest.mark.parametrize("beside", [True, False], ids=["while it runs", "before it runs"])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("stride", [pytest.param(15, id="some"), pytest.param(1, id="all", marks=long)])
async def test_who_sends_all_failed_tasks_again_dies_at_any_call_and_each_is_sent_once(stride, when, beside):
    calls = await resent()
    assert set(calls) >= CHANGES, set(calls)
    for nth in spread(calls, stride, CHANGES):
        await resent(Mishap(nth, when), beside=beside)


@pytest.mark.parametrize("trials", [pytest.param(3, id="some"), pytest.param(300, id="many", marks=long)])
async def test_one_after_another_dies_until_one_gets_through(trials):
    most = len(await resent())
    for trial in range(trials):
        chance = random.Random(trial)
        mishaps = [Mishap(chance.randrange(1, most), chance.choice(["before", "after"])) for _ in range(3)]
        await resent(*mishaps, seed=trial, beside=chance.random() < 0.5)


@pytest.fixture
def server(postgres_url, emptying, emptied_schema):
    """Return a function that gives a home on a server, with nothing in it."""

    def home():
        emptying()
        return PostgresHome(postgres_url, emptied_schema)

    return home


@pytest.mark.parametrize("points", [pytest.param(2, id="some"), pytest.param(40, id="many", marks=long)])
async def test_it_is_the_same_with_a_server(points, server):
    calls = await resent(home=server())
    for nth in random.Random(points).sample(range(1, len(calls)), points):
        await resent(Mishap(nth, "after"), home=server())


async def test_a_second_person_who_asks_half_way_is_told_which_operation_has_them():
    async with new_world(one("repeats", retry=()), "repeats", submissions=3) as world:
        await fail(world)
        calls = await resent()
        process = resending(world, Mishap(calls.index("forwarded") + 1, "after"))
        await world.play(process.live())
        assert process.is_dead
        again = resending(world)

        async def other():
            async with again.recovery as recovery:
                with pytest.raises(OperationConflict, match="operation 1"):
                    await recovery.recover(Filter(queues=(again.queue,)), actor="bob")

        await world.play(other())
        await world.play(again.live(), world.process().live(again.has_ended.wait()))
        await check(world)
