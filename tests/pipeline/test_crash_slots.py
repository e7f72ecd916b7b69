# SPDX-License-Identifier: MIT
"""Rows of the table of crashes about slots: several deciders, late members, broken merges, changes, the backstop."""

import hashlib

import pytest

from redrive.broker import Message
from redrive.clock import pause
from redrive.engines.sql.pipeline.ledger import SqlPipelineLedger
from redrive.pipeline import Every, PipelineDestination, SlotState, TasksExpired, TaskState, TaskToken
from redrive.pipeline.decider import Decider
from redrive.pipeline.new_tasks import Source, TaskMaker, items_of, submitted
from redrive.pipeline.records import NewAction
from tests.crash.harness import Mishap
from tests.pipeline.crash_parts import LOCK_S, LOOK_S, SLOT_S, WorldTransport, merge
from tests.pipeline.crash_plans import BAD, batched, new_world, one, only_task, picky_merge, tasks_of


async def slots_of(world):
    """Return the slots, the oldest first."""
    return list(reversed(await world.pipeline.slots("reports", "one", limit=1_000)))


def places(world, slots):
    """Return which slots these are, counted from the start of the world's clock."""
    return [(each.at.timestamp() - world.clock._start) / SLOT_S for each in slots]


# --- B4: several deciders


@pytest.mark.parametrize("seed", range(2))
async def test_two_processes_serve_each_slot_once_and_send_one_empty_batch_for_each(seed):
    async with new_world(batched(when_empty="send"), seed=seed) as world:
        first, second = world.process(), world.process()
        over = 4 * SLOT_S + 2 * LOOK_S + 0.5
        await world.play(first.live(pause(world.clock, over)), second.live(pause(world.clock, over)))
        slots = await slots_of(world)
        assert places(world, slots) == [1, 2, 3, 4]
        assert {each.state for each in slots} == {SlotState.SERVED}
        sent = sorted(task.slot_at for task in await tasks_of(world))
        assert sent == [each.at for each in slots]  # one batch for each slot, with something in it or not
        assert len(world.arrived) == len(slots)


@pytest.mark.parametrize(("catch_up", "wanted"), [("latest", [6, 7]), ("all", [2, 3, 4, 5, 6, 7]), ("none", [6, 7])])
async def test_a_restart_after_several_slots_serves_those_that_the_rule_says(catch_up, wanted):
    async with new_world(batched(when_empty="send", catch_up=catch_up), submissions=1) as world:
        await world.play(world.process().live(pause(world.clock, SLOT_S + LOOK_S + 0.1)))
        world.clock.advance(6 * SLOT_S + 1.0 - world.clock.monotonic())
        both = [world.process(), world.process()]
        await world.play(*(each.live(pause(world.clock, SLOT_S + LOOK_S)) for each in both))
        slots = await slots_of(world)
        assert places(world, slots)[1:] == wanted
        assert sum(each.is_empty for each in slots) == len(slots) - 1
        assert len(await tasks_of(world)) == len(slots)


async def test_slots_that_were_missed_long_ago_are_none_if_the_rule_says_so():
    async with new_world(batched(when_empty="send", catch_up="none"), submissions=0) as world:
        world.clock.advance(10_000 * SLOT_S + 200.0)
        world.clock.advance(SLOT_S / 2)
        await world.play(world.process().live(pause(world.clock, 1.0)))
        assert len(await slots_of(world)) == 1  # the one that has only just come


class Skewed:
    """A ledger in a process whose clock differs."""

    def __init__(self, ledger, seconds):
        self._ledger = ledger
        self._seconds = seconds

    def __getattr__(self, verb):
        return getattr(self._ledger, verb)

    async def now(self):
        return await self._ledger.now() + self._seconds


