# SPDX-License-Identifier: MIT
"""A call that can never work raises an error that names the problem: none to retry, and none of Python or a driver.

The facade refuses most of them before an engine sees them; the engine must handle the rest.
"""

import math
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta, timezone
from typing import Any, TypeAlias

import pytest

from redrive.broker import Abandon, Broker, Cancel, Complete, DeadLetter, Lock, Message, Send, State
from redrive.errors import MessageError, MessageNotFound, QueueNotFound, UsageError
from redrive.testing.conformance.fixtures import EngineFixtures, FullEngine, has_sessions, needs
from redrive.testing.conformance.verbs import (
    ORDERS,
    bodies,
    declare,
    lock,
    lock_of,
    lock_one,
    message,
    refused,
    send,
    send_one,
)

Call: TypeAlias = Callable[[Any, Any], Awaitable[object]]

HALF_A_PAIR = "\ud800"
NAMES: list[Any] = ["a\0b", HALF_A_PAIR, "ü", "", "x" * 10_000, "a b\n", None, 5, 1.5, b"orders", ["orders"], {}]
FOR_NAMES: dict[str, Call] = {
    "declare": lambda broker, name: broker.declare(name),
    "update": lambda broker, name: broker.update(name, lock_duration=5),
    "delete": lambda broker, name: broker.delete(name),
    "inspect": lambda broker, name: broker.inspect(name),
    "send": lambda broker, name: broker.send(name, "x"),
    "send_many": lambda broker, name: broker.send_many(name, ["x"]),
    "schedule": lambda broker, name: broker.schedule(name, "x", 5),
    "apply": lambda broker, name: broker.apply(Send(name, Message(b""))),
    "cancel": lambda broker, name: broker.cancel(name, 1),
    "receive": lambda broker, name: broker.receive(name),
    "receive and delete": lambda broker, name: broker.receive(name, delete=True),
    "receive_deferred": lambda broker, name: broker.receive_deferred(name, [1]),
    "accept_session": lambda broker, name: broker.accept_session(name),
    "peek": lambda broker, name: broker.peek(name),
    "purge": lambda broker, name: broker.purge(name),
    "resubmit": lambda broker, name: broker.resubmit(name),
    "complete": lambda broker, name: broker.apply(Complete(Lock(name, 1, 1))),
}

LARGE = [2**31, 2**63 - 1, 2**63, 2**64, -(2**63) - 1, -(2**70), 10**30]
NO_NUMBERS = ["1", None, 1.5, True, math.nan, [1], b"1"]

WRONG: dict[str, tuple[list[Any], Call]] = {
    "cancel": (NO_NUMBERS, lambda broker, value: broker.cancel(ORDERS, value)),
    "receive_deferred": ([*([each] for each in NO_NUMBERS), "12", 5, None], lambda b, v: b.receive_deferred(ORDERS, v)),
    "peek from": (NO_NUMBERS, lambda broker, value: broker.peek(ORDERS, start=value)),
    "peek at most": ([*NO_NUMBERS, *LARGE, 0, -1], lambda broker, value: broker.peek(ORDERS, max_messages=value)),
    "peek states": ([["READY"], [7], "ready", 7, [None]], lambda broker, value: broker.peek(ORDERS, states=value)),
    "receive at most": ([*NO_NUMBERS, *LARGE, 0, -1], lambda broker, value: broker.receive(ORDERS, max_messages=value)),
    "resubmit at most": (["1", 1.5, True, 0, -1], lambda broker, value: broker.resubmit(ORDERS, max_messages=value)),
    "wait": (["10s", -1, math.nan, math.inf, None, True], lambda broker, value: broker.receive(ORDERS, wait=value)),
    "session": (["", "a\0b", HALF_A_PAIR, "x" * 2_000, 5, b"A"], lambda b, value: b.accept_session(ORDERS, value)),
    "payload": ([{5}, None, HALF_A_PAIR, bytearray(b"x"), object()], lambda b, value: b.send(ORDERS, value)),
    "payloads": (["abc", b"abc", {"a": 1}, 5, None, Message(b""), [None]], lambda b, value: b.send_many(ORDERS, value)),
    "at": (
        [
            *("tomorrow", -1, math.nan, True, None, 1e12, timedelta(days=400)),
            *(datetime(2026, 1, 1), datetime.max.replace(tzinfo=timezone(timedelta(hours=-1)))),  # noqa: DTZ001 - on purpose
        ],
        lambda broker, value: broker.schedule(ORDERS, "x", value),
    ),
    "effect": ([5, "complete", None, [], Message(b"")], lambda broker, value: broker.apply(value)),
    "inside": ([5, "a statement"], lambda broker, value: broker.apply(inside=value)),
    "setting": ([{"lock_duraton": 5}, {"lock_duration": 0}], lambda broker, value: broker.declare("new", **value)),
    "update": ([{"lock_duraton": 5}, {"lock_duration": "1m"}], lambda broker, value: broker.update(ORDERS, **value)),
}


def each(table: dict[str, tuple[list[Any], Call]]) -> "pytest.MarkDecorator":
    """Try every value of a table."""
    tried = [(call, value) for values, call in table.values() for value in values]
    names = [f"{name}-{number}" for name, (values, _) in table.items() for number in range(len(values))]
    return pytest.mark.parametrize(("call", "value"), tried, ids=names)


