# SPDX-License-Identifier: MIT
"""What a power cut leaves: at FULL everything that was acknowledged, at NORMAL a consistent past.

The engine's own SQL runs on a disk that loses unsynced writes. A trial sends, receives, completes and dead-letters
until the power fails at a random moment, and then looks at what is left. That must be a state that there was: with
FULL the last one that was acknowledged, or the one being written.
"""

import random
from typing import NamedTuple

import apsw
import pytest

from redrive.broker import (
    Complete,
    DeadLetter,
    Message,
    QueueSettings,
    Rule,
    Send,
    TopicSettings,
    dead_letter_queue,
    subscription_queue,
)
from redrive.engines.sqlite.requests import ApplyRequest, LockRequest, run_group
from redrive.engines.sqlite.schema import migrate
from redrive.engines.sqlite.store import Store
from tests.engines.sqlite.power_cut import Connection, Disk

QUEUE, TOPIC = "orders", "news"
SUBSCRIPTIONS = tuple(subscription_queue(TOPIC, name) for name in ("one", "two"))
READ = (
    "SELECT q.name, m.id, length(coalesce(m.body, b.body, c.body)) FROM redrive_messages m"
    " JOIN redrive_queues q ON q.id = m.queue LEFT JOIN redrive_bodies b USING (sequence)"
    " LEFT JOIN redrive_contents c ON c.id = m.content"
)
STRAYS = "SELECT id FROM redrive_contents WHERE id NOT IN (SELECT content FROM redrive_messages WHERE content NOT NULL)"

SHORT, LONG = range(40), range(1_000, 1_400)
seeds = pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(SHORT, id="short"),
        pytest.param(LONG, id="long", marks=[pytest.mark.torture, pytest.mark.timeout(900)]),
    ],
)


class Verdict(NamedTuple):
    """What a trial showed."""

    problem: str | None  # what SQLite finds wrong with the file, or bodies that no message has
    states: list  # what was in the queues after each transaction that was acknowledged; the last may not have been
    left: frozenset  # what is in the queues after the power cut

    @property
    def is_current(self):
        """Whether nothing acknowledged is lost and nothing completed is back."""
        return self.left in self.states[-2:]

    @property
    def is_some_past(self):
        """Whether it is a state that there was: no transaction is there in part."""
        return self.left in self.states


class Program:
    """Uses the store as the engine does, and remembers what must be there."""

    def __init__(self, connection, chance, synchronous):
        self.connection = connection
        self.chance = chance
        self.synchronous = synchronous
        self.store = Store(connection)
        self.now = 1_000.0
        self.sent = 0
        self.there = {}  # queue and id -> where it is by now, and its size
        self.held = []

    def begin(self):
        migrate(self.connection)
        self.do(self.declare)

    def declare(self):
        queues, settings = self.store.queues, QueueSettings(lock_duration=300)
        queues.create(self.connection, QUEUE, settings, self.now)
        queues.create_topic(self.connection, TOPIC, TopicSettings(), self.now)
        for name in ("one", "two"):
            queues.create_subscription(self.connection, TOPIC, name, Rule(), settings, now=self.now)

    def do(self, act):
        self.now += 0.1
        self.connection.execute("BEGIN IMMEDIATE")
        self.store.begin(self.now)
        act()
        self.connection.execute("COMMIT")

    def do_group(self, group):
        """Do a group as the engine does, which waits for the disk unless nothing but locking is done."""
        needs_sync = any(request.needs_sync for request in group)
        self.connection.execute(f"PRAGMA synchronous = {self.synchronous if needs_sync else 'NORMAL'}")
        self.do(lambda: run_group(self.store, group, self.now))

    def state(self):
        return frozenset((queue, message_id, size) for (_, message_id), (queue, size) in self.there.items())

    def step(self):
        """Do a group such as several callers would make together, in one transaction; or only receive."""
        queue = self.chance.choice([QUEUE, *SUBSCRIPTIONS])
        receive = LockRequest(queue, self.chance.randrange(1, 6), None, lambda _locks: None, delete=False)
        if not self.held and self.chance.random() < 0.5:
            self.do_group([receive])
            self.held = receive.result
            return
        effects, changes = [], {}
        for _ in range(self.chance.randrange(1, 6)):
            self.sent += 1
            message_id, size = f"m{self.sent}", self.chance.choice([10, 256, 3_000, 20_000])
            target = self.chance.choice([QUEUE, TOPIC])
            effects.append(Send(target, Message(bytes(size), id=message_id)))
            for each in SUBSCRIPTIONS if target == TOPIC else (QUEUE,):
                changes[each, message_id] = (each, size)
        settled, self.held = self.held, []
        for received in settled:
            is_dead = self.chance.random() < 0.2
            effects.append(DeadLetter(received.lock, "Test") if is_dead else Complete(received.lock))
            dead = (dead_letter_queue(received.queue), len(received.body))
            changes[received.queue, received.id] = dead if is_dead else None
        together = [receive] if self.chance.random() < 0.5 else []
        self.do_group([*(ApplyRequest([effect]) for effect in effects), *together])
        self.held = receive.result if together else []
        for which, place in changes.items():
            self.there.pop(which, None)
            if place is not None:
                self.there[which] = place


