# SPDX-License-Identifier: MIT
"""The receiver that reads a queue: what is taken is settled once, what is not stays in the queue."""

import subprocess
import sys
from pathlib import Path

import pytest

from redrive.broker import Message
from redrive.broker.headers import DELAYED_RETRIES, FAILED_REASON, RECOVERY_TAG
from redrive.broker.rules import CONFIRMATIONS
from redrive.errors import InvalidSetting, MessageTooLarge, QueueNotFound, ReceiverFull
from redrive.routes.receivers.queue import QueueReceiver
from tests.patience import PATIENCE_S
from tests.routes.local.bench_of_parts import ScriptedIntake, nack

ROOT = Path(__file__).parents[3]
EMPTY = {"ready": 0, "locked": 0, "scheduled": 0, "dead": 0}


@pytest.fixture(autouse=True)
async def queues(bench):
    await bench.broker.declare("orders", lock_duration=300)
    await bench.broker.declare("events")


async def test_an_event_is_its_message(bench):
    sent = Message(b"x", id="m1", subject="order", headers={"region": "eu"})
    await bench.broker.send("orders", sent)
    intake = ScriptedIntake()
    bench.start(QueueReceiver(queue="orders"), intake)
    await bench.until(lambda: intake.taken)
    assert intake.taken == [sent]


async def test_storing_the_event_and_completing_the_message_are_one_transaction(bench):
    await bench.broker.send_many("orders", [Message(b"x", id=f"m{n}") for n in range(50)])
    intake = ScriptedIntake(queue="events")
    task = bench.start(QueueReceiver(queue="orders"), intake)
    await bench.until(lambda: len(intake.taken) == 50)
    await bench.stop(task)
    assert await bench.counts("orders") == EMPTY
    assert sorted(each.id for each in await bench.broker.peek("events")) == sorted(f"m{n}" for n in range(50))


async def test_if_the_event_cannot_be_stored_the_message_stays(bench):
    await bench.broker.send("orders", Message(b"x", id="m1"))
    intake = ScriptedIntake(queue="missing")
    task = bench.start(QueueReceiver(queue="orders", max_replays=3), intake)
    await bench.until_is(EMPTY | {"scheduled": 1}, lambda: bench.counts("orders"))
    await bench.stop(task)
    assert len(intake.offered) == 1
    assert intake.taken == []


@pytest.mark.parametrize("delivery", ["linked", "direct"])
async def test_an_event_that_is_not_stored_is_completed_when_it_is_taken(bench, delivery):
    await bench.broker.send("orders", b"x")
    intake = ScriptedIntake()
    intake.gate.clear()
    task = bench.start(QueueReceiver(queue="orders", delivery=delivery), intake)
    await bench.until(lambda: intake.offered)
    until = bench.clock.time() + 250 + 300

    async def is_renewed():
        (held,) = await bench.broker.peek("orders")
        return held.locked_until.timestamp() == until

    bench.clock.advance(250)
    await bench.until_is(True, is_renewed)
    bench.clock.advance(250)
    assert await bench.counts("orders") == EMPTY | {"locked": 1}
    intake.gate.set()
    await bench.until(lambda: intake.taken)
    await bench.stop(task)
    assert await bench.counts("orders") == EMPTY
    assert len(intake.offered) == 1


async def test_a_nacked_event_is_replayed_later_and_in_the_end_dead(bench):
    await bench.broker.send("orders", Message(b"x", id="m1"))
    intake = ScriptedIntake([nack("no route to host")] * 3)
    task = bench.start(QueueReceiver(queue="orders", delivery="linked", max_replays=2), intake)
    waited = []
    for replay in (1, 2):
        await bench.until(lambda: len(intake.offered) == replay)  # noqa: B023 - it is called at once
        await bench.until_is(EMPTY | {"scheduled": 1}, lambda: bench.counts("orders"))
        (postponed,) = await bench.broker.peek("orders")
        waited.append((postponed.due_at.timestamp() - bench.clock.time(), postponed.headers[DELAYED_RETRIES]))
        bench.clock.advance(waited[-1][0])
    await bench.until_is(EMPTY | {"dead": 1}, lambda: bench.counts("orders"))
    await bench.stop(task)
    assert len(intake.offered) == 3
    assert [(pytest.approx(1.0, 0.3), 1), (pytest.approx(2.0, 0.3), 2)] == waited
    (dead,) = await bench.broker.peek("orders/$dead")
    assert dead.dead_letter_info.reason == "Nacked"
    assert "billing: no route to host" in dead.dead_letter_info.description
    assert dead.headers[FAILED_REASON] == "Nacked"
    assert dead.id == "m1"


