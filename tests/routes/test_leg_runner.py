# SPDX-License-Identifier: MIT
"""One version of a route at work: filters in order, parts one by one, time limits, quiet retries, and the breaker."""

import asyncio
from collections import deque
from dataclasses import dataclass, replace
from itertools import pairwise
from types import SimpleNamespace
from typing import ClassVar

import pytest

from redrive.broker import Message
from redrive.routes import (
    Delivered,
    DestinationDown,
    EventFilter,
    EventSender,
    LegFacts,
    OutsideFilter,
    Rejected,
    Throttled,
    TryLater,
    http,
    route,
    setting,
    to_queue,
)
from redrive.routes.destination import Destination
from redrive.routes.leg_runner import LegRunner
from redrive.routes.parts import TextSetting
from redrive.testing import ManualClock
from tests.patience import PATIENCE_S

NOW = 1_767_484_800.0
LEG = LegFacts("default", "a", "e", NOW, NOW)
EVENT = Message(b"x", id="e")


@dataclass(frozen=True, slots=True)
class Add(EventFilter):
    """Adds a letter."""

    kind: ClassVar[str] = "add"
    letter: str = setting(TextSetting(), "what is added", "+")

    def apply(self, message, leg):
        return [replace(message, body=message.body + self.letter.encode())]


@dataclass(frozen=True, slots=True)
class Cut(EventFilter):
    """Cuts an event at commas, and drops what is empty."""

    kind: ClassVar[str] = "cut"

    def apply(self, message, leg):
        return tuple(replace(message, body=part) for part in message.body.split(b",") if part)


@dataclass(frozen=True, slots=True)
class Answer(EventFilter):
    """Returns, or raises, what a test says."""

    kind: ClassVar[str] = "answer"
    answers: ClassVar[list] = []

    def apply(self, message, leg):
        answer = self.answers[-1]
        if isinstance(answer, BaseException):
            raise answer
        return answer


@dataclass(frozen=True, slots=True)
class Outside(OutsideFilter):
    """Is itself when it is opened, and does what its environment says."""

    kind: ClassVar[str] = "outside"

    def open(self, environment):
        return environment.outside


@dataclass(frozen=True, slots=True)
class Scripted(EventSender):
    """Does what its environment says."""

    kind: ClassVar[str] = "scripted"

    @property
    def destination(self):
        return "shop"

    def open(self, environment):
        return environment.sender


class Script:
    """An open filter or sender that answers as a test says; then it lets everything pass."""

    def __init__(self, usual, *answers):
        self.usual = usual
        self.answers = deque(answers)
        self.calls = []
        self.ends = []
        self.is_closed = False

    async def send(self, message, key):
        return await self._answer((key, message.body), message)

    async def apply(self, message, leg):
        return await self._answer(message.body, message)

    async def _answer(self, call, message):
        self.calls.append(call)
        answer = self.answers.popleft() if self.answers else self.usual
        if isinstance(answer, asyncio.Future):
            await answer
        if isinstance(answer, BaseException):
            raise answer
        return [message] if answer == "pass" else answer

    async def ended(self, message, leg, *, is_delivered):
        self.ends.append((message.body, is_delivered))

    async def close(self):
        self.is_closed = True