class BorderBehaviours(EngineFixtures):
    """What is refused, and how."""

    async def test_a_name_that_no_queue_has_is_not_found_or_refused(self, broker: Broker, engine: FullEngine) -> None:
        await declare(engine)
        for verb, call in FOR_NAMES.items():
            for name in NAMES:
                try:
                    await call(broker, name)
                except (UsageError, MessageError) as error:
                    str(error).encode()  # can be printed
                else:
                    raise AssertionError(f"{verb} takes {name!r}")

    @each(WRONG)
    async def test_what_can_never_work_is_refused_by_name(
        self, broker: Broker, engine: FullEngine, call: Call, value: object
    ) -> None:
        await declare(engine)
        await send(engine, b"kept")
        with pytest.raises((UsageError, MessageError)) as caught:
            await call(broker, value)
        str(caught.value).encode()
        assert await bodies(engine) == [b"kept"]

    @pytest.mark.parametrize("number", [*LARGE, 0, -1])
    async def test_a_number_that_no_message_has_is_not_found(
        self, broker: Broker, engine: FullEngine, number: int
    ) -> None:
        needs(engine.capabilities.cancels_schedules, "it cannot cancel scheduled messages")
        await declare(engine)
        sent = await send_one(engine, b"kept")
        with pytest.raises(MessageNotFound):
            await broker.cancel(ORDERS, number)
        with pytest.raises(MessageNotFound):
            await broker.receive_deferred(ORDERS, [number])
        nobodys = Lock(ORDERS, number, number)
        for effect in (Complete(nobodys), Abandon(nobodys), DeadLetter(nobodys, "x")):
            await refused(engine, effect, error=MessageError)
        assert await engine.renew([Lock(ORDERS, number, number)]) == [None]
        await refused(engine, Cancel(ORDERS, number), error=MessageNotFound)
        assert len(await broker.peek(ORDERS, start=number)) == (number <= sent)

    async def test_an_engine_bears_any_limit(self, engine: FullEngine) -> None:
        await declare(engine)
        await send(engine, b"1", b"2")
        for limit in (0, -1, -(2**70)):
            assert await engine.peek(ORDERS, limit) == []
            assert await engine.lock_next(ORDERS, limit) == []
            assert (await engine.upkeep(limit)).expired == 0
        for limit in (2**31, 2**63, 2**70):
            assert len(await engine.peek(ORDERS, limit)) == 2
            assert (await engine.upkeep(limit)).expired == 0
            for held in await engine.lock_next(ORDERS, limit):
                await engine.apply([Abandon(lock_of(held), uncount=True)])
        assert len(await engine.lock_next(ORDERS, 2**63)) == 2

    async def test_an_engine_knows_no_queue_of_such_a_name(self, engine: FullEngine) -> None:
        await declare(engine)
        for name in ("a\0b", HALF_A_PAIR, "x" * 10_000):
            with pytest.raises(QueueNotFound):
                await engine.apply([Send(name, message(b"x"))])
            with pytest.raises(QueueNotFound):
                await engine.lock_next(name, 1)
            with pytest.raises(QueueNotFound):
                await engine.peek(name, 1)
            with pytest.raises(QueueNotFound):
                await engine.inspect(name)

    async def test_a_delivery_is_settled_as_can_be_or_not_at_all(self, broker: Broker, engine: FullEngine) -> None:
        await declare(engine)
        await send(engine, b"one")
        (held,) = await broker.receive(ORDERS)
        calls: list[Callable[[], Awaitable[object]]] = [
            lambda: held.abandon("5m"),  # type: ignore[arg-type]  # on purpose, here and below
            lambda: held.abandon(headers=["x"]),  # type: ignore[arg-type]
            lambda: held.abandon(headers={"n": 10**5_000}),
            lambda: held.dead_letter(None),  # type: ignore[arg-type]
            lambda: held.dead_letter("x", 5),  # type: ignore[arg-type]
            lambda: held.complete("done"),  # type: ignore[arg-type]
            lambda: held.complete(Send(ORDERS, None)),  # type: ignore[arg-type]
            lambda: held.complete(Send(ORDERS, Message(b""), 30)),  # type: ignore[arg-type]
        ]
        for call in calls:
            with pytest.raises((UsageError, MessageError)):
                await call()
        await held.complete()
        assert await lock(engine) == []

    async def test_what_a_session_remembers_is_bytes(self, broker: Broker, engine: FullEngine) -> None:
        needs(has_sessions(engine), "it has no sessions")
        await declare(engine, requires_session=True)
        session = await broker.accept_session(ORDERS, "A")
        assert session is not None
        with pytest.raises(UsageError):
            await session.remember("text")  # type: ignore[arg-type]  # on purpose
        await session.remember(b"bytes")

    async def test_a_state_may_be_asked_for_twice(self, broker: Broker, engine: FullEngine) -> None:
        await declare(engine)
        await send(engine, b"one")
        await lock_one(engine)
        assert len(await broker.peek(ORDERS, states=(State.LOCKED, State.READY))) == 1
        assert await broker.peek(ORDERS, states=()) == []
