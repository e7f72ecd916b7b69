# SPDX-License-Identifier: MIT
"""How a receiver ends: it finishes what it has begun, and begins nothing new."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from redrive.clock import Clock


class StopRequest:
    """Whether a receiver is to end, and pauses that end with it.

    Args:
        clock: what pauses go by.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._requested = asyncio.Event()

    @property
    def is_requested(self) -> bool:
        """Whether it is to end."""
        return self._requested.is_set()

    def request(self) -> None:
        """Let it end."""
        self._requested.set()

    async def pause(self, seconds: float) -> None:
        """Wait so many seconds, or until it is to end."""
        try:
            async with self._clock.timeout(seconds):
                await self._requested.wait()
        except TimeoutError:
            return

    async def requested(self) -> None:
        """Wait until it is to end."""
        await self._requested.wait()


async def run_until_cancelled(work: Coroutine[Any, Any, None], stop: Callable[[], object]) -> None:
    """Run something that ends by itself when it is asked to. A second cancellation ends it at once.

    Args:
        work: what to run.
        stop: asks it to end.

    Raises:
        CancelledError: this was cancelled; the work has ended.
    """
    working = asyncio.ensure_future(work)
    try:
        await asyncio.shield(working)
    except asyncio.CancelledError:
        stop()
        await working
        raise