class Bench:
    """A leg runner with what it works with."""

    def __init__(self, *filters, sends=(), outside=(), failures=10, sender=None, **settings):
        self.clock = ManualClock()
        self.sender = Script(Delivered(), *sends)
        self.outside = Script("pass", *outside)
        self.destination = Destination("shop", self.clock, failures=failures, probe_after=30, on_change=lambda *_: None)
        environment = SimpleNamespace(
            clock=self.clock, chance=lambda: 0.5, sender=self.sender, outside=self.outside, broker=None
        )
        draft = route("a", source=http("/x"), **{"quiet_retries": 0} | settings)
        for each in filters:
            draft |= each
        self.runner = LegRunner(draft >> (sender or Scripted()), environment, self.destination)
        self.steps = []

    async def run(self, body=b"x", done=(), event_id="e"):
        leg = replace(LEG, event_id=event_id)
        return await self.runner.run(replace(EVENT, body=body), leg, frozenset(done), self.steps.append)

    async def run_timed(self, step, event_id="e"):
        """Run while time passes: in steps, whenever everything waits for it."""
        task = asyncio.create_task(self.run(event_id=event_id))
        async with asyncio.timeout(PATIENCE_S):
            while not task.done():
                await asyncio.wait({task}, timeout=0)
                if self.clock.sleepers:
                    self.clock.advance(step)
        return task.result()

    @property
    def sent(self):
        return self.sender.calls


# --- filters


async def test_filters_work_in_order_and_each_step_is_noted():
    bench = Bench(Add("1"), Outside(), Add("2"))
    result = await bench.run()
    assert bench.outside.calls == [b"x1"]
    assert bench.sent == [("e:a", b"x12")]
    assert (result.failure, result.delivered, result.is_consumed) == (None, {""}, False)
    assert [(each.step, each.outcome, [one.body for one in each.messages]) for each in bench.steps] == [
        ("filter 1 (add)", "passed", [b"x1"]),
        ("filter 2 (outside)", "passed", [b"x1"]),
        ("filter 3 (add)", "passed", [b"x12"]),
        ("sender (scripted)", "delivered", [b"x12"]),
    ]


async def test_what_a_filter_consumes_goes_no_further():
    bench = Bench(Cut(), Outside())
    result = await bench.run(b",")
    assert result.is_consumed
    assert bench.sent == bench.outside.calls == []


async def test_what_a_pure_filter_raises_is_permanent():
    Answer.answers.append(ZeroDivisionError("by zero"))
    bench = Bench(Add(), Answer(), Outside())
    result = await bench.run()
    assert result.failure == Rejected("ZeroDivisionError: by zero")
    assert result.step == "filter 2 (answer)"
    assert bench.sent == bench.outside.calls == []


@pytest.mark.parametrize("answer", [None, EVENT, "text", b"bytes", 5, [b"bytes"], [None], {}])
async def test_what_is_no_list_of_messages_is_permanent(answer):
    Answer.answers.append(answer)
    result = await Bench(Answer()).run()
    assert isinstance(result.failure, Rejected)
    assert "must return a list of messages" in result.failure.reason


@pytest.mark.parametrize("failure", [TryLater("busy"), DestinationDown("gone"), Throttled("slow", 3.0), Rejected("no")])
async def test_a_filter_that_reaches_outside_says_why_it_cannot_say(failure):
    bench = Bench(Outside(), outside=[failure])
    result = await bench.run(done={"1"})
    assert (result.failure, result.step, result.delivered) == (failure, "filter 1 (outside)", {"1"})
    assert bench.steps[-1].outcome == failure.reason
    assert bench.sent == []


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ValueError("odd"), TryLater("ValueError: odd")),
        (ConnectionRefusedError("gone"), DestinationDown("ConnectionRefusedError: gone")),
        (OSError("disk"), DestinationDown("OSError: disk")),
        (TimeoutError(), TryLater("no answer within 5 s")),
    ],
)
async def test_what_reaches_outside_may_work_later_whatever_it_raises(error, expected):
    assert (await Bench(Outside(), outside=[error], timeout=5).run()).failure == expected
    assert (await Bench(sends=[error], timeout=5).run()).failure == expected


async def test_each_filter_that_reaches_outside_hears_how_it_ended():
    bench = Bench(Cut(), Outside(), sends=[TryLater("busy")])
    result = await bench.run(b"1,2")
    assert bench.outside.ends == []
    await bench.runner.ended(result, LEG, is_delivered=False)
    assert bench.outside.ends == [(b"1", False), (b"2", False)]


