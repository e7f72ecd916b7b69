# SPDX-License-Identifier: MIT
"""D3 of the table of crashes: the program is replaced by a newer one while work is in flight.

What the old one has made is run by the new one, wherever it was. What the new one has made, and the old one cannot run,
is left alone by the old one: it is not tried, not counted and not set aside, and a new process takes it.
"""

import json
import random
from dataclasses import dataclass
from typing import ClassVar

import pytest

from redrive.broker import Message, dead_letter_queue
from redrive.clock import pause
from redrive.engines.sql.script import Sql
from redrive.pipeline import Every, Output, PipelineDestination, TaskState
from redrive.pipeline.fresh_inputs import FreshInputs
from tests.conformance.homes import PostgresHome
from tests.crash.harness import Mishap
from tests.pipeline.crash_parts import LOCK_S, LOOK_S, SLOT_S, WorldTransport, merge
from tests.pipeline.crash_plans import batched, new_world, one, tasks_of

long = [pytest.mark.torture, pytest.mark.timeout(3_600)]
PLACES = ["memory", "server"]


@pytest.fixture
def home_at(request):
    """Return a function that gives a home with nothing in it."""

    def home(place):
        if place == "memory":
            return None
        request.getfixturevalue("emptying")()
        return PostgresHome(request.getfixturevalue("postgres_url"), request.getfixturevalue("emptied_schema"))

    return home


# --- what the old program has made


@dataclass(frozen=True, slots=True)
class NewerTransport(WorldTransport):
    """A transport that the old program does not have."""

    kind: ClassVar[str] = "newer"


async def newer_route(report):
    """Send everything to the only destination; another function than before."""
    yield Output("one", report.items)


def newer(**settings):
    """Return the pipeline of the new program: another function, another transport, other settings."""
    plan = one(process=newer_route)
    how = {"retry": (1.0, 1.0, 1.0), "jitter": 0.0, **settings}
    return plan.with_destinations(
        {"one": PipelineDestination(name="one", transport=NewerTransport("one", "drops"), **how)}
    )


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("points", [pytest.param(3, id="some"), pytest.param(33, id="many", marks=long)])
async def test_what_the_old_program_has_left_anywhere_is_run_by_the_new_one(points, place, home_at):
    for nth in random.Random(points).sample(range(12, 45), points):
        async with new_world(one(), seed=nth, home=home_at(place)) as world:
            world.delaying["one", "s0.a"] = 1
            await world.play(world.process(Mishap(nth, "after")).live())
            world.plan_for = lambda _: newer()
            await world.live()
            assert {each.state for each in await tasks_of(world)} == {TaskState.DONE}
            assert {each.version for each in await tasks_of(world, stage="process")} <= {1, 2}
            await world.check()


@pytest.mark.parametrize("place", PLACES)
async def test_what_waits_for_a_slot_of_the_old_program_is_batched_by_the_new_one(place, home_at):
    async with new_world(batched(), home=home_at(place)) as world:
        await world.play(world.process().live(pause(world.clock, LOOK_S * 2)))
        assert [each.state for each in await tasks_of(world, stage="batch")] == [TaskState.WAITING] * 2
        world.plan_for = lambda _: newer(timing=Every(SLOT_S), merge=merge)
        await world.live()
        (sent,) = await tasks_of(world)
        assert (sent.state, sent.version, sent.item_count) == (TaskState.DONE, 2, 4)
        await world.check()


@pytest.mark.parametrize("place", PLACES)
async def test_messages_of_the_old_program_need_not_say_everything(place, home_at):
    """A message has had fewer words once, and a newer program may say more: what a task needs is in its row."""
    async with new_world(one(), home=home_at(place), submissions=1) as world:
        async with world.pipeline as pipeline:
            receipt = await pipeline.submit(world.submissions["s0"], key="s0")
        world.answered("s0", receipt.task)
        (message,) = await world.raw.lock_next(world.plan.process_queue, 1)
        short, long_ = {"task": receipt.task}, {**json.loads(message.body), "what": "nobody knows"}
        for body in (short, long_):
            await world.broker.send(world.plan.process_queue, Message.of(body))
        world.clock.advance(LOCK_S)
        await world.live()
        assert len(await tasks_of(world)) == 1
        await world.check()


