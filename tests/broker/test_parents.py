# SPDX-License-Identifier: MIT
"""What is sent while a message is handled names that message as its parent."""

import asyncio

import pytest

from redrive import connect
from redrive.broker import Message, Send
from redrive.broker.headers import DELAYED_RETRIES, PARENT
from redrive.testing import ManualClock
from redrive.worker import Recoverability, Worker


@pytest.fixture
async def broker():
    async with connect("sqlite:///:memory:", clock=ManualClock()) as opened:
        for queue in ("orders", "bills", "error"):
            await opened.declare(queue)
        yield opened


async def parents_in(broker, queue):
    return [each.headers.get(PARENT) for each in await broker.peek(queue)]


async def test_every_way_to_send_from_a_handler_names_the_parent(broker):
    worker = Worker()

    @worker.handler("orders")
    async def bill(_body: bytes, context) -> None:
        context.send("bills", b"with the completion")
        await context.broker.send("bills", b"at once")
        await context.broker.send_many("bills", [b"several"])
        await context.broker.schedule("bills", b"later", 60)
        await context.broker.apply(Send("bills", b"an effect"))
        await asyncio.create_task(context.broker.send("bills", b"from a task of its own"))

    await broker.send("orders", Message(b"", id="o-1"))
    await worker.run(broker, until_idle=True)
    assert await parents_in(broker, "bills") == ["o-1"] * 6


async def test_a_handler_in_a_thread_names_the_parent_too(broker):
    worker = Worker()

    @worker.handler("orders")
    def bill(_body: bytes, context) -> None:
        context.send("bills", b"")

    await broker.send("orders", Message(b"", id="o-1"))
    await worker.run(broker, until_idle=True)
    assert await parents_in(broker, "bills") == ["o-1"]


async def test_the_children_of_messages_that_are_handled_at_a_time_have_their_own_parents(broker):
    worker = Worker()

    @worker.handler("orders", concurrency=4)
    async def bill(body: bytes, context) -> None:
        await context.renew()
        await context.broker.send("bills", body)

    await broker.send_many("orders", [Message(str(n).encode(), id=f"o-{n}") for n in range(20)])
    await worker.run(broker, until_idle=True)
    found = await broker.peek("bills")
    assert len(found) == 20
    assert all(each.headers[PARENT] == f"o-{each.body.decode()}" for each in found)


async def test_a_message_that_is_passed_on_names_this_parent_and_not_the_one_before(broker):
    worker = Worker()

    @worker.handler("orders")
    async def on(message: Message, context) -> None:
        context.send("bills", Message(message.body, headers=message.headers))

    await broker.send("orders", Message(b"", id="o-2", headers={PARENT: "o-1", "tenant": "acme"}))
    await worker.run(broker, until_idle=True)
    (found,) = await broker.peek("bills")
    assert found.headers == {PARENT: "o-2", "tenant": "acme"}


async def test_the_copy_in_an_error_queue_is_no_child_of_itself(broker):
    worker = Worker()

    @worker.handler("orders", recoverability=Recoverability(immediate=0, delayed=None, error_queue="error"))
    async def fail(_body: bytes) -> None:
        raise ValueError

    await broker.send("orders", Message(b"", id="o-1", headers={PARENT: "o-0"}))
    await worker.run(broker, until_idle=True)
    assert await parents_in(broker, "error") == ["o-0"]


async def test_what_is_sent_with_a_delivery_names_its_parent(broker):
    await broker.send("orders", Message(b"", id="o-1"))
    (found,) = await broker.receive("orders")
    await found.complete(Send("bills", b""))
    assert await parents_in(broker, "bills") == ["o-1"]


async def test_a_message_sent_by_no_handler_has_no_parent(broker):
    await broker.send("orders", b"")
    (found,) = await broker.receive("orders")
    assert found.headers == {}
    assert DELAYED_RETRIES not in found.headers


async def test_a_parent_does_not_count_against_the_size_that_a_queue_takes(broker):
    await broker.declare("small", max_message_bytes=10)
    worker = Worker()

    @worker.handler("orders")
    async def fill(_body: bytes, context) -> None:
        context.send("small", b"x" * 10)

    await broker.send("orders", Message(b"", id="o" * 500))
    await worker.run(broker, until_idle=True)
    assert await parents_in(broker, "small") == ["o" * 500]


async def test_a_parent_does_not_change_what_is_a_duplicate(broker):
    await broker.declare("once", duplicate_detection=60)
    worker = Worker()

    @worker.handler("orders", concurrency=1)
    async def fill(_body: bytes, context) -> None:
        context.send("once", Message(b"", id="same"))

    await broker.send_many("orders", [b"1", b"2"])
    await worker.run(broker, until_idle=True)
    assert len(await broker.peek("once")) == 1