# --- parts


async def test_each_part_has_its_key_and_a_part_of_a_part_too():
    bench = Bench(Cut(), Add(",!"), Cut())
    result = await bench.run(b"1,2")
    assert bench.sent == [("e:a:0.0", b"1"), ("e:a:0.1", b"!"), ("e:a:1.0", b"2"), ("e:a:1.1", b"!")]
    assert result.delivered == {"0.0", "0.1", "1.0", "1.1"}


async def test_parts_keep_their_keys_when_others_are_consumed():
    bench = Bench(Cut(), Add(","), Cut())
    await bench.run(b"1,2")
    assert bench.sent == [("e:a:0", b"1"), ("e:a:1", b"2")]


async def test_only_parts_that_were_not_delivered_are_sent_again():
    bench = Bench(Cut(), sends=[Delivered(), TryLater("busy")])
    first = await bench.run(b"1,2,3")
    assert (first.failure, first.delivered) == (TryLater("busy"), {"0"})
    second = await bench.run(b"1,2,3", first.delivered)
    assert (second.failure, second.delivered) == (None, {"0", "1", "2"})
    assert [key for key, _ in bench.sent] == ["e:a:0", "e:a:1", "e:a:1", "e:a:2"]


async def test_an_event_of_which_every_part_was_delivered_is_done():
    bench = Bench(Cut())
    result = await bench.run(b"1,2", {"0", "1"})
    assert (result.failure, result.is_consumed) == (None, False)
    assert bench.sent == []


# --- the sender


@pytest.mark.parametrize("failure", [TryLater("busy"), DestinationDown("gone"), Throttled("slow", 3.0), Rejected("no")])
async def test_what_the_sender_says_is_what_came_of_it(failure):
    bench = Bench(sends=[failure])
    result = await bench.run()
    assert (result.failure, result.step, result.delivered) == (failure, "sender (scripted)", frozenset())


@pytest.mark.parametrize("answer", [None, True, "delivered", Delivered])
async def test_a_sender_that_does_not_say_what_came_of_it_has_not_delivered(answer):
    result = await Bench(sends=[answer]).run()
    assert isinstance(result.failure, TryLater)
    assert "must return Delivered()" in result.failure.reason


async def test_a_reason_is_one_short_line():
    result = await Bench(sends=[ValueError("a\nb" + "x" * 9_999)]).run()
    assert "\n" not in result.failure.reason
    assert len(result.failure.reason) <= 500


async def test_no_answer_in_time_is_a_failure_that_may_pass():
    bench = Bench(sends=[asyncio.get_running_loop().create_future()], timeout=5)
    result = await bench.run_timed(5)
    assert result.failure == TryLater("no answer within 5 s")
    assert bench.clock.monotonic() == 5.0


async def test_a_filter_has_the_same_time_limit():
    bench = Bench(Outside(), outside=[asyncio.get_running_loop().create_future()], timeout=5)
    assert (await bench.run_timed(5)).failure == TryLater("no answer within 5 s")


async def test_quiet_retries_come_after_growing_delays_and_are_one_attempt():
    bench = Bench(sends=[TryLater("1"), TryLater("2"), TryLater("3")], quiet_retries=3)
    times = []
    original = bench.sender.send

    async def timed(message, key):
        times.append(bench.clock.monotonic())
        return await original(message, key)

    bench.sender.send = timed
    result = await bench.run_timed(0.05)
    assert result.failure is None
    assert bench.sent == [("e:a", b"x")] * 4
    assert [later - earlier for earlier, later in pairwise(times)] == pytest.approx([0.1, 0.2, 0.4], abs=0.06)


@pytest.mark.parametrize(
    "failure", [TryLater("in a while", 60.0), DestinationDown("gone"), Throttled("slow"), Rejected("no")]
)
async def test_where_a_quiet_retry_cannot_help_there_is_none(failure):
    bench = Bench(sends=[failure], quiet_retries=3)
    assert (await bench.run()).failure == failure
    assert len(bench.sent) == 1