@pytest.mark.parametrize("skew", [-20.0, -3.0, 3.0, 20.0])
@pytest.mark.parametrize("catch_up", ["latest", "all"])
async def test_deciders_whose_clocks_differ_open_each_slot_once(catch_up, skew):
    async with new_world(batched(catch_up=catch_up)) as world, world.pipeline as pipeline:
        deciders = []
        for seconds in (0.0, skew):
            environment = pipeline._environment()
            environment.ledger = Skewed(environment.ledger, seconds)
            deciders.append(Decider(environment))
        for _ in range(40):
            world.clock.advance(1.3)
            for decider in deciders:
                await decider.decide()
        found = places(world, await slots_of(world))
        first = 2 if catch_up == "latest" and skew > SLOT_S else 1  # it sees two at once, and takes the last of them
        assert found == list(range(first, first + len(found)))
        assert found[-1] == (40 * 1.3 + max(0.0, skew)) // SLOT_S


@pytest.mark.parametrize("catch_up", ["latest", "all"])
async def test_a_decider_that_stood_still_opens_no_slot_that_others_have_passed(catch_up):
    async with new_world(batched(when_empty="send", catch_up=catch_up), submissions=0) as world:
        late = world.process()

        async def others():  # another process decides for the next slots, before this one opens what it has seen
            async with world.pipeline as pipeline:
                for _ in range(2):
                    world.clock.advance(SLOT_S)
                    await Decider(pipeline._environment()).decide()

        world.before["open_slot"] = others
        await world.play(late.live(pause(world.clock, 4 * SLOT_S - 0.5)))
        assert places(world, await slots_of(world)) == ([1, 2, 3] if catch_up == "all" else [2, 3])
        sent = sorted(each.slot_at for each in await tasks_of(world))
        assert sent == [each.at for each in await slots_of(world)]


# --- B5: a member that comes while a slot is being served


async def arrive(world, item):
    """Let a report be accepted and processed at once."""
    async with world.pipeline as pipeline:
        environment, ledger = pipeline._environment(), SqlPipelineLedger(world.raw, is_shared=True)
        body = item.encode()
        task = submitted(world.plan, pipeline.version, environment.new_id(), [body])
        digest = hashlib.sha256(body).hexdigest()
        accepting = ledger.accept(task, item, digest, NewAction(name="receive"))
        await world.broker.apply(inside=accepting)
        _, items = await ledger.process_input(TaskToken(task.id))
        sources = [Source(task.id, each) for each in items]
        maker = TaskMaker(plan=world.plan, version=pipeline.version, now=world.clock.time())
        child = maker.for_slot(environment.new_id(), world.plan.destinations["one"], items_of(sources), sources)
        done = ledger.finish_process(TaskToken(task.id), world.plan.name, [child], NewAction(name="process"))
        await world.broker.apply(inside=done)
    world.submissions[item] = body
    world.accepted[item] = task.id


@pytest.mark.parametrize("mishap", [Mishap(), Mishap(41), Mishap(41, "after")])
async def test_what_comes_while_a_slot_is_served_goes_with_the_next_slot(mishap):
    async with new_world(batched()) as world:
        world.before["serve_slot"] = lambda: arrive(world, "late")
        await world.live(mishap)
        assert min(body.decode() for body in world.bodies.values()) == "late"
        assert len(await slots_of(world)) >= 2
        await world.check()


# --- B6: a member that breaks the merge


@pytest.mark.parametrize("nth", [None, "before", "after"])
async def test_a_task_that_breaks_the_merge_fails_alone_whoever_dies(nth):
    async with new_world(batched(merging=picky_merge), submissions=3) as world:
        await world.live()
        place = world.processes[0].calls.index("serve_slot") + 1
    async with new_world(batched(merging=picky_merge), submissions=3) as world:
        await world.live(Mishap(0 if nth is None else place, nth or "before"))
        states = [each.state for each in await tasks_of(world, stage="batch")]
        assert sorted(states) == [TaskState.DONE, TaskState.DONE, TaskState.FAILED]
        (body,) = world.bodies.values()
        assert sorted(body.decode().split("+")) == ["s0.a", "s0.b", "s2.a", "s2.b"]
        assert BAD.encode() not in body
        await world.check()


# --- B7: changes while tasks wait


