# SPDX-License-Identifier: MIT
"""The random lives of messages on NATS, whose server has a clock of its own that no one can move.

So time passes in jumps, each longer than every lock and every delay, and as long on the server's clock; between two of
them the server must not notice that any time has passed. What the engine's capabilities take back is not compared:
the place of what was given back, and until the next jump after a crash, what the dead process had locked.
"""

import os
from dataclasses import replace
from itertools import count

import pytest
from hypothesis import Phase
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from redrive.broker import Abandon, State, dead_letter_queue
from redrive.broker.lifecycle import MessageEvent
from redrive.broker.rules import MAX_DELIVERY_COUNT_EXCEEDED
from redrive.clock import system_clock
from redrive.testing import ManualClock
from tests.conformance.homes import NatsHome
from tests.conformance.test_model import QUEUES, SETTINGS, Lives, all_queues, run_lives

PACE = 1 / 60
LOCK_S = 300.0
JUMP_S = 330.0
LATE_S = 0.6
"""How many real seconds later than its time the server may do something."""


JUMPING_SETTINGS = {name: replace(each, lock_duration=LOCK_S) for name, each in SETTINGS.items()}


class JumpingClock(ManualClock):
    """A clock that really waits when it jumps, and knows how long ago that was."""

    def __init__(self):
        super().__init__()
        self._since = system_clock.monotonic()

    @property
    def has_stood_long(self):
        """Whether the server may soon notice that time passes all the same."""
        return system_clock.monotonic() - self._since > LOCK_S * PACE / 2

    def jump(self):
        """Let every lock and every delay end, here and on the server."""
        system_clock.sleep(JUMP_S * PACE * 1.05 + LATE_S)
        self.advance(JUMP_S)
        self._since = system_clock.monotonic()


class JumpingLives(Lives):
    """The steps, with time in jumps."""

    settings = JUMPING_SETTINGS
    delays = st.sampled_from([0, 0, 0, LOCK_S])

    phases = (Phase.explicit, Phase.generate)
    """A life that fails is told as it was: to look for a shorter one would take an hour."""

    def __init__(self, home):
        super().__init__(home, JumpingClock())
        assert not self.engine.capabilities.keeps_place
        assert not self.engine.capabilities.sees_locks
        self.moved = set()
        self.is_after_a_crash = False

    # --- time

    @invariant()
    def nothing_ends_by_itself(self):
        if self.clock.has_stood_long:
            self.pass_time(JUMP_S)

    def pass_time(self, seconds):
        if seconds:
            self.moved |= {entry.sequence for entry in self.model.entries.values() if entry.due is not None}
            self.clock.jump()
            self.model.catch_up(self.now)
            if self.is_after_a_crash:
                self.look_at_everything()

    def crash(self):
        super().crash()
        self.is_after_a_crash = True

    def look_at_everything(self):
        """Receive what a dead process may have had, and give it back: until then an engine cannot know of it."""
        held = []
        for queue in QUEUES:
            while found := self.run(self.engine.lock_next(queue, 100)):
                held += found
        self.moved |= {one.sequence for one in held}
        for one in held:
            self.apply(Abandon(one.lock, uncount=True))
        self.is_after_a_crash = False

    # --- receiving, in whatever order what was given back comes

    @rule(queue=all_queues, limit=st.integers(1, 4), after=st.sampled_from([0, 0, 0, 0, 0, JUMP_S]))
    def lock(self, queue, limit, after):
        self.pass_time(after)
        self.catch_up_with(queue)
        for one, entry in self.received(queue, limit):
            self.model.lock(entry, one.lock.token, self.now)
            self.agree_on(one, entry)
            self.locks.append(one.lock)

    def take(self, data):
        queue, limit = data.draw(all_queues), data.draw(st.integers(1, 3))
        self.catch_up_with(queue)
        for one, entry in self.received(queue, limit, delete=True):
            assert one.body == entry.body
            self.model.happen(entry, MessageEvent.TAKE)
            self.ended.add(entry.sequence)

    def received(self, queue, limit, **how):
        """Receive messages; return them with the model's."""
        ready = [each for each in self.model.entries.values() if (each.queue, each.state) == (queue, State.READY)]
        spent = [each for each in ready if self.model.is_spent(each)]
        alive = {each.sequence: each for each in ready if not self.model.is_spent(each)}
        found = self.run(self.engine.lock_next(queue, limit, **how))
        numbers = [one.sequence for one in found]
        assert len(set(numbers)) == len(numbers) == min(limit, len(alive))
        assert set(numbers) <= set(alive)
        fresh = [number for number in numbers if number not in self.moved]
        assert fresh == sorted(set(alive) - self.moved)[: len(fresh)], "what was never moved comes in order"
        self.moved |= set(numbers)
        self.bury(queue, spent, is_all=len(found) < limit)
        return [(one, alive[one.sequence]) for one in found]

    def bury(self, queue, spent, *, is_all):
        """Let those die that have had their deliveries, as far as the receive has met them."""
        there = {one.sequence for one in self.run(self.engine.peek(dead_letter_queue(queue), 1_000))} if spent else ()
        for entry in spent:
            assert entry.sequence in there or not is_all
            if entry.sequence in there:
                self.model.happen(entry, MessageEvent.EXCEED_DELIVERIES, MAX_DELIVERY_COUNT_EXCEEDED)

    # --- comparing

    def compare(self):
        if self.is_after_a_crash:
            self.pass_time(JUMP_S)
        super().compare()


@pytest.fixture
def nats_homes(engine_server, nats_namespace):
    """Makes namespaces."""
    numbers = count()
    return lambda: NatsHome(engine_server.url, f"{nats_namespace}_{next(numbers)}", PACE)


@pytest.mark.timeout(400)
def test_nats_and_the_model_agree_on_every_step(nats_homes):
    run_lives(nats_homes, 2, steps=25, lives=JumpingLives)


@pytest.mark.torture
@pytest.mark.timeout(0)
def test_nats_and_the_model_agree_on_very_many_steps(nats_homes):
    run_lives(nats_homes, int(os.environ.get("REDRIVE_LIVES", "40")), steps=60, lives=JumpingLives)
