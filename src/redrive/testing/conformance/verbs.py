# SPDX-License-Identifier: MIT
"""What the conformance suite does to an engine, in few words."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from redrive.broker import (
    Effect,
    Lock,
    Message,
    QueueInfo,
    QueueSettings,
    Received,
    Send,
    SessionLock,
    State,
    dead_letter_queue,
)
from redrive.broker.port import EffectResult
from redrive.testing.conformance.fixtures import FullEngine, has_sessions, needs
from redrive.testing.manual_clock import ManualClock

T = TypeVar("T")

ORDERS = "orders"
BILLING = "billing"
DEAD = dead_letter_queue(ORDERS)
LOCK_S = 60.0
"""How long locks last in the queues of this suite, unless a test says otherwise."""


async def declare(engine: FullEngine, *names: str, **settings: Any) -> None:
    """Declare queues, all with the same settings."""
    if settings.get("requires_session"):
        needs(has_sessions(engine), "it has no sessions")
    for name in names or (ORDERS,):
        assert await engine.declare(name, QueueSettings(**settings))


async def update(engine: FullEngine, name: str = ORDERS, **changes: Any) -> None:
    """Change some settings of a queue."""
    await engine.update(name, replace((await inspect(engine, name)).settings, **changes))


async def inspect(engine: FullEngine, name: str = ORDERS) -> QueueInfo:
    """Describe one queue."""
    (info,) = await engine.inspect(name)
    return info


def message(body: bytes = b"", **fields: Any) -> Message:
    """Return a message with an id: naming messages is the broker's task, not the engine's."""
    fields.setdefault("id", f"id of {len(body)} bytes: {body[:20]!r}")
    return Message(body, **fields)


async def send(engine: FullEngine, *bodies: bytes, queue: str = ORDERS, **fields: Any) -> list[int]:
    """Send messages, one after another; return their numbers."""
    sent = [await engine.apply([Send(queue, message(body, **fields))]) for body in bodies]
    return [number for outcome in sent for number in outcome if number is not None]


async def send_one(engine: FullEngine, body: bytes = b"", queue: str = ORDERS, **fields: Any) -> int:
    """Send one message; return its number."""
    (number,) = await send(engine, body, queue=queue, **fields)
    return number


async def lock(engine: FullEngine, queue: str = ORDERS, limit: int = 100) -> list[Received]:
    """Lock whatever is ready."""
    return await engine.lock_next(queue, limit)


async def lock_one(engine: FullEngine, queue: str = ORDERS) -> Received:
    """Lock the next message; it must be there."""
    found = await engine.lock_next(queue, 1)
    assert len(found) == 1, f"nothing is ready in {queue}"
    return found[0]


def lock_of(received: Received) -> Lock:
    """Return the right to settle a message."""
    assert received.lock is not None
    return received.lock


async def deferred_one(engine: FullEngine, number: int, queue: str = ORDERS) -> Received:
    """Lock one deferred message."""
    (received,) = await engine.lock_deferred(queue, [number])
    return received


async def accept(engine: FullEngine, session_id: str | None = None, queue: str = ORDERS) -> SessionLock:
    """Lock a session; it must be free."""
    session = await engine.lock_session(queue, session_id)
    assert session is not None
    return session


async def bodies(engine: FullEngine, queue: str = ORDERS) -> list[bytes]:
    """Return what is in a queue, whatever it is doing."""
    return [seen.body for seen in await engine.peek(queue, 1_000)]


async def keep_up(engine: FullEngine) -> None:
    """Do all the upkeep there is."""
    while not (await engine.upkeep()).is_finished:
        pass


@dataclass(frozen=True, slots=True)
class Everything:
    """All that a caller can see of a store."""

    queues: list[QueueInfo]
    messages: dict[str, list[Received]]


async def everything(engine: FullEngine, *, to_others: bool = False) -> Everything:
    """Return all that can be seen, to compare it with what can be seen later. When a queue was used does not count.

    Args:
        engine: who looks.
        to_others: whether only what every other engine would see is wanted; where they do not see locks, these are
            left out.
    """
    infos = [replace(info, used_at=info.created_at) for info in await engine.inspect()]
    names = [info.name for info in infos if not info.is_topic] + [dead_letter_queue(info.name) for info in infos]
    messages = {name: await engine.peek(name, 10_000) for name in names}
    if to_others and not engine.capabilities.sees_locks:
        infos = [replace(info, ready=info.ready + info.locked, locked=0, oldest_at=None) for info in infos]
        messages = {name: [_unlocked(one) for one in found] for name, found in messages.items()}
    return Everything(infos, messages)


def _unlocked(one: Received) -> Received:
    state = State.READY if one.state is State.LOCKED else one.state
    return replace(one, state=state, locked_until=None, delivery_count=0)


async def apply_many(engine: FullEngine, effects: Sequence[Effect]) -> list[EffectResult]:
    """Apply effects that need not be done as a whole, in lists as long as the engine takes."""
    most = engine.capabilities.most_effects or max(1, len(effects))
    return [
        each for start in range(0, len(effects), most) for each in await engine.apply(effects[start : start + most])
    ]


async def refused(engine: FullEngine, *effects: Effect, error: type[Exception]) -> None:
    """See that effects are refused with an error, and that nothing has changed."""
    before = await everything(engine)
    try:
        await engine.apply(effects)
    except error:
        pass
    else:
        raise AssertionError(f"{effects} should have been refused with {error.__name__}")
    assert await everything(engine) == before


async def turns(count: int = 20) -> None:
    """Let other tasks have some turns. Takes no time."""
    still = ManualClock(auto_advance=True)
    for _ in range(count):
        await still.sleep_async(0.0)


async def while_time_passes(waiting: "asyncio.Task[T]", clock: ManualClock, step_s: float = 0.1) -> T:
    """Move the clock on, step by step, until a task is done."""
    while not waiting.done():
        clock.advance(step_s)
        await asyncio.wait({waiting}, timeout=0.005)  # an engine may have threads, which need real time
    return waiting.result()
