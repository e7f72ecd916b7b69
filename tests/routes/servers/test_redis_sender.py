# SPDX-License-Identifier: MIT
"""The Redis sender on a real server: what it writes, and what it says when that fails."""

import pytest
import pytest_asyncio
from redis import exceptions
from redis.asyncio import Redis

from redrive.broker import Message
from redrive.errors import InvalidSetting, MissingExtra
from redrive.routes.outcomes import Delivered, DestinationDown, Rejected
from redrive.routes.senders.redis_stream import RedisStreamSender
from tests.routes.servers.intakes import environment


@pytest_asyncio.fixture
async def client(valkey):
    """A client of the tests' own."""
    async with Redis.from_url(valkey.url) as client:
        yield client


@pytest_asyncio.fixture
async def opened(valkey, name):
    """Open senders, which are closed at the end."""
    senders = []

    def open_sender(**settings):
        part = RedisStreamSender(**{"url": valkey.url, "stream": name} | settings)
        senders.append(part.open(environment()))
        return senders[-1]

    yield open_sender
    for sender in senders:
        await sender.close()


async def test_an_event_becomes_an_entry(opened, client, name):
    headers = {"tenant": "nörd", "attempt": 3, "is-test": True, "nothing": None}
    message = Message(b"\x00\xff", content_type="x/y", correlation_id="c-1", headers=headers)
    assert await opened().send(message, "event:route") == Delivered()
    [(_, fields)] = await client.xrange(name)
    assert fields == {
        b"body": b"\x00\xff",
        b"idempotency-key": b"event:route",
        b"content-type": b"x/y",
        b"correlation-id": b"c-1",
        b"tenant": "nörd".encode(),
        b"attempt": b"3",
        b"is-test": b"true",
        b"nothing": b"null",
    }


async def test_headers_do_not_replace_the_body_or_the_key(opened, client, name):
    message = Message(b"hello", headers={"data": "a header", "idempotency-key": "forged"})
    assert await opened(body_field="data").send(message, "key") == Delivered()
    [(_, fields)] = await client.xrange(name)
    assert fields == {b"data": b"hello", b"idempotency-key": b"key"}


async def test_a_stream_may_be_kept_short(opened, client, name):
    sender = opened(maxlen=1)
    for number in range(300):
        assert await sender.send(Message(str(number).encode()), str(number)) == Delivered()
    assert await client.xlen(name) < 300


async def test_a_key_that_is_no_stream_rejects_the_event(opened, client, name):
    await client.set(name, "a text")
    outcome = await opened().send(Message(b"x"), "key")
    assert isinstance(outcome, Rejected)
    assert "WRONGTYPE" in outcome.reason


async def test_a_server_without_memory_is_down(opened, client):
    await client.config_set("maxmemory", "1")
    try:
        assert isinstance(await opened().send(Message(b"x"), "key"), DestinationDown)
    finally:
        await client.config_set("maxmemory", "0")


async def test_a_replica_is_down(opened, client):
    await client.replicaof("127.0.0.1", "1")
    try:
        assert isinstance(await opened().send(Message(b"x"), "key"), DestinationDown)
    finally:
        await client.replicaof("NO", "ONE")


@pytest.mark.parametrize(
    "error",
    [
        exceptions.BusyLoadingError("loading"),
        exceptions.ResponseError("BUSY Valkey is busy running a script"),
        exceptions.ResponseError("MISCONF Errors writing to the AOF file"),
        exceptions.NoPermissionError("this user has no permissions"),
        exceptions.AuthenticationError("invalid username-password pair or user is disabled"),
        exceptions.TimeoutError("Timeout reading from host:6379"),
        OSError("gone"),
    ],
)
async def test_what_is_not_the_fault_of_the_event_is_an_outage(opened, error, monkeypatch):
    sender = opened()

    async def fail(*_, **__):
        raise error

    monkeypatch.setattr(sender._client, "xadd", fail)
    assert isinstance(await sender.send(Message(b"x"), "key"), DestinationDown)


async def test_a_user_without_the_right_to_write_is_an_outage_without_its_password(opened, client, valkey):
    await client.execute_command("ACL", "SETUSER", "reader", "on", ">s3cret", "~*", "+ping")
    url = valkey.url.replace("redis://", "redis://reader:s3cret@")
    outcome = await opened(url=url).send(Message(b"x"), "key")
    assert isinstance(outcome, DestinationDown)
    outcome = await opened(url=url.replace("s3cret", "wr0ng")).send(Message(b"x"), "key")
    assert isinstance(outcome, DestinationDown)
    assert "wr0ng" not in outcome.reason


async def test_a_server_that_is_killed_is_down_and_then_has_everything_it_confirmed(opened, client, valkey, name):
    sender = opened()
    assert await sender.send(Message(b"before"), "1") == Delivered()
    valkey.kill()
    assert isinstance(await sender.send(Message(b"lost"), "2"), DestinationDown)
    valkey.start()
    assert await sender.send(Message(b"after"), "3") == Delivered()
    assert [fields[b"body"] for _, fields in await client.xrange(name)] == [b"before", b"after"]


async def test_a_server_that_does_not_answer_is_down(opened, valkey):
    sender = opened(timeout=0.1)
    valkey.freeze()
    try:
        assert isinstance(await sender.send(Message(b"x"), "1"), DestinationDown)
    finally:
        valkey.thaw()


def test_a_sender_names_its_server_and_stream_and_hides_its_password():
    part = RedisStreamSender(url="redis://user:s3cret@host/1", stream="orders")
    assert part.destination == "host:6379/1/orders"
    assert "s3cret" not in f"{part} {part!r}"
    assert RedisStreamSender.from_table(part.to_table()) == part


def test_a_url_that_is_none_is_refused_without_showing_it():
    with pytest.raises(InvalidSetting, match="url") as refused:
        RedisStreamSender(url="redis://user:s3/cret@host", stream="orders")
    assert "cret" not in str(refused.value)


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "redis.asyncio", None)
    with pytest.raises(MissingExtra, match=r"redrive\[redis\]"):
        RedisStreamSender(url="redis://host", stream="orders").open(environment())
