# SPDX-License-Identifier: MIT
"""Processes that recover thousands of messages are killed in the middle of it, again and again.

Every message arrives once, whoever was killed when, and the figures of the operation say so.
"""

import asyncio
import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

import redrive
from redrive.broker import Message
from redrive.broker.rules import CONFIRMATIONS, STAGING_QUEUES
from redrive.recovery import OperationState
from tests.patience import PATIENCE_S
from tests.scenarios.recovery_actors import DESTINATIONS, NEXT, is_to_fail
from tests.scenarios.sites import PostgresSite, SqliteSite
from tests.scenarios.stage import Stage

ACTORS = Path(__file__).with_name("recovery_actors.py")
ROOT = Path(__file__).parents[2]
SERVICES = 2


class RecoveryStage(Stage):
    """A stage whose processes recover."""

    def start(self, role, place):
        """Start a process; it is the next of those that have had this role and place."""
        part = f"{role}{place}"
        self._started[part] += 1
        name = f"{part}.{self._started[part]}"
        command = [sys.executable, ACTORS, role, self.site.url, self.diaries / name, name, self._stop]
        paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        process = subprocess.Popen(command, env=self._environment | {"PYTHONPATH": paths})
        self._cast.append((role, place, process))

    def services(self, *roles):
        """Return the places of the services in the cast, or of those with other roles."""
        return [place for place, (role, _, _) in enumerate(self._cast) if role in (roles or ("service",))]

    def role_of(self, place):
        """Return the role of somebody in the cast."""
        return self._cast[place][0]


@pytest.fixture
def sqlite_site(tmp_path):
    return SqliteSite(tmp_path / "recovery.db")


@pytest.fixture
def postgres_site(breakable_postgres, breakable_url):
    return PostgresSite(breakable_postgres, breakable_url)


@pytest.fixture(params=["sqlite_site", "postgres_site"])
def stage(request, tmp_path):
    stage = RecoveryStage(request.getfixturevalue(request.param), tmp_path)
    yield stage
    stage.clear()


def failed(number):
    """Return a message as a worker puts it into an error queue."""
    told = {
        "redrive-failed-queue": DESTINATIONS[number % len(DESTINATIONS)],
        "redrive-failed-exception-type": "Torture",
    }
    return Message(bytes(64), id=f"message-{number}", headers=told)


async def requested(url, messages):
    """Let messages fail, read them, and ask for all to be recovered; return the operation's number."""
    async with redrive.connect(url) as broker:
        await broker.declare("error", lock_duration=2.0)  # what a dead process had is soon another's
        for queue in (NEXT, *DESTINATIONS):
            await broker.declare(queue, lock_duration=2.0, max_delivery_count=2_000)
        await broker.declare(CONFIRMATIONS, lock_duration=1.0)  # what a killed service held is read soon
        for first in range(0, messages, 500):
            await broker.send_many("error", [failed(number) for number in range(first, min(first + 500, messages))])
        async with redrive.open_recovery(broker) as recovery:
            await recovery.ingest()
            return (await recovery.recover("status:unresolved", actor="torture")).number


async def killing(stage, number, messages, kills, chance, *roles):
    """Kill processes while they get on with it, one after each few messages; return how many were killed."""
    async with redrive.connect(stage.site.url) as broker, redrive.open_recovery(broker) as recovery:
        killed = 0
        forwarded = -1
        ends_at = time.monotonic() + 500
        while (operation := await recovery.operation(number)).state is not OperationState.COMPLETED:
            assert time.monotonic() < ends_at, operation
            now = operation.progress
            assert now.total == now.forwarded + now.skipped + now.failed + now.cancelled + now.remaining, operation
            if killed < kills and now.forwarded > forwarded and now.forwarded * (kills + 1) >= killed * messages:
                await asyncio.sleep(chance.uniform(0.0, 0.05))
                victim = chance.choice(stage.services(*roles))
                role = stage.role_of(victim)
                stage.kill(victim)
                stage.start(role, killed)
                killed += 1
                forwarded = now.forwarded
            await asyncio.sleep(0.01)
        return killed


async def confirmed(url, number):
    """Wait until word of every message has been read; return the operation, what is unresolved, and the queues."""
    async with redrive.connect(url) as broker, redrive.open_recovery(broker) as recovery:
        ends_at = time.monotonic() + PATIENCE_S
        while (operation := await recovery.operation(number)).progress.waiting:
            assert time.monotonic() < ends_at, operation
            await asyncio.sleep(0.05)
        resolved = await recovery.count("status:resolved")
        return operation, resolved, await broker.queues()


