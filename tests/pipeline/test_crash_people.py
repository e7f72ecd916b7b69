# SPDX-License-Identifier: MIT
"""Rows of the table of crashes about people: what they do while something is being sent, tried again or removed."""

import asyncio
from contextlib import suppress

import asyncpg
import pytest

from redrive.broker import Message, dead_letter_queue
from redrive.clock import pause
from redrive.engines.sql.pipeline import operators
from redrive.errors import TaskConflict
from redrive.pipeline import PipelineDestination, TaskState
from tests.conformance.homes import PostgresHome
from tests.pipeline.crash_parts import LOOK_S, WorldTransport
from tests.pipeline.crash_plans import new_world, one, only_task, tasks_of, words
from tests.postgres.server import run_sql


@pytest.fixture
def server(postgres_url, emptying, emptied_schema):
    emptying()
    return PostgresHome(postgres_url, emptied_schema)


async def shipments_of(world, task):
    return await world.pipeline.ledger.shipments(task.id)


# --- S8: held, cancelled or changed while it is being sent


async def test_a_destination_that_is_held_while_it_is_sent_to_keeps_the_outcome():
    async with new_world(one(), submissions=1) as world:
        world.delaying["one", "s0.a"] = 1
        world.before["finish_send"] = lambda: world.pipeline.hold("reports", "one", actor="ann", reason="a leak")
        process = world.process()
        await world.play(process.live(pause(world.clock, 20.0)))
        task = await only_task(world)
        assert (task.state, task.retries) == (TaskState.READY, 1)
        assert words(await shipments_of(world, task)) == ["pending", "sent"]
        assert [each.id for each in await world.pipeline.stuck(overdue=1.0)] == [task.id]
        await world.pipeline.release("reports", "one", actor="ann")
        await world.live()
        await world.check()


@pytest.mark.parametrize("outcome", ["sent", "delayed", "refused", "away"])
async def test_a_task_that_is_cancelled_while_it_is_sent_keeps_the_outcome(outcome):
    retry = () if outcome == "refused" else (3.0,)
    async with new_world(one("once", retry=retry), "once", submissions=1) as world:
        if outcome in ("delayed", "refused"):
            world.delaying["one", "s0.a"] = 1
        if outcome == "away":
            world.away["one", "s0.b"] = 1

        async def cancel():
            await world.pipeline.cancel((await only_task(world)).id, actor="ann", reason="not wanted")

        world.before["put_back" if outcome == "away" else "finish_send"] = cancel
        await world.play(world.process().live(pause(world.clock, 20.0)))
        task = await only_task(world)
        assert task.state is TaskState.CANCELLED
        expected = {"sent": ["sent", "sent"], "delayed": ["pending", "sent"], "refused": ["refused", "sent"]}
        assert words(await shipments_of(world, task)) == expected.get(outcome, ["sent", "pending"])
        assert not [info for info in await world.raw.inspect() if info.ready + info.locked + info.scheduled]
        assert set(world.arrived.values()) == {1}


async def test_what_was_cancelled_and_begun_anew_while_it_was_sent_is_no_earlier_attempts():
    async with new_world(one("once"), "once", submissions=1) as world:
        world.away["one", "s0.a"] = 1

        async def anew():
            task = await only_task(world)
            await world.pipeline.cancel(task.id, actor="ann")
            await world.pipeline.resend(task.id, which="all", actor="ann")

        world.before["put_back"] = anew
        await world.live()
        world.is_changed = True
        assert (await only_task(world)).state in (TaskState.UNKNOWN, TaskState.DONE)
        await world.check()


async def test_a_transport_that_is_changed_while_it_sends_keeps_the_outcome_and_then_the_new_one_sends():
    async with new_world(one(), submissions=1) as world:
        world.delaying["one", "s0.a"] = 1
        other = PipelineDestination(name="one", transport=WorldTransport("elsewhere", "drops"), retry=(3.0,), jitter=0)

        async def change():
            async with world.pipeline as pipeline:
                await pipeline.change(other)

        world.before["finish_send"] = change
        await world.live()
        task = await only_task(world)
        assert (task.state, task.retries) == (TaskState.DONE, 1)
        assert set(world.arrived.values()) == {1}


# --- O1: a resend beside an automatic retry


