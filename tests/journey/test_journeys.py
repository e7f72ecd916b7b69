# SPDX-License-Identifier: MIT
"""The journey of a message is found by its id, in every layer, with its parents and children."""

import asyncio
import json

import pytest

from redrive import connect, open_journeys, open_recovery
from redrive.broker import Message
from redrive.broker.headers import PARENT
from redrive.clock import system_clock
from redrive.errors import InvalidSetting, JourneyNotFound
from redrive.journey import journeys as facade
from redrive.recovery import Transform
from redrive.testing import ManualClock
from redrive.worker import Recoverability, Worker
from tests.commands import run_command

POLICY = Recoverability(immediate=0, delayed=None, error_queue="error")


async def find(broker, id_):
    async with open_journeys(broker) as journeys:
        return await journeys.find(id_)


def steps(found):
    return {(edge.source, edge.target, edge.kind) for edge in found.edges}


async def test_a_message_that_waits_is_found_in_its_queue(broker, clock):
    await broker.declare("orders")
    await broker.send("orders", Message(b"", id="o-1"))
    clock.advance(5)
    found = await find(broker, "o-1")
    assert (found.state, found.times, found.notes) == ("under way", {"waiting": 5.0}, ())
    assert [(node.id, node.state) for node in found.nodes] == [("o-1@orders", "ready")]


async def test_a_message_that_is_being_handled_or_postponed_is_told_so(broker, clock):
    await broker.declare("orders")
    await broker.send("orders", Message(b"", id="o-1"))
    clock.advance(5)
    (held,) = await broker.receive("orders")
    clock.advance(3)
    assert (await find(broker, "o-1")).times == {"handling": 3.0, "waiting": 5.0}
    await held.abandon(delay=60)
    clock.advance(10)
    assert (await find(broker, "o-1")).times == {"handling": 3.0, "delayed": 10.0, "waiting": 5.0}


async def test_children_and_parents_are_found_from_each_other(broker):
    await broker.declare("orders", journey="all")
    await broker.declare("bills")
    worker = Worker()

    @worker.handler("orders")
    async def bill(_body: bytes, context) -> None:
        context.send("bills", Message(b"", id=f"bill of {context.message.id}"))

    await broker.send_many("orders", [Message(b"", id="o-1"), Message(b"", id="o-2")])
    await worker.run(broker, until_idle=True)
    up, down = await find(broker, "bill of o-1"), await find(broker, "o-1")
    assert [node.id for node in up.nodes] == [node.id for node in down.nodes]
    assert steps(up) == steps(down) == {("o-1@orders", "bill of o-1@bills", "child")}


async def test_a_child_is_found_even_if_its_parent_left_no_record(broker):
    await broker.declare("bills")
    await broker.send("bills", Message(b"", id="b-1", headers={PARENT: "o-1"}))
    assert [node.id for node in (await find(broker, "o-1")).nodes] == ["b-1@bills"]


async def test_a_child_that_failed_is_found_from_its_parent_when_it_has_left_the_queues(broker):
    for queue in ("orders", "bills", "error"):
        await broker.declare(queue)
    await broker.update("orders", journey="all")
    worker = Worker()

    @worker.handler("orders")
    async def bill(_body: bytes, context) -> None:
        context.send("bills", Message(b"", id="b-1"))

    @worker.handler("bills", recoverability=POLICY, slow_down=None)
    async def fail(_body: bytes) -> None:
        raise ValueError("no")

    await broker.send("orders", Message(b"", id="o-1"))
    await worker.run(broker, until_idle=True)
    async with open_recovery(broker) as recovery:
        await recovery.ingest()
    found = await find(broker, "o-1")
    (failure,) = [node for node in found.nodes if node.kind == "failure"]
    assert {("o-1@orders", "b-1@bills", "child"), ("b-1@bills", failure.id, "failed")} <= steps(found)
    assert found.state == "failed"


async def test_an_edited_message_leads_to_its_copy(broker):
    for queue in ("orders", "error"):
        await broker.declare(queue)
    worker = Worker()

    @worker.handler("orders", recoverability=POLICY, slow_down=None)
    async def fail(body: bytes) -> None:
        if body == b"bad":
            raise ValueError("no")

    await broker.send("orders", Message(b"bad", id="o-1"))
    await worker.run(broker, until_idle=True)
    async with open_recovery(broker) as recovery:
        await recovery.ingest()
        (failed,) = await recovery.failed()
        await recovery.edit(failed.id, Transform(body=b"good"))
        await recovery.step()
        found = await find(broker, "o-1")
    (copy,) = [node for node in found.nodes if node.kind == "message" and node.message_id != "o-1"]
    assert (f"failure:{failed.id}", copy.id, "edit") in steps(found)


async def test_what_is_in_the_queues_is_looked_at_up_to_a_bound_that_is_told(broker, monkeypatch):
    monkeypatch.setattr(facade, "MOST_QUEUED", 2)
    await broker.declare("orders")
    await broker.send_many("orders", [Message(b"", id=f"o-{number}") for number in range(4)])
    found = await find(broker, "o-3")
    assert found.notes == ("not all messages in the queues were looked at, only the newest",)
    with pytest.raises(JourneyNotFound):
        await find(broker, "o-0")


async def test_there_is_no_record_of_what_was_never_there(broker):
    with pytest.raises(JourneyNotFound, match="there is no record of 'nothing'"):
        await find(broker, "nothing")
    for wrong in ("", None, 7):
        with pytest.raises(InvalidSetting):
            await find(broker, wrong)


async def test_strange_ids_are_found_and_are_nobody_elses(broker):
    await broker.declare("orders")
    strange = ["a'b", 'a"b', "a\\b", "ü" * 300, "%", "a_b"]
    for each in strange:
        await broker.send("orders", Message(b"", id=each))
    for each in strange:
        assert [node.message_id for node in (await find(broker, each)).nodes] == [each]


async def handled(url, clock):
    async with connect(url, clock=clock) as broker:
        await broker.declare("orders", journey="all")
        await broker.send("orders", Message(b"", id="o-1"))
        clock.advance(2)
        (held,) = await broker.receive("orders")
        clock.advance(1)
        await held.complete()


def test_a_journey_is_drawn_and_told_as_json_on_the_command_line(url):
    asyncio.run(handled(url, ManualClock(system_clock.time())))  # the command goes by the real time
    drawn = run_command("trace", "o-1", "--url", url)
    assert drawn.exit_code == 0, drawn.output
    assert drawn.stdout.splitlines()[0].startswith("o-1: ended, 3 s from ")
    assert drawn.stdout.splitlines()[1] == "handling 1 s, waiting 2 s"
    told = json.loads(run_command("trace", "o-1", "--json", "--url", url).stdout)
    assert (told["state"], told["times"]) == ("ended", {"handling": 1.0, "waiting": 2.0})
    assert [each["event"] for each in told["nodes"][0]["happenings"]] == ["sent", "completed"]
    missing = run_command("trace", "nothing", "--url", url)
    assert missing.exit_code == 3
    assert "journey='all'" in missing.stderr
