# SPDX-License-Identifier: MIT
"""A session: an ordered group of messages that is yours alone, with something to remember."""

from datetime import datetime
from types import TracebackType
from typing import Self

from redrive import duration
from redrive.broker.delivery import Delivery
from redrive.broker.effects import SessionLock, SetSessionState
from redrive.broker.port import Engine, Sessions, ability
from redrive.broker.settings import check_max_messages
from redrive.clock import Clock
from redrive.errors import SessionLost


class Session:
    """The messages of one group, in order, for one consumer. Use it as ``async with``; it is given back at the end."""

    __slots__ = ("_clock", "_engine", "_lock", "_sessions")

    def __init__(self, lock: SessionLock, engine: Engine, clock: Clock) -> None:
        self._lock = lock
        self._engine = engine
        self._sessions = ability(engine, Sessions)
        self._clock = clock

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        try:
            await self.release()
        except SessionLost:
            if kind is None:  # otherwise it would hide what went wrong in the block
                raise

    @property
    def session_id(self) -> str:
        """The session's name."""
        return self._lock.session_id

    @property
    def state(self) -> bytes | None:
        """What the session remembers."""
        return self._lock.state

    @property
    def locked_until(self) -> datetime:
        """When it stops being yours."""
        return self._lock.locked_until

    @property
    def lock(self) -> SessionLock:
        """The right to it, for ``broker.apply``."""
        return self._lock

    async def receive(self, *, max_messages: int = 1, wait: duration.Duration = 0.0) -> list[Delivery]:
        """Receive the session's next messages, in order."""
        limit = check_max_messages(max_messages)
        ends_at = self._clock.monotonic() + duration.seconds("wait", wait, zero=True)
        while not (found := await self._sessions.lock_in_session(self._lock, limit)):
            left = ends_at - self._clock.monotonic()
            if left <= 0:
                break
            await self._engine.wait(self._lock.queue, left)
        return [Delivery(received, self._engine) for received in found]

    async def remember(self, state: bytes | None) -> None:
        """Store something with the session, for the consumer that accepts it next; None forgets it."""
        await self._engine.apply([SetSessionState(self._lock, state)])
        lock = self._lock
        self._lock = SessionLock(lock.queue, lock.session_id, lock.token, lock.locked_until, state)

    async def renew(self) -> datetime:
        """Make it yours for another lock duration, and the messages you have received from it."""
        self._lock = await self._sessions.renew_session(self._lock)
        return self._lock.locked_until

    async def release(self) -> None:
        """Give it back, and what you have received and not settled."""
        await self._sessions.release_session(self._lock)