async def test_a_resend_while_a_retry_waits_is_refused_and_says_why():
    async with new_world(one(), submissions=1) as world:
        world.delaying["one", "s0.a"] = 1
        told = []

        async def resend():
            while not (tasks := await world.alone(tasks_of(world))) or not tasks[0].retries:
                await pause(world.clock, 0.5)
            with pytest.raises(TaskConflict) as refused:
                await world.alone(world.pipeline.resend(tasks[0].id, actor="ann"))
            told.append(str(refused.value))

        await world.play(world.process().live(), resend())
        assert "by itself" in told[0]
        assert set(world.arrived.values()) == {1}
        await world.check()


async def failed(world):
    """Let a task fail; return it."""
    world.delaying["one", "s0.a"] = 99
    await world.live()
    world.delaying.clear()
    world.is_changed = True
    task = await only_task(world)
    assert task.state is TaskState.FAILED
    return task


@pytest.mark.parametrize("place", ["memory", "server"])
async def test_one_of_two_people_who_resend_at_once_does_and_the_other_is_told(place, request):
    home = request.getfixturevalue("server") if place == "server" else None
    async with new_world(one(retry=()), submissions=1, home=home) as world:
        task = await failed(world)
        asked = [world.pipeline.resend(task.id, actor=name) for name in ("ann", "bob", "cy")]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert sum(isinstance(each, TaskConflict) for each in answers) == 2
        await world.live()
        assert set(world.arrived.values()) == {1}
        await world.check()


async def test_a_dead_letter_that_is_sent_again_after_a_resend_is_dropped():
    async with new_world(one(retry=()), submissions=1) as world:
        task = await failed(world)
        queue = world.plan.send_queue("one")
        (dead,) = await world.raw.peek(dead_letter_queue(queue), 10)
        await world.pipeline.resend(task.id, actor="ann")
        await world.broker.send(queue, Message(dead.message.body, id="again"))
        await world.live()
        task = await only_task(world)
        assert (task.state, set(world.arrived.values())) == (TaskState.DONE, {1})


async def test_a_dead_letter_that_is_sent_again_makes_a_resend_needless():
    async with new_world(one(retry=()), submissions=1) as world:
        task = await failed(world)
        queue = world.plan.send_queue("one")
        (dead,) = await world.raw.peek(dead_letter_queue(queue), 10)
        await world.broker.send(queue, Message(dead.message.body, id="again"))

        async def resend():
            with pytest.raises(TaskConflict):
                await world.pipeline.resend(task.id, actor="ann")

        world.before["send"] = resend  # the recovered message has been taken up
        await world.live()
        assert (await only_task(world)).state is TaskState.DONE
        assert set(world.arrived.values()) == {1}


# --- O3: what is old is removed while it is needed


async def test_nothing_is_removed_before_all_that_has_come_of_it_has_ended():
    async with new_world(one(retry=(60.0,)), submissions=1) as world:
        world.delaying["one", "s0.a"] = 1
        await world.play(world.process().live(pause(world.clock, 3 * LOOK_S)))
        assert await world.pipeline.prune(world.clock.time()) == 0
        async with world.pipeline as pipeline:
            receipt = await pipeline.submit(b"s0.a\ns0.b", key="s0")
            assert (receipt.is_new, receipt.task) == (False, world.accepted["s0"])
        await world.live()
        await world.check()
        assert await world.pipeline.prune(world.clock.time()) == 2
        for table in ("tasks", "items", "shipments", "bodies", "submissions"):
            assert await world.rows(f"SELECT * FROM @.pipeline_{table}") == []  # noqa: S608 - names of ours


async def test_what_is_sent_again_is_not_removed_at_the_same_moment(server, postgres_url, emptied_schema):
    async with new_world(one(), submissions=1, home=server) as world:
        await world.live()
        task = await only_task(world)
        table = f'"{emptied_schema}".pipeline_tasks'
        again = f"UPDATE {table} SET state = {int(TaskState.READY)} WHERE id = '{task.id}'"  # noqa: S608 - ours

        def interrupted():  # another process sends it again, when it has been chosen to be removed
            script = operators.prune(world.clock.time(), 100)
            chosen = yield next(script)
            assert [row[0] for row in chosen] == [task.id]
            with pytest.raises(asyncpg.LockNotAvailableError):  # it has to wait, and finds the task gone
                run_sql(postgres_url, "SET lock_timeout = '100ms'", again)
            step = script.send(chosen)
            with suppress(StopIteration):
                while True:
                    step = script.send((yield step))

        await world.raw.run(interrupted)
        assert await tasks_of(world) == []
        bodies = await world.rows("SELECT id FROM @.pipeline_bodies")
        assert len(bodies) == 2  # of the report, which goes after all that has come of it
