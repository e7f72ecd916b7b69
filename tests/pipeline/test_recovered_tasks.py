# SPDX-License-Identifier: MIT
"""What people do with tasks that failed: one at a time, and all of them with a recovery of their dead letters."""

import asyncio
import contextlib
from typing import ClassVar

import pytest

from redrive import connect, open_pipeline, open_recovery
from redrive.broker import dead_letter_queue
from redrive.errors import TaskConflict
from redrive.pipeline import (
    OpenTransport,
    OutcomeUnknown,
    Output,
    Pipeline,
    PipelineRunner,
    ShipmentRefused,
    ShipmentSent,
    ShipmentState,
    TaskState,
    Transport,
)

SEND = "pipelines/reports/send/lab"


class Lab(Transport):
    """A destination that refuses what it is set to refuse, and keeps the rest."""

    kind = "lab"
    outcomes: ClassVar[dict] = {}
    sent: ClassVar[list] = []

    @property
    def address(self):
        return "lab"

    def open(self, _environment) -> OpenTransport:
        return self

    async def send(self, shipment):
        outcome = Lab.outcomes.get(shipment.body, ShipmentSent("kept"))
        if isinstance(outcome, ShipmentSent):
            Lab.sent.append((shipment.body, shipment.delivery_id))
        return outcome

    async def close(self):
        return


def lines(report):
    yield Output("lab", report.items)


def plan():
    pipe = Pipeline("reports")
    pipe.receive(lambda submission: submission.body.splitlines())
    pipe.process(lines)
    pipe.destination("lab", Lab(), on_unknown="park")
    return pipe


@pytest.fixture
def lab():
    Lab.outcomes, Lab.sent = {}, []
    return Lab


@contextlib.asynccontextmanager
async def running(pipeline):
    runner = PipelineRunner(pipeline, listen="127.0.0.1:0")
    task = asyncio.create_task(runner.run())
    try:
        yield
    finally:
        runner.stop()
        await task


async def until(pipeline, *states):
    """Wait until the send task is in one of these states; return it."""
    while True:
        found = [each for each in await pipeline.tasks("reports") if each.stage == "send"]
        if found and found[0].state in states:
            return found[0]


async def submitted(pipeline, body, *states):
    await pipeline.submit(body, key=body)
    async with running(pipeline):
        return await until(pipeline, *states)


async def test_a_recovered_message_sends_what_had_failed_and_nothing_else(lab):
    lab.outcomes = {b"bad": ShipmentRefused("not like that")}
    async with connect("sqlite:///:memory:") as broker, open_pipeline(broker, plan()) as pipeline:
        task = await submitted(pipeline, "good\nbad", TaskState.FAILED)
        assert [body for body, _ in lab.sent] == [b"good"]
        async with open_recovery(broker, sources=[dead_letter_queue(SEND)]) as recovery:
            await recovery.ingest()
            asked = await recovery.recover(f"queue:{SEND}")
            await recovery.step()
            async with running(pipeline):  # it fails again
                while not (await broker.inspect(SEND)).dead:
                    pass
            lab.outcomes = {}
            await recovery.step()
            assert (await recovery.operation(asked.number)).progress.failed_again == 1
            asked = await recovery.recover(f"queue:{SEND}")
            await recovery.step()
            async with running(pipeline):
                await until(pipeline, TaskState.DONE)
            await recovery.step()
            assert (await recovery.operation(asked.number)).progress.succeeded == 1
        assert lab.sent == [(b"good", f"{task.id}-1"), (b"bad", f"{task.id}-2")]
        assert [each.name for each in (await pipeline.show(task.id)).history] == ["send_error", "send_error", "send"]


async def test_what_has_arrived_is_not_sent_again_because_a_person_says_it_has_not(lab):
    lab.outcomes = {b"lost": OutcomeUnknown("no answer")}
    async with connect("sqlite:///:memory:") as broker, open_pipeline(broker, plan()) as pipeline:
        task = await submitted(pipeline, "good\nlost", TaskState.UNKNOWN)
        with pytest.raises(TaskConflict, match=r"shipment 1 has arrived; .* resend it \(--again\)"):
            await pipeline.resolve(task.id, [1], arrived=False)
        with pytest.raises(TaskConflict, match="it has no shipment 3; it has 2"):
            await pipeline.resolve(task.id, [3], arrived=False)
        with pytest.raises(TaskConflict, match=r"1 of 2 shipments have an unknown outcome; .*--items unknown"):
            await pipeline.resend(task.id)
        states = [each.state for each in (await pipeline.show(task.id)).shipments]
        assert states == [ShipmentState.SENT, ShipmentState.UNKNOWN]
        assert (await pipeline.resolve(task.id, [2], arrived=True)).state is TaskState.DONE


async def test_a_refusal_names_the_state_of_the_task(lab):
    async with connect("sqlite:///:memory:") as broker, open_pipeline(broker, plan()) as pipeline:
        task = await submitted(pipeline, "good", TaskState.DONE)
        with pytest.raises(TaskConflict, match="it is done: there is nothing left to cancel"):
            await pipeline.cancel(task.id)
        with pytest.raises(TaskConflict, match=r"1 of 1 shipments have arrived; .*--items all --again"):
            await pipeline.resend(task.id)
        assert lab.sent == [(b"good", f"{task.id}-1")]


@pytest.mark.parametrize("change", ["resend", "cancel"])
async def test_what_a_person_decides_about_a_task_removes_its_dead_letter_in_the_same_transaction(lab, url, change):
    lab.outcomes = {b"bad": ShipmentRefused("not like that"), b"worse": ShipmentRefused("nor like that")}
    async with connect(url) as broker, open_pipeline(broker, plan()) as pipeline:
        task = await submitted(pipeline, "good\nbad", TaskState.FAILED)
        await pipeline.submit("worse", key="other")
        async with running(pipeline):
            while (await broker.inspect(SEND)).dead < 2:
                pass
        await getattr(pipeline, change)(task.id, actor="ann")
        left = [each.body for each in await broker.peek(dead_letter_queue(SEND))]
        assert len(left) == 1
        assert task.id.encode() not in left[0]
        assert (await broker.inspect(SEND)).ready == (change == "resend")


async def test_a_dead_letter_that_recovery_has_taken_does_not_hinder_a_person(lab):
    lab.outcomes = {b"bad": ShipmentRefused("not like that")}
    async with connect("sqlite:///:memory:") as broker, open_pipeline(broker, plan()) as pipeline:
        task = await submitted(pipeline, "bad", TaskState.FAILED)
        async with open_recovery(broker, sources=[dead_letter_queue(SEND)]) as recovery:
            await recovery.ingest()
            lab.outcomes = {}
            await pipeline.resend(task.id)
            async with running(pipeline):
                await until(pipeline, TaskState.DONE)
        assert [body for body, _ in lab.sent] == [b"bad"]
