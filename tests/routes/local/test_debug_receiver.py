# SPDX-License-Identifier: MIT
"""The receivers that read nothing: one that makes stated events, and the topic, which routes subscribe to."""

import pytest

from redrive.errors import EngineUnavailable, InvalidSetting, UsageError
from redrive.routes.receivers.debug import DebugReceiver
from redrive.routes.receivers.topic import TopicReceiver
from tests.routes.local.bench_of_parts import ScriptedIntake


async def test_it_makes_each_event_once(bench):
    intake = ScriptedIntake([EngineUnavailable("down")])
    task = bench.start(DebugReceiver(events=[{"a": 1}, "text", [2]], name="here"), intake)
    await bench.until(lambda: len(intake.taken) == 3, step=0.5)
    await bench.settle_down()
    assert intake.bodies == [b'{"a":1}', b"text", b"[2]"]
    assert intake.ids == ["debug:here:1", "debug:here:2", "debug:here:3"]
    assert not task.done()
    await bench.stop(task)
    assert task.cancelled()


async def test_a_number_of_events_needs_no_bodies(bench):
    intake = ScriptedIntake()
    receiver = DebugReceiver(count=3)
    bench.start(receiver, intake)
    await bench.until(lambda: len(intake.taken) == 3)
    assert intake.bodies == [b'{"number":1}', b'{"number":2}', b'{"number":3}']
    assert receiver.total == 3


async def test_it_ends_while_the_intake_takes_nothing(bench):
    intake = ScriptedIntake([EngineUnavailable("down")] * 100)
    task = bench.start(DebugReceiver(count=3), intake)
    await bench.until(lambda: intake.offered)
    await bench.stop(task)
    assert task.cancelled()
    assert intake.taken == []


def test_its_table_makes_an_equal_one():
    receiver = DebugReceiver(events=[{"a": 1}, "text"], delivery="direct")
    assert DebugReceiver.from_table(receiver.to_table()) == receiver


@pytest.mark.parametrize(
    "settings", [{}, {"events": []}, {"events": ["a"], "count": 1}, {"count": 0}, {"events": [{1j}]}]
)
def test_wrong_settings_are_refused(settings):
    with pytest.raises(InvalidSetting):
        DebugReceiver(**settings)


def test_a_topic_is_read_by_its_subscriptions(bench):
    receiver = TopicReceiver(topic="orders")
    assert (receiver.address, receiver.reads, receiver.guarantee) == ("orders", "orders", "at_least_once")
    with pytest.raises(UsageError, match="subscribe its routes"):
        receiver.open(bench.environment)


@pytest.mark.parametrize("delivery", ["linked", "direct"])
def test_a_topic_has_nothing_to_hold_an_event_with(delivery):
    with pytest.raises(InvalidSetting, match="has no queue that could hold it"):
        TopicReceiver(topic="orders", delivery=delivery)


@pytest.mark.parametrize("settings", [{"topic": "a b"}, {"topic": "orders", "order_key": "body.customer"}])
def test_wrong_settings_of_a_topic_are_refused(settings):
    with pytest.raises(InvalidSetting):
        TopicReceiver(**settings)
