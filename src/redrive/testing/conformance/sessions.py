# SPDX-License-Identifier: MIT
"""Sessions: ordered groups that one consumer holds at a time, with a state."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio

from redrive.broker import Abandon, Complete, DeadLetter, Send, SessionLock, SetSessionState, State
from redrive.clock import utc
from redrive.errors import LockLost, QueueNotFound, SessionLost, SessionRequired
from redrive.testing.conformance.fixtures import EngineFixtures, FullEngine, has_sessions, needs
from redrive.testing.conformance.verbs import (
    BILLING,
    DEAD,
    LOCK_S,
    ORDERS,
    accept,
    bodies,
    declare,
    keep_up,
    lock,
    lock_of,
    message,
    refused,
    send,
)
from redrive.testing.manual_clock import ManualClock


async def receive(engine: FullEngine, session: SessionLock, limit: int = 100) -> list[bytes]:
    """Receive from a session; return the bodies."""
    return [found.body for found in await engine.lock_in_session(session, limit)]


class SessionBehaviours(EngineFixtures):
    """What sessions promise."""

    @pytest_asyncio.fixture
    async def sessions(self, engine: FullEngine) -> AsyncIterator[FullEngine]:
        """An engine with a queue that has sessions."""
        needs(has_sessions(engine), "it has no sessions")
        await declare(engine, requires_session=True)
        yield engine

    async def test_a_session_gives_its_own_messages_in_order(self, sessions: FullEngine) -> None:
        for body in (b"a1", b"b1", b"a2", b"b2", b"a3"):
            await send(sessions, body, session_id=body[:1].decode())
        session = await accept(sessions, "a")
        assert await receive(sessions, session, 2) == [b"a1", b"a2"]
        assert await receive(sessions, session, 2) == [b"a3"]
        assert await receive(sessions, session, 2) == []

    async def test_a_session_given_back_with_a_delay_is_held_up_until_then(
        self, sessions: FullEngine, clock: ManualClock
    ) -> None:
        for body in (b"a1", b"a2", b"b1"):
            await send(sessions, body, session_id=body[:1].decode())
        session = await accept(sessions, "a")
        assert await receive(sessions, session, 1) == [b"a1"]
        await sessions.apply([SetSessionState(session, b"state")])
        await sessions.release_session(session, 3 * LOCK_S)
        with pytest.raises(SessionLost):
            await sessions.renew_session(session)
        clock.advance(3 * LOCK_S - 0.001)
        assert await sessions.lock_session(ORDERS, "a") is None
        other = await sessions.lock_session(ORDERS, None)
        assert other is not None
        assert other.session_id == "b"
        clock.advance(0.001)
        again = await sessions.lock_session(ORDERS, None)
        assert again is not None
        assert (again.session_id, again.state) == ("a", b"state")
        assert await receive(sessions, again) == [b"a1", b"a2"]

    async def test_a_session_is_one_consumers_at_a_time(self, sessions: FullEngine, clock: ManualClock) -> None:
        await send(sessions, b"a", session_id="a")
        held = await accept(sessions, "a")
        assert held.locked_until == utc(clock.time() + LOCK_S)
        clock.advance(LOCK_S - 0.001)
        assert await sessions.lock_session(ORDERS, "a") is None
        assert await sessions.lock_session(ORDERS, None) is None

    async def test_any_session_is_the_one_that_waited_longest(self, sessions: FullEngine) -> None:
        for body in (b"b", b"a", b"c", b"b"):
            await send(sessions, body, session_id=body.decode())
        assert [(await accept(sessions)).session_id for _ in range(3)] == ["b", "a", "c"]
        assert await sessions.lock_session(ORDERS, None) is None

    async def test_any_session_is_one_that_has_something_ready(self, sessions: FullEngine, clock: ManualClock) -> None:
        await sessions.apply([Send(ORDERS, message(b"later", session_id="later"), utc(clock.time() + 30))])
        await send(sessions, b"expired", session_id="expired", ttl=10)
        clock.advance(10)
        assert await sessions.lock_session(ORDERS, None) is None
        clock.advance(20)
        assert (await accept(sessions)).session_id == "later"

    async def test_a_session_without_messages_can_be_accepted_by_name(self, sessions: FullEngine) -> None:
        session = await accept(sessions, "new")
        assert await receive(sessions, session) == []
        await send(sessions, b"first", session_id="new")
        assert await receive(sessions, session) == [b"first"]

    async def test_a_released_session_is_free_with_what_was_not_settled(self, sessions: FullEngine) -> None:
        await send(sessions, b"done", b"open", b"next", session_id="a")
        session = await accept(sessions, "a")
        done, _ = await sessions.lock_in_session(session, 2)
        await sessions.apply([Complete(lock_of(done))])
        await sessions.release_session(session)
        again = await accept(sessions)
        found = await sessions.lock_in_session(again, 10)
        assert [(each.body, each.delivery_count) for each in found] == [(b"open", 2), (b"next", 1)]

    async def test_an_ended_session_lock_frees_the_session_and_its_messages(
        self, sessions: FullEngine, clock: ManualClock
    ) -> None:
        await send(sessions, b"1", b"2", session_id="a")
        lost = await accept(sessions, "a")
        await sessions.lock_in_session(lost, 1)
        clock.advance(LOCK_S)
        again = await accept(sessions)
        assert await receive(sessions, again) == [b"1", b"2"]

    async def test_a_new_holder_gets_what_the_last_one_received_late(
        self, sessions: FullEngine, clock: ManualClock
    ) -> None:
        await send(sessions, b"1", b"2", session_id="a")
        lost = await accept(sessions, "a")
        clock.advance(LOCK_S - 10)
        (late,) = await sessions.lock_in_session(lost, 1)
        clock.advance(10)
        again = await accept(sessions, "a")
        assert await receive(sessions, again) == [b"1", b"2"], "in order, though the first was locked a moment ago"
        await refused(sessions, Complete(lock_of(late)), error=LockLost)

    async def test_a_message_renewed_by_hand_does_not_outlive_its_session(
        self, sessions: FullEngine, clock: ManualClock
    ) -> None:
        await send(sessions, b"1", b"2", session_id="a")
        session = await accept(sessions, "a")
        (held,) = await sessions.lock_in_session(session, 1)
        clock.advance(LOCK_S - 10)
        await sessions.renew([lock_of(held)])
        clock.advance(10)
        again = await accept(sessions, "a")
        assert await receive(sessions, again) == [b"1", b"2"]
        await refused(sessions, Complete(lock_of(held)), error=LockLost)

    async def test_a_message_is_not_settled_after_its_session_ended(
        self, sessions: FullEngine, clock: ManualClock
    ) -> None:
        await send(sessions, b"1", session_id="a")
        session = await accept(sessions, "a")
        clock.advance(LOCK_S - 10)
        (held,) = await sessions.lock_in_session(session, 1)
        assert held.locked_until == session.locked_until
        clock.advance(10)
        await refused(sessions, Complete(lock_of(held)), error=LockLost)

    async def test_renewing_a_session_renews_the_messages_received_from_it(
        self, sessions: FullEngine, clock: ManualClock
    ) -> None:
        await send(sessions, b"1", b"2", session_id="a")
        session = await accept(sessions, "a")
        (held,) = await sessions.lock_in_session(session, 1)
        clock.advance(40)
        renewed = await sessions.renew_session(session)
        assert renewed == replace(session, locked_until=utc(clock.time() + LOCK_S))
        clock.advance(40)
        assert await sessions.lock_session(ORDERS, "a") is None
        await sessions.apply([Complete(lock_of(held))])
        assert await receive(sessions, renewed) == [b"2"]

    async def test_a_session_lock_that_ended_is_worth_nothing(self, sessions: FullEngine, clock: ManualClock) -> None:
        await send(sessions, b"1", session_id="a")
        lost = await accept(sessions, "a")
        clock.advance(LOCK_S)
        with pytest.raises(SessionLost) as caught:
            await sessions.lock_in_session(lost, 1)
        assert (caught.value.queue, caught.value.session_id) == (ORDERS, "a")
        with pytest.raises(SessionLost):
            await sessions.renew_session(lost)
        with pytest.raises(SessionLost):
            await sessions.release_session(lost)
        await refused(sessions, SetSessionState(lost, b"x"), error=SessionLost)

    async def test_a_session_that_was_released_or_taken_over_is_worth_nothing(
        self, sessions: FullEngine, clock: ManualClock
    ) -> None:
        await send(sessions, b"1", session_id="a")
        released = await accept(sessions, "a")
        await sessions.release_session(released)
        with pytest.raises(SessionLost):
            await sessions.release_session(released)
        taken_over = await accept(sessions, "a")
        clock.advance(LOCK_S)
        held = await accept(sessions, "a")
        for old in (
            released,
            taken_over,
            replace(held, session_id="b"),
            replace(held, token=0),
            replace(held, token=b"receipt"),
        ):
            with pytest.raises(SessionLost):
                await sessions.lock_in_session(old, 1)
        assert await receive(sessions, held) == [b"1"]

    async def test_a_session_remembers_its_state(self, sessions: FullEngine) -> None:
        session = await accept(sessions, "a")
        assert session.state is None
        await sessions.apply([SetSessionState(session, b"\x00 step 1 \xff")])
        await sessions.release_session(session)
        again = await accept(sessions, "a")
        assert again.state == b"\x00 step 1 \xff"
        await sessions.apply([SetSessionState(again, None)])
        await sessions.release_session(again)
        assert (await accept(sessions, "a")).state is None

    async def test_a_session_remembers_its_state_when_its_lock_ends(
        self, sessions: FullEngine, clock: ManualClock
    ) -> None:
        await sessions.apply([SetSessionState(await accept(sessions, "a"), b"")])
        clock.advance(LOCK_S)
        await keep_up(sessions)
        assert (await accept(sessions, "a")).state == b""
        assert (await accept(sessions, "b")).state is None

    async def test_state_and_settlement_change_together(self, sessions: FullEngine) -> None:
        needs(sessions.capabilities.is_transactional, "apply is not all or nothing")
        await send(sessions, b"1", session_id="a")
        session = await accept(sessions, "a")
        (held,) = await sessions.lock_in_session(session, 1)
        with pytest.raises(QueueNotFound):
            await sessions.apply(
                [
                    SetSessionState(session, b"never"),
                    Complete(lock_of(held)),
                    Send("nowhere", message(b"x")),
                ]
            )
        await sessions.apply([SetSessionState(session, b"done"), Complete(lock_of(held))])
        await sessions.release_session(session)
        assert (await accept(sessions, "a")).state == b"done"

    async def test_a_queue_with_sessions_takes_no_message_without_one(self, sessions: FullEngine) -> None:
        await refused(sessions, Send(ORDERS, message(b"alone")), error=SessionRequired)

    async def test_a_queue_with_sessions_is_received_from_by_session_only(self, sessions: FullEngine) -> None:
        await send(sessions, b"1", session_id="a")
        with pytest.raises(SessionRequired):
            await lock(sessions)
        with pytest.raises(SessionRequired):
            await sessions.lock_next(ORDERS, 1, delete=True)

    async def test_a_queue_without_sessions_has_none_to_accept(self, sessions: FullEngine) -> None:
        await declare(sessions, BILLING)
        await send(sessions, b"1", queue=BILLING, session_id="a")
        with pytest.raises(SessionRequired):
            await sessions.lock_session(BILLING, "a")
        assert [found.body for found in await lock(sessions, BILLING)] == [b"1"], "there it is a field like any other"

    async def test_a_session_of_another_queue_receives_nothing_here(self, sessions: FullEngine) -> None:
        await declare(sessions, BILLING, requires_session=True)
        await send(sessions, b"bill", queue=BILLING, session_id="a")
        await send(sessions, b"order", session_id="a")
        session = await accept(sessions, "a")
        with pytest.raises(SessionLost):
            await sessions.lock_in_session(replace(session, queue=BILLING), 1)

    async def test_an_abandoned_message_comes_first_again_in_its_session(self, sessions: FullEngine) -> None:
        await send(sessions, b"1", b"2", session_id="a")
        session = await accept(sessions, "a")
        (first,) = await sessions.lock_in_session(session, 1)
        await sessions.apply([Abandon(lock_of(first))])
        assert await receive(sessions, session) == [b"1", b"2"]

    async def test_receive_and_delete_works_in_a_session(self, sessions: FullEngine) -> None:
        await send(sessions, b"1", b"2", session_id="a")
        session = await accept(sessions, "a")
        (taken,) = await sessions.lock_in_session(session, 1, delete=True)
        assert (taken.body, taken.lock) == (b"1", None)
        assert await bodies(sessions) == [b"2"]

    async def test_the_dead_letters_of_a_queue_with_sessions_need_none(self, sessions: FullEngine) -> None:
        await send(sessions, b"1", session_id="a")
        session = await accept(sessions, "a")
        (held,) = await sessions.lock_in_session(session, 1)
        await sessions.apply([DeadLetter(lock_of(held), "broken")])
        (dead,) = await lock(sessions, DEAD)
        assert (dead.body, dead.message.session_id, dead.state) == (b"1", "a", State.LOCKED)

    async def test_a_session_may_have_any_name(self, sessions: FullEngine) -> None:
        names = ["ü", "a b", "a'b", "%", "a\x01b", "名前", "\N{PILE OF POO}", "A", "a", "x" * 1_024]
        for name in names:
            await send(sessions, name.encode(), session_id=name)
        for name in names:
            session = await accept(sessions, name)
            assert (session.session_id, await receive(sessions, session)) == (name, [name.encode()])
