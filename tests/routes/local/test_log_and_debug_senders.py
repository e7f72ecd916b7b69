# SPDX-License-Identifier: MIT
"""The senders for people and tests: the log, and memory."""

import logging

import pytest

from redrive.broker import Message
from redrive.errors import InvalidSetting
from redrive.routes.outcomes import Delivered, Rejected, TryLater
from redrive.routes.senders.debug import MOST_KEPT, DebugSender
from redrive.routes.senders.log import LogSender


@pytest.fixture
def name(request):
    yield request.node.name
    DebugSender.reset(request.node.name)


async def test_an_event_is_one_line_of_the_log(bench, caplog):
    sender = LogSender("warning", max_text=20).open(bench.environment)
    with caplog.at_level(logging.INFO, "redrive.routes.sent"):
        assert await sender.send(Message(b"two\nlines"), "e1:audit") == Delivered()
        assert await sender.send(Message(b"\xff" + b"x" * 99), "e2:audit") == Delivered()
    assert [(each.levelname, each.getMessage()) for each in caplog.records] == [
        ("WARNING", "e1:audit: two\\nlines"),
        ("WARNING", "e2:audit: \\xffxxxxxxxxxxxxxxx…"),
    ]
    assert (caplog.records[1].redrive_key, caplog.records[1].redrive_body) == ("e2:audit", b"\xff" + b"x" * 99)
    await sender.close()


async def test_a_level_that_is_switched_off_costs_nothing(bench, caplog):
    with caplog.at_level(logging.WARNING, "redrive.routes.sent"):
        assert await LogSender().open(bench.environment).send(Message(b"x"), "k") == Delivered()
    assert caplog.records == []


async def test_the_debug_sender_keeps_what_it_gets(bench, name):
    sender = DebugSender(name).open(bench.environment)
    for key in ("a", "b"):
        assert await sender.send(Message(b"x", id=key), key) == Delivered()
    await sender.close()
    assert [(each.key, each.message.id) for each in DebugSender.delivered(name)] == [("a", "a"), ("b", "b")]
    DebugSender.reset(name)
    assert DebugSender.attempts(name) == ()


async def test_the_debug_sender_fails_as_a_test_says(bench, name):
    DebugSender.script(name, [TryLater("busy"), ConnectionRefusedError("down"), Rejected("bad")])
    sender = DebugSender(name).open(bench.environment)
    assert await sender.send(Message(b"x"), "k") == TryLater("busy")
    with pytest.raises(ConnectionRefusedError):
        await sender.send(Message(b"x"), "k")
    assert await sender.send(Message(b"x"), "k") == Rejected("bad")
    assert await sender.send(Message(b"x"), "k") == Delivered()
    assert len(DebugSender.attempts(name)) == 4
    assert len(DebugSender.delivered(name)) == 1


async def test_the_debug_sender_keeps_so_many_at_most(bench, name):
    sender = DebugSender(name).open(bench.environment)
    for number in range(MOST_KEPT + 5):
        await sender.send(Message(b"x"), str(number))
    kept = DebugSender.attempts(name)
    assert (len(kept), kept[0].key) == (MOST_KEPT, "5")


def test_what_they_are():
    assert (LogSender().destination, DebugSender("here").destination) == ("log", "debug here")
    assert LogSender.from_table({"kind": "log", "level": "error"}) == LogSender("error")
    with pytest.raises(InvalidSetting):
        LogSender("loud")
