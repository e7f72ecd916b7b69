# SPDX-License-Identifier: MIT
"""The webhook sender, against real servers."""

import asyncio
import base64
import hashlib
import hmac
import sys
import tracemalloc
from types import SimpleNamespace

import pytest

from redrive.broker import Message
from redrive.clock import system_clock
from redrive.errors import InvalidSetting, MissingExtra
from redrive.routes.outcomes import Delivered, DestinationDown, Rejected, Throttled, TryLater
from redrive.routes.senders.webhook import WebhookSender
from redrive.testing import ManualClock
from tests.http.site import answer_bytes, until

EVENT = Message(b'{"order": 7}', id="o-7", content_type="application/json")
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # noqa: S105 - the example of Standard Webhooks


class NotingClock(ManualClock):
    """A clock that notes the time limits it was asked for."""

    def __init__(self):
        super().__init__()
        self.limits = []

    def timeout(self, seconds):
        self.limits.append(seconds)
        return super().timeout(seconds)


@pytest.fixture
async def opened():
    """Return a function that opens senders; they are closed at the end."""
    open_ones = []

    def open_one(url, clock=system_clock, **settings):
        sender = WebhookSender(url=url, **settings).open(SimpleNamespace(clock=clock))
        open_ones.append(sender)
        return sender

    yield open_one
    for each in open_ones:
        await each.close()


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (200, Delivered()),
        (204, Delivered()),
        (302, Rejected("the destination answered 302: it said so")),
        (404, Rejected("the destination answered 404: it said so")),
        (408, TryLater("the destination answered 408: it said so", 9.0)),
        (429, Throttled("the destination answered 429: it said so", 9.0)),
        (500, TryLater("the destination answered 500: it said so", 9.0)),
        (503, DestinationDown("the destination answered 503: it said so", 9.0)),
        (599, TryLater("the destination answered 599: it said so", 9.0)),
    ],
)
async def test_the_status_decides(destination, opened, status, outcome):
    destination.reply = answer_bytes(status, b"" if status == 204 else b"it\r\nsaid\x20so\n", retry_after="9")
    assert await opened(destination.url).send(EVENT, "o-7:billing") == outcome


async def test_a_route_may_see_a_status_otherwise(destination, opened):
    destination.reply = answer_bytes(409)
    assert await opened(destination.url, statuses={409: "delivered"}).send(EVENT, "k") == Delivered()
    assert type(await opened(destination.url, statuses={"409": "down"}).send(EVENT, "k")) is DestinationDown


async def test_what_is_sent(destination, opened):
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    headers = {
        "traceparent": trace,
        "tracestate": "a=1",
        "tenant": "acme",
        "urgent": True,
        "own": "secret",
        "gone": None,
    }
    sender = opened(
        destination.url, method="PUT", headers={"X-Api": "yes"}, pass_headers=["Tenant", "urgent", "gone", "absent"]
    )
    await sender.send(Message(b"\0\xff", id="o-7", content_type="image/x", headers=headers), "o-7:billing")
    [(got, body)] = destination.requests
    assert body == b"\0\xff"
    assert got == {
        ":line": "PUT /hook HTTP/1.1",
        "host": f"127.0.0.1:{destination.port}",
        "accept": "*/*",
        "accept-encoding": "identity",
        "connection": "keep-alive",
        "user-agent": "redrive",
        "content-length": "2",
        "content-type": "image/x",
        "idempotency-key": "o-7:billing",
        "traceparent": trace,
        "tracestate": "a=1",
        "tenant": "acme",
        "urgent": "true",
        "x-api": "yes",
    }


async def test_an_event_without_a_type_is_bytes(destination, opened):
    await opened(destination.url).send(Message(b"x", id="1"), "k")
    assert destination.requests[0][0]["content-type"] == "application/octet-stream"


