# SPDX-License-Identifier: MIT
"""Messages leave spans by the conventions for messaging, in one trace from sender to handler, through redeliveries."""

import sys
from itertools import pairwise

import pytest

from redrive import connect
from redrive.broker import Message, Send
from redrive.broker.headers import ATTEMPT_TRACE
from redrive.retry import Fixed
from redrive.testing import ManualClock
from redrive.worker import Recoverability, Worker
from tests.spans import collected, links_of, parent_of


@pytest.fixture
def spans(monkeypatch):
    with collected(monkeypatch) as found:
        yield found


@pytest.fixture
async def broker():
    async with connect("sqlite:///:memory:", clock=ManualClock()) as opened:
        for queue in ("orders", "bills", "error"):
            await opened.declare(queue)
        yield opened


async def test_a_send_is_a_producer_span_and_its_message_carries_the_trace(broker, spans):
    with spans.program() as program:
        await broker.send("orders", Message(b"abc", id="o-1", correlation_id="cart-1"))
    sent = spans.one("send orders")
    assert sent.kind.name == "PRODUCER"
    assert parent_of(sent) == program.get_span_context().span_id
    assert dict(sent.attributes) == {
        "messaging.system": "redrive",
        "messaging.operation.type": "send",
        "messaging.operation.name": "send",
        "messaging.destination.name": "orders",
        "messaging.message.body.size": 3,
        "messaging.message.id": "o-1",
        "messaging.message.conversation_id": "cart-1",
    }
    (found,) = await broker.receive("orders")
    _, trace, span, _ = found.headers["traceparent"].split("-")
    assert (int(trace, 16), int(span, 16)) == (sent.context.trace_id, sent.context.span_id)


async def test_messages_that_are_sent_together_are_one_span_that_counts_them(broker, spans):
    await broker.send_many("orders", [b"1", b"2"])
    await broker.apply(Send("orders", b"3"), Send("bills", b"4"))
    assert spans.one("send orders").attributes["messaging.batch.message_count"] == 2
    assert "messaging.destination.name" not in spans.one("send").attributes
    headers = [each.message.headers for each in await broker.peek("orders")]
    assert all("traceparent" in each for each in headers)


async def test_a_trace_that_a_message_has_already_is_kept_and_goes_on(broker, spans):
    own = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    await broker.send("orders", Message(b"", headers={"traceparent": own}))
    (found,) = await broker.peek("orders")
    assert found.headers == {"traceparent": own}
    assert format(spans.one("send orders").context.trace_id, "032x") == own.split("-")[1]


async def test_a_receive_and_a_settlement_are_linked_to_the_message(broker, spans):
    await broker.send("orders", b"1")
    (found,) = await broker.receive("orders")
    await found.complete(Send("bills", b"2"))
    sent = spans.one("send orders").context.span_id
    for name, operation in (("receive orders", "receive"), ("complete orders", "settle")):
        span = spans.one(name)
        assert (span.kind.name, links_of(span)) == ("CLIENT", {sent})
        assert span.attributes["messaging.operation.type"] == operation
    assert parent_of(spans.one("send bills")) == spans.one("complete orders").context.span_id


async def test_a_receive_that_finds_nothing_leaves_no_span(broker, spans):
    assert await broker.receive("orders") == []
    assert spans.all() == []


async def test_a_handler_is_part_of_the_trace_and_each_attempt_is_linked_to_the_one_before(broker, spans):
    worker, tries = Worker(), []
    policy = Recoverability(immediate=1, delayed=Fixed(5, max_attempts=2), error_queue="error")

    @worker.handler("orders", recoverability=policy, slow_down=None)
    async def ship(body: bytes) -> None:
        tries.append(body)
        raise ConnectionError("no answer")

    await broker.send("orders", b"1")
    for _ in range(2):
        await worker.run(broker, until_idle=True)
        broker.clock.advance(10)
    sent = spans.one("send orders")
    attempts = spans.named("process orders")
    assert len(attempts) == len(tries) == 4
    for each in attempts:
        assert (each.kind.name, parent_of(each)) == ("CONSUMER", sent.context.span_id)
        assert (each.status.status_code.name, each.attributes["error.type"]) == ("ERROR", "ConnectionError")
    for before, after in pairwise(attempts):
        assert links_of(after) == {before.context.span_id}
    assert [span.name for span in spans.all() if span.attributes.get("messaging.operation.type") == "settle"] == [
        "abandon orders",
        "abandon orders",
        "abandon orders",
        "complete orders",
    ]
    (dead,) = await broker.receive("error")
    assert int(dead.headers["traceparent"].split("-")[1], 16) == sent.context.trace_id
    assert int(dead.headers[ATTEMPT_TRACE].split("-")[2], 16) == attempts[-1].context.span_id


async def test_what_a_handler_sends_is_in_the_trace_of_its_message_also_from_a_thread(broker, spans):
    worker = Worker()

    @worker.handler("orders")
    def bill(body: bytes, context) -> None:
        context.send("bills", body)

    await broker.send("orders", b"1")
    await worker.run(broker, until_idle=True)
    (child,) = await broker.receive("bills")
    _, trace, span, _ = child.headers["traceparent"].split("-")
    assert int(trace, 16) == spans.one("send orders").context.trace_id
    assert int(span, 16) == spans.one("process orders").context.span_id
    assert ATTEMPT_TRACE not in child.headers


async def test_messages_that_are_completed_together_are_one_settlement(broker, spans):
    worker = Worker()

    @worker.handler("orders", concurrency=8)
    async def done(_body: bytes) -> None:
        pass

    await broker.send_many("orders", [b"1", b"2", b"3"])
    await worker.run(broker, until_idle=True)
    settled = spans.named("complete orders")
    assert sum(each.attributes.get("messaging.batch.message_count", 1) for each in settled) == 3
    assert parent_of(settled[0]) is None
    assert links_of(settled[0]) == {spans.one("send orders").context.span_id}


async def test_a_program_without_opentelemetry_sends_on_the_trace_that_came_with_a_message(broker, monkeypatch):
    monkeypatch.delitem(sys.modules, "opentelemetry.trace", raising=False)
    trace = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate": "a=1"}
    worker = Worker()

    @worker.handler("orders")
    async def bill(body: bytes, context) -> None:
        context.send("bills", body)

    await broker.send("orders", Message(b"1", headers=trace))
    await broker.send("orders", b"2")
    await worker.run(broker, until_idle=True)
    first, second = await broker.receive("bills", max_messages=2)
    assert {**first.headers, **trace} == first.headers
    assert "traceparent" not in second.headers
