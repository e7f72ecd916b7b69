# SPDX-License-Identifier: MIT
"""Rows of the table of crashes that are more than the end of a process: receiving, processing and sending.

Each test names its row. Those of slots are in ``test_crash_slots``, those of people in ``test_crash_people``.
"""

import asyncio

import pytest

from redrive.broker import Message, dead_letter_queue
from redrive.clock import pause
from redrive.errors import TaskConflict
from redrive.pipeline import Output, ShipmentState, TaskState
from redrive.pipeline.stage import MOST_DEATHS
from tests.conformance.homes import PostgresHome
from tests.crash.harness import Mishap
from tests.pipeline.crash_parts import FLAVOURS, LOCK_S, LOOK_S
from tests.pipeline.crash_plans import batched, new_world, one, only_task, tasks_of, words


@pytest.fixture
def server(postgres_url, emptying, emptied_schema):
    emptying()
    return PostgresHome(postgres_url, emptied_schema)


# --- R5: two submitters with one key at once


@pytest.mark.parametrize("seed", range(3))
async def test_two_processes_that_get_the_same_submission_at_once_give_the_same_answer(seed):
    async with new_world(one(), seed=seed) as world:
        first, second = world.process(), world.process()
        await world.play(first.live(), second.live())
        assert [each.calls.count("accept") for each in (first, second)] != [0, 0]
        await world.check()


async def test_one_of_many_submissions_with_one_key_is_stored_on_a_server(server):
    async with new_world(one(), home=server) as world, world.pipeline as pipeline:
        receipts = await asyncio.gather(*(pipeline.submit(b"s0.a\ns0.b", key="s0") for _ in range(8)))
        assert len({each.task for each in receipts}) == 1
        assert [each.is_new for each in receipts].count(True) == 1


# --- P6: who kills every process is set aside


def deadly():
    """Return a plan whose process function kills its process at some items."""

    def plan(process):
        async def route(report):
            for item in report.items:
                await process.survive(item.body.decode())
            yield Output("one", report.items)

        return one(process=route)

    return plan


@pytest.mark.parametrize("stage", ["process", "send"])
async def test_what_kills_every_process_is_set_aside_after_three_deaths_and_the_rest_goes_on(stage):
    plan = deadly() if stage == "process" else one()
    async with new_world(plan) as world:
        world.killing = {"s0.b"}
        deaths = 0
        while True:
            process = world.process()
            await world.play(process.live())
            if not process.is_dead:
                break
            deaths += 1
        assert deaths == MOST_DEATHS
        failed, fine = sorted(await tasks_of(world, stage=stage), key=lambda each: each.state is not TaskState.FAILED)
        assert (failed.state, fine.state) == (TaskState.FAILED, TaskState.DONE)
        assert failed.reason == f"{MOST_DEATHS} processes have died at it"
        queue = world.plan.process_queue if stage == "process" else world.plan.send_queue("one")
        (dead,) = await world.raw.peek(dead_letter_queue(queue), 10)
        assert dead.dead_letter_info.reason == "CrashLoop"
        assert {body.decode() for body in world.bodies.values()} >= {"s1.a", "s1.b"}
        await world.check()


# --- S3: the reply is lost


@pytest.mark.parametrize(
    ("flavour", "state", "times"),
    [("drops", "sent", 1), ("tells", "sent", 1), ("repeats", "sent", 2), ("once", "unknown", 1)],
)
async def test_a_lost_reply_is_dealt_with_as_the_destination_allows(flavour, state, times):
    async with new_world(one(flavour), flavour, submissions=1) as world:
        world.losing["one", "s0.a"] = 1
        await world.live()
        task = await only_task(world)
        shipments = await world.pipeline.ledger.shipments(task.id)
        assert words(shipments) == [state, "sent"]
        assert world.arrived[shipments[0].delivery_id] == times
        await world.check()


@pytest.mark.parametrize("flavour", ["drops", "repeats"])
async def test_what_may_have_arrived_is_never_called_refused(flavour):
    async with new_world(one(flavour), flavour, submissions=1) as world:
        world.losing["one", "s0.a"] = 1
        deliver = world.deliver

        def once(process, shipment):  # it loses the first reply, and refuses all repetitions
            if shipment.attempt == 2:
                world.delaying["one", "s0.a"] = 99
            return deliver(process, shipment)

        world.deliver = once
        await world.live()
        task = await only_task(world)
        assert task.state is TaskState.UNKNOWN
        assert words(await world.pipeline.ledger.shipments(task.id)) == ["unknown", "sent"]


# --- S5: the schedule is kept to


@pytest.mark.parametrize("when", [None, "before", "after"])
async def test_a_retry_comes_exactly_when_the_schedule_says_so(when):
    delays = (20.0, 40.0)
    async with new_world(one(retry=delays), submissions=1) as world:
        world.delaying["one", "s0.a"] = 2
        sent_at = []
        deliver = world.deliver

        def noting(process, shipment):
            if shipment.body == b"s0.a":
                sent_at.append(world.clock.monotonic())
            return deliver(process, shipment)

        world.deliver = noting
        if when is not None:  # it dies with the first outcome, before or after that is stored
            calls = world.process()
            await world.play(calls.live(pause(world.clock, 10.0)))
            assert "finish_send" in calls.calls
        await world.live()
        warned = [each for each in await world.pipeline.history(limit=100) if each.name == "send_warning"]
        for action in warned:
            begun = next(at for at in sent_at if abs(at - (action.at.timestamp() - world.clock._start)) < 0.001)
            due = action.detail["next_attempt_at"] - world.clock._start
            assert due == begun + delays[action.attempt - 1]
            assert any(due <= at <= due + LOOK_S for at in sent_at)
        assert len(sent_at) == 3
        await world.check()