async def test_the_key_of_a_delivery_stays_the_same(destination, opened):
    destination.reply = answer_bytes(500)
    first, second = opened(destination.url), opened(destination.url)
    odd = "bestellung-ü\n7:billing"
    for sender, key in [(first, "o-7:a"), (first, "o-7:a"), (second, "o-7:a"), (first, odd), (second, odd)]:
        await sender.send(EVENT, key)
    keys = [headers["idempotency-key"] for headers, _ in destination.requests]
    assert keys[:3] == ["o-7:a"] * 3
    assert keys[3] == keys[4] == hashlib.sha256(odd.encode()).hexdigest()


@pytest.mark.parametrize("source", ["literal", "environment"])
async def test_the_signature_is_that_of_standard_webhooks(destination, opened, monkeypatch, source):
    clock = ManualClock(start=1_614_265_330.0)
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    sender = opened(destination.url, clock, secret=SECRET if source == "literal" else "env:HOOK_SECRET")
    await sender.send(Message(b'{"test": 2432232314}', id="x"), "msg_p5jXN8AQM9LWM0D4loKWxJek")
    headers = destination.requests[0][0]
    assert headers["webhook-id"] == "msg_p5jXN8AQM9LWM0D4loKWxJek"
    assert headers["webhook-timestamp"] == "1614265330"
    signed = b'msg_p5jXN8AQM9LWM0D4loKWxJek.1614265330.{"test": 2432232314}'
    key = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    assert headers["webhook-signature"] == "v1," + base64.b64encode(hmac.new(key, signed, "sha256").digest()).decode()
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="  # as published


async def test_without_a_secret_nothing_is_signed(destination, opened):
    await opened(destination.url).send(EVENT, "k")
    assert not [name for name in destination.requests[0][0] if name.startswith("webhook-")]


# --- trouble


async def test_nothing_listens(destination, opened):
    await destination.stop()
    outcome = await opened(destination.url).send(EVENT, "k")
    assert type(outcome) is DestinationDown
    assert f"127.0.0.1:{destination.port}" in outcome.reason


async def test_no_such_host(opened):
    assert type(await opened("http://no-such-host.invalid/").send(EVENT, "k")) is DestinationDown


async def test_no_tls_there(destination, opened):
    destination.greeting = b"HTTP/1.1 400 Bad Request\r\n\r\n"
    assert type(await opened(f"https://127.0.0.1:{destination.port}/").send(EVENT, "k")) is DestinationDown


async def test_reset_before_the_answer(destination, opened):
    async def reset(writer):
        writer.transport.abort()

    destination.reply = reset
    assert type(await opened(destination.url).send(EVENT, "k")) is DestinationDown


async def test_closed_in_the_middle_of_the_head(destination, opened):
    async def cut(writer):
        writer.write(b"HTTP/1.1 200 O")

    destination.reply = cut
    assert type(await opened(destination.url).send(EVENT, "k")) is DestinationDown


async def test_an_answer_that_is_no_http(destination, opened):
    async def garble(writer):
        writer.write(b"\x16\x03\x01 hello there\r\n\r\n")

    destination.reply = garble
    assert type(await opened(destination.url).send(EVENT, "k")) is DestinationDown


@pytest.mark.parametrize(("status", "kind"), [(200, Delivered), (500, TryLater)])
async def test_reset_in_the_middle_of_the_body_leaves_the_status(destination, opened, status, kind):
    async def cut(writer):
        writer.write(answer_bytes(status, b"abc", content_length="1000"))
        await writer.drain()
        writer.transport.abort()

    destination.reply = cut
    assert type(await opened(destination.url).send(EVENT, "k")) is kind


async def test_a_slow_answer_is_tried_later(destination, opened):
    clock = ManualClock()
    done = asyncio.Event()

    async def hang(_):
        await done.wait()

    destination.reply = hang
    sending = asyncio.create_task(opened(destination.url, clock, timeout=20).send(EVENT, "k"))
    await until(lambda: destination.requests)
    clock.advance(20)
    outcome = await sending
    done.set()
    assert type(outcome) is TryLater
    assert "20 s" in outcome.reason


