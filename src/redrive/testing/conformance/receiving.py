# SPDX-License-Identifier: MIT
"""Receiving: order, peek-lock, delivery counts, renewal, receive-and-delete, and looking without touching."""

import pytest

from redrive.broker import Abandon, Complete, Defer, Send, State
from redrive.clock import utc
from redrive.testing.conformance.fixtures import EngineFixtures, FullEngine
from redrive.testing.conformance.verbs import (
    BILLING,
    DEAD,
    LOCK_S,
    ORDERS,
    bodies,
    declare,
    everything,
    keep_up,
    lock,
    lock_of,
    lock_one,
    message,
    send,
    update,
)
from redrive.testing.manual_clock import ManualClock


class ReceivingBehaviours(EngineFixtures):
    """What receiving promises."""

    async def test_messages_come_in_the_order_they_were_sent(self, engine: FullEngine) -> None:
        await declare(engine)
        sent = [b"%d" % number for number in range(20)]
        await send(engine, *sent)
        assert [found.body for found in await lock(engine)] == sent

    async def test_messages_sent_together_come_in_the_order_of_the_list(self, engine: FullEngine) -> None:
        await declare(engine)
        sent = [b"%d" % number for number in range(20)]
        numbers = await engine.apply([Send(ORDERS, message(body)) for body in sent])
        assert numbers == sorted(number for number in numbers if number is not None)
        assert [found.body for found in await lock(engine)] == sent

    async def test_sequence_numbers_rise_and_are_never_used_twice(self, engine: FullEngine) -> None:
        await declare(engine, ORDERS, BILLING)
        first = [*(await send(engine, b"1", b"2")), *(await send(engine, b"3", queue=BILLING))]
        await engine.lock_next(ORDERS, 10, delete=True)
        await engine.lock_next(BILLING, 10, delete=True)
        assert first < await send(engine, b"4")
        assert len({*first}) == 3

    async def test_receive_brings_at_most_what_was_asked_for(self, engine: FullEngine) -> None:
        await declare(engine)
        await send(engine, b"1", b"2", b"3")
        assert [found.body for found in await lock(engine, limit=2)] == [b"1", b"2"]
        assert [found.body for found in await lock(engine, limit=2)] == [b"3"]

    async def test_receive_brings_what_fits_into_some_bytes_and_one_at_least(
        self, engine: FullEngine, clock: ManualClock
    ) -> None:
        await declare(engine)
        await send(engine, *(bytes(4_000) for _ in range(3)), bytes(20_000), b"small")
        for max_bytes, many in ((9_000, 2), (1, 1), (45_000, 5)):
            assert len(await engine.peek(ORDERS, 10, max_bytes=max_bytes)) == many
        *_, third = await engine.peek(ORDERS, 3)
        assert len(await engine.peek(ORDERS, 10, start=third.sequence, max_bytes=9_000)) == 1
        assert len(await engine.lock_next(ORDERS, 3, max_bytes=9_000)) == 2
        assert [len(found.body) for found in await engine.lock_next(ORDERS, 10, max_bytes=9_000)] == [4_000]
        assert [len(found.body) for found in await engine.lock_next(ORDERS, 10, max_bytes=9_000)] == [20_000]
        assert [found.body for found in await engine.lock_next(ORDERS, 10, max_bytes=9_000)] == [b"small"]
        assert await engine.lock_next(ORDERS, 10, max_bytes=9_000) == []
        clock.advance(LOCK_S + 1)  # their locks have ended: a receive brings them in, and must not bring too many
        again = await engine.lock_next(ORDERS, 10, max_bytes=25_000)
        assert again
        assert sum(len(found.body) for found in again) <= 25_000

    async def test_a_locked_message_is_out_of_sight(self, engine: FullEngine, clock: ManualClock) -> None:
        await declare(engine)
        await send(engine, b"mine")
        held = await lock_one(engine)
        assert (held.state, held.locked_until) == (State.LOCKED, utc(clock.time() + LOCK_S))
        clock.advance(LOCK_S - clock.moment)
        assert await lock(engine) == []
        assert await bodies(engine) == [b"mine"]

    async def test_a_received_message_says_all_about_itself(self, engine: FullEngine, clock: ManualClock) -> None:
        await declare(engine)
        sent = message(b"body", ttl=500)
        (number,) = await engine.apply([Send(ORDERS, sent)])
        sent_at = clock.time()
        clock.advance(3)
        held = await lock_one(engine)
        assert (held.message, held.queue, held.sequence) == (sent, ORDERS, number)
        assert (held.enqueued_at, held.expires_at, held.delivery_count) == (utc(sent_at), utc(sent_at + 500), 1)
        assert (held.due_at, held.dead_letter_info) == (None, None)
        assert (lock_of(held).queue, lock_of(held).sequence) == (ORDERS, number)

    async def test_an_ended_lock_gives_the_message_to_the_next_receiver(
        self, engine: FullEngine, clock: ManualClock
    ) -> None:
        await declare(engine)
        await send(engine, b"one")
        first = await lock_one(engine)
        clock.advance(LOCK_S)
        second = await lock_one(engine)
        assert (second.sequence, second.body, second.delivery_count) == (first.sequence, b"one", 2)
        assert lock_of(second) != lock_of(first)

    async def test_an_ended_lock_gives_the_message_its_old_place(self, engine: FullEngine, clock: ManualClock) -> None:
        await declare(engine)
        await send(engine, b"first", b"second")
        await lock_one(engine)
        clock.advance(LOCK_S)
        assert [found.body for found in await lock(engine)] == [b"first", b"second"]

    async def test_a_settled_message_does_not_come_back_when_its_lock_would_end(
        self, engine: FullEngine, clock: ManualClock
    ) -> None:
        await declare(engine)
        await send(engine, b"done")
        await engine.apply([Complete(lock_of(await lock_one(engine)))])
        clock.advance(10 * LOCK_S)
        await keep_up(engine)
        assert (await lock(engine), await bodies(engine), await bodies(engine, DEAD)) == ([], [], [])

    # --- delivery count

    async def test_the_delivery_count_rises_with_every_lock(self, engine: FullEngine, clock: ManualClock) -> None:
        await declare(engine)
        await send(engine, b"one")
        counts = []
        for _ in range(5):
            held = await lock_one(engine)
            counts.append(held.delivery_count)
            await engine.apply([Abandon(lock_of(held))])
        assert counts == [1, 2, 3, 4, 5]

    async def test_a_message_whose_last_lock_ends_is_dead(self, engine: FullEngine, clock: ManualClock) -> None:
        await declare(engine, max_delivery_count=3)
        await send(engine, b"hopeless")
        for _ in range(3):
            await lock_one(engine)
            clock.advance(LOCK_S)
        assert await lock(engine) == []
        await keep_up(engine)
        (dead,) = await engine.peek(DEAD, 10)
        assert (dead.body, dead.state) == (b"hopeless", State.READY)
        assert dead.dead_letter_info is not None
        assert (dead.dead_letter_info.reason, dead.dead_letter_info.source) == ("MaxDeliveryCountExceeded", ORDERS)
        assert "3" in dead.dead_letter_info.description

    async def test_a_message_abandoned_for_the_last_time_is_dead_at_once(self, engine: FullEngine) -> None:
        await declare(engine, max_delivery_count=2)
        await send(engine, b"hopeless")
        for _ in range(2):
            await engine.apply([Abandon(lock_of(await lock_one(engine)), headers={"last": "words"})])
        (dead,) = await lock(engine, DEAD)
        assert await bodies(engine) == []
        assert dead.dead_letter_info is not None
        assert dead.dead_letter_info.reason == "MaxDeliveryCountExceeded"

    async def test_the_last_abandon_may_change_headers_too(self, engine: FullEngine) -> None:
        await declare(engine, max_delivery_count=1)
        await send(engine, b"hopeless")
        await engine.apply([Abandon(lock_of(await lock_one(engine)), headers={"last": "words"})])
        assert (await lock_one(engine, DEAD)).headers == {"last": "words"}

    async def test_one_delivery_may_be_all_there_is(self, engine: FullEngine, clock: ManualClock) -> None:
        await declare(engine, max_delivery_count=1)
        await send(engine, b"once")
        await lock_one(engine)
        clock.advance(LOCK_S)
        assert await lock(engine) == []
        assert [found.body for found in await lock(engine, DEAD)] == [b"once"]

    async def test_lowering_the_limit_holds_for_messages_that_had_more(self, engine: FullEngine) -> None:
        await declare(engine, max_delivery_count=10)
        await send(engine, b"often")
        for _ in range(4):
            await engine.apply([Abandon(lock_of(await lock_one(engine)))])
        await send(engine, b"never")
        await update(engine, max_delivery_count=3)
        assert [found.body for found in await lock(engine)] == [b"never"]
        assert await bodies(engine, DEAD) == [b"often"]

    async def test_raising_the_limit_gives_more_deliveries(self, engine: FullEngine, clock: ManualClock) -> None:
        await declare(engine, max_delivery_count=1)
        await send(engine, b"one")
        await lock_one(engine)
        await update(engine, max_delivery_count=2)
        clock.advance(LOCK_S)
        assert (await lock_one(engine)).delivery_count == 2

    async def test_looking_does_not_count(self, engine: FullEngine) -> None:
        await declare(engine, max_delivery_count=1)
        await send(engine, b"one")
        for _ in range(3):
            assert [seen.delivery_count for seen in await engine.peek(ORDERS, 1)] == [0]
        assert (await lock_one(engine)).delivery_count == 1

    # --- renewal

    async def test_a_renewed_lock_lasts_a_full_duration_from_now(self, engine: FullEngine, clock: ManualClock) -> None:
        await declare(engine)
        await send(engine, b"long")
        held = await lock_one(engine)
        clock.advance(40)
        assert await engine.renew([lock_of(held)]) == [utc(clock.time() + LOCK_S)]
        clock.advance(LOCK_S - clock.moment)
        assert await lock(engine) == []
        await engine.apply([Complete(lock_of(held))])

    async def test_a_renewed_lock_ends_too(self, engine: FullEngine, clock: ManualClock) -> None:
        await declare(engine)
        await send(engine, b"long")
        held = await lock_one(engine)
        clock.advance(40)
        await engine.renew([lock_of(held)])
        clock.advance(LOCK_S)
        assert (await lock_one(engine)).delivery_count == 2

    async def test_a_lost_lock_cannot_be_renewed_and_the_others_are(
        self, engine: FullEngine, clock: ManualClock
    ) -> None:
        await declare(engine)
        await send(engine, b"lost", b"done", b"held")
        lost = await lock_one(engine)
        clock.advance(30)
        done, held = await lock(engine)
        await engine.apply([Complete(lock_of(done))])
        clock.advance(30)
        renewed = await engine.renew([lock_of(lost), lock_of(done), lock_of(held)])
        assert renewed == [None, None, utc(clock.time() + LOCK_S)]

    async def test_renewing_does_not_take_back_what_another_has(self, engine: FullEngine, clock: ManualClock) -> None:
        await declare(engine)
        await send(engine, b"one")
        first = await lock_one(engine)
        clock.advance(LOCK_S)
        second = await lock_one(engine)
        assert await engine.renew([lock_of(first)]) == [None]
        await engine.apply([Complete(lock_of(second))])

    async def test_renewing_nothing_is_nothing(self, engine: FullEngine) -> None:
        assert await engine.renew([]) == []

    # --- receive-and-delete

    async def test_receive_and_delete_takes_messages_out_for_good(self, engine: FullEngine, clock: ManualClock) -> None:
        await declare(engine)
        await send(engine, b"1", b"2", b"3")
        taken = await engine.lock_next(ORDERS, 2, delete=True)
        assert [(found.body, found.lock, found.locked_until) for found in taken] == [
            (b"1", None, None),
            (b"2", None, None),
        ]
        clock.advance(10 * LOCK_S)
        assert [found.body for found in await lock(engine)] == [b"3"]
        assert await bodies(engine, DEAD) == []

    async def test_receive_and_delete_counts_as_a_delivery(self, engine: FullEngine) -> None:
        await declare(engine)
        await send(engine, b"one")
        await engine.apply([Abandon(lock_of(await lock_one(engine)))])
        (taken,) = await engine.lock_next(ORDERS, 1, delete=True)
        assert taken.delivery_count == 2

    async def test_receive_and_delete_leaves_what_others_hold(self, engine: FullEngine) -> None:
        await declare(engine)
        await send(engine, b"held", b"free")
        held = await lock_one(engine)
        assert [found.body for found in await engine.lock_next(ORDERS, 10, delete=True)] == [b"free"]
        await engine.apply([Complete(lock_of(held))])

    # --- peek

    async def test_peek_shows_every_state_in_order_of_the_numbers(self, engine: FullEngine, clock: ManualClock) -> None:
        await declare(engine)
        await send(engine, b"locked", b"deferred", b"both")
        _, deferred, both = await lock(engine)
        await engine.apply([Defer(lock_of(deferred)), Defer(lock_of(both))])
        await engine.lock_deferred(ORDERS, [both.sequence])
        await engine.apply([Send(ORDERS, message(b"later"), utc(clock.time() + 9))])
        await send(engine, b"ready")
        assert [(seen.body, seen.state) for seen in await engine.peek(ORDERS, 10)] == [
            (b"locked", State.LOCKED),
            (b"deferred", State.DEFERRED),
            (b"both", State.DEFERRED_LOCKED),
            (b"later", State.SCHEDULED),
            (b"ready", State.READY),
        ]

    async def test_peek_tells_when_a_lock_ends(self, engine: FullEngine, clock: ManualClock) -> None:
        await declare(engine)
        await send(engine, b"deferred", b"locked", b"ready")
        (deferred,) = await engine.lock_next(ORDERS, 1)
        await engine.apply([Defer(lock_of(deferred))])
        await engine.lock_deferred(ORDERS, [deferred.sequence])
        clock.advance(5)
        held = await lock_one(engine)
        until = [seen.locked_until for seen in await engine.peek(ORDERS, 9)]
        assert until == [utc(clock.time() + LOCK_S - 5), held.locked_until, None]
        assert held.locked_until == utc(clock.time() + LOCK_S)
        assert [seen.due_at for seen in await engine.peek(ORDERS, 9)] == [None, None, None]

    async def test_peek_shows_only_the_states_asked_for(self, engine: FullEngine) -> None:
        await declare(engine)
        await send(engine, b"locked", b"ready")
        await lock_one(engine)
        shown = await engine.peek(ORDERS, 10, states=[State.LOCKED])
        assert [seen.body for seen in shown] == [b"locked"]
        shown = await engine.peek(ORDERS, 10, states=[State.DEFERRED, State.READY])
        assert [seen.body for seen in shown] == [b"ready"]

    async def test_peek_goes_through_a_queue_page_by_page(self, engine: FullEngine) -> None:
        await declare(engine)
        sent = [b"%d" % number for number in range(25)]
        await send(engine, *sent)
        await lock(engine, limit=12)
        shown: list[bytes] = []
        start = 0
        while page := await engine.peek(ORDERS, 10, start=start):
            shown += [seen.body for seen in page]
            start = page[-1].sequence + 1
        assert shown == sent

    @pytest.mark.parametrize("start", [-1, 0, 2**62, 2**63, 2**100])
    async def test_peek_can_start_anywhere(self, engine: FullEngine, start: int) -> None:
        await declare(engine)
        await send(engine, b"one")
        assert len(await engine.peek(ORDERS, 10, start=start)) == (1 if start <= 0 else 0)

    async def test_peek_gives_no_right_to_settle(self, engine: FullEngine) -> None:
        await declare(engine)
        await send(engine, b"locked", b"ready")
        await lock_one(engine)
        assert [seen.lock for seen in await engine.peek(ORDERS, 10)] == [None, None]

    async def test_looking_changes_nothing(self, engine: FullEngine, clock: ManualClock) -> None:
        await declare(engine)
        await send(engine, b"locked", b"ready", ttl=30)
        await lock_one(engine)
        clock.advance(100)
        before = await everything(engine)
        await engine.peek(ORDERS, 10, states=[State.READY])
        assert await everything(engine) == before
