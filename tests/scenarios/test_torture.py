# SPDX-License-Identifier: MIT
"""Processes are killed in the middle of their work on one database; everything acknowledged is accounted for."""

import asyncio
import random
import time

import pytest

import redrive
from redrive.broker import dead_letter_queue
from tests.scenarios.actors import QUEUE, TOGETHER
from tests.scenarios.stage import Line, Stage

EACH = 4
LOCK_S = 1.0  # short: what a killed consumer held comes back while the others still work


@pytest.fixture
def stage(tmp_path):
    diaries = tmp_path / "diaries"
    diaries.mkdir()
    stage = Stage(tmp_path / "queue.db", diaries)
    yield stage
    stage.clear()


async def declared(database):
    async with redrive.connect(f"sqlite:///{database}") as broker:
        await broker.declare(QUEUE, lock_duration=LOCK_S, max_delivery_count=100)


async def drained(database):
    """Receive and complete everything that is left; return the ids."""
    ids = []
    async with redrive.connect(f"sqlite:///{database}") as broker:
        while found := await broker.receive(QUEUE, max_messages=100, wait=2 * LOCK_S):
            ids += [one.id for one in found]
            await broker.apply(*(redrive.broker.Complete(one.lock) for one in found))
    return ids


def play(stage, kills, chance):
    """Run producers and consumers, and kill one of them at a time; return how many consumers were killed."""
    for place in range(EACH):
        stage.start("producer", place)
        stage.start("consumer", place)
    stage.wait_until(lambda: stage.ids("completed"), "a completed message")
    killed = []
    for _ in range(kills):
        time.sleep(chance.uniform(0.0, 0.3))
        role, place = stage.kill(chance.randrange(len(stage)))
        killed.append(role)
        stage.start(role, place)
    stage.stop()
    return killed.count("consumer")


def delivered_after_completion(lines):
    """Return the ids that a receive brought though it was asked for after somebody had been told: completed."""
    done = {line.id: line.at for line in lines if line.word == "completed"}
    return {line.id for line in lines if line.word == "received" and line.id in done and line.at > done[line.id]}


@pytest.mark.parametrize(
    "kills",
    [
        pytest.param(6, id="short"),
        pytest.param(100, id="long", marks=[pytest.mark.torture, pytest.mark.timeout(600)]),
    ],
)
def test_every_acknowledged_send_is_found_exactly_once_whoever_is_killed(stage, kills):
    seed = random.Random().randrange(2**32)
    print(f"seed {seed}")
    asyncio.run(declared(stage.database))

    consumers_killed = play(stage, kills, random.Random(seed))

    lines = stage.lines()
    sending, sent = stage.ids("sending"), stage.ids("sent")
    completing, completed = stage.ids("completing"), stage.ids("completed")
    queued, dead = stage.stored(QUEUE), stage.stored(dead_letter_queue(QUEUE))
    gone = sent - queued.keys() - dead.keys()
    unsure = gone - completed  # killed after the commit, before the diary
    print(
        f"{len(sent):,} sent, {len(completed):,} completed, {len(queued):,} in the queue, {len(dead):,} dead,"
        f" {len(unsure):,} completed without a word; {kills} kills, {consumers_killed} of them consumers"
    )

    stage.check_integrity()
    assert {count for count in (queued + dead).values() if count > 1} == set(), "a message is there twice"
    assert gone <= completing, "acknowledged sends are lost"
    assert len(unsure) <= TOGETHER * consumers_killed, "more is gone than the killed can have completed"
    assert completed.isdisjoint(queued), "completed messages are in the queue"
    assert completed.isdisjoint(dead), "completed messages are dead letters"
    assert stage.ids("buried") <= dead.keys(), "a dead letter is lost"
    assert stage.count("completed") == len(completed), "a completion was acknowledged twice"
    assert delivered_after_completion(lines) == set()
    assert queued.keys() | dead.keys() | completed <= sending, "there is a message that nobody sent"

    assert sorted(asyncio.run(drained(stage.database))) == sorted(queued)


def test_the_scenario_notices_a_completed_message_that_comes_back():
    lines = [Line(1.0, "received", "a"), Line(2.0, "completed", "a"), Line(3.0, "received", "a")]
    assert delivered_after_completion(lines) == {"a"}
    assert delivered_after_completion(lines[:2]) == set()


@pytest.mark.parametrize(
    ("processes", "seconds"),
    [
        pytest.param(2, 1.5, id="two"),
        pytest.param(2, 8, id="two-long", marks=[pytest.mark.torture]),
        pytest.param(4, 8, id="four-long", marks=[pytest.mark.torture]),
    ],
)
def test_no_process_that_writes_to_a_shared_file_is_starved(stage, processes, seconds):
    for place in range(processes):
        stage.start("competitor", place)
    stage.wait_until(lambda: stage.count("ready") == processes, "all processes at work")
    time.sleep(seconds)
    stage.stop()

    done = [int(line.id) for line in stage.lines() if line.word == "done"]
    worst = [float(line.id) for line in stage.lines() if line.word == "worst"]
    told = ", ".join(
        f"{cycles / seconds:,.0f}/s (worst wait {wait * 1e3:,.0f} ms)" for cycles, wait in zip(done, worst, strict=True)
    )
    print(f"{processes} processes on one file: {told}")
    assert len(done) == processes
    assert min(done) > 0
