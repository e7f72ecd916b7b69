# SPDX-License-Identifier: MIT
"""Processes are killed in the middle of their work on one database, and so is its server where it has one.

Everything acknowledged is accounted for.
"""

import asyncio
import random
import time
from collections import Counter
from itertools import cycle, islice

import pytest

import redrive
from redrive.broker import dead_letter_queue
from tests.patience import PATIENCE_S
from tests.scenarios.actors import QUEUE, TOGETHER
from tests.scenarios.sites import PostgresSite, SqliteSite
from tests.scenarios.stage import Line, Stage

EACH = 4
LOCK_S = 1.0  # short: what a killed consumer held comes back while the others still work


@pytest.fixture
def sqlite_site(tmp_path):
    return SqliteSite(tmp_path / "queue.db")


@pytest.fixture
def postgres_site(breakable_postgres, breakable_url):
    return PostgresSite(breakable_postgres, breakable_url)


@pytest.fixture(params=["sqlite_site", "postgres_site"])
def stage(request, tmp_path):
    stage = Stage(request.getfixturevalue(request.param), tmp_path)
    yield stage
    stage.clear()


async def declared(url):
    async with redrive.connect(url) as broker:
        await broker.declare(QUEUE, lock_duration=LOCK_S, max_delivery_count=100)


async def drained(url):
    """Receive and complete everything that is left; return the ids."""
    ids = []
    async with redrive.connect(url) as broker:
        await broker.update(QUEUE, lock_duration=PATIENCE_S)  # what is locked from now on is not lost to slowness
        while found := await broker.receive(QUEUE, max_messages=100, wait=2 * LOCK_S):
            ids += [one.id for one in found]
            await broker.apply(*(redrive.broker.Complete(one.lock) for one in found))
    return ids


def play(stage, kills, chance):
    """Run producers and consumers, and kill something at a time; return what was killed.

    One kill in two is a process; the others are whatever else can befall the database.
    """
    for place in range(EACH):
        stage.start("producer", place)
        stage.start("consumer", place)
    stage.wait_until(lambda: stage.ids("completed"), "a completed message")
    killed = []
    for mishap in deck(stage.site.mishaps, kills, chance):
        time.sleep(chance.uniform(0.0, 0.3))
        killed.append(kill_process(stage, chance) if mishap == "process" else mishap)
        if mishap != "process":
            stage.site.befall(mishap)
    over_at = time.monotonic()
    stage.wait_until(lambda: {"sent", "completed"} <= stage.words(since=over_at), "work after the last kill")
    stage.stop()
    return killed


def deck(mishaps, kills, chance):
    """Return what will happen, in an order that depends on chance; of each kind there is the same every time."""
    kinds = [kind for mishap in mishaps for kind in ("process", mishap)] or ["process"]
    return chance.sample(list(islice(cycle(kinds), kills)), kills)


def kill_process(stage, chance):
    """Kill a process and start its successor; return its role."""
    role, place = stage.kill(chance.randrange(len(stage)))
    stage.start(role, place)
    return role


def most_unsure(killed):
    """Return how many completions can have been stored without a word: what the killed, or the cut off, had in hand."""
    return TOGETHER * sum({"consumer": 1, "producer": 0}.get(what, EACH) for what in killed)


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
    asyncio.run(declared(stage.site.url))

    killed = play(stage, kills, random.Random(seed))

    lines = stage.lines()
    sending, sent = stage.ids("sending"), stage.ids("sent")
    completing, completed = stage.ids("completing"), stage.ids("completed")
    queued, dead = stage.site.stored(QUEUE), stage.site.stored(dead_letter_queue(QUEUE))
    gone = sent - queued.keys() - dead.keys()
    unsure = gone - completed  # killed after the commit, before the diary
    print(
        f"{len(sent):,} sent, {len(completed):,} completed, {len(queued):,} in the queue, {len(dead):,} dead,"
        f" {len(unsure):,} completed without a word ({len(unsure & stage.ids('lost'))} told that the lock was lost),"
        f" told {stage.count('unavailable'):,} times that the store is away;"
        f" killed: {dict(Counter(killed))}"
    )

    stage.site.check_integrity()
    assert {count for count in (queued + dead).values() if count > 1} == set(), "a message is there twice"
    assert gone <= completing, "acknowledged sends are lost"
    assert len(unsure) <= most_unsure(killed), "more is gone than the killed can have completed"
    assert completed.isdisjoint(queued), "completed messages are in the queue"
    assert completed.isdisjoint(dead), "completed messages are dead letters"
    assert stage.ids("buried") <= dead.keys(), "a dead letter is lost"
    assert stage.count("completed") == len(completed), "a completion was acknowledged twice"
    assert delivered_after_completion(lines) == set()
    assert queued.keys() | dead.keys() | completed <= sending, "there is a message that nobody sent"

    assert sorted(asyncio.run(drained(stage.site.url))) == sorted(queued)


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
def test_no_process_that_writes_to_a_shared_database_is_starved(stage, processes, seconds):
    for place in range(processes):
        stage.start("competitor", place)
    stage.wait_until(lambda: stage.count("ready") == processes, "all processes at work")
    time.sleep(seconds)
    stage.wait_until(lambda: stage.count("begun") == processes, "a cycle of each process beside the others")
    stage.stop()

    done = [int(line.id) for line in stage.lines() if line.word == "done"]
    worst = [float(line.id) for line in stage.lines() if line.word == "worst"]
    told = ", ".join(
        f"{cycles / seconds:,.0f}/s (worst wait {wait * 1e3:,.0f} ms)" for cycles, wait in zip(done, worst, strict=True)
    )
    print(f"{processes} processes on one database: {told}")
    assert len(done) == processes
