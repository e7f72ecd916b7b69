# SPDX-License-Identifier: MIT
"""Cancelled callers: the engine releases a lock whose caller was cancelled, so that others get what it locked."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from redrive.broker import Defer, Send, State
from redrive.testing.conformance.fixtures import EngineFixtures, FullEngine, has_sessions, needs
from redrive.testing.conformance.verbs import ORDERS, accept, declare, lock, lock_of, message, send, turns

T = TypeVar("T")

MOMENTS = (*range(8), 10, 13, 17, 22, 30, 40, 50, 65, 80, 100, 130, 160, 200)
"""After how many turns of the event loop a caller leaves: an engine in this process is done within a few."""

_PATIENCE_S = 60.0
"""Long enough for a busy machine: an engine that keeps the locks fails, a slow one does not."""

company = pytest.mark.parametrize("company", [0, 5], ids=["alone", "in company"])


async def left(engine: FullEngine, call: Awaitable[object], after: int, company: int) -> bool:
    """Cancel a call after so many turns of the event loop; say whether it was cancelled, or done by then."""
    leaving = asyncio.ensure_future(call)
    others = [asyncio.create_task(engine.apply([Send("others", message(b"x"))])) for _ in range(company)]
    await turns(after)
    leaving.cancel()
    await asyncio.gather(leaving, *others, return_exceptions=True)
    return leaving.cancelled()


async def soon(ask: Callable[[], Awaitable[T | None]]) -> T | None:
    """Ask until there is an answer. A cancelled caller's locks are given back a moment later, in real time.

    The engine's clock stands still meanwhile, so no lock can end by itself.
    """
    loop = asyncio.get_running_loop()
    latest = loop.time() + _PATIENCE_S
    while not (found := await ask()) and loop.time() < latest:
        await turns()
    return found


class LeavingBehaviours(EngineFixtures):
    """What cancelled callers leave behind: nothing."""

    @company
    @pytest.mark.parametrize("named", [True, False], ids=["by name", "any"])
    async def test_a_session_accepted_by_a_cancelled_caller_is_free(
        self,
        engine: FullEngine,
        company: int,
        named: bool,  # noqa: FBT001 - one of two kinds
    ) -> None:
        needs(has_sessions(engine), "it has no sessions")
        await declare(engine, requires_session=True)
        await declare(engine, "others")
        for after in MOMENTS:
            name = f"{after}"
            await send(engine, b"one", session_id=name)
            if await left(engine, engine.lock_session(ORDERS, name if named else None), after, company):
                session = await soon(lambda name=name: engine.lock_session(ORDERS, name))  # type: ignore[misc]  # a default
                assert session is not None, f"a caller cancelled after {after} turns has it"
                assert len(await engine.lock_in_session(session, 5, delete=True)) == 1
            else:
                break  # that is how long it takes

    @company
    async def test_a_message_of_a_session_received_by_a_cancelled_caller_is_free(
        self, engine: FullEngine, company: int
    ) -> None:
        needs(has_sessions(engine), "it has no sessions")
        await declare(engine, requires_session=True)
        await declare(engine, "others")
        session = await accept(engine, "A")
        for after in MOMENTS:
            await send(engine, b"one", session_id="A")
            if not await left(engine, engine.lock_in_session(session, 5), after, company):
                break
            found = await soon(lambda: engine.lock_in_session(session, 5, delete=True))
            assert [one.delivery_count for one in found or ()] == [1], f"a caller cancelled after {after} turns has it"

    @company
    async def test_a_deferred_message_received_by_a_cancelled_caller_is_free(
        self, engine: FullEngine, company: int
    ) -> None:
        await declare(engine)
        await declare(engine, "others")
        numbers = await send(engine, b"one", b"two")
        await engine.apply([Defer(lock_of(held)) for held in await lock(engine)])

        async def are_free() -> bool:
            return all(seen.state is State.DEFERRED for seen in await engine.peek(ORDERS, 5))

        for after in MOMENTS:
            if not await left(engine, engine.lock_deferred(ORDERS, numbers), after, company):
                break
            assert await soon(are_free), f"a caller cancelled after {after} turns has them"
        else:

            async def are_uncounted() -> bool:  # a call that was cancelled last may just be giving them back
                return [seen.delivery_count for seen in await engine.peek(ORDERS, 5)] == [1, 1]

            assert await soon(are_uncounted)
