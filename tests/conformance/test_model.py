# SPDX-License-Identifier: MIT
"""Random lives of messages: an engine and the model do the same steps and must agree on every outcome.

The machine thinks of the sequences: sends, locks, settlements with good and old locks, time, upkeep, changes of
settings, and crashes, after which what is stored is opened as by a new process.
"""

import asyncio
import os
from dataclasses import replace
from functools import partial
from itertools import count

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from redrive.broker import (
    Abandon,
    Cancel,
    Complete,
    DeadLetter,
    Defer,
    Message,
    QueueSettings,
    Rule,
    Send,
    State,
    TopicSettings,
    dead_letter_queue,
    subscription_queue,
)
from redrive.broker.lifecycle import MessageEvent
from redrive.broker.rules import LOCKED_STATES, MAX_DELIVERY_COUNT_EXCEEDED, NO_SUBSCRIPTION
from redrive.clock import utc
from redrive.errors import LockLost, MessageNotFound
from redrive.testing import ManualClock
from tests.conformance.homes import PostgresHome, SqliteHome
from tests.conformance.model import Entry, Model

PLAIN, STRICT, TOPIC = "plain", "strict", "news"
SETTINGS = {
    PLAIN: QueueSettings(lock_duration=10, max_delivery_count=3),
    STRICT: QueueSettings(lock_duration=4, max_delivery_count=2, default_ttl=12, dead_letter_on_expiration=True),
}
SUBSCRIPTIONS = {subscription_queue(TOPIC, name): name for name in SETTINGS}
QUEUES = SETTINGS | {queue: SETTINGS[name] for queue, name in SUBSCRIPTIONS.items()}
DEAD_SETTINGS = QueueSettings(lock_duration=10, max_delivery_count=2_000)
NAMES = [*QUEUES, *(dead_letter_queue(name) for name in (*QUEUES, TOPIC))]
LARGE = b"x" * 2_000
"""Larger than what SQLite keeps in a message's row."""

queues = st.sampled_from(list(QUEUES))
all_queues = queues | st.sampled_from(NAMES)
delays = st.sampled_from([0, 0, 0, 1, 5, 30])
ttls = st.sampled_from([None, None, 2, 8, 40])