async def test_without_replays_a_nacked_event_is_dead_at_once(bench):
    await bench.broker.send("orders", b"x")
    intake = ScriptedIntake([nack()])
    bench.start(QueueReceiver(queue="orders", delivery="linked", max_replays=0), intake)
    await bench.until_is(EMPTY | {"dead": 1}, lambda: bench.counts("orders"))
    (dead,) = await bench.broker.peek("orders/$dead")
    assert dead.dead_letter_info.reason == "Nacked"


async def test_an_event_that_cannot_be_taken_at_all_is_dead_at_once(bench):
    await bench.broker.send("orders", b"x")
    intake = ScriptedIntake([MessageTooLarge("events", 3, 2)])
    bench.start(QueueReceiver(queue="orders"), intake)
    await bench.until_is(EMPTY | {"dead": 1}, lambda: bench.counts("orders"))
    (dead,) = await bench.broker.peek("orders/$dead")
    assert dead.dead_letter_info.reason == "Poison"


async def test_while_the_intake_takes_nothing_messages_wait_where_they_are_and_nothing_counts(bench):
    await bench.broker.send_many("orders", [Message(b"x", id=f"m{n}") for n in range(5)])
    intake = ScriptedIntake([ReceiverFull("it", 1)] * 12)
    task = bench.start(QueueReceiver(queue="orders", concurrency=2, max_replays=0), intake)
    await bench.until(lambda: len(intake.offered) >= 12, step=0.5)
    assert {each.id for each in intake.offered} == {"m0", "m1"}
    await bench.until(lambda: len(intake.taken) == 5, step=0.5)
    await bench.stop(task)
    assert await bench.counts("orders") == EMPTY


async def test_a_message_that_waits_for_the_intake_is_given_back_uncounted_when_the_receiver_ends(bench):
    await bench.broker.send("orders", b"x")
    for _ in range(15):  # the queue would dead-letter it after 10 deliveries
        intake = ScriptedIntake([ReceiverFull("it", 1)] * 100)
        task = bench.start(QueueReceiver(queue="orders"), intake)
        await bench.until(lambda: intake.offered)  # noqa: B023 - it is called at once
        await bench.stop(task)
        assert await bench.counts("orders") == EMPTY | {"scheduled": 1}
        bench.clock.advance(2)
    (left,) = await bench.broker.peek("orders")
    assert left.delivery_count == 0


async def test_what_has_begun_is_finished_when_the_receiver_ends(bench):
    await bench.broker.send("orders", b"x")
    intake = ScriptedIntake(queue="events")
    intake.gate.clear()
    task = bench.start(QueueReceiver(queue="orders"), intake)
    await bench.until(lambda: intake.offered)
    task.cancel()
    await bench.settle_down()
    assert not task.done()
    intake.gate.set()
    await bench.ended(task)
    assert task.cancelled()
    assert await bench.counts("orders") == EMPTY
    assert (await bench.counts("events"))["ready"] == 1


async def test_a_recovered_message_confirms_that_it_was_taken_and_its_event_does_not(bench):
    await bench.broker.declare(CONFIRMATIONS)
    await bench.broker.send("orders", Message(b"x", id="m1", headers={RECOVERY_TAG: "tag", "region": "eu"}))
    intake = ScriptedIntake(queue="events")
    task = bench.start(QueueReceiver(queue="orders"), intake)
    await bench.until(lambda: intake.taken)
    await bench.stop(task)
    (confirmed,) = await bench.broker.peek(CONFIRMATIONS)
    assert confirmed.headers[RECOVERY_TAG] == "tag"
    (event,) = await bench.broker.peek("events")
    assert event.headers == {"region": "eu"}


async def test_a_queue_that_is_missing_is_an_error(bench):
    task = bench.start(QueueReceiver(queue="none"), ScriptedIntake())
    with pytest.raises(QueueNotFound):
        await task
    bench.running.clear()


def test_it_reads_its_queue():
    receiver = QueueReceiver(queue="orders")
    assert (receiver.address, receiver.reads, receiver.concurrency) == ("orders", "orders", 16)
    assert QueueReceiver.from_table(receiver.to_table()) == receiver


@pytest.mark.parametrize("settings", [{"queue": "a b"}, {"queue": ""}, {"queue": "orders", "concurrency": 0}])
def test_wrong_settings_are_refused(settings):
    with pytest.raises(InvalidSetting):
        QueueReceiver(**settings)


def test_processes_that_are_killed_lose_nothing_and_store_nothing_twice(tmp_path):
    script = Path(__file__).with_name("killed_queue_receiver.py")
    child = [sys.executable, str(script), f"sqlite:///{tmp_path}/killed.db"]
    ended = []
    while 0 not in ended and len(ended) < 10:
        ended.append(subprocess.run(child, cwd=ROOT, timeout=PATIENCE_S, check=False).returncode)
    assert set(ended[:-1]) == {9}
    assert ended[-1] == 0