async def test_a_slow_answer_by_the_real_clock(destination, opened):
    done = asyncio.Event()

    async def hang(_):
        await done.wait()

    destination.reply = hang
    assert type(await opened(destination.url, timeout=1).send(EVENT, "k")) is TryLater  # to connect may take a moment
    done.set()


async def test_a_body_that_does_not_end_leaves_the_status(destination, opened):
    clock = NotingClock()
    done = asyncio.Event()

    async def drip(writer):
        writer.write(answer_bytes(410, b"gone for", content_length="1000"))
        await done.wait()

    destination.reply = drip
    sending = asyncio.create_task(opened(destination.url, clock, timeout=60).send(EVENT, "k"))
    await until(lambda: clock.limits == [60, 5])
    clock.advance(5)
    outcome = await sending
    done.set()
    assert type(outcome) is Rejected


async def test_a_huge_answer_is_not_read(destination, opened):
    async def flood(writer):
        writer.write(answer_bytes(500, b"", content_length=str(1 << 40)))
        while not writer.transport.is_closing():
            writer.write(b"x" * 65_536)
            await writer.drain()

    destination.reply = flood
    sender = opened(destination.url)
    await sender.send(EVENT, "k")
    tracemalloc.start()
    try:
        outcome = await sender.send(EVENT, "k")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert outcome == TryLater("the destination answered 500: " + "x" * 199 + "…")
    assert peak < 4_000_000


async def test_a_compressed_bomb_is_not_unpacked(destination, opened):
    destination.reply = answer_bytes(500, b"\x1f\x8b\x08\0not really", content_encoding="gzip")
    assert await opened(destination.url).send(EVENT, "k") == TryLater("the destination answered 500")


async def test_what_the_destination_says_cannot_forge_a_line(destination, opened):
    destination.reply = answer_bytes(400, "no\r\nERROR all is lost \x1b[31m\u202e".encode())
    outcome = await opened(destination.url).send(EVENT, "k")
    assert outcome.reason == "the destination answered 400: no ERROR all is lost \\x1b[31m\\u202e"


async def test_a_redirect_is_not_followed(destination, opened):
    destination.reply = answer_bytes(307, location=destination.url)
    assert type(await opened(destination.url).send(EVENT, "k")) is Rejected
    assert len(destination.requests) == 1


async def test_no_event_changes_what_the_next_one_sends(destination, opened):
    destination.reply = answer_bytes(200, set_cookie="session=1; Path=/")
    sender = opened(destination.url)
    for _ in range(2):
        await sender.send(EVENT, "k")
    assert "cookie" not in destination.requests[1][0]


async def test_connections_are_used_again_and_closed(destination, opened):
    sender = opened(destination.url)
    for _ in range(5):
        assert await sender.send(EVENT, "k") == Delivered()
    assert destination.connections == 1
    await sender.close()
    await sender.close()


@pytest.mark.parametrize("odd", [{"content_type": "a\r\nx-evil: 1"}, {"headers": {"tenant": "a\r\nx-evil: 1"}}])
async def test_an_event_that_no_request_can_carry_is_rejected(destination, opened, odd):
    sender = opened(destination.url, pass_headers=["tenant"])
    assert type(await sender.send(Message(b"x", id="1", **odd), "k")) is Rejected
    assert not destination.requests


async def test_letters_beyond_ascii_in_a_header_arrive(destination, opened):
    sender = opened(destination.url, pass_headers=["tenant"])
    assert await sender.send(Message(b"x", id="1", headers={"tenant": "Zoë ✓"}), "k") == Delivered()
    assert destination.requests[0][0]["tenant"].encode("latin-1").decode() == "Zoë ✓"


