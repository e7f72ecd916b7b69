# SPDX-License-Identifier: MIT
"""Slow questions to PostgreSQL: on a few connections of their own, each for a limited time.

The server itself ends a statement that takes too long (``statement_timeout``). A caller that leaves cancels it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import asyncpg

from redrive.clock import Clock
from redrive.engines.postgres.connections import Connections
from redrive.errors import QuestionTooSlow

T = TypeVar("T")

SIZE: Final = 2
"""So many questions are answered at a time."""


class SlowReaders:
    """The connections for slow questions. They are opened when they are needed.

    Args:
        connections: makes them; it has a pool of ``SIZE``, and is not open.
        clock: what the time limit goes by.
    """

    def __init__(self, connections: Connections, clock: Clock) -> None:
        self._connections = connections
        self._clock = clock
        self._free = asyncio.Semaphore(SIZE)
        self._opening = asyncio.Lock()
        self._is_open = False

    async def ask(self, do: Callable[[Any], Awaitable[T]], seconds: float) -> T:
        """Answer a question.

        Args:
            do: finds the answer with a connection.
            seconds: how long that may take, waiting for a connection included.
        """
        until = self._clock.monotonic() + seconds
        async with self._opening:
            if not self._is_open:
                await self._connections.open()
                self._is_open = True
        try:
            async with self._clock.timeout(seconds):
                await self._free.acquire()
        except TimeoutError:
            raise QuestionTooSlow(seconds) from None
        try:
            left = max(0.001, until - self._clock.monotonic())
            return await self._connections.view(lambda connection: _within(connection, do, left, seconds))
        finally:
            self._free.release()

    async def close(self) -> None:
        """Disconnect."""
        if self._is_open:
            self._is_open = False
            await self._connections.close()
            self._free, self._opening = asyncio.Semaphore(SIZE), asyncio.Lock()  # the next loop may be another


async def _within(connection: Any, do: Callable[[Any], Awaitable[T]], left: float, seconds: float) -> T:  # noqa: ANN401 - asyncpg's
    await connection.execute(f"SET LOCAL statement_timeout = {max(1, round(left * 1_000))}")
    try:
        return await do(connection)
    except asyncpg.QueryCanceledError as error:
        raise QuestionTooSlow(seconds) from error