# --- S6: bookkeeping that fails is done again as bookkeeping


@pytest.mark.parametrize("verb", ["finish_send", "put_back"])
async def test_a_store_that_is_away_after_a_good_send_costs_no_second_send(verb):
    async with new_world(one("repeats"), "repeats", submissions=1) as world:
        if verb == "put_back":
            world.away["one", "s0.b"] = 1

        async def fail():
            world.is_broken = True

        world.before[verb] = fail

        async def mend():
            while not world.is_broken:
                await pause(world.clock, 0.5)
            await pause(world.clock, LOCK_S - 1.5)
            world.is_broken = False

        await world.play(world.process().live(), mend())
        assert set(world.arrived.values()) == {1}
        await world.check()


# --- S7: a second message for a retry that is not due


async def test_a_second_message_for_a_retry_that_waits_changes_nothing():
    async with new_world(one(retry=(60.0,)), submissions=1) as world:
        world.delaying["one", "s0.a"] = 1
        process = world.process()
        queue = world.plan.send_queue("one")

        async def wake():
            while not (tasks := await world.alone(tasks_of(world))) or not tasks[0].retries:
                await pause(world.clock, 1.0)
            for _ in range(3):
                await world.alone(world.broker.send(queue, Message.of(tasks[0].token.to_json())))
            await pause(world.clock, 20.0)
            assert (await world.alone(only_task(world))).retries == 1
            assert list(world.bodies.values()) == [b"s0.b"]

        await world.play(process.live(), wake())
        task = await only_task(world)
        assert (task.state, task.retries) == (TaskState.DONE, 1)
        assert set(world.arrived.values()) == {1}
        await world.check()


# --- S9: the last attempt fails


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_a_process_that_dies_at_the_last_attempt_leaves_one_more_at_most(flavour, when):
    async with new_world(one(flavour, retry=()), flavour, submissions=1) as world:
        world.delaying["one", "s0.a"] = 99
        await world.live(Mishap(await nth_call("finish_send", flavour), when))
        task = await only_task(world)
        shipments = await world.pipeline.ledger.shipments(task.id)
        if flavour == "once" and when == "before":  # nobody knows how far the first attempt has come
            assert words(shipments) == ["unknown", "unknown"]
        elif flavour in ("drops", "repeats") and when == "before":
            assert words(shipments) == ["unknown", "sent"]
        else:
            assert (task.state, words(shipments)) == (TaskState.FAILED, ["refused", "sent"])
        assert 99 - world.delaying["one", "s0.a"] <= 2
        assert max(each.attempt for each in shipments) <= 2


async def nth_call(verb, flavour):
    """Return at which call a process without a mishap first makes one."""
    async with new_world(one(flavour, retry=()), flavour, submissions=1) as world:
        world.delaying["one", "s0.a"] = 99
        await world.live()
        return world.processes[0].calls.index(verb) + 1


# --- D2: the database is away


@pytest.mark.parametrize("seconds", [3.0, 40.0])
async def test_a_store_that_is_away_costs_no_attempt_and_fails_nothing(seconds):
    async with new_world(None) as world:
        world.losing.clear()

        async def outage():
            await pause(world.clock, 2.6)
            world.is_broken = True
            await pause(world.clock, seconds)
            world.is_broken = False

        await world.play(world.process().live(), outage())
        names = {each.name for each in await world.pipeline.history(limit=1_000)}
        assert names <= {"receive", "process", "batch", "send", "send_warning", "send_parked"}
        assert {each.state for each in await tasks_of(world)} == {TaskState.DONE}
        assert max(each.retries for each in await tasks_of(world)) == 2  # those that the destination has refused
        await world.check()


# --- D4: a graceful stop


@pytest.mark.parametrize("nth", [25, 32, 40, 47, 55])
async def test_a_process_that_is_told_to_stop_finishes_or_gives_back_at_once(nth):
    async with new_world(None, seed=nth) as world:
        process = world.process(Mishap(nth, kind="stops"))
        await world.play(process.live(pause(world.clock, 100.0)))
        assert not process.is_dead
        assert process.calls[nth - 1 :]
        assert not any(info.locked for info in await world.raw.inspect())
        states = {row["state"] for row in await world.rows("SELECT state FROM @.pipeline_shipments")}
        assert ShipmentState.INTENT not in states
        await world.live()
        await world.check()


# --- a part of a process ends, and the process lives on


async def test_a_stage_that_ends_is_started_again_and_no_other_is_started_twice():
    async with new_world(None) as world:
        process = world.process()

        async def end():
            await process.started.wait()
            await pause(world.clock, 1.5)
            worker, _ = process.runner._stages["process"]
            worker.stop()

        await world.play(process.live(), end())
        assert any("process is started again" in str(event) for event in process.events)
        left = [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("redrive-pipelines/")]
        assert left == []
        await world.check()


async def test_a_decider_that_fails_decides_again():
    async with new_world(batched()) as world:
        process = world.process()

        async def fail():
            raise TaskConflict("t", "something that nobody has thought of")

        world.before["open_slot"] = fail
        await world.play(process.live())
        assert any("nobody has thought of" in str(event) for event in process.events)
        await world.check()