async def test_after_the_last_quiet_retry_the_attempt_has_failed():
    bench = Bench(sends=[TryLater(str(number)) for number in range(5)], quiet_retries=2)
    assert (await bench.run_timed(1)).failure == TryLater("2")


# --- the breaker


async def test_while_the_destination_is_down_nothing_is_tried():
    bench = Bench(Outside(), sends=[DestinationDown("gone")], failures=1)
    await bench.run()
    assert bench.runner.is_down
    bench.clock.advance(10)
    result = await bench.run(done={"3"})
    assert (result.failure, result.delivered) == (DestinationDown("shop is down", 20.0), {"3"})
    assert len(bench.sent) == len(bench.outside.calls) == 1


async def test_a_destination_that_goes_down_ends_the_quiet_retries():
    bench = Bench(sends=[TryLater("busy"), TryLater("busy")], failures=1, quiet_retries=5)
    assert (await bench.run()).failure == TryLater("busy")
    assert len(bench.sent) == 1


async def test_a_split_event_stops_where_the_destination_goes_down():
    bench = Bench(Cut(), sends=[Delivered(), DestinationDown("gone")], failures=1)
    result = await bench.run(b"1,2,3")
    assert (result.delivered, len(bench.sent)) == ({"0"}, 2)


async def test_a_send_that_is_cancelled_gives_its_permit_back():
    bench = Bench(sends=[DestinationDown("gone"), asyncio.get_running_loop().create_future()], failures=1)
    await bench.run()
    bench.clock.advance(30)
    task = asyncio.create_task(bench.run())
    await asyncio.wait({task}, timeout=0)
    assert len(bench.sent) == 2
    assert bench.destination.admit() is None  # one event at a time
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()
    assert (await bench.run()).failure is None
    assert not bench.runner.is_down


async def test_one_event_with_its_quiet_retries_does_not_bring_a_destination_down():
    bench = Bench(sends=[TryLater("busy")] * 99, quiet_retries=10, failures=3)
    for _ in range(4):
        await bench.run_timed(2)
    assert not bench.runner.is_down
    await bench.run_timed(2, "f")
    await bench.run_timed(2, "g")
    assert bench.runner.is_down


# --- senders to this broker


async def test_what_goes_to_this_broker_is_sent_when_the_leg_is_settled():
    bench = Bench(Cut(), sender=to_queue("big"))
    result = await bench.run(b"1,2")
    assert [(each.queue, each.message.id, each.message.body) for each in result.effects] == [
        ("big", "e:a:0", b"1"),
        ("big", "e:a:1", b"2"),
    ]
    assert not result.is_consumed
    assert result.delivered == {"0", "1"}


async def test_a_delay_counts_from_the_attempt():
    (effect,) = (await Bench(sender=to_queue("big", delay=60)).run()).effects
    assert effect.at.timestamp() == NOW + 60


async def test_a_destination_that_is_down_is_no_matter_for_this_broker():
    bench = Bench(sender=to_queue("big"), failures=1)
    bench.destination.note(bench.destination.admit(), DestinationDown("gone"), "other")
    assert (await bench.run()).failure is None


async def test_a_sender_that_cannot_make_its_message_has_rejected_the_event():
    class Broken(type(to_queue("big"))):
        def effect(self, message, key, now=None):
            raise ValueError(key)

    result = await Bench(sender=Broken("big")).run()
    assert result.failure == Rejected("ValueError: e:a")
    assert result.effects == ()


# --- the end


async def test_closing_disconnects_everything_even_if_something_cannot_be():
    bench = Bench(Outside(), Add())

    async def fail():
        bench.outside.is_closed = True
        raise OSError

    bench.outside.close = fail
    await bench.runner.close()
    assert bench.outside.is_closed
    assert bench.sender.is_closed
