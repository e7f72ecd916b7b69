# SPDX-License-Identifier: MIT
"""An engine whose calls are made again while the store does not answer: layer 1 around the client of layer 2.

Only what is certain not to have been done is done again. Engines promise that for ``EngineUnavailable``: what failed
with it was rolled back, unless the error says that it ``may_be_done``.
"""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any, TypeVar

from redrive.broker.effects import Effect, EffectResult, SessionLock
from redrive.broker.lifecycle import State
from redrive.broker.message import Lock, Received
from redrive.broker.port import Capabilities, Engine, QueueInfo, Upkeep
from redrive.broker.settings import QueueSettings
from redrive.clock import Clock
from redrive.errors import EngineUnavailable, StorageDamaged, StorageReadOnly
from redrive.retry import Policy, Retry, current_attempt, retry
from redrive.retry.policy import check_policy

T = TypeVar("T")


def is_safe_to_repeat(error: Exception) -> bool:
    """Say whether a call that failed may be made again: it was not done, and it may work next time."""
    is_lasting = isinstance(error, StorageDamaged | StorageReadOnly)
    return isinstance(error, EngineUnavailable) and not error.may_be_done and not is_lasting


class RetryingEngine:
    """Another engine, with retries around each of its calls, except those that come again by themselves.

    A call inside somebody's own retry is made once: who retries around us has the say.

    Args:
        inner: the engine.
        policy: whether and when to try again.
        clock: what waiting goes by.
    """

    def __init__(self, inner: Engine, policy: Policy, clock: Clock) -> None:
        self.inner = inner
        self._retry = retry(on=is_safe_to_repeat, policy=check_policy("retry", policy), deadline=None, clock=clock)
        self._retries: dict[str, Retry] = {}  # by verb

    async def _again(self, verb: str, call: Callable[..., Awaitable[T]], /, *args: Any, **how: Any) -> T:
        if current_attempt().operation:
            return await call(*args, **how)
        if verb not in self._retries:
            self._retries[verb] = self._retry.using(operation=verb)
        return await self._retries[verb].call_async(call, *args, **how)

    @property
    def capabilities(self) -> Capabilities:
        """What it can do."""
        return self.inner.capabilities

    async def open(self) -> None:
        """Connect."""
        await self._again("open", self.inner.open)

    async def close(self) -> None:
        """Disconnect."""
        await self.inner.close()

    async def declare(self, name: str, settings: QueueSettings) -> bool:
        """Create a queue."""
        return await self._again("declare", self.inner.declare, name, settings)

    async def update(self, name: str, settings: QueueSettings) -> None:
        """Change a queue's settings."""
        await self._again("update", self.inner.update, name, settings)

    async def delete(self, name: str) -> None:
        """Remove a queue."""
        await self._again("delete", self.inner.delete, name)

    async def inspect(self, name: str | None = None) -> list[QueueInfo]:
        """Describe queues."""
        return await self._again("inspect", self.inner.inspect, name)

    async def apply(self, effects: Sequence[Effect], *theirs: Any, **how: Any) -> list[EffectResult]:
        """Do all of it or nothing; with a part of the caller's own, once."""
        if theirs or how:
            return await self.inner.apply(effects, *theirs, **how)
        return await self._again("apply", self.inner.apply, effects)

    async def lock_next(
        self,
        queue: str,
        limit: int,
        *,
        session: SessionLock | None = None,
        delete: bool = False,
        max_bytes: int | None = None,
    ) -> list[Received]:
        """Lock the next messages."""
        return await self._again(
            "receive", self.inner.lock_next, queue, limit, session=session, delete=delete, max_bytes=max_bytes
        )

    async def lock_deferred(self, queue: str, sequences: Sequence[int]) -> list[Received]:
        """Lock deferred messages."""
        return await self._again("receive", self.inner.lock_deferred, queue, sequences)

    async def renew(self, locks: Sequence[Lock]) -> list[datetime | None]:
        """Lengthen locks."""
        return await self._again("renew", self.inner.renew, locks)

    async def peek(
        self, queue: str, limit: int, *, start: int = 0, states: Sequence[State] | None = None
    ) -> list[Received]:
        """Look at messages."""
        return await self._again("peek", self.inner.peek, queue, limit, start=start, states=states)

    async def lock_session(self, queue: str, session_id: str | None) -> SessionLock | None:
        """Lock a session."""
        return await self._again("accept session", self.inner.lock_session, queue, session_id)

    async def renew_session(self, session: SessionLock) -> SessionLock:
        """Lengthen a session's lock."""
        return await self._again("renew session", self.inner.renew_session, session)

    async def release_session(self, session: SessionLock) -> None:
        """Give a session back."""
        await self._again("release session", self.inner.release_session, session)

    async def upkeep(self, limit: int = 1_000) -> Upkeep:
        """Do what nobody has asked for; it comes round again by itself."""
        return await self.inner.upkeep(limit)

    async def wait(self, queue: str, seconds: float) -> None:
        """Wait for a hint; who waits asks again all the same."""
        await self.inner.wait(queue, seconds)
