# SPDX-License-Identifier: MIT
"""Atomic hand-over: a list of effects is done as a whole or not at all; and duplicates."""

from collections.abc import Callable

import pytest

from redrive.broker import Abandon, Cancel, Complete, DeadLetter, Defer, Effect, Lock, Send, State
from redrive.clock import utc
from redrive.errors import LockLost, MessageNotFound, MessageTooLarge, QueueNotFound, RedriveError, SessionRequired
from redrive.testing.conformance.fixtures import EngineFixtures, FullEngine, has_sessions, needs
from redrive.testing.conformance.settling import every_settlement
from redrive.testing.conformance.verbs import (
    BILLING,
    DEAD,
    LOCK_S,
    ORDERS,
    bodies,
    declare,
    everything,
    lock,
    lock_of,
    lock_one,
    message,
    refused,
    send,
    send_one,
)
from redrive.testing.manual_clock import ManualClock

FAILURES: dict[str, tuple[Callable[[Lock], Effect], type[RedriveError]]] = {
    "an unknown queue": (lambda _: Send("nowhere", message(b"x")), QueueNotFound),
    "a message too large": (lambda _: Send("small", message(b"x" * 101)), MessageTooLarge),
    "a message without its session": (lambda _: Send("sessions", message(b"x")), SessionRequired),
    "a lost lock": (lambda lost: Complete(lost), LockLost),  # noqa: PLW0108 - in step with the others
    "a lost lock to abandon": (lambda lost: Abandon(lost), LockLost),  # noqa: PLW0108 - same
    "a lost lock to defer": (lambda lost: Defer(lost), LockLost),  # noqa: PLW0108 - same
    "a lost lock to dead-letter": (lambda lost: DeadLetter(lost, "x"), LockLost),
    "nothing to cancel": (lambda _: Cancel(BILLING, 10_000), MessageNotFound),
}
every_failure = pytest.mark.parametrize(("failing", "error"), FAILURES.values(), ids=FAILURES)


async def lost_lock(engine: FullEngine, clock: ManualClock) -> Lock:
    """Return a lock that was good once."""
    await send(engine, b"lost", queue=BILLING)
    lost = lock_of(await lock_one(engine, BILLING))
    clock.advance(LOCK_S)
    return lost


