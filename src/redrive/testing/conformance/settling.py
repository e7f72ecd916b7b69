# SPDX-License-Identifier: MIT
"""Settling: complete, abandon, defer and dead-letter, each fenced by the lock, and dead-letter queues."""

from collections.abc import Callable, Hashable
from functools import partial
from uuid import UUID

import pytest

from redrive.broker import Abandon, Complete, DeadLetter, Defer, Effect, Lock, Send, State
from redrive.clock import utc
from redrive.errors import LockLost, MessageNotFound, QueueNotFound
from redrive.testing.conformance.fixtures import EngineFixtures, FullEngine, needs
from redrive.testing.conformance.verbs import (
    BILLING,
    DEAD,
    LOCK_S,
    ORDERS,
    bodies,
    declare,
    deferred_one,
    everything,
    inspect,
    lock,
    lock_of,
    lock_one,
    message,
    refused,
    send,
    send_one,
)
from redrive.testing.manual_clock import ManualClock

SETTLEMENTS: dict[str, Callable[[Lock], Effect]] = {
    "complete": Complete,
    "abandon": Abandon,
    "abandon with delay": lambda lock: Abandon(lock, 30.0),
    "defer": Defer,
    "dead-letter": lambda lock: DeadLetter(lock, "broken"),
}
every_settlement = pytest.mark.parametrize("settle", SETTLEMENTS.values(), ids=SETTLEMENTS)


FOREIGN_TOKENS: tuple[Hashable, ...] = (0, -1, 2**80, "receipt", b"\0", None, 1.5, UUID(int=1), ("a", 1))
"""Tokens of another engine, of whatever type, give no right to settle."""