@pytest.mark.parametrize(
    ("messages", "kills"),
    [
        pytest.param(300, 2, id="short"),
        pytest.param(20_000, 50, id="long", marks=[pytest.mark.torture, pytest.mark.timeout(1_200)]),
    ],
)
def test_every_message_is_recovered_exactly_once_whoever_is_killed(stage, messages, kills):
    seed = random.Random().randrange(2**32)
    print(f"seed {seed}")
    number = asyncio.run(requested(stage.site.url, messages))

    began = time.monotonic()
    stage.start("consumer", 0)
    for place in range(SERVICES):
        stage.start("service", f"first{place}")
    killed = asyncio.run(killing(stage, number, messages, kills, random.Random(seed)))
    took = time.monotonic() - began
    operation, resolved, queues = asyncio.run(confirmed(stage.site.url, number))
    stage.stop()

    arrived = Counter(line.split("/")[0] for line in stage.ids("arrived"))
    copies = sum(arrived.values())
    print(
        f"{messages:,} messages, {killed} kills, {took:.1f} s, {len(arrived):,} arrived,"
        f" {copies - len(arrived)} twice; {operation.batches} batches, {operation.progress}"
    )
    stage.site.check_integrity()
    assert killed, "nobody was killed"  # how many were depends on how often we could look
    assert len(arrived) == messages
    assert copies == messages
    assert operation.progress.succeeded == operation.progress.forwarded == operation.progress.total == messages
    assert resolved == messages
    assert operation.batches_left == 0
    left = {each.name: each for each in queues if each.name.startswith(STAGING_QUEUES)}
    assert len(left) == len(DESTINATIONS)
    assert not any(each.ready + each.locked + each.dead for each in left.values()), left


async def everything_read(url, number, expected):
    """Wait until recovery knows of every failure and success; return what it knows."""
    async with redrive.connect(url) as broker, redrive.open_recovery(broker) as recovery:
        ends_at = time.monotonic() + PATIENCE_S
        while True:
            operation = await recovery.operation(number)
            failed = [each async for each in pages(recovery)]
            queues = [
                each for each in await broker.queues() if each.name != "redrive.recovery"
            ]  # hints end by themselves
            left = {each.name: each.ready + each.locked + each.dead for each in queues}
            if not operation.progress.waiting and len(failed) >= expected and not sum(left.values()):
                break
            aside = await recovery.aside(limit=1_000)
            assert not aside, (len(aside), aside[0].received.delivery_count, aside[0].reason)
            assert time.monotonic() < ends_at, (operation, len(failed), left)
            await asyncio.sleep(0.1)
        bodies = {each.message_id: (await recovery.show(each.id)).message.body for each in failed[:100]}
        return operation, failed, bodies, await recovery.count("status:any")


async def pages(recovery):
    """Yield everything that is unresolved."""
    after = 0
    while page := await recovery.failed("", after=after, limit=1_000):
        for each in page:
            yield each
        after = page[-1].number


@pytest.mark.parametrize(
    ("messages", "kills"),
    [
        pytest.param(120, 2, id="short"),
        pytest.param(6_000, 50, id="long", marks=[pytest.mark.torture, pytest.mark.timeout(1_200)]),
    ],
)
def test_messages_that_are_passed_on_are_never_taken_for_the_recovered_ones(stage, messages, kills):
    """D1 under kill -9: of services, of those who pass on, of those who handle what was passed on."""
    seed = random.Random().randrange(2**32)
    print(f"seed {seed}")
    number = asyncio.run(requested(stage.site.url, messages))
    for place in range(SERVICES):
        stage.start("service", f"first{place}")
    for role in ("relay", "end"):
        for place in range(2):
            stage.start(role, f"first{place}")
    chance = random.Random(seed)
    killed = asyncio.run(killing(stage, number, messages, kills, chance, "service", "relay", "end"))
    failing = {f"message-{each}" for each in range(messages) if is_to_fail(f"message-{each}")}
    operation, failed, bodies, known = asyncio.run(everything_read(stage.site.url, number, len(failing)))
    stage.stop()

    print(
        f"{messages:,} messages, {killed} kills, {len(failed):,} failed where they were passed on, {operation.progress}"
    )
    stage.site.check_integrity()
    assert killed, "nobody was killed"  # how many were depends on how often we could look
    assert operation.progress.succeeded == operation.progress.total == messages
    assert {each.message_id for each in failed} == failing
    assert len(failed) == len(failing)
    assert {each.queue for each in failed} == {NEXT}
    assert {each.attempts for each in failed} == {1}
    assert set(bodies.values()) == {bytes(64)}
    assert known == messages + len(failing)