def trial(seed, synchronous):
    """Run until the power fails, and look at what is left."""
    chance = random.Random(seed)
    disk = Disk()
    connection = Connection(disk, synchronous)
    program = Program(connection, chance, synchronous)
    program.begin()
    states = [program.state()]
    disk.cut_after(chance.randrange(1, 1_500), chance)
    while disk.image is None:
        program.step()
        states.append(program.state())
    connection.close()
    return verdict(disk.image, states)


def verdict(image, states):
    """Start the machine again."""
    disk = Disk(image)
    try:
        connection = Connection(disk, "full")
    except apsw.Error as error:
        return Verdict(str(error), states, frozenset())
    try:
        found = connection.execute("PRAGMA integrity_check").fetchall()
        problem = None if found == [("ok",)] else str(found[:3])
        if strays := connection.execute(STRAYS).fetchall():
            problem = f"no message has the bodies {strays}"
        return Verdict(problem, states, frozenset(connection.execute(READ)))
    except apsw.Error as error:
        return Verdict(str(error), states, frozenset())
    finally:
        connection.close()


@seeds
def test_at_full_nothing_acknowledged_is_lost_and_nothing_completed_comes_back(seeds):
    for seed in seeds:
        found = trial(seed, "full")
        assert found.problem is None, f"seed {seed}"
        assert found.is_current, f"seed {seed}"


@seeds
def test_at_normal_the_last_moments_may_be_lost_and_nothing_is_damaged(seeds):
    behind = 0
    for seed in seeds:
        found = trial(seed, "normal")
        assert found.problem is None, f"seed {seed}"
        assert found.is_some_past, f"seed {seed}"
        behind += not found.is_current
    print(f"{behind} of {len(seeds)} power cuts lost something acknowledged")
    assert behind, "NORMAL loses nothing here: the simulation shows nothing"


def test_the_simulation_notices_a_database_that_does_not_sync():
    found = [trial(seed, "off") for seed in SHORT]
    damaged = sum(one.problem is not None or not one.is_some_past for one in found)
    print(f"{damaged} of {len(found)} power cuts damaged the database")
    assert damaged


def test_full_syncs_with_every_commit_and_normal_does_not():
    syncs = {}
    for synchronous in ("full", "normal", "off"):
        disk = Disk()
        connection = Connection(disk, synchronous)
        program = Program(connection, random.Random(1), synchronous)
        program.begin()
        before = disk.syncs
        for turn in range(20):
            program.do_group([ApplyRequest([Send(QUEUE, Message(b"", id=f"m{turn}"))])])
        syncs[synchronous] = disk.syncs - before
        connection.close()
    assert syncs["full"] >= 20
    assert syncs["normal"] < 20
    assert syncs["off"] == 0
