# SPDX-License-Identifier: MIT
"""The timer: one event for each tick, the same in every process."""

import asyncio
from datetime import timedelta

import pytest

from redrive.broker import Send
from redrive.errors import EngineUnavailable, InvalidSetting, MessageTooLarge
from redrive.routes.ack_tree import Ack
from redrive.routes.receivers.receiver_events import EventGivenUp
from redrive.routes.receivers.timer import TimerReceiver
from tests.routes.local.bench_of_parts import ScriptedIntake

MIDNIGHT = 1_767_484_800  # where a manual clock begins


class StoringIntake:
    """An intake that sends events to a queue."""

    def __init__(self, broker):
        self.broker = broker
        self.accepted = 0

    async def accept(self, message, *, settle=None):
        await self.broker.apply(Send("ticks", message))
        self.accepted += 1
        return Ack()


def ticks(intake):
    return [int(each.rpartition(":")[2]) * 60 - MIDNIGHT for each in intake.ids]


async def test_it_fires_the_current_tick_and_then_every_one(bench):
    bench.clock.advance(30)
    intake = ScriptedIntake()
    bench.start(TimerReceiver(every=60), intake)
    await bench.until(lambda: intake.taken)
    await bench.settle_down()
    assert ticks(intake) == [0]
    bench.clock.advance(29)
    await bench.settle_down()
    assert ticks(intake) == [0]
    bench.clock.advance(1)
    await bench.until(lambda: len(intake.taken) == 2)
    bench.clock.advance(60)
    await bench.until(lambda: len(intake.taken) == 3)
    assert ticks(intake) == [0, 60, 120]
    assert [each.headers["scheduled_at"][:16] for each in intake.taken[1:]] == ["2026-01-04T00:01", "2026-01-04T00:02"]


async def test_of_ticks_that_have_passed_the_last_is_made_up_for(bench):
    intake = ScriptedIntake()
    bench.start(TimerReceiver(every=60), intake)
    await bench.until(lambda: intake.taken)
    bench.clock.advance(601)
    await bench.until(lambda: len(intake.taken) == 2)
    await bench.settle_down()
    assert ticks(intake) == [0, 600]


async def test_several_processes_make_one_event_for_each_tick(bench):
    await bench.broker.declare("ticks", duplicate_detection=600)
    intakes = [StoringIntake(bench.broker) for _ in range(2)]
    for intake in intakes:
        bench.start(TimerReceiver(every=60), intake)
    for tick in range(6):
        await bench.until(lambda: [each.accepted for each in intakes] == [tick + 1] * 2)  # noqa: B023 - called at once
        bench.clock.advance(60 if tick < 5 else 0)
    found = [each.id for each in await bench.broker.peek("ticks")]
    assert found == [f"timer:60s:{MIDNIGHT // 60 + n}" for n in range(6)]


async def test_a_tick_that_cannot_be_taken_is_offered_again_until_the_next(bench):
    intake = ScriptedIntake([EngineUnavailable("down")] * 5)
    bench.start(TimerReceiver(every=60), intake)
    await bench.until(lambda: intake.taken, step=0.5)
    assert ticks(intake) == [0]
    intake.script.extend([EngineUnavailable("down")] * 70)
    bench.clock.advance(60)
    await bench.until(lambda: len(intake.taken) == 2, step=0.25)
    assert ticks(intake)[1] > 60  # one after it, when the intake works again


async def test_an_event_that_cannot_be_taken_at_all_is_given_up(bench):
    intake = ScriptedIntake([MessageTooLarge("ticks", 3, 2)])
    bench.start(TimerReceiver(every=60), intake)
    await bench.until(lambda: bench.events)
    assert [type(each) for each in bench.events] == [EventGivenUp]
    bench.clock.advance(60)
    await bench.until(lambda: intake.taken)
    assert len(intake.offered) == 2


async def test_a_clock_that_is_set_back_repeats_nothing(bench):
    intake = ScriptedIntake()
    bench.start(TimerReceiver(every=60), intake)
    await bench.until(lambda: intake.taken)
    bench.clock.jump(-300)
    for _ in range(12):
        bench.clock.advance(30)
        await bench.settle_down(5)
    await bench.until(lambda: len(intake.taken) == 2, step=1.0)
    assert ticks(intake) == [0, 60]


async def test_it_ends_at_once(bench):
    intake = ScriptedIntake()
    task = bench.start(TimerReceiver(every=60), intake)
    await bench.until(lambda: intake.taken)
    await bench.stop(task)
    assert task.cancelled()
    assert len([each for each in asyncio.all_tasks() if "_tick_on" in repr(each)]) == 0


@pytest.mark.parametrize(
    ("body", "sent", "content_type"),
    [
        ("{}", b"{}", "application/json"),
        ({"a": [1, None]}, b'{"a":[1,null]}', "application/json"),
        ("good morning", b"good morning", "text/plain; charset=utf-8"),
    ],
)
async def test_the_body_is_a_text_or_json_values(bench, body, sent, content_type):
    intake = ScriptedIntake()
    bench.start(TimerReceiver(every=60, body=body), intake)
    await bench.until(lambda: intake.taken)
    assert (intake.taken[0].body, intake.taken[0].content_type) == (sent, content_type)


def test_what_it_is():
    timer = TimerReceiver(every=timedelta(minutes=5), name="report", body={"a": 1})
    assert (timer.address, timer.every, timer.guarantee) == ("report", 300.0, "best_effort")
    assert TimerReceiver(every=90).address == "90s"
    assert TimerReceiver.from_table(timer.to_table()) == timer
    assert TimerReceiver.from_table({"kind": "timer", "every": "5m", "name": "report", "body": '{"a":1}'}) == timer


@pytest.mark.parametrize(
    "settings",
    [{"every": 0}, {"delivery": "linked"}, {"body": {1: object()}}, {"body": float("nan")}, {"body": "\ud800"}],
)
def test_wrong_settings_are_refused(settings):
    with pytest.raises(InvalidSetting):
        TimerReceiver(**{"every": 60, **settings})