class Lives(RuleBasedStateMachine):
    """The steps. Every lock ever given out is kept and tried again, good or not.

    Args:
        home: where the engine lives.
        clock: what moves the time.
    """

    settings = SETTINGS
    delays = delays
    phases = tuple(Phase)

    def __init__(self, home, clock=None):
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.home = home
        self.clock = clock or ManualClock()
        queues = self.settings | {queue: self.settings[name] for queue, name in SUBSCRIPTIONS.items()}
        self.model = Model({**queues, **{name: DEAD_SETTINGS for name in NAMES if name not in QUEUES}})
        for name, of_queue in queues.items():  # a dead-letter queue's locks last as long as its queue's
            dead = replace(DEAD_SETTINGS, lock_duration=of_queue.lock_duration)
            self.model.queues[dead_letter_queue(name)] = dead
        self.model.queues[dead_letter_queue(TOPIC)] = replace(DEAD_SETTINGS, lock_duration=60)
        self.unmatched = 0
        self.engine = self.opened()
        self.locks = []
        self.numbers = [0]
        self.sent = 0
        self.ended = set()

    def run(self, call):
        return self.loop.run_until_complete(call)

    def opened(self):
        engine = self.home.engine(self.clock)
        self.run(engine.open())
        return engine

    @property
    def now(self):
        return self.clock.time()

    def apply(self, *effects):
        return self.run(self.engine.apply(effects))

    @initialize(data=st.data())
    def begin(self, data):
        for name, wanted in self.settings.items():
            assert self.run(self.engine.declare(name, wanted))
        assert self.run(self.engine.declare_topic(TOPIC, TopicSettings(keep_unmatched=True)))
        for name in SETTINGS:
            self.subscribe(name)
        for _ in range(3):
            self.send(data)

    # --- sending

    def send(self, data):
        self.model.catch_up(self.now)
        queue, ttl, delay = data.draw(queues), data.draw(ttls), data.draw(self.delays)
        body = b"%d" % self.sent
        self.sent += 1
        (number,) = self.apply(Send(queue, Message(body, id=body.decode(), ttl=ttl), utc(self.now + delay)))
        assert number > max(self.numbers)
        self.numbers.append(number)
        self.model.send(number, queue, body, ttl=ttl, at=self.now + delay, now=self.now)

    def subscribe(self, name):
        """Subscribe to the messages that have a header of that name."""
        assert self.run(self.engine.subscribe(TOPIC, name, Rule.of({name: True}), self.settings[name]))

    @rule(data=st.data(), names=st.sets(st.sampled_from([*SETTINGS]), max_size=2), body=st.sampled_from([b"", LARGE]))
    def publish(self, data, names, body):
        """Send a message to the topic; which number it has in each queue is the engine's business."""
        self.model.catch_up(self.now)
        ttl, delay = data.draw(ttls), data.draw(self.delays)
        body = b"%d %b" % (self.sent, body)
        self.sent += 1
        message = Message(body, id=f"{self.sent}", ttl=ttl, headers=dict.fromkeys(names, True))
        (number,) = self.apply(Send(TOPIC, message, utc(self.now + delay)))
        assert number > max(self.numbers)
        before = max(self.numbers)
        for name in names:
            queue = subscription_queue(TOPIC, name)
            (leg,) = self.run(self.engine.peek(queue, 10, start=before + 1))
            self.numbers.append(leg.sequence)
            self.model.send(leg.sequence, queue, body, ttl=ttl, at=self.now + delay, now=self.now)
        if not names:
            self.unmatched += 1
            self.numbers.append(number)
            entry = Entry(number, dead_letter_queue(TOPIC), body, State.READY, None, dead=(NO_SUBSCRIPTION, TOPIC))
            self.model.entries[number] = entry

    def subscribe_anew(self, data):
        """Remove a subscription with all its messages, and subscribe again."""
        queue, name = data.draw(st.sampled_from([*SUBSCRIPTIONS.items()]))
        self.run(self.engine.unsubscribe(TOPIC, name))
        self.subscribe(name)
        self.model.queues[queue] = self.settings[name]
        for entry in list(self.model.entries.values()):
            if entry.queue in (queue, dead_letter_queue(queue)):
                self.ended.add(entry.sequence)
                del self.model.entries[entry.sequence]

    @rule(data=st.data(), count=st.integers(1, 3))
    def send_some(self, data, count):
        for _ in range(count):
            self.send(data)

    # --- receiving

    @rule(queue=all_queues, limit=st.integers(1, 4), after=st.sampled_from([0, 0, 0, 1, 3, 11]))
    def lock(self, queue, limit, after):
        self.pass_time(after)
        self.catch_up_with(queue)
        expected = self.model.next_ready(queue, limit)
        found = self.run(self.engine.lock_next(queue, limit))
        assert [one.sequence for one in found] == [entry.sequence for entry in expected]
        for one, entry in zip(found, expected, strict=True):
            self.model.lock(entry, one.lock.token, self.now)
            self.agree_on(one, entry)
            self.locks.append(one.lock)

    def take(self, data):
        queue, limit = data.draw(all_queues), data.draw(st.integers(1, 3))
        self.catch_up_with(queue)
        expected = self.model.next_ready(queue, limit)
        found = self.run(self.engine.lock_next(queue, limit, delete=True))
        assert [(one.sequence, one.body) for one in found] == [(entry.sequence, entry.body) for entry in expected]
        for entry in expected:
            self.model.happen(entry, MessageEvent.TAKE)
            self.ended.add(entry.sequence)

    @precondition(lambda self: self.has(State.DEFERRED, State.DEFERRED_LOCKED))
    @rule(data=st.data())
    def lock_deferred(self, data):
        aside = [
            entry for entry in self.model.entries.values() if entry.state in (State.DEFERRED, State.DEFERRED_LOCKED)
        ]
        queue = data.draw(st.sampled_from([entry.queue for entry in aside]), label="queue")
        wanted = data.draw(st.lists(st.sampled_from([entry.sequence for entry in aside]), min_size=1, max_size=2))
        self.catch_up_with(queue)
        entries = [self.model.entries.get(number) for number in wanted]
        usable = [entry for entry in entries if entry is not None and self.is_aside(entry, queue)]
        spent = [entry for entry in usable if self.model.is_spent(entry)]
        if len(usable) == len(wanted) == len(set(wanted)) and not spent:
            found = self.run(self.engine.lock_deferred(queue, wanted))
            for one, entry in zip(found, usable, strict=True):
                self.model.lock(entry, one.lock.token, self.now)
                self.agree_on(one, entry)
                self.locks.append(one.lock)
            return
        with pytest.raises(MessageNotFound):
            self.run(self.engine.lock_deferred(queue, wanted))
        for entry in {entry.sequence: entry for entry in spent}.values():
            self.model.happen(entry, MessageEvent.EXCEED_DELIVERIES, MAX_DELIVERY_COUNT_EXCEEDED)

    def is_aside(self, entry, queue):
        return (entry.queue, entry.state) == (queue, State.DEFERRED)

    def has(self, *states):
        return any(entry.state in states for entry in self.model.entries.values())

    # --- settling

    def settle(self, data, make, do):
        """Settle with one of the last locks there were; with one that is not good any more it must be refused."""
        self.model.catch_up(self.now)
        lock = data.draw(st.sampled_from(self.locks[:-6:-1]), label="lock")
        entry = self.model.held(lock.sequence, lock.queue, lock.token)
        if entry is None:
            with pytest.raises(LockLost):
                self.apply(make(lock))
            return
        assert self.apply(make(lock)) == [None]
        do(entry)

    @precondition(lambda self: self.has(*LOCKED_STATES))
    @rule(data=st.data(), is_reset=st.booleans())
    def abandon(self, data, is_reset):
        delay = data.draw(self.delays)
        self.settle(
            data,
            lambda lock: Abandon(lock, float(delay), reset_count=is_reset and delay > 1),
            lambda entry: self.model.give_back(entry, delay, self.now, is_reset=is_reset and delay > 1),
        )

    @precondition(lambda self: self.has(*LOCKED_STATES))
    @rule(data=st.data())
    def defer(self, data):
        self.settle(data, Defer, lambda entry: self.model.happen(entry, MessageEvent.DEFER))

    @precondition(lambda self: self.locks)
    @rule(data=st.data(), what=st.sampled_from(["complete", "dead-letter", "renew"]))
    def settle_or_renew(self, data, what):
        if what == "complete":
            self.settle(data, Complete, self.complete)
        elif what == "dead-letter":
            dead = partial(DeadLetter, reason="broken")
            self.settle(data, dead, lambda entry: self.model.happen(entry, MessageEvent.DEAD_LETTER, "broken"))
        else:
            self.renew(data)

    def complete(self, entry):
        self.ended.add(entry.sequence)
        self.model.happen(entry, MessageEvent.COMPLETE)

    def renew(self, data):
        self.model.catch_up(self.now)
        lock = data.draw(st.sampled_from(self.locks[:-6:-1]), label="lock")
        entry = self.model.held(lock.sequence, lock.queue, lock.token)
        (until,) = self.run(self.engine.renew([lock]))
        if entry is None:
            assert until is None
        else:
            entry.due = self.now + self.model.queues[entry.queue].lock_duration
            assert until == utc(entry.due)

    # --- the world

    @rule(
        data=st.data(),
        what=st.sampled_from(["time", "upkeep", "compare", "crash", "cancel", "take", "limit", "subscribe anew"]),
    )
    def something_rare(self, data, what):
        steps = {
            "subscribe anew": lambda: self.subscribe_anew(data),
            "time": lambda: self.pass_time(data.draw(st.sampled_from([1, 4, 12, 50]))),
            "upkeep": lambda: self.run(self.engine.upkeep(data.draw(st.integers(1, 5)))),
            "compare": self.compare,
            "crash": self.crash,
            "cancel": lambda: self.cancel(data),
            "take": lambda: self.take(data),
            "limit": lambda: self.change_limit(data),
        }
        steps[what]()

    def pass_time(self, seconds):
        self.clock.advance(seconds)

    def cancel(self, data):
        self.model.catch_up(self.now)
        number, queue = data.draw(st.sampled_from(self.numbers[:-6:-1])), data.draw(queues)
        entry = self.model.entries.get(number)
        if entry is not None and entry.queue == queue and entry.state is State.SCHEDULED:
            assert self.apply(Cancel(queue, number)) == [None]
            self.model.happen(entry, MessageEvent.CANCEL)
        else:
            with pytest.raises(MessageNotFound):
                self.apply(Cancel(queue, number))

    def change_limit(self, data):
        queue, limit = data.draw(queues), data.draw(st.integers(1, 4))
        self.model.catch_up(self.now)
        self.keep_up()  # what ended before the change ended under the old limit, whoever is asked first
        changed = replace(self.model.queues[queue], max_delivery_count=limit)
        self.run(self.engine.update(queue, changed))
        self.model.queues[queue] = changed

    def crash(self):
        """Go on with what is stored, as if the process had been killed."""
        self.home.crash()
        self.run(self.engine.close())
        self.engine = self.opened()

    def compare(self):
        self.keep_up()
        self.model.catch_up(self.now)
        for name in NAMES:
            shown = self.run(self.engine.peek(name, 1_000))
            assert [self.seen(one) for one in shown] == self.model.visible(name)
            assert not self.ended & {one.sequence for one in shown}, "what was done has come back"
        self.compare_counts()
        assert self.home.strays() == ([], []), "shared bodies without a message, messages without their body"
        (topic,) = self.run(self.engine.topics(TOPIC))
        assert topic.unmatched == self.unmatched

    def compare_counts(self):
        for info in self.run(self.engine.inspect()):
            states = [entry.state for entry in self.model.entries.values() if entry.queue == info.name]
            assert info.ready == states.count(State.READY)
            assert info.scheduled == states.count(State.SCHEDULED)
            assert info.locked == states.count(State.LOCKED) + states.count(State.DEFERRED_LOCKED)
            assert info.deferred == states.count(State.DEFERRED)
            assert info.dead == len(self.model.visible(dead_letter_queue(info.name)))

    def catch_up_with(self, queue):
        """Bring the model to this moment. What has expired may reach a dead-letter queue only with the next upkeep."""
        self.model.catch_up(self.now)
        if queue not in QUEUES:
            self.keep_up()

    def keep_up(self):
        while not self.run(self.engine.upkeep()).is_finished:
            pass

    def seen(self, one):
        dead = one.dead_letter_info and (one.dead_letter_info.reason, one.dead_letter_info.source)
        expires = one.expires_at and one.expires_at.timestamp()
        return (one.sequence, one.body, one.state, one.delivery_count, dead, expires)

    def agree_on(self, one, entry):
        assert self.seen(one) == entry.seen()
        assert (one.queue, one.locked_until) == (entry.queue, utc(entry.due))

    def teardown(self):
        try:
            self.compare()
        finally:
            self.run(self.engine.close())
            self.loop.close()
            self.home.remove()


@pytest.fixture
def sqlite_homes():
    """Makes folders."""
    return SqliteHome


@pytest.fixture
def postgres_homes(postgres_url, postgres_schema):
    """Makes schemas."""
    numbers = count()
    return lambda: PostgresHome(postgres_url, f"{postgres_schema}_{next(numbers)}")


def run_lives(new_home, examples, steps, lives=Lives):
    run_state_machine_as_test(
        lambda: lives(new_home()),
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            phases=lives.phases,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )


@pytest.mark.parametrize(("homes", "examples"), [("sqlite_homes", 50), ("postgres_homes", 4)])
@pytest.mark.timeout(400)  # when they disagree, finding the shortest life takes Hypothesis minutes
def test_an_engine_and_the_model_agree_on_every_step(request, homes, examples):
    run_lives(request.getfixturevalue(homes), examples, steps=50)


@pytest.mark.parametrize(("homes", "examples"), [("sqlite_homes", 1_500), ("postgres_homes", 300)])
@pytest.mark.torture
@pytest.mark.timeout(0)
def test_an_engine_and_the_model_agree_on_very_many_steps(request, homes, examples):
    run_lives(request.getfixturevalue(homes), int(os.environ.get("REDRIVE_LIVES", examples)), steps=100)
