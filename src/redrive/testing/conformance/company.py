# SPDX-License-Identifier: MIT
"""Concurrency: many callers at once, callers that are cancelled, callers that wait, and a second process."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from redrive.broker import Abandon, Broker, Complete, DeadLetter, QueueSettings, Received, Send, State
from redrive.clock import utc
from redrive.errors import LockLost, QueueNotFound, RedriveError, UsageError
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
    BILLING,
    DEAD,
    LOCK_S,
    ORDERS,
    bodies,
    declare,
    everything,
    inspect,
    lock,
    lock_of,
    lock_one,
    message,
    send,
    turns,
    update,
    while_time_passes,
)
from redrive.testing.manual_clock import ManualClock

PATIENCE = 20.0
"""Real seconds after which a task that should have been woken has not been."""


def calls(engine: FullEngine) -> list[Callable[[], Awaitable[object]]]:
    """Return some calls of an engine."""
    return [
        engine.inspect,
        lambda: engine.apply([]),
        lambda: engine.lock_next(ORDERS, 1),
        lambda: engine.peek(ORDERS, 1),
    ]


class CompanyBehaviours(EngineFixtures):
    """What holds while other callers use the store."""

    # --- many at once

    @pytest.mark.parametrize("delete", [False, True])
    async def test_receivers_at_the_same_time_get_different_messages(self, engine: FullEngine, delete: bool) -> None:  # noqa: FBT001
        await declare(engine)
        await engine.apply([Send(ORDERS, message(b"%d" % number)) for number in range(200)])
        hands = await asyncio.gather(*(engine.lock_next(ORDERS, 3, delete=delete) for _ in range(50)))
        assert {len(hand) for hand in hands} == {3}
        numbers = [found.sequence for hand in hands for found in hand]
        assert len(set(numbers)) == 150
        assert all(hand == sorted(hand, key=lambda found: found.sequence) for hand in hands)

    async def test_receivers_at_the_same_time_may_ask_for_different_amounts(self, engine: FullEngine) -> None:
        await declare(engine)
        sent = await engine.apply([Send(ORDERS, message(b"%d" % number)) for number in range(20)])
        limits = [1, 5, 2, 9, 1, 7]
        hands = await asyncio.gather(*(engine.lock_next(ORDERS, limit) for limit in limits))
        assert all(len(hand) <= limit for hand, limit in zip(hands, limits, strict=True))
        assert sorted(found.sequence for hand in hands for found in hand) == sent

    async def test_senders_and_receivers_do_not_disturb_each_other(self, engine: FullEngine) -> None:
        await declare(engine)
        seen: Counter[bytes] = Counter()

        async def work() -> None:
            while found := await engine.lock_next(ORDERS, 2):
                await engine.apply([Complete(lock_of(each)) for each in found])
                seen.update(each.body for each in found)

        sending = (engine.apply([Send(ORDERS, message(b"%d" % number))]) for number in range(200))
        await asyncio.gather(*sending, *(work() for _ in range(20)))
        await work()
        assert len(seen) == 200
        assert set(seen.values()) == {1}
        assert await bodies(engine) == []

    async def test_the_failure_of_one_caller_concerns_no_other(self, engine: FullEngine, clock: ManualClock) -> None:
        await declare(engine)
        await send(engine, b"lost", b"held")
        lost = await lock_one(engine)
        clock.advance(LOCK_S)
        _, held = await lock(engine)
        results = await asyncio.gather(
            engine.apply([Send(ORDERS, message(b"1"))]),
            engine.apply([Complete(lock_of(lost)), Send(ORDERS, message(b"never"))]),
            engine.apply([Send("nowhere", message(b"2"))]),
            engine.apply([Complete(lock_of(held))]),
            engine.lock_next("nowhere", 1),
            engine.lock_next(ORDERS, 10),
            engine.declare(BILLING, QueueSettings()),
            return_exceptions=True,
        )
        kinds = [type(result) if isinstance(result, Exception) else "fine" for result in results]
        assert kinds == ["fine", LockLost, QueueNotFound, "fine", QueueNotFound, "fine", "fine"]
        assert sorted(await bodies(engine)) == [b"1", b"lost"]
        assert (await inspect(engine, BILLING)).ready == 0

    async def test_one_lock_is_used_once_however_many_try(self, engine: FullEngine) -> None:
        await declare(engine)
        await send(engine, b"one")
        held = lock_of(await lock_one(engine))
        trying = [engine.apply([Complete(held)]) for _ in range(5)] + [engine.apply([Abandon(held)]) for _ in range(5)]
        results = await asyncio.gather(*trying, return_exceptions=True)
        assert Counter(type(result) for result in results) == {list: 1, LockLost: 9}

    async def test_one_session_is_locked_once_however_many_try(self, engine: FullEngine) -> None:
        if not has_sessions(engine):
            pytest.skip("the engine's capabilities say: it has no sessions")
        await declare(engine, requires_session=True)
        await send(engine, b"a", session_id="a")
        got = await asyncio.gather(*(engine.lock_session(ORDERS, None) for _ in range(10)))
        assert sum(session is not None for session in got) == 1

    async def test_a_queue_is_declared_once_however_many_try(self, engine: FullEngine) -> None:
        made = await asyncio.gather(*(engine.declare(ORDERS, QueueSettings()) for _ in range(10)))
        assert sorted(made) == [False] * 9 + [True]

    # --- callers who leave

    @pytest.mark.parametrize("company", [0, 5])
    @pytest.mark.parametrize("after", range(6))
    async def test_a_receiver_that_is_cancelled_gives_its_messages_back_uncounted(
        self, engine: FullEngine, after: int, company: int
    ) -> None:
        if company:
            needs(engine.capabilities.keeps_place, "what is given back is the last in its queue")
        await declare(engine)
        await send(engine, b"one", b"two")
        leaving = asyncio.create_task(engine.lock_next(ORDERS, 2))
        others = [asyncio.create_task(engine.apply([Send(ORDERS, message(b"x"))])) for _ in range(company)]
        await turns(after)
        leaving.cancel()
        await asyncio.gather(*others)
        (got,) = await asyncio.gather(leaving, return_exceptions=True)
        await turns()
        if isinstance(got, BaseException):
            await everything(engine)  # every lock of a cancelled caller is released by the time another call is done
            found = await lock(engine, limit=2)
            assert [(each.body, each.delivery_count) for each in found] == [(b"one", 1), (b"two", 1)]
        else:
            assert [each.body for each in got] == [b"one", b"two"]

    @pytest.mark.parametrize("after", [0, 1])
    async def test_receive_and_delete_cancelled_before_it_began_takes_nothing(
        self, engine: FullEngine, after: int
    ) -> None:
        await declare(engine)
        await send(engine, b"one")
        leaving = asyncio.create_task(engine.lock_next(ORDERS, 1, delete=True))
        await turns(after)
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        assert await bodies(engine) == [b"one"]

    async def test_cancelled_calls_leave_the_engine_working(self, engine: FullEngine) -> None:
        await declare(engine)
        for after in range(8):
            calls: list[asyncio.Task[Any]] = [
                asyncio.create_task(engine.apply([Send(ORDERS, message(b"%d" % after))])),
                asyncio.create_task(engine.lock_next(ORDERS, 1)),
                asyncio.create_task(engine.peek(ORDERS, 1)),
                asyncio.create_task(engine.upkeep()),
                asyncio.create_task(engine.wait(ORDERS, 60)),
            ]
            await turns(after)
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)
        await send(engine, b"last")
        assert b"last" in await bodies(engine)

    # --- callers who wait

    async def test_a_waiting_receiver_is_woken_by_a_send(self, engine: FullEngine, broker: Broker) -> None:
        await declare(engine)
        waiting = asyncio.create_task(broker.receive(ORDERS, wait=3_600))
        await turns()
        await send(engine, b"at last")
        assert [found.body for found in await asyncio.wait_for(waiting, PATIENCE)] == [b"at last"]

    async def test_a_waiting_receiver_is_woken_by_an_abandon(self, engine: FullEngine, broker: Broker) -> None:
        await declare(engine)
        await send(engine, b"one")
        held = await lock_one(engine)
        waiting = asyncio.create_task(broker.receive(ORDERS, wait=3_600))
        await turns()
        await engine.apply([Abandon(lock_of(held))])
        assert [found.delivery_count for found in await asyncio.wait_for(waiting, PATIENCE)] == [2]

    async def test_a_receiver_waiting_for_dead_letters_is_woken(self, engine: FullEngine, broker: Broker) -> None:
        await declare(engine)
        await send(engine, b"one")
        held = await lock_one(engine)
        waiting = asyncio.create_task(broker.receive(DEAD, wait=3_600))
        await turns()
        await engine.apply([DeadLetter(lock_of(held), "broken")])
        assert [found.body for found in await asyncio.wait_for(waiting, PATIENCE)] == [b"one"]

    async def test_a_waiting_receiver_is_woken_when_a_message_comes_due(
        self, engine: FullEngine, broker: Broker, clock: ManualClock
    ) -> None:
        await declare(engine)
        await engine.apply([Send(ORDERS, message(b"due"), utc(clock.time() + 5))])
        waiting = asyncio.create_task(broker.receive(ORDERS, wait=3_600))
        began = clock.monotonic()
        assert [found.body for found in await while_time_passes(waiting, clock)] == [b"due"]
        assert clock.monotonic() - began < 60
        if goes_by_clock(engine):
            assert clock.monotonic() - began > 4.9

    async def test_a_waiting_receiver_is_woken_when_a_lock_ends(
        self, engine: FullEngine, broker: Broker, clock: ManualClock
    ) -> None:
        await declare(engine)
        await send(engine, b"one")
        await lock_one(engine)
        waiting = asyncio.create_task(broker.receive(ORDERS, wait=3_600))
        assert [found.delivery_count for found in await while_time_passes(waiting, clock, 1.0)] == [2]

    async def test_a_receiver_that_waits_in_vain_gets_nothing_when_the_time_is_over(
        self, engine: FullEngine, broker: Broker, clock: ManualClock
    ) -> None:
        await declare(engine, ORDERS, BILLING)
        waiting = asyncio.create_task(broker.receive(ORDERS, wait=5))
        await turns()
        await send(engine, b"elsewhere", queue=BILLING)
        began = clock.monotonic()
        assert await while_time_passes(waiting, clock) == []
        assert clock.monotonic() - began > 4.9

    async def test_waiting_ends_with_its_time(self, engine: FullEngine, clock: ManualClock) -> None:
        await declare(engine)
        await while_time_passes(asyncio.create_task(engine.wait(ORDERS, 2.0)), clock)
        assert clock.monotonic() < 60

    async def test_a_receiver_that_waits_for_nothing_is_not_woken_again_and_again(self, engine: FullEngine) -> None:
        await declare(engine)
        woken = 0

        async def ask_and_wait() -> None:
            nonlocal woken
            while True:
                assert await engine.lock_next(ORDERS, 1) == []
                await engine.wait(ORDERS, 3_600)
                woken += 1

        asking = asyncio.create_task(ask_and_wait())
        await asyncio.wait([asking], timeout=0.3)  # real time; an engine that wakes it always does so hundreds of times
        assert not asking.done()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        assert woken < 10, "a process that waits must not keep a core busy"

    async def test_of_many_waiting_receivers_each_message_finds_one(self, engine: FullEngine, broker: Broker) -> None:
        await declare(engine)
        waiting = [asyncio.create_task(broker.receive(ORDERS, wait=3_600)) for _ in range(10)]
        await turns()
        for number in range(10):
            await send(engine, b"%d" % number)
        hands = await asyncio.wait_for(asyncio.gather(*waiting), PATIENCE)
        assert sorted(found.body for hand in hands for found in hand) == [b"%d" % number for number in range(10)]

    # --- opening and closing

    async def test_an_engine_that_is_not_open_says_so(self, make_engine: EngineFactory, clock: ManualClock) -> None:
        engine = full(make_engine(clock))
        for call in calls(engine):
            with pytest.raises(UsageError):
                await call()
        await engine.close()

    async def test_an_engine_that_was_closed_says_so(self, make_engine: EngineFactory, clock: ManualClock) -> None:
        engine = full(make_engine(clock))
        await engine.open()
        await engine.declare(ORDERS, QueueSettings())
        await engine.close()
        await engine.close()
        for call in calls(engine):
            with pytest.raises(UsageError):
                await call()

    async def test_closing_finishes_what_was_accepted(self, make_engine: EngineFactory, clock: ManualClock) -> None:
        engine = full(make_engine(clock))
        await engine.open()
        await engine.declare(ORDERS, QueueSettings())
        sending = [asyncio.create_task(engine.apply([Send(ORDERS, message(b"%d" % each))])) for each in range(20)]
        await turns(1)
        await engine.close()
        assert all(outcome[0] is not None for outcome in await asyncio.gather(*sending))

    # --- a second process

    async def test_what_was_acknowledged_is_there_when_it_is_opened_again(
        self, engine: FullEngine, make_engine: EngineFactory, clock: ManualClock
    ) -> None:
        if not self.has_shared_store:
            pytest.skip("the store ends with the engine")
        await declare(engine, max_delivery_count=3)
        await send(engine, b"held", b"ready", headers={"kept": "ü"})
        held = await lock_one(engine)
        before = await everything(engine, to_others=True)
        await engine.close()
        again = full(make_engine(clock))
        await again.open()
        assert await everything(again, to_others=True) == before
        await again.apply([Complete(lock_of(held))])
        assert [found.body for found in await lock(again)] == [b"ready"]
        await again.close()

    async def test_two_engines_share_queues_messages_and_locks(self, engine: FullEngine, other: FullEngine) -> None:
        await declare(engine)
        await send(other, b"1", b"2")
        held = await lock_one(engine)
        assert [found.body for found in await lock(other)] == [b"2"]
        await other.apply([Complete(lock_of(held))])
        with pytest.raises(LockLost):
            await engine.apply([Complete(lock_of(held))])
        assert await everything(engine, to_others=True) == await everything(other, to_others=True)

    async def test_two_engines_never_have_the_same_message(self, engine: FullEngine, other: FullEngine) -> None:
        await declare(engine)
        await engine.apply([Send(ORDERS, message(b"%d" % number)) for number in range(100)])
        hands: list[list[Received]] = await asyncio.gather(
            *(each.lock_next(ORDERS, 5) for _ in range(10) for each in (engine, other))
        )
        numbers = [found.sequence for hand in hands for found in hand]
        assert len(numbers) == len(set(numbers)) == 100

    async def test_a_change_of_settings_reaches_the_other_engine(self, engine: FullEngine, other: FullEngine) -> None:
        await declare(engine, max_message_bytes=1)
        with pytest.raises(RedriveError):
            await send(other, b"long")
        await update(engine, max_message_bytes=100)
        await send(other, b"long")
        await other.delete(ORDERS)
        with pytest.raises(QueueNotFound):
            await send(engine, b"gone")
        await declare(engine)
        await send(other, b"new")
        assert [seen.state for seen in await engine.peek(ORDERS, 9)] == [State.READY]

    async def test_a_waiting_receiver_is_woken_by_the_other_engine(
        self, broker: Broker, engine: FullEngine, other: FullEngine, clock: ManualClock
    ) -> None:
        await declare(engine)
        waiting = asyncio.create_task(broker.receive(ORDERS, wait=3_600))
        await turns()
        await send(other, b"from afar")
        assert [found.body for found in await while_time_passes(waiting, clock)] == [b"from afar"]
        assert clock.monotonic() < 60, "it is found by looking now and then, not at the end of the wait"