# --- what the new program has made, while the old one runs


def unknown_here(world):
    """Store a version of the pipeline that no process with the usual plan can run."""
    table = world.plan.to_table()
    table["destinations"]["one"]["transport"] = {"kind": "of tomorrow", "name": "one"}
    return world.pipeline.ledger.declare("reports", json.dumps(table, sort_keys=True), ("one",))


async def made_by(world, version, stage):
    """Let the tasks of a stage be those of another version."""

    def script():
        yield Sql("UPDATE @.pipeline_tasks SET version = ? WHERE stage = ? RETURNING 1", [version, stage])

    await world.raw.run(script)


@pytest.fixture
def submitted_elsewhere(monkeypatch):
    """Let processes read what they process, as they do if another has taken it."""
    monkeypatch.setattr(FreshInputs, "keep", lambda *_: None)


@pytest.mark.usefixtures("submitted_elsewhere")
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("stage", ["process", "send", "batch"])
async def test_what_a_later_version_has_made_is_held_by_a_process_that_cannot_run_it(stage, place, home_at):
    plan = batched() if stage == "batch" else one()
    before = {"process": "process_input", "send": "begin_send", "batch": "waiting"}[stage]
    async with new_world(plan, home=home_at(place)) as world:

        async def upgrade():
            await made_by(world, await unknown_here(world), stage)

        world.before[before] = upgrade
        process = world.process()
        await world.play(process.live(pause(world.clock, 120.0)))
        held = await tasks_of(world, stage=stage)
        assert {each.state for each in held} == {TaskState.WAITING if stage == "batch" else TaskState.READY}
        assert [each.retries for each in held] == [0] * len(held)
        assert not world.arrived
        assert not [info for info in await world.raw.inspect() if info.dead]
        assert {each.id for each in await world.pipeline.stuck(overdue=60.0)} == {each.id for each in held}
        assert any("version 2 cannot run here" in str(event) for event in process.events)
        assert {each.name for each in await world.pipeline.history(limit=100)} <= {"receive", "process"}
        await world.live()  # a process of the new program, which stores what it is when it starts
        await world.check()


@pytest.mark.usefixtures("submitted_elsewhere")
@pytest.mark.parametrize("place", PLACES)
async def test_what_the_old_program_has_made_goes_on_beside_a_version_that_cannot_run_here(place, home_at):
    async with new_world(one(), home=home_at(place)) as world:
        world.before["process_input"] = lambda: unknown_here(world)
        await world.live()
        assert {each.version for each in await tasks_of(world, stage="process")} == {1}
        assert {each.version for each in await tasks_of(world)} == {1}  # what has made them, not what is stored last
        await world.check()


# --- what is no message of a pipeline


@pytest.mark.parametrize(
    "body", [b"\xff", b"{", b"[]", b"7", b"{}", b'{"task": "t", "epoch": "x"}', b'{"destination": 1}']
)
@pytest.mark.parametrize("queue", ["process_queue", "batch_queue", "send"])
async def test_what_no_stage_can_read_is_set_aside_at_once_and_the_rest_goes_on(queue, body):
    async with new_world(batched()) as world:
        name = world.plan.send_queue("one") if queue == "send" else getattr(world.plan, queue)
        await world.broker.send(name, Message(body, id="strange"))
        await world.live()
        (dead,) = await world.raw.peek(dead_letter_queue(name), 10)
        assert (dead.id, dead.dead_letter_info.reason) == ("strange", "Unreadable")
        assert "no message of a pipeline" in dead.dead_letter_info.description
        assert {each.state for each in await tasks_of(world)} == {TaskState.DONE}
