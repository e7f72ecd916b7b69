# SPDX-License-Identifier: MIT
"""Mistakes that everybody makes once are told with the way out."""

from datetime import UTC, datetime, timedelta

import pytest

from redrive.broker import Message, QueueSettings, Send
from redrive.errors import InvalidMessage, InvalidSetting, QueueNotFound


@pytest.mark.parametrize(
    ("payload", "fix"),
    [
        (
            {"a": {1, 2}},
            r"must be bytes, a text, JSON values, .*; .* set is no JSON type, dataclass or model, not 'dict'",
        ),
        (object(), r"object is no JSON type"),
        (None, r"for JSON's null send b'null', not 'NoneType'"),
        (Message, r"Message is a class: send an instance of it"),
        (float("nan"), r"not JSON compliant"),
        (["\ud800"], r"cannot become JSON"),
        (bytearray(b"x"), r"bytes\(data\)"),
        ("\ud800", r"valid Unicode"),
    ],
    ids=["set", "object", "none", "class", "nan", "half a pair inside", "bytearray", "half a pair"],
)
async def test_what_is_no_message_says_how_to_make_one(broker, payload, fix):
    with pytest.raises(InvalidMessage, match=fix):
        await broker.send("orders", payload)
    with pytest.raises(InvalidMessage, match=fix):
        await broker.send_many("orders", ["good", payload])
    with pytest.raises(InvalidMessage, match=fix):
        await broker.schedule("orders", payload, 5)
    assert await broker.peek("orders") == []


@pytest.mark.parametrize(
    ("body", "fix"),
    [("text", r"text\.encode\(\)"), ({"a": 1}, r"Message\.of\(order\)"), (bytearray(b"x"), r"bytes\(data\)")],
    ids=["text", "dict", "bytearray"],
)
def test_a_body_that_is_no_bytes_says_how_to_make_them(body, fix):
    with pytest.raises(InvalidMessage, match=fix):
        Message(body)


@pytest.mark.parametrize("messages", ["abc", b"abc", {"a": 1}, Message(b"x")], ids=["text", "bytes", "dict", "message"])
async def test_one_message_is_not_many(broker, messages):
    with pytest.raises(InvalidMessage, match=r"must be a list of messages: .*; for a single one there is send"):
        await broker.send_many("orders", messages)
    assert await broker.peek("orders") == []


async def test_many_messages_may_come_from_anywhere(broker):
    await broker.send_many("orders", (f"{number}" for number in range(3)))
    await broker.send_many("orders", (b"x",))
    assert len(await broker.peek("orders")) == 4


def test_a_send_of_nothing_is_refused_when_it_is_made():
    with pytest.raises(InvalidMessage, match=r"must be bytes, a text, JSON values"):
        Send("orders", None)


@pytest.mark.parametrize("at", [30, 30.0, timedelta(seconds=30), "tomorrow", datetime(2026, 1, 1)], ids=repr)  # noqa: DTZ001
def test_a_send_takes_an_instant(at):
    with pytest.raises(InvalidSetting, match=r"^at=.*datetime\.now\(UTC\) \+ timedelta"):
        Send("orders", Message(b""), at)
    assert Send("orders", Message(b""), datetime(2026, 1, 1, tzinfo=UTC)).at is not None


@pytest.mark.parametrize(
    ("text", "number"), [("5m", "300"), ("10s", "10"), ("100ms", "0.1"), ("00:01:00", "60"), ("1h", "3600")]
)
async def test_a_length_of_time_as_files_write_it_says_what_to_write(broker, text, number):
    told = rf"seconds, or a timedelta; write {number}: texts are for files and the command line"
    with pytest.raises(InvalidSetting, match=told):
        await broker.receive("orders", wait=text)
    with pytest.raises(InvalidMessage, match=told):
        Message(b"", ttl=text)
    with pytest.raises(InvalidSetting, match=told):
        QueueSettings(default_ttl=text)


@pytest.mark.parametrize("wrong", [0, -1, "soon"])
def test_a_lock_duration_names_its_own_range(wrong):
    with pytest.raises(InvalidSetting, match=r"must be more than 0 to 300 seconds, or a timedelta$"):
        QueueSettings(lock_duration=wrong)


@pytest.mark.parametrize("long", [301, 3_600, timedelta(hours=1)], ids=repr)
def test_a_lock_duration_that_is_too_long_names_renewal(long):
    with pytest.raises(InvalidSetting, match=r"more than 0 to 300 seconds.*; for longer work renew the lock"):
        QueueSettings(lock_duration=long)


@pytest.mark.parametrize("verb", ["send", "receive", "peek", "inspect", "delete"])
async def test_a_queue_that_is_nearly_there_is_named(broker, verb):
    call = getattr(broker, verb)
    told = r"no queue 'ordres'; did you mean 'orders'\? Otherwise declare it first"
    with pytest.raises(QueueNotFound, match=told) as caught:
        await (call("ordres", "x") if verb == "send" else call("ordres"))
    assert (caught.value.queue, caught.value.similar) == ("ordres", "orders")
    with pytest.raises(QueueNotFound, match=r"no queue 'something-else'; declare it first"):
        await broker.send("something-else", "x")


async def test_a_header_is_a_number_that_can_be_written(broker):
    with pytest.raises(InvalidMessage, match=r"must have 1,024 bits at most, not '16,610 bits'"):
        Message(b"", headers={"n": 10**5_000})
    await broker.send("orders", Message(b"", headers={"n": 2**1_023}))
    assert (await broker.peek("orders"))[0].headers == {"n": 2**1_023}
    with pytest.raises(InvalidMessage, match="must be a dict"):
        Message(b"", headers=[("a", 1)])
