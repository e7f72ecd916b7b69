# SPDX-License-Identifier: MIT
"""Time: scheduling and cancelling, time to live, and upkeep in bounded steps."""

import pytest

from redrive.broker import Abandon, Cancel, Complete, Defer, QueueSettings, Send, State
from redrive.clock import utc
from redrive.errors import MessageNotFound, QueueNotFound
from redrive.testing.conformance.fixtures import EngineFixtures, FullEngine, needs
from redrive.testing.conformance.verbs import (
    BILLING,
    DEAD,
    LOCK_S,
    ORDERS,
    apply_many,
    bodies,
    declare,
    deferred_one,
    inspect,
    keep_up,
    lock,
    lock_of,
    lock_one,
    message,
    refused,
    send,
    send_one,
    update,
)
from redrive.testing.manual_clock import ManualClock


async def schedule(engine: FullEngine, clock: ManualClock, body: bytes, delay: float, **fields: object) -> int:
    """Send a message for later; return its number."""
    (number,) = await engine.apply([Send(ORDERS, message(body, **fields), utc(clock.time() + delay))])
    assert number is not None
    return number


class TimingBehaviours(EngineFixtures):
    """What time does to messages."""

    # --- scheduling

    async def test_a_scheduled_message_appears_at_its_instant(self, engine: FullEngine, clock: ManualClock) -> None:
        await declare(engine)
        number = await schedule(engine, clock, b"later", 30)
        (seen,) = await engine.peek(ORDERS, 1)
        assert (seen.state, seen.due_at) == (State.SCHEDULED, utc(clock.time() + 30))
        clock.advance(30 - clock.moment)
        assert await lock(engine) == []
        clock.advance(clock.moment)
        found = await lock_one(engine)
        assert (found.body, found.sequence, found.delivery_count) == (b"later", number, 1)

    @pytest.mark.parametrize("delay", [0.0, -1.0, -86_400.0])
    async def test_a_message_scheduled_for_the_past_is_ready_at_once(
        self, engine: FullEngine, clock: ManualClock, delay: float
    ) -> None:
        await declare(engine)
        await schedule(engine, clock, b"late", delay)
        assert (await lock_one(engine)).body == b"late"

    async def test_scheduled_messages_appear_each_in_its_time(self, engine: FullEngine, clock: ManualClock) -> None:
        await declare(engine)
        for delay in (30, 10, 20):
            await schedule(engine, clock, b"%d" % delay, delay)
        seen: list[bytes] = []
        for _ in range(4):
            clock.advance(10)
            seen += [found.body for found in await engine.lock_next(ORDERS, 10, delete=True)]
        assert seen == [b"10", b"20", b"30"]

    async def test_a_cancelled_message_never_appears(self, engine: FullEngine, clock: ManualClock) -> None:
        await declare(engine)
        number = await schedule(engine, clock, b"never", 30)
        assert await engine.apply([Cancel(ORDERS, number)]) == [None]
        clock.advance(30)
        assert (await lock(engine), await bodies(engine)) == ([], [])

    async def test_cancelling_twice_is_refused(self, engine: FullEngine, clock: ManualClock) -> None:
        await declare(engine)
        number = await schedule(engine, clock, b"never", 30)
        await engine.apply([Cancel(ORDERS, number)])
        await refused(engine, Cancel(ORDERS, number), error=MessageNotFound)

    @pytest.mark.parametrize("number", [0, -1, 10_000, 2**63, 2**100])
    async def test_cancelling_a_number_that_never_was_is_refused(self, engine: FullEngine, number: int) -> None:
        await declare(engine)
        await refused(engine, Cancel(ORDERS, number), error=MessageNotFound)

    async def test_cancelling_a_message_of_another_queue_is_refused(
        self, engine: FullEngine, clock: ManualClock
    ) -> None:
        await declare(engine, ORDERS, BILLING)
        number = await schedule(engine, clock, b"later", 30)
        await refused(engine, Cancel(BILLING, number), error=MessageNotFound)
        await refused(engine, Cancel("nowhere", number), error=QueueNotFound)

    async def test_cancelling_what_is_not_scheduled_is_refused(self, engine: FullEngine) -> None:
        await declare(engine)
        numbers = await send(engine, b"deferred", b"locked", b"ready")
        deferred, _ = await lock(engine, limit=2)
        await engine.apply([Defer(lock_of(deferred))])
        for number in numbers:
            await refused(engine, Cancel(ORDERS, number), error=MessageNotFound)

    async def test_cancelling_a_message_whose_time_has_come_is_refused(
        self, engine: FullEngine, clock: ManualClock
    ) -> None:
        await declare(engine)
        number = await schedule(engine, clock, b"due", 30)
        clock.advance(30)
        await refused(engine, Cancel(ORDERS, number), error=MessageNotFound)
        assert (await lock_one(engine)).body == b"due"

    async def test_a_due_message_is_found_behind_many_of_another_queue(
        self, engine: FullEngine, clock: ManualClock
    ) -> None:
        await declare(engine, ORDERS, BILLING)
        early, later = utc(clock.time() + 10), utc(clock.time() + 20)
        await apply_many(engine, [Send(BILLING, message(b"%d" % number), early) for number in range(3_000)])
        await engine.apply([Send(ORDERS, message(b"found"), later)])
        clock.advance(30)
        assert (await lock_one(engine)).body == b"found"

    # --- time to live

    @pytest.mark.parametrize(("own", "of_queue"), [(10, None), (None, 10), (10, 20), (20, 10)])
    async def test_the_shorter_time_to_live_counts(
        self, engine: FullEngine, clock: ManualClock, own: float | None, of_queue: float | None
    ) -> None:
        await declare(engine, default_ttl=of_queue)
        await send(engine, b"short-lived", ttl=own)
        (seen,) = await engine.peek(ORDERS, 1)
        assert seen.expires_at == utc(clock.time() + 10)
        clock.advance(9.999)
        await engine.apply([Abandon(lock_of(await lock_one(engine)))])
        clock.advance(0.001)
        assert await lock(engine) == []
        await keep_up(engine)
        assert (await bodies(engine), await bodies(engine, DEAD)) == ([], [])

    async def test_a_message_without_time_to_live_does_not_expire(self, engine: FullEngine, clock: ManualClock) -> None:
        await declare(engine)
        await send(engine, b"patient")
        clock.advance(365 * 86_400)
        await keep_up(engine)
        assert (await lock_one(engine)).expires_at is None

    @pytest.mark.parametrize("by", ["receive", "upkeep"])
    async def test_an_expired_message_is_dead_lettered_where_the_queue_says_so(
        self, engine: FullEngine, clock: ManualClock, by: str
    ) -> None:
        await declare(engine, dead_letter_on_expiration=True)
        await send(engine, b"too late", ttl=10)
        clock.advance(10)
        if by == "receive":
            assert await lock(engine) == []
        else:
            assert (await engine.upkeep()).expired == 1
        (dead,) = await lock(engine, DEAD)
        assert dead.dead_letter_info is not None
        assert (dead.dead_letter_info.reason, dead.dead_letter_info.source) == ("TTLExpiredException", ORDERS)
        assert (dead.body, dead.expires_at) == (b"too late", None)

    async def test_receive_and_delete_does_not_bring_what_has_expired(
        self, engine: FullEngine, clock: ManualClock
    ) -> None:
        await declare(engine)
        await send(engine, b"short-lived", ttl=10)
        await send(engine, b"alive")
        clock.advance(10)
        assert [found.body for found in await engine.lock_next(ORDERS, 10, delete=True)] == [b"alive"]

    async def test_expired_messages_do_not_hide_those_behind_them(self, engine: FullEngine, clock: ManualClock) -> None:
        await declare(engine)
        await send(engine, *(b"%d" % number for number in range(30)), ttl=10)
        await send(engine, b"alive")
        clock.advance(10)
        assert (await lock_one(engine)).body == b"alive"

    async def test_expired_messages_among_others_are_not_locked(self, engine: FullEngine, clock: ManualClock) -> None:
        """More messages have expired than one receive removes, and those between living ones are not removed first."""
        await declare(engine, dead_letter_on_expiration=True)
        expired = Send(ORDERS, message(b"expired", ttl=10))
        for _ in range(6):
            await engine.apply([Send(ORDERS, message(b"alive")), *[expired] * 20])
        await apply_many(engine, [Send(ORDERS, message(b"expired", ttl=5))] * 1_100)
        clock.advance(10)
        assert [one.body for one in await lock(engine, limit=6)] == [b"alive"] * 6
        assert (await inspect(engine)).locked == 6
        await keep_up(engine)
        info = await inspect(engine)
        assert (info.ready, info.locked, info.dead) == (0, 6, 1_220)

    async def test_a_locked_message_does_not_expire(self, engine: FullEngine, clock: ManualClock) -> None:
        await declare(engine)
        await send(engine, b"in hand", ttl=10)
        held = await lock_one(engine)
        clock.advance(50)
        await keep_up(engine)
        await engine.apply([Complete(lock_of(held))])

    @pytest.mark.parametrize("given_back", ["by abandon", "by time"])
    async def test_a_message_that_is_given_back_too_late_expires(
        self, engine: FullEngine, clock: ManualClock, given_back: str
    ) -> None:
        await declare(engine)
        await send(engine, b"in hand", ttl=10)
        held = await lock_one(engine)
        clock.advance(50)
        if given_back == "by abandon":
            await engine.apply([Abandon(lock_of(held))])
        else:
            clock.advance(LOCK_S)
        assert await lock(engine) == []
        await keep_up(engine)
        assert await bodies(engine) == []

    async def test_a_scheduled_message_lives_from_its_due_time(self, engine: FullEngine, clock: ManualClock) -> None:
        await declare(engine, default_ttl=20)
        await schedule(engine, clock, b"later", 50, ttl=10)
        due = clock.time() + 50
        clock.advance(59)
        await keep_up(engine)
        (seen,) = await engine.peek(ORDERS, 1)
        assert seen.expires_at == utc(due + 10)
        clock.advance(1)
        assert await lock(engine) == []

    async def test_a_deferred_message_expires(self, engine: FullEngine, clock: ManualClock) -> None:
        await declare(engine, dead_letter_on_expiration=True)
        number = await send_one(engine, b"aside", ttl=10)
        await engine.apply([Defer(lock_of(await lock_one(engine)))])
        clock.advance(10)
        with pytest.raises(MessageNotFound):
            await deferred_one(engine, number)
        await keep_up(engine)
        assert (await bodies(engine), await bodies(engine, DEAD)) == ([], [b"aside"])

    async def test_changing_the_setting_leaves_the_expiry_of_what_was_sent(
        self, engine: FullEngine, clock: ManualClock
    ) -> None:
        await declare(engine, default_ttl=100)
        await send(engine, b"old")
        await update(engine, default_ttl=10)
        await send(engine, b"new")
        clock.advance(10)
        assert [found.body for found in await lock(engine)] == [b"old"]

    # --- upkeep

    async def test_upkeep_says_what_it_did(self, engine: FullEngine, clock: ManualClock) -> None:
        await declare(engine, max_delivery_count=1)
        await declare(engine, "idle", auto_delete_on_idle=70)
        await engine.declare("much", QueueSettings())
        await send(engine, b"spent")
        await lock_one(engine)
        await send(engine, b"1", b"2", queue="much")
        await lock_one(engine, "much")
        await send(engine, b"expired", b"expired too", queue="much", ttl=10)
        clock.advance(75)
        done = await engine.upkeep()
        assert (done.released, done.over_delivered, done.expired, done.queues_deleted) == (2, 1, 2, 1)
        assert done.is_finished is True
        again = await engine.upkeep()
        assert (again.released, again.over_delivered, again.expired, again.queues_deleted) == (0, 0, 0, 0)

    async def test_upkeep_with_nothing_to_do_is_finished(self, engine: FullEngine) -> None:
        assert (await engine.upkeep()).is_finished is True

    async def test_upkeep_expires_many_messages_in_bounded_steps(self, engine: FullEngine, clock: ManualClock) -> None:
        await declare(engine, dead_letter_on_expiration=True)
        await engine.apply([Send(ORDERS, message(b"%d" % number, ttl=10)) for number in range(50)])
        clock.advance(10)
        left, finished = [], False
        while not finished:
            done = await engine.upkeep(limit=20)
            assert done.expired <= 20
            finished = done.is_finished
            left.append((await inspect(engine)).ready)
        assert left[:3] == [30, 10, 0]
        assert len(await bodies(engine, DEAD)) == 50

    async def test_upkeep_ends_many_locks_in_bounded_steps(self, engine: FullEngine, clock: ManualClock) -> None:
        await declare(engine)
        await engine.apply([Send(ORDERS, message(b"%d" % number)) for number in range(50)])
        await lock(engine)
        clock.advance(LOCK_S)
        released, finished = [], False
        while not finished:
            done = await engine.upkeep(limit=20)
            finished = done.is_finished
            released.append(done.released)
        assert (max(released), sum(released)) == (20, 50)
        assert (await inspect(engine)).ready == 50

    async def test_a_receive_leaves_the_bulk_of_what_has_expired_to_upkeep(
        self, engine: FullEngine, clock: ManualClock
    ) -> None:
        needs(engine.capabilities.most_effects is None, "it cannot be sent so much at once")
        await declare(engine)
        expiring = [Send(ORDERS, message(b"%d" % number, ttl=10)) for number in range(20_000)]
        await engine.apply(expiring)
        await send(engine, b"alive")
        clock.advance(10)
        assert (await lock_one(engine)).body == b"alive"
        assert (await inspect(engine)).ready > 10_000, "one receive should not do it all"

    async def test_time_going_back_loses_nothing(self, engine: FullEngine, clock: ManualClock) -> None:
        await declare(engine)
        await send(engine, b"held", b"ready")
        held = await lock_one(engine)
        clock.jump(-3_600)
        assert [found.body for found in await lock(engine)] == [b"ready"]
        await send(engine, b"sent in the past")
        assert [found.body for found in await lock(engine)] == [b"sent in the past"]
        await engine.apply([Complete(lock_of(held))])
        clock.jump(3_600)
        clock.advance(LOCK_S)
        assert [found.body for found in await lock(engine)] == [b"ready", b"sent in the past"]

    async def test_a_deferred_message_that_lost_its_last_lock_has_had_its_deliveries_though_it_expires_too(
        self, engine: FullEngine, clock: ManualClock
    ) -> None:
        await declare(engine, dead_letter_on_expiration=True, max_delivery_count=2)
        number = await send_one(engine, b"aside", ttl=10)
        await engine.apply([Defer(lock_of(await lock_one(engine)))])
        await deferred_one(engine, number)
        clock.advance(LOCK_S + 10)
        await keep_up(engine)
        (dead,) = await engine.peek(DEAD, 1)
        assert dead.dead_letter_info is not None
        assert dead.dead_letter_info.reason == "MaxDeliveryCountExceeded"
