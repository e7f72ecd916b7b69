# SPDX-License-Identifier: MIT
"""Queues: declaring, changing, describing, deleting, and what happens to idle ones."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from redrive.broker import Abandon, Broker, Complete, DeadLetter, Defer, QueueSettings, Send
from redrive.clock import utc
from redrive.errors import InvalidSetting, LockLost, QueueNotFound
from redrive.testing.conformance.fixtures import EngineFixtures, FullEngine, has_sessions, needs
from redrive.testing.conformance.verbs import (
    BILLING,
    DEAD,
    LOCK_S,
    ORDERS,
    bodies,
    declare,
    inspect,
    keep_up,
    lock,
    lock_of,
    lock_one,
    message,
    refused,
    send,
    send_one,
    turns,
    update,
    while_time_passes,
)
from redrive.testing.manual_clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class QueueBehaviours(EngineFixtures):
    """What queues promise."""

    async def test_a_declared_queue_is_there_with_its_settings(self, engine: FullEngine) -> None:
        settings = QueueSettings(
            lock_duration=5,
            max_delivery_count=3,
            default_ttl=90.5,
            dead_letter_on_expiration=True,
            auto_delete_on_idle=3_600,
            max_message_bytes=1_000,
        )
        assert await engine.declare(ORDERS, settings) is True
        info = await inspect(engine)
        assert (info.name, info.settings) == (ORDERS, settings)

    async def test_a_timedelta_in_the_settings_is_kept_as_seconds(self, engine: FullEngine) -> None:
        settings = replace(QueueSettings(), default_ttl=timedelta(minutes=2))  # type: ignore[arg-type]  # it is turned
        await engine.declare(ORDERS, settings)
        assert (await inspect(engine)).settings.default_ttl == 120.0

    async def test_declaring_again_changes_nothing_and_says_so(self, engine: FullEngine) -> None:
        await declare(engine, max_delivery_count=3)
        await send(engine, b"kept")
        assert await engine.declare(ORDERS, QueueSettings(max_delivery_count=7)) is False
        assert (await inspect(engine)).settings.max_delivery_count == 3
        assert await bodies(engine) == [b"kept"]

    async def test_an_empty_queue_has_nothing(self, engine: FullEngine, clock: ManualClock) -> None:
        await declare(engine)
        info = await inspect(engine)
        assert (info.ready, info.scheduled, info.locked, info.deferred, info.dead) == (0, 0, 0, 0, 0)
        assert info.oldest_at is None
        assert info.created_at == info.used_at == utc(clock.time())
        assert await lock(engine) == []
        assert await engine.peek(ORDERS, 10) == []

    async def test_inspect_counts_messages_by_what_they_do(self, engine: FullEngine, clock: ManualClock) -> None:
        await declare(engine)
        await send(engine, b"locked", b"deferred", b"dead", b"locked deferred")
        _, deferred, dead, both = await lock(engine)
        await engine.apply([Defer(lock_of(deferred)), Defer(lock_of(both)), DeadLetter(lock_of(dead), "broken")])
        await engine.lock_deferred(ORDERS, [both.sequence])
        await engine.apply([Send(ORDERS, message(b"later"), utc(clock.time() + 9))])
        await send(engine, b"ready 1", b"ready 2", b"ready 3")
        info = await inspect(engine)
        assert (info.ready, info.scheduled, info.locked, info.deferred, info.dead) == (3, 1, 2, 1, 1)

    async def test_inspect_tells_since_when_the_oldest_ready_message_waits(
        self, engine: FullEngine, clock: ManualClock
    ) -> None:
        await declare(engine)
        await send(engine, b"locked")
        await lock(engine)
        clock.advance(5)
        await send(engine, b"oldest")
        since = utc(clock.time())
        clock.advance(7)
        await send(engine, b"newer")
        assert (await inspect(engine)).oldest_at == since

    async def test_inspect_lists_all_queues_by_name_without_dead_letter_queues(self, engine: FullEngine) -> None:
        await declare(engine, "b", "a/b", "C", "a")
        assert [info.name for info in await engine.inspect()] == sorted(["b", "a/b", "C", "a"])

    async def test_inspect_lists_nothing_where_nothing_is(self, engine: FullEngine) -> None:
        assert await engine.inspect() == []

    async def test_queues_do_not_share_messages(self, engine: FullEngine) -> None:
        await declare(engine, ORDERS, BILLING)
        await send(engine, b"order")
        await send(engine, b"bill", queue=BILLING)
        assert [found.body for found in await lock(engine, BILLING)] == [b"bill"]
        assert [found.body for found in await lock(engine)] == [b"order"]

    async def test_queue_names_differ_by_case(self, engine: FullEngine) -> None:
        await declare(engine, "orders", "Orders")
        await send(engine, b"capital", queue="Orders")
        assert (await bodies(engine, "orders"), await bodies(engine, "Orders")) == ([], [b"capital"])

    @pytest.mark.parametrize("verb", ["inspect", "update", "delete", "lock", "deferred", "peek", "session"])
    async def test_a_queue_that_is_not_declared_is_named_in_the_error(self, engine: FullEngine, verb: str) -> None:
        await declare(engine)
        calls: dict[str, Callable[[], Awaitable[object]]] = {
            "inspect": lambda: engine.inspect("nowhere"),
            "update": lambda: engine.update("nowhere", QueueSettings()),
            "delete": lambda: engine.delete("nowhere"),
            "lock": lambda: engine.lock_next("nowhere", 1),
            "deferred": lambda: engine.lock_deferred("nowhere", [1]),
            "peek": lambda: engine.peek("nowhere", 1),
            "session": lambda: engine.lock_session("nowhere", None),
        }
        with pytest.raises(QueueNotFound) as caught:
            await calls[verb]()
        assert caught.value.queue == "nowhere"

    async def test_sending_to_a_queue_that_is_not_declared_is_refused(self, engine: FullEngine) -> None:
        await declare(engine)
        await refused(engine, Send("nowhere", message(b"lost?")), error=QueueNotFound)

    async def test_updated_settings_hold_from_then_on(self, engine: FullEngine, clock: ManualClock) -> None:
        await declare(engine, lock_duration=60)
        await update(engine, lock_duration=5, max_delivery_count=4)
        settings = (await inspect(engine)).settings
        assert (settings.lock_duration, settings.max_delivery_count) == (5, 4)
        await send(engine, b"one")
        assert (await lock_one(engine)).locked_until == utc(clock.time() + 5)

    async def test_a_lock_that_is_held_keeps_its_time_when_the_setting_changes(
        self, engine: FullEngine, clock: ManualClock
    ) -> None:
        await declare(engine, lock_duration=60)
        await send(engine, b"one")
        held = await lock_one(engine)
        await update(engine, lock_duration=5)
        clock.advance(30)
        assert await lock(engine) == []
        await engine.apply([Complete(lock_of(held))])

    async def test_whether_a_queue_has_sessions_cannot_be_changed(self, engine: FullEngine) -> None:
        await declare(engine)
        await send(engine, b"in no session")
        with pytest.raises(InvalidSetting, match="requires_session"):
            await update(engine, requires_session=True)
        assert [found.body for found in await lock(engine)] == [b"in no session"]

    async def test_a_deleted_queue_is_gone_with_all_it_held(self, engine: FullEngine) -> None:
        await declare(engine, ORDERS, BILLING)
        await send(engine, b"dead", b"alive")
        await engine.apply([DeadLetter(lock_of(await lock_one(engine)), "broken")])
        await send(engine, b"bill", queue=BILLING)
        await engine.delete(ORDERS)
        for name in (ORDERS, DEAD):
            with pytest.raises(QueueNotFound):
                await engine.peek(name, 1)
        assert await bodies(engine, BILLING) == [b"bill"]

    async def test_a_queue_declared_anew_begins_empty(self, engine: FullEngine) -> None:
        await declare(engine, duplicate_detection=600)
        await send(engine, b"old", b"dead")
        await engine.apply([DeadLetter(lock_of((await lock(engine))[1]), "broken")])
        await engine.delete(ORDERS)
        await declare(engine, duplicate_detection=600)
        assert (await bodies(engine), await bodies(engine, DEAD)) == ([], [])
        assert len(await send(engine, b"old")) == 1, "what was sent to the deleted queue is no duplicate"

    async def test_a_lock_from_a_deleted_queue_settles_nothing_in_its_successor(self, engine: FullEngine) -> None:
        await declare(engine)
        await send(engine, b"old")
        old = await lock_one(engine)
        await engine.delete(ORDERS)
        await declare(engine)
        await send(engine, b"new")
        await lock_one(engine)
        await refused(engine, Complete(lock_of(old)), error=LockLost)

    async def test_a_dead_letter_queue_cannot_be_deleted_alone(self, engine: FullEngine) -> None:
        await declare(engine, max_delivery_count=1)
        with pytest.raises(InvalidSetting):
            await engine.delete(DEAD)
        await send(engine, b"spent")
        await engine.apply([Abandon(lock_of(await lock_one(engine)))])
        assert (await bodies(engine), await bodies(engine, DEAD)) == ([], [b"spent"])

    # --- auto-delete on idle

    async def test_a_queue_that_is_not_used_is_deleted(self, engine: FullEngine, clock: ManualClock) -> None:
        await declare(engine, auto_delete_on_idle=600)
        await declare(engine, BILLING)
        await send(engine, b"goes with it")
        clock.advance(700)
        assert (await engine.upkeep()).queues_deleted == 1
        assert [info.name for info in await engine.inspect()] == [BILLING]
        with pytest.raises(QueueNotFound):
            await engine.peek(DEAD, 1)

    async def test_a_queue_is_not_deleted_before_its_time(self, engine: FullEngine, clock: ManualClock) -> None:
        await declare(engine, auto_delete_on_idle=10)
        clock.advance(0.9)
        await send(engine, b"used")
        clock.advance(9.5)
        await keep_up(engine)
        assert await bodies(engine) == [b"used"]

    async def test_sending_counts_as_use(self, engine: FullEngine, clock: ManualClock) -> None:
        await declare(engine, auto_delete_on_idle=600)
        for _ in range(3):
            clock.advance(400)
            await keep_up(engine)
            await send(engine, b"again")
        assert (await inspect(engine)).used_at == utc(clock.time())
        clock.advance(700)
        await keep_up(engine)
        assert await engine.inspect() == []

    async def test_receiving_counts_as_use_even_if_nothing_is_there(
        self, engine: FullEngine, clock: ManualClock
    ) -> None:
        await declare(engine, auto_delete_on_idle=600)
        for _ in range(3):
            clock.advance(400)
            await keep_up(engine)
            assert await lock(engine) == []
        clock.advance(700)
        await keep_up(engine)
        assert await engine.inspect() == []

    async def test_looking_does_not_count_as_use(self, engine: FullEngine, clock: ManualClock) -> None:
        await declare(engine, auto_delete_on_idle=600)
        clock.advance(400)
        await engine.peek(ORDERS, 1)
        await inspect(engine)
        clock.advance(300)
        await keep_up(engine)
        assert await engine.inspect() == []

    async def test_waiting_counts_as_use(self, engine: FullEngine, broker: Broker, clock: ManualClock) -> None:
        await declare(engine, auto_delete_on_idle=600)
        waiting = asyncio.create_task(broker.receive(ORDERS, wait=86_400))
        while not clock.sleepers:  # then it waits
            await asyncio.wait({waiting}, timeout=0.005)
        clock.advance(5_000)
        await keep_up(engine)
        await send(engine, b"still there")
        assert [found.body for found in await while_time_passes(waiting, clock)] == [b"still there"]

    async def test_waiting_counts_as_use_for_the_other_engine(
        self, engine: FullEngine, other: FullEngine, broker: Broker, clock: ManualClock
    ) -> None:
        await declare(engine, auto_delete_on_idle=600)
        waiting = asyncio.create_task(broker.receive(ORDERS, wait=86_400))
        used_at = (await inspect(other)).used_at
        for _ in range(3):  # threads and servers note it, so the number of steps is not known
            now_at = used_at
            for _ in range(2_000):
                if (now_at := (await inspect(other)).used_at) != used_at:
                    break
                clock.advance(0.2)
                await turns()
            assert now_at != used_at, "the engine did not note that a receiver waits"
            assert (now_at - used_at).total_seconds() < 600
            used_at = now_at
            await keep_up(other)
        await send(other, b"still there")
        assert [found.body for found in await while_time_passes(waiting, clock)] == [b"still there"]

    @pytest.mark.parametrize("what", ["message", "session"])
    async def test_renewing_a_lock_counts_as_use(self, engine: FullEngine, clock: ManualClock, what: str) -> None:
        if what == "session":
            needs(has_sessions(engine), "it has no sessions")
        await declare(engine, auto_delete_on_idle=100, requires_session=what == "session")
        await send(engine, b"long work", session_id="A")
        session = await engine.lock_session(ORDERS, "A") if what == "session" else None
        (held,) = await (engine.lock_next(ORDERS, 1) if session is None else engine.lock_in_session(session, 1))
        for _ in range(10):
            clock.advance(LOCK_S / 2)
            if session is None:
                assert await engine.renew([lock_of(held)]) != [None]
            else:
                await engine.renew_session(session)
            await keep_up(engine)
        await engine.apply([Complete(lock_of(held))])

    async def test_a_queue_without_the_setting_stays(self, engine: FullEngine, clock: ManualClock) -> None:
        await declare(engine)
        number = await send_one(engine, b"patient")
        clock.advance(300 * 86_400)
        assert (await engine.upkeep()).queues_deleted == 0
        assert (await lock_one(engine)).sequence == number
