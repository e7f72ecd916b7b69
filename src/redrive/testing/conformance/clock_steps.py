# SPDX-License-Identifier: MIT
"""A wall clock that is set: back or forward, by a person or a time server.

After a step back, a receiver waits for a lock at most one lock duration, counted from the next upkeep. Two receivers
never hold one message. Instants that a caller stated, such as when a message is due, do not change.
"""

import pytest

from redrive.broker import Complete, Defer, Send, SetSessionState, State
from redrive.clock import utc
from redrive.errors import LockLost, SessionLost
from redrive.testing.conformance.fixtures import (
    EngineFactory,
    EngineFixtures,
    FullEngine,
    full,
    goes_by_clock,
    has_sessions,
    needs,
)
from redrive.testing.conformance.verbs import (
    LOCK_S,
    ORDERS,
    accept,
    bodies,
    declare,
    deferred_one,
    inspect,
    keep_up,
    lock,
    lock_of,
    lock_one,
    message,
    send,
    send_one,
)
from redrive.testing.manual_clock import ManualClock

AN_HOUR = 3_600.0
steps_back = pytest.mark.parametrize("step", [-AN_HOUR, -10 * 365 * 86_400.0], ids=["an hour", "ten years"])


class ClockStepBehaviours(EngineFixtures):
    """What a step of the wall clock costs."""

    @steps_back
    async def test_a_lock_ends_one_duration_after_the_clock_was_set_back(
        self, engine: FullEngine, clock: ManualClock, step: float
    ) -> None:
        await declare(engine)
        await send(engine, b"held")
        held = await lock_one(engine)
        clock.jump(step)
        await keep_up(engine)
        clock.advance(LOCK_S - clock.moment)
        assert await lock(engine) == [], "no other receiver gets what is held"
        clock.advance(clock.moment)
        again = await lock_one(engine)
        assert (again.body, again.delivery_count) == (b"held", 2)
        with pytest.raises(LockLost):
            await engine.apply([Complete(lock_of(held))])

    @steps_back
    async def test_a_holder_keeps_its_lock_when_the_clock_is_set_back(
        self, engine: FullEngine, clock: ManualClock, step: float
    ) -> None:
        await declare(engine)
        await send(engine, b"held", b"renewed")
        held, renewed = await lock(engine)
        clock.advance(LOCK_S / 2)
        clock.jump(step)
        await keep_up(engine)
        clock.advance(LOCK_S / 2 - clock.moment)
        (until,) = await engine.renew([lock_of(renewed)])
        assert until == utc(clock.time() + LOCK_S)
        await engine.apply([Complete(lock_of(held))])
        clock.advance(LOCK_S - clock.moment)
        await engine.apply([Complete(lock_of(renewed))])
        assert await bodies(engine) == []

    @steps_back
    async def test_a_deferred_message_is_free_one_duration_after_the_clock_was_set_back(
        self, engine: FullEngine, clock: ManualClock, step: float
    ) -> None:
        await declare(engine)
        number = await send_one(engine, b"aside")
        await engine.apply([Defer(lock_of(await lock_one(engine)))])
        await deferred_one(engine, number)
        clock.jump(step)
        await keep_up(engine)
        clock.advance(LOCK_S)
        await keep_up(engine)
        assert (await deferred_one(engine, number)).body == b"aside"

    @steps_back
    async def test_a_session_is_free_one_duration_after_the_clock_was_set_back(
        self, engine: FullEngine, clock: ManualClock, step: float
    ) -> None:
        needs(has_sessions(engine), "it has no sessions")
        await declare(engine, requires_session=True)
        await send(engine, b"one", session_id="A")
        lost = await accept(engine, "A")
        await engine.lock_in_session(lost, 1)
        clock.jump(step)
        await keep_up(engine)
        clock.advance(LOCK_S - clock.moment)
        assert await engine.lock_session(ORDERS, "A") is None
        await engine.apply([SetSessionState(lost, b"still mine")])
        clock.advance(clock.moment)
        session = await accept(engine)
        assert session.state == b"still mine"
        assert [found.body for found in await engine.lock_in_session(session, 1)] == [b"one"]
        with pytest.raises(SessionLost):
            await engine.renew_session(lost)

    async def test_an_engine_opened_after_the_step_notices_it_too(
        self, engine: FullEngine, make_engine: EngineFactory, clock: ManualClock
    ) -> None:
        if not self.has_shared_store:
            pytest.skip("the store ends with the engine")
        await declare(engine)
        await send(engine, b"held")
        await lock_one(engine)
        await engine.close()
        clock.jump(-AN_HOUR)
        again = full(make_engine(clock))
        await again.open()
        try:
            await keep_up(again)
            clock.advance(LOCK_S)
            assert (await lock_one(again)).body == b"held"
        finally:
            await again.close()

    async def test_many_steps_back_cost_one_duration(self, engine: FullEngine, clock: ManualClock) -> None:
        await declare(engine)
        await send(engine, b"held")
        await lock_one(engine)
        for _ in range(20):
            clock.jump(-AN_HOUR)
            await keep_up(engine)
        clock.advance(LOCK_S)
        assert (await lock_one(engine)).body == b"held"

    async def test_a_scheduled_message_keeps_its_instant(self, engine: FullEngine, clock: ManualClock) -> None:
        needs(goes_by_clock(engine), "its store has a clock of its own")
        await declare(engine)
        at = utc(clock.time() + 60)
        await engine.apply([Send(ORDERS, message(b"at noon"), at)])
        clock.jump(-AN_HOUR)
        await keep_up(engine)
        (seen,) = await engine.peek(ORDERS, 1)
        assert (seen.state, seen.due_at) == (State.SCHEDULED, at)
        clock.advance(AN_HOUR + 59)
        assert await lock(engine) == []
        clock.advance(1)
        assert (await lock_one(engine)).body == b"at noon"

    async def test_a_step_forward_ends_locks_and_the_holder_gets_an_error(
        self, engine: FullEngine, clock: ManualClock
    ) -> None:
        needs(goes_by_clock(engine), "its store has a clock of its own")
        await declare(engine)
        await send(engine, b"held")
        held = await lock_one(engine)
        clock.jump(AN_HOUR)
        assert (await lock_one(engine)).delivery_count == 2
        with pytest.raises(LockLost):
            await engine.apply([Complete(lock_of(held))])
        assert (await inspect(engine)).locked == 1
