# SPDX-License-Identifier: MIT
"""Receiving messages by their numbers, out of turn, as a person chooses one of many dead letters."""

import asyncio

import pytest

from redrive.broker.port import Abandon, Complete, DeadLetter, Defer, State
from redrive.clock import utc
from redrive.errors import LockLost, MessageNotFound, QueueNotFound, SessionRequired
from redrive.testing.conformance.fixtures import EngineFixtures, FullEngine, has_sessions, needs
from redrive.testing.conformance.verbs import (
    DEAD,
    LOCK_S,
    ORDERS,
    bodies,
    declare,
    lock,
    lock_of,
    lock_one,
    refused,
    send,
    send_one,
)
from redrive.testing.manual_clock import ManualClock


async def buried(engine: FullEngine, *texts: bytes) -> list[int]:
    """Send messages, and dead-letter them; return their numbers."""
    await declare(engine)
    await send(engine, *texts)
    held = [await lock_one(engine) for _ in texts]
    await engine.apply([DeadLetter(lock_of(one), "odd") for one in held])
    return [one.sequence for one in await engine.peek(DEAD, 100)]


class ChoosingBehaviours(EngineFixtures):
    """What an engine promises about messages that are received by their numbers."""

    async def test_a_dead_letter_is_received_by_its_number(self, engine: FullEngine, clock: ManualClock) -> None:
        _, second, _ = await buried(engine, b"1", b"2", b"3")
        (found,) = await engine.lock_chosen(DEAD, [second])
        assert (found.body, found.state, found.queue, found.sequence) == (b"2", State.LOCKED, DEAD, second)
        assert found.locked_until == utc(clock.time() + LOCK_S)
        assert found.dead_letter_info is not None
        await engine.apply([Complete(lock_of(found))])
        assert await bodies(engine, DEAD) == [b"1", b"3"]

    async def test_chosen_messages_come_in_the_order_in_which_they_are_named(self, engine: FullEngine) -> None:
        first, _, third = await buried(engine, b"1", b"2", b"3")
        assert [one.body for one in await engine.lock_chosen(DEAD, [third, first])] == [b"3", b"1"]
        assert [one.body for one in await lock(engine, DEAD)] == [b"2"]

    async def test_all_chosen_messages_are_received_or_none(self, engine: FullEngine) -> None:
        first, second = await buried(engine, b"1", b"2")
        before = await engine.peek(DEAD, 100)
        for wanted in ([first, second + 1_000], [first, first], [0], [-1], [2**70]):
            with pytest.raises(MessageNotFound):
                await engine.lock_chosen(DEAD, wanted)
        assert await engine.lock_chosen(DEAD, []) == []
        assert await engine.peek(DEAD, 100) == before

    async def test_a_chosen_message_is_not_to_be_had_twice(self, engine: FullEngine, clock: ManualClock) -> None:
        (number,) = await buried(engine, b"1")
        (lost,) = await engine.lock_chosen(DEAD, [number])
        assert await lock(engine, DEAD) == []
        with pytest.raises(MessageNotFound):
            await engine.lock_chosen(DEAD, [number])
        clock.advance(LOCK_S)
        (again,) = await engine.lock_chosen(DEAD, [number])
        await refused(engine, Complete(lock_of(lost)), error=LockLost)
        await engine.apply([Abandon(lock_of(again), uncount=True)])
        assert (await lock_one(engine, DEAD)).body == b"1"

    async def test_a_message_is_chosen_in_its_own_queue_and_while_it_is_ready(self, engine: FullEngine) -> None:
        (number,) = await buried(engine, b"1")
        with pytest.raises(MessageNotFound):
            await engine.lock_chosen(ORDERS, [number])
        with pytest.raises(QueueNotFound):
            await engine.lock_chosen("nowhere", [number])
        await engine.apply([Defer(lock_of(await lock_one(engine, DEAD)))])
        with pytest.raises(MessageNotFound):
            await engine.lock_chosen(DEAD, [number])

    async def test_of_two_processes_that_choose_the_same_messages_one_has_all_of_them(
        self, engine: FullEngine, other: FullEngine
    ) -> None:
        numbers = await buried(engine, b"1", b"2", b"3")

        async def chosen(which: FullEngine, wanted: list[int]) -> int:
            try:
                return len(await which.lock_chosen(DEAD, wanted))
            except MessageNotFound:
                return 0

        wishes = [chosen(which, wanted) for which in (engine, other) for wanted in (numbers, numbers[::-1]) * 3]
        assert sorted(await asyncio.gather(*wishes)) == [0] * 11 + [3]
        assert await lock(other, DEAD) == []

    async def test_chosen_messages_of_a_process_that_died_are_there_again_when_their_locks_end(
        self, engine: FullEngine, other: FullEngine, clock: ManualClock
    ) -> None:
        numbers = await buried(engine, b"1", b"2")
        await engine.lock_chosen(DEAD, numbers)
        clock.advance(LOCK_S)
        assert [one.body for one in await other.lock_chosen(DEAD, numbers)] == [b"1", b"2"]

    async def test_a_message_in_a_session_is_not_chosen_out_of_turn(self, engine: FullEngine) -> None:
        needs(has_sessions(engine), "it has no sessions")
        await declare(engine, requires_session=True)
        number = await send_one(engine, b"1", session_id="a")
        with pytest.raises(SessionRequired):
            await engine.lock_chosen(ORDERS, [number])