async def waiting(world):
    """Let everything be processed, and wait for a slot."""
    await world.play(world.process().live(pause(world.clock, LOOK_S * 2)))
    assert [each.state for each in await tasks_of(world, stage="batch")] == [TaskState.WAITING] * 2


def destination(**settings):
    how = {"retry": (3.0,), "merge": merge, **settings}
    return PipelineDestination(name="one", transport=WorldTransport("one", "drops"), **how)


@pytest.mark.parametrize("timing", [None, Every(6.0), Every(50.0)])
async def test_tasks_that_wait_go_by_another_timing(timing):
    async with new_world(batched()) as world:
        await waiting(world)

        process = world.process()

        async def change():
            await process.started.wait()
            async with world.pipeline as pipeline:
                await world.alone(pipeline.change(destination(timing=timing)))

        await world.play(process.live(), change())
        (sent,) = await tasks_of(world)
        assert sent.state is TaskState.DONE
        (slot,) = [each for each in await slots_of(world) if each.tasks]
        assert slot.closed_by == ("untimed" if timing is None else "time")
        assert timing is None or slot.at.timestamp() % timing.interval == 0


async def test_tasks_of_a_destination_that_is_gone_are_listed_as_stuck_until_it_is_back():
    def without(_):
        return one_for("other")

    async with new_world(batched()) as world:
        await waiting(world)
        usual, world.plan_for = world.plan_for, without
        await world.play(world.process().live(pause(world.clock, 2 * SLOT_S)))
        assert {each.state for each in await tasks_of(world, stage="batch")} == {TaskState.WAITING}
        assert len(await world.pipeline.stuck(overdue=1.0)) == 2
        world.plan_for = usual
        await world.live()
        assert {each.state for each in await tasks_of(world, stage="batch")} == {TaskState.DONE}
        await world.check()


def one_for(name):
    """Return the pipeline with another destination only."""
    plan = one()
    (only,) = plan.destinations.values()
    renamed = PipelineDestination(name=name, transport=only.transport)
    return plan.with_destinations({name: renamed})


async def test_a_slot_of_a_destination_that_is_gone_fails_and_loses_nothing():
    async with new_world(batched()) as world:
        await waiting(world)
        async with world.pipeline as pipeline:
            world.clock.advance(SLOT_S)
            assert await Decider(pipeline._environment()).decide() == 1
        usual, world.plan_for = world.plan_for, lambda _: one_for("other")
        await world.play(world.process().live(pause(world.clock, LOOK_S)))
        (slot,) = await slots_of(world)
        assert slot.state is SlotState.FAILED
        world.plan_for = usual
        await world.live()
        await world.check()


async def test_a_second_message_for_a_slot_is_dropped():
    async with new_world(batched()) as world:
        await world.live()
        (slot,) = [each for each in await slots_of(world) if each.tasks]
        again = Message.of({"destination": "one", "slot": slot.at.timestamp()})
        await world.broker.send(world.plan.batch_queue, again)
        await world.live()
        await world.check()


# --- B8: the backstop


async def test_what_waits_for_longer_than_the_backstop_expires_and_can_be_revived():
    async with new_world(batched()) as world:
        await waiting(world)
        world.clock.advance(4 * SLOT_S + 10_800.0)
        process = world.process()
        await world.play(process.live())
        waited = await tasks_of(world, stage="batch")
        assert [each.state for each in waited] == [TaskState.EXPIRED] * 2
        assert [each.tasks for each in process.events if isinstance(each, TasksExpired)] == [2]
        assert not world.arrived
        await world.check()
        world.is_changed = True
        async with world.pipeline as pipeline:
            for task in waited:
                assert (await pipeline.revive(task.id, actor="ann", reason="it is late")).state is TaskState.WAITING
        await world.live()
        sent = await only_task(world)
        assert (sent.state, sent.item_count) == (TaskState.DONE, 4)
        await world.check()


async def test_an_outage_that_is_shorter_than_the_backstop_costs_nothing():
    async with new_world(batched()) as world:
        await waiting(world)
        world.clock.advance(10_800.0 - LOCK_S)
        await world.live()
        assert (await only_task(world)).state is TaskState.DONE
        await world.check()