class TransactionBehaviours(EngineFixtures):
    """What ``apply`` promises."""

    async def test_settling_and_sending_happen_together(self, engine: FullEngine, clock: ManualClock) -> None:
        await declare(engine, ORDERS, BILLING, "shipping")
        await send(engine, b"order")
        held = await lock_one(engine)
        outcomes = await engine.apply(
            [
                Send(BILLING, message(b"bill")),
                Complete(lock_of(held)),
                Send("shipping", message(b"ship"), utc(clock.time() + 30)),
                Send(ORDERS, message(b"another")),
            ]
        )
        first, none, second, third = outcomes
        assert none is None
        assert held.sequence < (first or 0) < (second or 0) < (third or 0)
        assert (await bodies(engine), await bodies(engine, BILLING)) == ([b"another"], [b"bill"])
        assert [seen.state for seen in await engine.peek("shipping", 1)] == [State.SCHEDULED]

    async def test_every_effect_has_its_outcome_in_its_place(self, engine: FullEngine, clock: ManualClock) -> None:
        await declare(engine)
        await send(engine, b"1", b"2", b"3", b"4")
        (later,) = await engine.apply([Send(ORDERS, message(b"later"), utc(clock.time() + 9))])
        assert later is not None
        one, two, three, four = [lock_of(held) for held in await lock(engine)]
        new = Send(ORDERS, message(b"5"))
        outcomes = await engine.apply(
            [Complete(one), new, Abandon(two), Defer(three), DeadLetter(four, "x"), Cancel(ORDERS, later)]
        )
        assert [outcome is not None for outcome in outcomes] == [False, True, False, False, False, False]

    async def test_doing_nothing_is_nothing(self, engine: FullEngine) -> None:
        assert await engine.apply([]) == []

    async def test_many_messages_are_settled_at_once(self, engine: FullEngine) -> None:
        await declare(engine)
        await send(engine, *(b"%d" % number for number in range(40)))
        held = await lock(engine)
        await engine.apply([Complete(lock_of(one)) for one in held])
        assert await bodies(engine) == []

    @every_failure
    @pytest.mark.parametrize("place", [0, 1, 2, 3])
    async def test_one_failure_undoes_everything(
        self,
        engine: FullEngine,
        clock: ManualClock,
        failing: Callable[[Lock], Effect],
        error: type[RedriveError],
        place: int,
    ) -> None:
        needs(engine.capabilities.is_transactional, "apply is not all or nothing")
        await declare(engine, ORDERS, BILLING)
        await declare(engine, "small", max_message_bytes=100)
        if has_sessions(engine):
            await declare(engine, "sessions", requires_session=True)
        elif error is SessionRequired:
            pytest.skip("the engine's capabilities say: it has no sessions")
        lost = await lost_lock(engine, clock)
        (later,) = await engine.apply([Send(BILLING, message(b"later"), utc(clock.time() + 99))])
        assert later is not None
        await send(engine, b"completed", b"abandoned")
        completed, abandoned = await lock(engine)
        effects: list[Effect] = [Complete(lock_of(completed)), Send(BILLING, message(b"bill")), Cancel(BILLING, later)]
        effects.insert(place, failing(lost))
        await refused(engine, *effects, Abandon(lock_of(abandoned), headers={"changed": 1}), error=error)
        await engine.apply([Complete(lock_of(completed)), Complete(lock_of(abandoned)), Cancel(BILLING, later)])

    @every_settlement
    async def test_a_message_cannot_be_settled_twice_in_one_list(
        self, engine: FullEngine, settle: Callable[[Lock], Effect]
    ) -> None:
        needs(engine.capabilities.is_transactional, "apply is not all or nothing")
        await declare(engine)
        await send(engine, b"one")
        held = lock_of(await lock_one(engine))
        await refused(engine, settle(held), Complete(held), error=LockLost)
        await refused(engine, Complete(held), settle(held), error=LockLost)

    async def test_a_message_sent_in_a_list_that_failed_leaves_no_trace(self, engine: FullEngine) -> None:
        needs(engine.capabilities.is_transactional, "apply is not all or nothing")
        await declare(engine)
        with pytest.raises(QueueNotFound):
            await engine.apply([Send(ORDERS, message(b"x")), Send("nowhere", message(b"y"))])
        assert (await lock(engine), await bodies(engine)) == ([], [])

    # --- duplicates

    async def test_a_second_message_with_the_same_id_is_dropped(self, engine: FullEngine, clock: ManualClock) -> None:
        needs(engine.capabilities.has_duplicate_detection, "it does not recognise duplicates")
        await declare(engine, duplicate_detection=60)
        first = await engine.apply([Send(ORDERS, message(b"first", id="same"))])
        clock.advance(59.999)
        assert await engine.apply([Send(ORDERS, message(b"second", id="same"))]) == [None]
        assert first != [None]
        assert await bodies(engine) == [b"first"]

    async def test_a_duplicate_is_recognised_when_the_first_is_done(self, engine: FullEngine) -> None:
        needs(engine.capabilities.has_duplicate_detection, "it does not recognise duplicates")
        await declare(engine, duplicate_detection=60)
        await send(engine, b"one")
        await engine.apply([Complete(lock_of(await lock_one(engine)))])
        assert await send(engine, b"one") == []
        assert await lock(engine) == []

    async def test_after_the_window_an_id_is_new_again(self, engine: FullEngine, clock: ManualClock) -> None:
        needs(engine.capabilities.has_duplicate_detection, "it does not recognise duplicates")
        await declare(engine, duplicate_detection=60)
        await send(engine, b"one")
        clock.advance(60)
        await engine.upkeep()
        assert len(await send(engine, b"one")) == 1
        assert await send(engine, b"one") == [], "and begins a window of its own"

    async def test_a_duplicate_does_not_lengthen_the_window(self, engine: FullEngine, clock: ManualClock) -> None:
        needs(engine.capabilities.has_duplicate_detection, "it does not recognise duplicates")
        await declare(engine, duplicate_detection=60)
        await send(engine, b"one")
        clock.advance(40)
        assert await send(engine, b"one") == []
        clock.advance(20)
        assert len(await send(engine, b"one")) == 1

    async def test_duplicates_are_recognised_within_one_list(self, engine: FullEngine) -> None:
        needs(engine.capabilities.has_duplicate_detection, "it does not recognise duplicates")
        await declare(engine, duplicate_detection=60)
        outcomes = await engine.apply([Send(ORDERS, message(body, id="same")) for body in (b"1", b"2", b"3")])
        assert [outcome is None for outcome in outcomes] == [False, True, True]
        assert await bodies(engine) == [b"1"]

    async def test_duplicates_are_a_matter_of_each_queue(self, engine: FullEngine) -> None:
        needs(engine.capabilities.has_duplicate_detection, "it does not recognise duplicates")
        await declare(engine, ORDERS, BILLING, duplicate_detection=60)
        await declare(engine, "any")
        for queue in (ORDERS, BILLING, "any", "any"):
            await send_one(engine, b"one", queue)
        assert len(await bodies(engine, "any")) == 2

    async def test_a_send_that_was_undone_is_no_duplicate_later(self, engine: FullEngine) -> None:
        needs(engine.capabilities.has_duplicate_detection, "it does not recognise duplicates")
        needs(engine.capabilities.is_transactional, "apply is not all or nothing")
        await declare(engine, duplicate_detection=60)
        await refused(engine, Send(ORDERS, message(b"one")), Send("nowhere", message(b"two")), error=QueueNotFound)
        assert len(await send(engine, b"one")) == 1

    async def test_a_duplicate_does_not_undo_what_goes_with_it(self, engine: FullEngine) -> None:
        needs(engine.capabilities.has_duplicate_detection, "it does not recognise duplicates")
        await declare(engine, ORDERS)
        await declare(engine, BILLING, duplicate_detection=60)
        await send(engine, b"bill", queue=BILLING)
        await send(engine, b"order")
        held = await lock_one(engine)
        assert await engine.apply([Complete(lock_of(held)), Send(BILLING, message(b"bill"))]) == [None, None]
        assert (await bodies(engine), await bodies(engine, BILLING)) == ([], [b"bill"])

    async def test_a_cancelled_or_scheduled_message_is_seen_too(self, engine: FullEngine, clock: ManualClock) -> None:
        needs(engine.capabilities.has_duplicate_detection, "it does not recognise duplicates")
        await declare(engine, duplicate_detection=600)
        await engine.apply([Send(ORDERS, message(b"one"), utc(clock.time() + 30))])
        assert await send(engine, b"one") == []

    async def test_a_lock_lost_in_a_list_leaves_dead_letters_alone(
        self, engine: FullEngine, clock: ManualClock
    ) -> None:
        await declare(engine, ORDERS, BILLING)
        lost = await lost_lock(engine, clock)
        before = await everything(engine)
        with pytest.raises(LockLost):
            await engine.apply([DeadLetter(lost, "x")])
        assert await everything(engine) == before
        assert await bodies(engine, DEAD) == []