class SettlingBehaviours(EngineFixtures):
    """What settling promises."""

    # --- fencing

    @every_settlement
    async def test_settling_works_until_the_lock_ends(
        self, engine: FullEngine, clock: ManualClock, settle: Callable[[Lock], Effect]
    ) -> None:
        await declare(engine)
        await send(engine, b"one")
        held = await lock_one(engine)
        clock.advance(LOCK_S - clock.moment)
        assert await engine.apply([settle(lock_of(held))]) == [None]
        assert (await inspect(engine)).locked == 0

    @every_settlement
    async def test_settling_after_the_lock_ended_is_refused(
        self, engine: FullEngine, clock: ManualClock, settle: Callable[[Lock], Effect]
    ) -> None:
        await declare(engine)
        await send(engine, b"one")
        held = await lock_one(engine)
        clock.advance(LOCK_S)
        await refused(engine, settle(lock_of(held)), error=LockLost)
        assert (await lock_one(engine)).body == b"one"

    @every_settlement
    async def test_settling_what_another_holds_by_now_is_refused(
        self, engine: FullEngine, clock: ManualClock, settle: Callable[[Lock], Effect]
    ) -> None:
        await declare(engine)
        await send(engine, b"one")
        lost = await lock_one(engine)
        clock.advance(LOCK_S)
        held = await lock_one(engine)
        await refused(engine, settle(lock_of(lost)), error=LockLost)
        await engine.apply([Complete(lock_of(held))])

    @every_settlement
    @pytest.mark.parametrize("first", SETTLEMENTS.values(), ids=SETTLEMENTS)
    async def test_settling_twice_is_refused(
        self, engine: FullEngine, first: Callable[[Lock], Effect], settle: Callable[[Lock], Effect]
    ) -> None:
        await declare(engine)
        await send(engine, b"one")
        held = await lock_one(engine)
        await engine.apply([first(lock_of(held))])
        await refused(engine, settle(lock_of(held)), error=LockLost)

    @every_settlement
    async def test_settling_with_a_foreign_token_is_refused(
        self, engine: FullEngine, settle: Callable[[Lock], Effect]
    ) -> None:
        await declare(engine)
        await send(engine, b"one", b"two")
        held, other = lock_of(await lock_one(engine)), lock_of(await lock_one(engine))
        for token in (other.token, *FOREIGN_TOKENS):
            await refused(engine, settle(Lock(ORDERS, held.sequence, token)), error=LockLost)
        await engine.apply([Complete(held)])

    @every_settlement
    async def test_settling_in_a_foreign_queue_is_refused(
        self, engine: FullEngine, settle: Callable[[Lock], Effect]
    ) -> None:
        await declare(engine, ORDERS, BILLING)
        await send(engine, b"one")
        held = lock_of(await lock_one(engine))
        for queue in (BILLING, DEAD):
            await refused(engine, settle(Lock(queue, held.sequence, held.token)), error=LockLost)
        await refused(engine, settle(Lock("nowhere", held.sequence, held.token)), error=QueueNotFound)
        await engine.apply([Complete(held)])

    @every_settlement
    async def test_settling_a_number_that_never_was_is_refused(
        self, engine: FullEngine, settle: Callable[[Lock], Effect]
    ) -> None:
        await declare(engine)
        await send(engine, b"one")
        held = lock_of(await lock_one(engine))
        for sequence in (held.sequence + 1, 0, -1, 2**63, 2**100):
            await refused(engine, settle(Lock(ORDERS, sequence, held.token)), error=LockLost)

    async def test_a_lost_lock_says_which_message_it_was(self, engine: FullEngine, clock: ManualClock) -> None:
        await declare(engine)
        await send(engine, b"one")
        held = await lock_one(engine)
        clock.advance(LOCK_S)
        with pytest.raises(LockLost) as caught:
            await engine.apply([Complete(lock_of(held))])
        assert (caught.value.queue, caught.value.sequence) == (ORDERS, held.sequence)

    # --- abandon

    async def test_an_abandoned_message_is_ready_at_once(self, engine: FullEngine) -> None:
        await declare(engine)
        await send(engine, b"first", b"second")
        held = await lock_one(engine)
        await engine.apply([Abandon(lock_of(held))])
        found = await lock(engine)
        assert sorted((each.body, each.delivery_count) for each in found) == [(b"first", 2), (b"second", 1)]

    async def test_an_abandoned_message_takes_its_old_place(self, engine: FullEngine) -> None:
        needs(engine.capabilities.keeps_place, "what is given back is the last in its queue")
        await declare(engine)
        await send(engine, b"first", b"second")
        await engine.apply([Abandon(lock_of(await lock_one(engine)))])
        assert [found.body for found in await lock(engine)] == [b"first", b"second"]

    async def test_abandoning_with_a_delay_keeps_id_number_and_count(
        self, engine: FullEngine, clock: ManualClock
    ) -> None:
        await declare(engine)
        await send(engine, b"first", b"second", headers={"kept": True})
        held = await lock_one(engine)
        await engine.apply([Abandon(lock_of(held), 30.0)])
        assert [found.body for found in await lock(engine)] == [b"second"]
        (postponed,) = await engine.peek(ORDERS, 10, states=[State.SCHEDULED])
        assert (postponed.due_at, postponed.delivery_count) == (utc(clock.time() + 30), 1)
        clock.advance(30 - clock.moment)
        assert await lock(engine) == []
        clock.advance(clock.moment)
        again = await lock_one(engine)
        assert (again.message, again.sequence, again.delivery_count) == (held.message, held.sequence, 2)
        assert again.enqueued_at == held.enqueued_at

    async def test_a_postponed_message_takes_its_old_place(self, engine: FullEngine, clock: ManualClock) -> None:
        needs(engine.capabilities.keeps_place, "what is given back is the last in its queue")
        await declare(engine)
        await send(engine, b"first", b"second")
        await engine.apply([Abandon(lock_of(await lock_one(engine)), 30.0)])
        clock.advance(30)
        assert [found.body for found in await lock(engine)] == [b"first", b"second"]

    async def test_abandoning_with_a_delay_the_last_time_is_the_end(
        self, engine: FullEngine, clock: ManualClock
    ) -> None:
        await declare(engine, max_delivery_count=1)
        await send(engine, b"hopeless")
        await engine.apply([Abandon(lock_of(await lock_one(engine)), 30.0)])
        clock.advance(30)
        assert (await lock(engine), await bodies(engine, DEAD)) == ([], [b"hopeless"])

    async def test_deliveries_can_be_counted_anew(self, engine: FullEngine, clock: ManualClock) -> None:
        await declare(engine, max_delivery_count=1)
        await send(engine, b"one")
        for delay in (0.0, 5.0, 0.0):
            held = await lock_one(engine)
            assert held.delivery_count == 1
            await engine.apply([Abandon(lock_of(held), delay, reset_count=True)])
            clock.advance(delay)
        assert await bodies(engine, DEAD) == []

    @pytest.mark.parametrize("delay", [0.0, 5.0])
    async def test_abandoning_can_change_headers(self, engine: FullEngine, clock: ManualClock, delay: float) -> None:
        await declare(engine)
        await send(engine, b"one", headers={"kept": 1, "changed": 1, "removed": 1, "nothing": None}, subject="kept")
        held = await lock_one(engine)
        await engine.apply([Abandon(lock_of(held), delay, {"changed": 2, "removed": None, "new": "ü"})])
        clock.advance(delay)
        again = await lock_one(engine)
        assert again.headers == {"kept": 1, "changed": 2, "nothing": None, "new": "ü"}
        assert (again.message.subject, again.id, again.body) == ("kept", held.id, b"one")

    @pytest.mark.parametrize("settle", [Defer, partial(DeadLetter, reason="x")])
    async def test_setting_aside_can_change_headers_too(
        self, engine: FullEngine, settle: Callable[..., Effect]
    ) -> None:
        await declare(engine)
        await send(engine, b"one", headers={"removed": 1})
        held = await lock_one(engine)
        await engine.apply([settle(lock_of(held), headers={"removed": None, "new": 1.5})])
        (after,) = [*(await engine.peek(ORDERS, 1)), *(await engine.peek(DEAD, 1))]
        assert after.headers == {"new": 1.5}

    # --- defer

    async def test_a_deferred_message_is_received_by_its_number_only(
        self, engine: FullEngine, clock: ManualClock
    ) -> None:
        await declare(engine)
        await send(engine, b"one")
        held = await lock_one(engine)
        await engine.apply([Defer(lock_of(held))])
        clock.advance(10 * LOCK_S)
        assert await lock(engine) == []
        again = await deferred_one(engine, held.sequence)
        assert (again.message, again.delivery_count, again.state) == (held.message, 2, State.DEFERRED_LOCKED)
        assert again.locked_until == utc(clock.time() + LOCK_S)

    async def test_a_locked_deferred_message_is_not_to_be_had_twice(self, engine: FullEngine) -> None:
        await declare(engine)
        number = await send_one(engine, b"one")
        await engine.apply([Defer(lock_of(await lock_one(engine)))])
        await deferred_one(engine, number)
        with pytest.raises(MessageNotFound):
            await deferred_one(engine, number)

    async def test_a_locked_deferred_message_goes_back_when_its_lock_ends(
        self, engine: FullEngine, clock: ManualClock
    ) -> None:
        await declare(engine)
        number = await send_one(engine, b"one")
        await engine.apply([Defer(lock_of(await lock_one(engine)))])
        lost = await deferred_one(engine, number)
        clock.advance(LOCK_S)
        assert await lock(engine) == []
        assert (await deferred_one(engine, number)).delivery_count == 3
        await refused(engine, Complete(lock_of(lost)), error=LockLost)

    async def test_a_deferred_message_is_received_after_its_lock_ended_without_upkeep(
        self, engine: FullEngine, clock: ManualClock
    ) -> None:
        await declare(engine)
        number = await send_one(engine, b"one")
        await engine.apply([Defer(lock_of(await lock_one(engine)))])
        await deferred_one(engine, number)
        clock.advance(LOCK_S)
        assert (await deferred_one(engine, number)).body == b"one"

    @every_settlement
    async def test_a_deferred_message_can_be_settled(
        self, engine: FullEngine, clock: ManualClock, settle: Callable[[Lock], Effect]
    ) -> None:
        await declare(engine)
        number = await send_one(engine, b"one")
        await engine.apply([Defer(lock_of(await lock_one(engine)))])
        again = await deferred_one(engine, number)
        await engine.apply([settle(lock_of(again))])
        left = await engine.peek(ORDERS, 1)
        state = left[0].state if left else None
        kind = settle(lock_of(again))
        postponed = isinstance(kind, Abandon) and kind.delay > 0
        expected = None if isinstance(kind, Complete | DeadLetter) else State.DEFERRED
        assert state == (State.SCHEDULED if postponed else expected)
        assert await bodies(engine, DEAD) == ([b"one"] if isinstance(kind, DeadLetter) else [])

    async def test_deferred_messages_are_received_all_or_none(self, engine: FullEngine) -> None:
        await declare(engine)
        numbers = await send(engine, b"1", b"2", b"3")
        held = await lock(engine)
        await engine.apply([Defer(lock_of(held[0])), Defer(lock_of(held[1]))])
        before = await everything(engine)
        with pytest.raises(MessageNotFound) as caught:
            await engine.lock_deferred(ORDERS, numbers)
        assert (caught.value.queue, caught.value.sequence) == (ORDERS, numbers[2])
        assert await everything(engine) == before
        assert [found.body for found in await engine.lock_deferred(ORDERS, numbers[1::-1])] == [b"2", b"1"]

    @pytest.mark.parametrize("number", [0, -1, 10_000, 2**63, 2**100])
    async def test_a_number_that_is_not_deferred_is_not_found(self, engine: FullEngine, number: int) -> None:
        await declare(engine)
        await send(engine, b"ready")
        with pytest.raises(MessageNotFound):
            await engine.lock_deferred(ORDERS, [number])

    async def test_a_deferred_message_of_another_queue_is_not_found(self, engine: FullEngine) -> None:
        await declare(engine, ORDERS, BILLING)
        number = await send_one(engine, b"one")
        await engine.apply([Defer(lock_of(await lock_one(engine)))])
        with pytest.raises(MessageNotFound):
            await deferred_one(engine, number, BILLING)

    async def test_the_same_deferred_number_twice_in_one_call_is_refused(self, engine: FullEngine) -> None:
        await declare(engine)
        number = await send_one(engine, b"one")
        await engine.apply([Defer(lock_of(await lock_one(engine)))])
        before = await everything(engine)
        with pytest.raises(MessageNotFound):
            await engine.lock_deferred(ORDERS, [number, number])
        assert await everything(engine) == before

    @pytest.mark.parametrize("beside", [(0,), (0, 0), (1, 0)], ids=["alone", "twice", "beside one that is missing"])
    async def test_deferred_deliveries_are_counted_to_the_end(
        self, engine: FullEngine, clock: ManualClock, beside: tuple[int, ...]
    ) -> None:
        await declare(engine, max_delivery_count=2)
        number = await send_one(engine, b"one")
        await engine.apply([Defer(lock_of(await lock_one(engine)))])
        await deferred_one(engine, number)
        clock.advance(LOCK_S)
        with pytest.raises(MessageNotFound):
            await engine.lock_deferred(ORDERS, [number + each for each in beside])
        (dead,) = await lock(engine, DEAD)
        assert dead.dead_letter_info is not None
        assert dead.dead_letter_info.reason == "MaxDeliveryCountExceeded"

    # --- dead letters

    async def test_a_dead_letter_says_why_and_whence(self, engine: FullEngine) -> None:
        await declare(engine)
        sent = message(b"broken", headers={"tried": 3}, subject="order")
        await engine.apply([Send(ORDERS, sent)])
        await engine.apply([DeadLetter(lock_of(await lock_one(engine)), "BadAddress", "no such street ü")])
        dead = await lock_one(engine, DEAD)
        assert dead.dead_letter_info is not None
        assert (dead.dead_letter_info.reason, dead.dead_letter_info.description) == ("BadAddress", "no such street ü")
        assert dead.dead_letter_info.source == ORDERS
        assert (dead.message, dead.queue, dead.delivery_count) == (sent, DEAD, 1)
        assert (await inspect(engine)).dead == 1

    async def test_a_dead_letter_queue_is_a_queue(self, engine: FullEngine, clock: ManualClock) -> None:
        await declare(engine)
        await send(engine, b"1", b"2", b"3", b"4")
        await engine.apply([DeadLetter(lock_of(held), "broken") for held in await lock(engine)])
        first = await lock_one(engine, DEAD)
        clock.advance(LOCK_S)
        again, second, third, fourth = await lock(engine, DEAD)
        assert (again.sequence, again.delivery_count) == (first.sequence, 2)
        await engine.apply([Complete(lock_of(again)), Abandon(lock_of(second)), Defer(lock_of(third))])
        assert [found.body for found in await lock(engine, DEAD)] == [b"2"]
        assert (await deferred_one(engine, third.sequence, DEAD)).body == b"3"
        assert await bodies(engine, DEAD) == [b"2", b"3", b"4"]
        await engine.apply([Complete(lock_of(fourth))])

    async def test_dead_letters_do_not_expire(self, engine: FullEngine, clock: ManualClock) -> None:
        await declare(engine, default_ttl=100)
        await send(engine, b"dead", ttl=50)
        await engine.apply([DeadLetter(lock_of(await lock_one(engine)), "broken")])
        clock.advance(300 * 86_400)
        await engine.upkeep()
        assert (await lock_one(engine, DEAD)).body == b"dead"

    async def test_dead_lettering_a_dead_letter_leaves_it_where_it_is(self, engine: FullEngine) -> None:
        await declare(engine)
        await send(engine, b"dead")
        await engine.apply([DeadLetter(lock_of(await lock_one(engine)), "first")])
        await engine.apply([DeadLetter(lock_of(await lock_one(engine, DEAD)), "second", "still broken")])
        (dead,) = await lock(engine, DEAD)
        assert dead.dead_letter_info is not None
        assert (dead.dead_letter_info.reason, dead.dead_letter_info.source) == ("second", ORDERS)
        assert [info.name for info in await engine.inspect()] == [ORDERS]

    async def test_a_dead_letter_can_be_sent_again_in_one_step(self, engine: FullEngine) -> None:
        await declare(engine)
        await send(engine, b"dead", headers={"kept": "yes"})
        await engine.apply([DeadLetter(lock_of(await lock_one(engine)), "broken")])
        dead = await lock_one(engine, DEAD)
        await engine.apply([Complete(lock_of(dead)), Send(ORDERS, dead.message)])
        again = await lock_one(engine)
        assert (again.message, again.delivery_count, again.dead_letter_info) == (dead.message, 1, None)
        assert await bodies(engine, DEAD) == []