# --- settings


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("https://Example.org/a?b=c", "https://example.org:443"),
        ("http://example.org", "http://example.org:80"),
        ("http://example.org:8080/", "http://example.org:8080"),
        ("http://[::1]:9/", "http://[::1]:9"),
    ],
)
def test_the_destination_is_scheme_host_and_port(url, place):
    assert WebhookSender(url=url).destination == place


@pytest.mark.parametrize(
    "wrong",
    [
        {"url": "ftp://example.org"},
        {"url": "example.org/hook"},
        {"url": "https:///hook"},
        {"url": "https://example.org:99999/"},
        {"url": "https://example.org/a b"},
        {"url": "https://example.org/#top"},
        {"url": "https://[::1/"},
        {"method": "GET"},
        {"headers": {"a b": "c"}},
        {"headers": {"a": "c\nd"}},
        {"headers": {"Content-Length": "1"}},
        {"pass_headers": ["webhook-signature"]},
        {"timeout": 0},
        {"secret": "hunter2"},
        {"secret": "whsec_c2hvcnQ="},
        {"secret": "whsec_!!!"},
        {"statuses": {"404": "fine"}},
        {"statuses": {"4xx": "down"}},
        {"statuses": {4: "down"}},
        {"verify_tls": "no"},
    ],
)
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(InvalidSetting):
        WebhookSender(**{"url": "https://example.org/"} | wrong)


def test_no_secret_is_shown():
    sender = WebhookSender(
        url="https://example.org/", secret=SECRET, headers={"Authorization": "Bearer abc", "X-Key": "env:KEY"}
    )
    for shown in (str(sender), repr(sender), f"{[sender]}"):
        assert SECRET[6:] not in shown
        assert "Bearer" not in shown
        assert "env:KEY" in shown
    assert WebhookSender.from_table(sender.to_table()) == sender  # it is what files write
    with pytest.raises(InvalidSetting) as raised:
        WebhookSender(url="https://example.org/", secret="whsec_hunter2")  # noqa: S106 - wrong on purpose
    assert "hunter2" not in str(raised.value)
    with pytest.raises(InvalidSetting) as raised:
        WebhookSender(url="https://me:hunter2@example.org/")
    assert "hunter2" not in str(raised.value)


def test_as_files_write_it():
    table = {
        "kind": "webhook",
        "url": "https://example.org/",
        "timeout": 5.0,
        "secret": "env:HOOK",
        "statuses": {"404": "delivered"},
        "pass_headers": ["tenant"],
    }
    assert WebhookSender.from_table(table | {"timeout": "5s"}).to_table() == table


@pytest.mark.parametrize("settings", [{"secret": "env:NOT_THERE"}, {"headers": {"authorization": "env:NOT_THERE"}}])
def test_a_missing_variable_is_named_when_a_route_starts(opened, monkeypatch, settings):
    monkeypatch.delenv("NOT_THERE", raising=False)
    with pytest.raises(InvalidSetting, match="environment variable 'NOT_THERE'"):
        opened("https://example.org/", **settings)


def test_a_variable_that_no_header_can_have_is_named_without_its_value(opened, monkeypatch):
    monkeypatch.setenv("TOKEN", "hunter2\nx")
    with pytest.raises(InvalidSetting, match="environment variable 'TOKEN'") as raised:
        opened("https://example.org/", headers={"authorization": "env:TOKEN"})
    assert "hunter2" not in str(raised.value)


async def test_a_header_may_come_from_the_environment(destination, opened, monkeypatch):
    monkeypatch.setenv("TOKEN", "Bearer abc\n")
    await opened(destination.url, headers={"Authorization": "env:TOKEN"}).send(EVENT, "k")
    assert destination.requests[0][0]["authorization"] == "Bearer abc"


def test_without_httpx_the_extra_is_named(opened, monkeypatch):
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(MissingExtra, match=r"redrive\[routes\]"):
        opened("https://example.org/")
