# SPDX-License-Identifier: MIT
"""A session is one consumer's alone, in order, and remembers something."""

import asyncio

import pytest

from redrive.broker import Message
from redrive.clock import utc
from redrive.errors import InvalidSetting, SessionLost


@pytest.fixture
async def chat(broker):
    await broker.declare("chat", requires_session=True, lock_duration=60)
    for body in (b"a1", b"b1", b"a2"):
        await broker.send("chat", Message(body, session_id=body[:1].decode()))
    return broker


async def test_a_session_is_received_in_order(chat, clock):
    async with await chat.accept_session("chat") as session:
        assert (session.session_id, session.state, session.locked_until) == ("a", None, utc(clock.time() + 60))
        assert [delivery.body for delivery in await session.receive(max_messages=10)] == [b"a1", b"a2"]
        assert await session.receive() == []


async def test_a_session_is_given_back_at_the_end_of_the_block(chat):
    async with await chat.accept_session("chat", "a") as session:
        await session.receive()
        assert await chat.accept_session("chat", "a") is None
    again = await chat.accept_session("chat", "a")
    assert [delivery.body for delivery in await again.receive()] == [b"a1"]


async def test_a_session_remembers(chat):
    async with await chat.accept_session("chat", "a") as session:
        await session.remember(b"step 1")
        assert session.state == b"step 1"
    async with await chat.accept_session("chat", "a") as again:
        assert again.state == b"step 1"
        await again.remember(None)
        assert again.state is None
    assert (await chat.accept_session("chat", "a")).state is None


async def test_renewing_a_session_makes_it_yours_for_longer(chat, clock):
    session = await chat.accept_session("chat", "a")
    (delivery,) = await session.receive()
    clock.advance(50)
    assert await session.renew() == session.locked_until == utc(clock.time() + 60)
    clock.advance(50)
    await delivery.complete()


async def test_a_session_that_ended_says_so(chat, clock):
    session = await chat.accept_session("chat", "a")
    clock.advance(60)
    for call in (session.receive(), session.renew(), session.remember(b"x"), session.release()):
        with pytest.raises(SessionLost):
            await call


async def test_leaving_the_block_of_a_session_that_ended_hides_no_error_of_yours(chat, clock):
    async def fail():
        async with await chat.accept_session("chat", "a"):
            clock.advance(60)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()


async def test_a_session_waits_for_its_next_message(chat):
    session = await chat.accept_session("chat", "new")
    waiting = asyncio.create_task(session.receive(wait=3_600))
    await asyncio.wait({waiting}, timeout=0.01)
    await chat.send("chat", Message(b"new", session_id="new"))
    assert [delivery.body for delivery in await waiting] == [b"new"]


async def test_a_wait_for_a_session_ends_when_one_has_messages(broker):
    await broker.declare("chat", requires_session=True)
    waiting = asyncio.create_task(broker.accept_session("chat", wait=3_600))
    await asyncio.wait({waiting}, timeout=0.01)
    await broker.send("chat", Message(b"x", session_id="s"))
    assert (await waiting).session_id == "s"


@pytest.mark.parametrize("wrong", [0, -1, 10_001, 1.5, True, None])
async def test_a_wrong_number_of_messages_is_refused(chat, wrong):
    session = await chat.accept_session("chat", "a")
    with pytest.raises(InvalidSetting, match="max_messages"):
        await session.receive(max_messages=wrong)


async def test_the_right_to_a_session_can_be_used_in_apply(chat):
    session = await chat.accept_session("chat", "a")
    assert (session.lock.session_id, session.lock.queue) == ("a", "chat")
