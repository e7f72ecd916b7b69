# SPDX-License-Identifier: MIT
"""How fast a lane sends: the rate is never exceeded, however late a send is, and whoever sends."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.broker import Send
from redrive.recovery.pace import Pace, at_once, window
from tests.recovery.sites import Crash

RATES = [0.2, 0.5, 1, 1.5, 3, 7, 25, 40]


def exceeded(sent):
    """Return the first moment at which more was sent in the second up to it than its rate allows, if there is one."""
    for place, (moment, rate, _) in enumerate(sent):  # what leaves in the same instant, but after it, is not before it
        seen = sum(many for at, _, many in sent[: place + 1] if moment - window(rate) + 1e-6 < at)
        if seen > max(1, int(rate)):
            return moment, rate, seen
    return None


steps = st.tuples(
    st.sampled_from([*RATES, None, None, None]),  # another rate, mostly the same
    st.floats(0, 2),  # how late the message leaves
    st.floats(0, 2),  # how late it is known that it has left
    st.booleans(),  # whether another process goes on
    st.floats(0, 1),  # how long that takes
)


@given(st.lists(steps, max_size=60), st.sampled_from(RATES), st.booleans())
def test_the_rate_is_never_exceeded(steps, rate, is_punctual):
    pace, now, sent = Pace(), 1_000.0, []
    for another, late, after, is_other, gap in steps:
        rate = another or rate
        if is_other:
            begun, pace = now, Pace()
            now += gap
            pace.others(begun)
        wait = pace.wait(rate, now)
        now += wait
        many = pace.room(rate, now)
        assert 1 <= many <= at_once(rate)
        pace.begin(many, now)
        now += 0 if is_punctual else late
        sent.append((now, rate, many))
        now += 0 if is_punctual else after
        pace.end(many, now)
    assert exceeded(sent) is None


@pytest.mark.parametrize("rate", [1, 5, 25, 100, 1_000, 999_999.5])
def test_who_is_punctual_sends_as_fast_as_the_rate_allows(rate):
    pace, now, sent = Pace(), 0.0, 0
    while now < 20.0:
        now += pace.wait(rate, now)
        many = pace.room(rate, now)
        pace.begin(many, now)
        pace.end(many, now)
        sent += many
    assert sent >= 20 * int(rate) * 0.99


def test_a_send_that_takes_long_costs_its_own_time_only():
    """Ten parts a second that take 20 ms each: not 12 in 1.2 seconds, but 10 in a little more than one."""
    pace, now, sent = Pace(), 0.0, 0
    while now < 100.0:
        now += pace.wait(1_000, now)
        many = pace.room(1_000, now)
        pace.begin(many, now)
        now += 0.02
        pace.end(many, now)
        sent += many
    assert sent >= 97_000


def test_a_new_rate_counts_at_once():
    pace = Pace()
    pace.begin(1, 0.0)
    pace.end(1, 0.0)
    assert pace.wait(0.001, 0.0) == 1_000.0
    assert pace.wait(2, 0.0) == 0.5
    pace.begin(100, 10.0)
    pace.end(100, 10.0)
    assert pace.wait(5, 10.0) == 1.0


class Lateness:
    """Lets time pass around every send to a queue, and notes when it took effect."""

    def __init__(self, site, chance):
        self.site = site
        self.chance = chance
        self.rate = 1.0
        self.sent = []
        self._leaving = None

    def watch(self, process):
        meet = process.meet

        async def late(when, verb, values):
            effects = values[0] if verb == "engine.apply" else ()
            many = sum(isinstance(each, Send) and each.queue == "orders" for each in effects)
            if many and when == "before":
                self.site.clock.advance(self.chance.choice([0.0, 0.0, 0.1, 0.9, 3.0]))
                self._leaving = (self.site.clock.monotonic(), self.rate, many)
            elif many:
                self.sent.append(self._leaving)
                self.site.clock.advance(self.chance.choice([0.0, 0.0, 0.1, 0.9, 3.0]))
            await meet(when, verb, values)

        process.meet = late
        return process


@pytest.mark.between_databases
@pytest.mark.parametrize("seed", range(4))
async def test_no_second_sees_more_than_the_rate_whoever_is_late_dies_or_pauses(site, seed):
    """D14: with late sends, other rates, pauses, and processes that end or die and are followed by others."""
    chance = random.Random(seed)
    late = Lateness(site, chance)
    opened = lambda: site.open(settings={"lease": 2.0}, lanes={"lock_duration": 5.0})  # noqa: E731
    process = late.watch(await opened())
    await process.fail(25)
    late.rate = chance.choice(RATES)
    number = (await process.recovery.recover("status:unresolved", rate=late.rate)).number
    for _ in range(3_000):
        try:
            step = await site.play(process.recovery.step())
            if (await process.recovery.operation(number)).is_over:
                break
            await disturb(process, number, late, chance)
        except Crash:
            step = None
        if process.is_dead or chance.random() < 0.02:
            await process.close()
            process = late.watch(await opened())
        site.clock.advance(0.01 if step or step is None or step.next_in is None else min(step.next_in, 3.0))
    operation = await process.recovery.operation(number)
    assert (operation.state.word, operation.progress.forwarded) == ("completed", 25)
    assert exceeded(late.sent) is None
    assert sum(many for _, _, many in late.sent) == 25


async def disturb(process, number, late, chance):
    """Do what people do, and what happens to processes, once in a while."""
    fate = chance.random()
    if fate < 0.03:
        late.rate = chance.choice(RATES)
        await process.recovery.set_rate(number, late.rate)
    elif fate < 0.06:
        await process.recovery.pause(number)
        await process.work()
        await process.recovery.resume(number)
    elif fate < 0.10:
        process.dies("engine.apply", when=chance.choice(["before", "after"]))


@pytest.mark.between_databases
@pytest.mark.parametrize("late", [0.0, 1.0, 4.0])
async def test_who_goes_on_counts_what_a_process_sent_late_before_it_died(site, late):
    """D14: it cannot know how late that was; so it counts it for as long as its locks may have lasted."""
    process = await site.open(settings={"lease": 0.5}, lanes={"lock_duration": 5.0})
    await process.fail(3)
    await process.recovery.recover("status:unresolved", rate=0.5)

    async def leave_late(*_values):
        site.clock.advance(late)
        process.dies("engine.apply", when="after")

    process.at("ledger.reserve", leave_late, when="after")
    with pytest.raises(Crash):
        await site.play(process.recovery.step())
    sent = [site.clock.monotonic()]
    await process.die()
    other = await site.open(lanes={"lock_duration": 5.0})
    note = lambda effect: sent.append(site.clock.monotonic()) if is_for_orders(effect) else None  # noqa: E731
    other.refuses(note)
    while len(sent) < 3:
        step = await other.recovery.step()
        site.clock.advance(0.0 if step else min(step.next_in, 0.5))
    assert sent[1] - sent[0] >= 2.0
    assert sent[2] - sent[1] >= 2.0


def is_for_orders(effect):
    return isinstance(effect, Send) and effect.queue == "orders"
