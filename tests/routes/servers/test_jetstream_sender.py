# SPDX-License-Identifier: MIT
"""The JetStream sender on a real server: what it publishes, and what it says when that fails."""

import asyncio

import nats
import pytest
import pytest_asyncio

from redrive.broker import Message
from redrive.errors import InvalidSetting, MissingExtra
from redrive.routes.outcomes import Delivered, DestinationDown, Rejected, TryLater
from redrive.routes.senders.jetstream import JetStreamSender
from tests.patience import PATIENCE_S
from tests.routes.servers.intakes import environment


@pytest_asyncio.fixture
async def jetstream(nats_server, name):
    """A client of the tests' own, and a stream that no other test has."""
    client = await nats.connect(nats_server.url, reconnect_time_wait=0.1, max_reconnect_attempts=-1, error_cb=ignore)
    jetstream = client.jetstream(timeout=PATIENCE_S)
    await jetstream.add_stream(name=name, subjects=[f"{name}.>"])
    yield jetstream
    await client.close()


async def ignore(_):
    """Say nothing about a server that a test has killed."""


@pytest_asyncio.fixture
async def opened(nats_server, name):
    """Open senders, which are closed at the end."""
    senders = []

    def open_sender(**settings):
        part = JetStreamSender(**{"url": nats_server.url, "subject": f"{name}.new"} | settings)
        senders.append(part.open(environment()))
        return senders[-1]

    yield open_sender
    for sender in senders:
        await sender.close()


async def test_an_event_becomes_a_message(opened, jetstream, name):
    headers = {"tenant": "north", "attempt": 3, "is-test": True}
    message = Message(b"\x00\xff", content_type="x/y", correlation_id="c-1", headers=headers)
    assert await opened().send(message, "event:route") == Delivered()
    found = await jetstream.get_msg(name, 1)
    assert found.data == b"\x00\xff"
    assert found.subject == f"{name}.new"
    assert found.headers == {
        "Nats-Msg-Id": "event:route",
        "content-type": "x/y",
        "correlation-id": "c-1",
        "tenant": "north",
        "attempt": "3",
        "is-test": "true",
    }


async def test_a_repeated_event_is_dropped_by_the_stream(opened, jetstream, name):
    sender = opened()
    assert await sender.send(Message(b"x"), "key") == Delivered()
    assert await sender.send(Message(b"x"), "key") == Delivered()
    assert (await jetstream.stream_info(name)).state.messages == 1


async def test_headers_that_are_meant_for_a_server_are_not_sent_on(opened, jetstream, name):
    await jetstream.update_stream(name=name, subjects=[f"{name}.>"], allow_rollup_hdrs=True)
    sender = opened()
    assert await sender.send(Message(b"first"), "1") == Delivered()
    assert await sender.send(Message(b"x", headers={"nats-rollup": "all", "Nats-Msg-Id": "1"}), "2") == Delivered()
    assert (await jetstream.stream_info(name)).state.messages == 2
    assert (await jetstream.get_msg(name, 2)).headers == {"Nats-Msg-Id": "2"}


async def test_a_subject_that_no_stream_takes_is_down(opened, jetstream, name):
    sender = opened(subject=f"other-{name}")
    outcome = await sender.send(Message(b"x"), "key")
    assert isinstance(outcome, DestinationDown)
    assert f"no stream takes subject other-{name}" in outcome.reason
    await jetstream.add_stream(name=f"other-{name}", subjects=[f"other-{name}"])
    assert await sender.send(Message(b"x"), "key") == Delivered()


@pytest.mark.parametrize("body", [b"x" * 200_000, b"x" * 102_390], ids=["body", "body and headers"])
@pytest.mark.usefixtures("jetstream")
async def test_an_event_that_is_too_large_for_the_server_is_rejected(opened, body):
    sender = opened()
    outcome = await sender.send(Message(body), "key")
    assert isinstance(outcome, Rejected)
    assert "102,400 bytes" in outcome.reason
    assert await sender.send(Message(b"x"), "key") == Delivered()


@pytest.mark.usefixtures("jetstream")
async def test_the_largest_event_that_the_server_takes_is_delivered(opened):
    size = 102_400 - len("NATS/1.0\r\nNats-Msg-Id: key\r\n\r\n")
    sender = opened()
    assert await sender.send(Message(b"x" * size), "key") == Delivered()
    assert isinstance(await sender.send(Message(b"x" * (size + 1)), "key"), Rejected)


async def test_an_event_that_is_too_large_for_the_stream_is_rejected(opened, jetstream, name):
    await jetstream.update_stream(name=name, subjects=[f"{name}.>"], max_msg_size=10)
    assert isinstance(await opened().send(Message(b"x" * 100), "key"), Rejected)


async def test_a_stream_that_is_full_is_down(opened, jetstream, name):
    await jetstream.update_stream(name=name, subjects=[f"{name}.>"], max_msgs=1, discard="new")
    sender = opened()
    assert await sender.send(Message(b"x"), "1") == Delivered()
    assert isinstance(await sender.send(Message(b"x"), "2"), DestinationDown)


@pytest.mark.usefixtures("jetstream")
async def test_a_header_that_cannot_be_sent_is_rejected_with_the_fix(opened):
    outcome = await opened().send(Message(b"x", headers={"two words": "x"}), "key")
    assert isinstance(outcome, Rejected)
    assert "rename" in outcome.reason


@pytest.mark.usefixtures("jetstream")
async def test_a_server_that_does_not_answer_is_tried_again(opened, nats_server):
    sender = opened(timeout=2)  # a busy server answers within that
    assert await sender.send(Message(b"x"), "1") == Delivered()
    nats_server.freeze()
    try:
        assert isinstance(await sender.send(Message(b"x"), "2"), TryLater)
    finally:
        nats_server.thaw()


async def test_a_server_that_is_killed_is_down_and_then_has_everything_it_confirmed(
    opened, jetstream, nats_server, name
):
    sender = opened(timeout=2)
    assert await sender.send(Message(b"before"), "1") == Delivered()
    nats_server.kill()
    assert isinstance(await sender.send(Message(b"lost"), "2"), DestinationDown)
    nats_server.start()
    assert await sender.send(Message(b"after"), "3") == Delivered()
    assert [(await jetstream.get_msg(name, number)).data for number in (1, 2)] == [b"before", b"after"]


async def test_many_events_at_a_time_share_one_connection(opened, jetstream, name):
    sender = opened()
    outcomes = await asyncio.gather(*(sender.send(Message(b"x"), str(number)) for number in range(50)))
    assert outcomes == [Delivered()] * 50
    assert (await jetstream.stream_info(name)).state.messages == 50


def test_a_sender_names_its_server_and_subject_and_hides_its_password():
    part = JetStreamSender(url="nats://user:s3cret@host", subject="orders.new")
    assert part.destination == "host:4222/orders.new"
    assert "s3cret" not in f"{part} {part!r}"
    assert JetStreamSender.from_table(part.to_table()) == part


@pytest.mark.parametrize("subject", ["orders.*", "orders.>", "two words", "a..b", ".a"])
def test_a_subject_that_is_none_is_refused(subject):
    with pytest.raises(InvalidSetting, match="subject"):
        JetStreamSender(url="nats://host", subject=subject)


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "nats.js", None)
    with pytest.raises(MissingExtra, match=r"redrive\[nats\]"):
        JetStreamSender(url="nats://host", subject="orders").open(environment())
