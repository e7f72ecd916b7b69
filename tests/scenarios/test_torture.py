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
from redrive.broker.rules import DEAD_LETTER_SUFFIX
from tests.patience import PATIENCE_S
from tests.scenarios.actors import QUEUE, SUBSCRIPTIONS, TOGETHER, TOPIC, leg
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
def site(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def stage(site, tmp_path):
    stage = Stage(site, tmp_path)
    yield stage
    stage.clear()


@pytest.fixture
def topic_stage(site, tmp_path):
    """All messages are sent to a topic with two subscriptions, each with half of the consumers."""
    stage = Stage(site, tmp_path, ACTOR_TOPIC="yes")
    yield stage
    stage.clear()


async def declared(url, queues):
    settings = {"lock_duration": LOCK_S, "max_delivery_count": 100}
    async with redrive.connect(url) as broker:
        if queues == SUBSCRIPTIONS:
            await broker.declare_topic(TOPIC)
            for queue in queues:
                await broker.subscribe(TOPIC, queue.removeprefix(f"{TOPIC}/"), **settings)
        else:
            await broker.declare(QUEUE, **settings)


async def drained(url, queues):
    """Receive and complete everything that is left; return the ids."""
    ids = []
    async with redrive.connect(url) as broker:
        for queue in queues:
            await broker.update(queue, lock_duration=PATIENCE_S)  # what is locked from now on is not lost to slowness
            while found := await broker.receive(queue, max_messages=100, wait=2 * LOCK_S):
                ids += [leg(queue, one.id) for one in found]
                await broker.apply(*(redrive.broker.Complete(one.lock) for one in found))
    return ids


def stored(site, queues, suffix=""):
    """Return how often each message is in some queues."""
    found = ((queue, site.stored(queue + suffix).items()) for queue in queues)
    return Counter({leg(queue, name): times for queue, there in found for name, times in there})


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


how_many_kills = pytest.mark.parametrize(
    "kills",
    [
        pytest.param(4, id="short"),
        pytest.param(100, id="long", marks=[pytest.mark.torture, pytest.mark.timeout(600)]),
    ],
)


@how_many_kills
def test_every_acknowledged_send_is_found_exactly_once_whoever_is_killed(stage, kills):
    check_kills(stage, kills, (QUEUE,))


@how_many_kills
def test_every_subscription_has_every_acknowledged_send_exactly_once_whoever_is_killed(topic_stage, kills):
    check_kills(topic_stage, kills, SUBSCRIPTIONS)
    unused, empty = topic_stage.site.strays()
    assert (unused, empty) == ([], []), "bodies without a message, messages without their body"


def check_kills(stage, kills, queues):
    """Play, and see that what was sent is in each of the queues, or was completed there."""
    seed = random.Random().randrange(2**32)
    print(f"seed {seed}")
    asyncio.run(declared(stage.site.url, queues))

    killed = play(stage, kills, random.Random(seed))

    lines = stage.lines()
    sending, sent = ({leg(queue, name) for queue in queues for name in stage.ids(word)} for word in ("sending", "sent"))
    completing, completed = stage.ids("completing"), stage.ids("completed")
    queued, dead = stored(stage.site, queues), stored(stage.site, queues, DEAD_LETTER_SUFFIX)
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

    assert sorted(asyncio.run(drained(stage.site.url, queues))) == sorted(queued)


def test_the_scenario_notices_a_completed_message_that_comes_back():
    lines = [Line(1.0, "received", "a"), Line(2.0, "completed", "a"), Line(3.0, "received", "a")]
    assert delivered_after_completion(lines) == {"a"}
    assert delivered_after_completion(lines[:2]) == set()


@pytest.mark.parametrize(
    ("processes", "seconds"),
    [
        pytest.param(2, 0.5, id="two"),
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
