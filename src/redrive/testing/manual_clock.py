# SPDX-License-Identifier: MIT
"""Time under a test's control."""

import asyncio
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, suppress
from heapq import heapify, heappop, heappush
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING

from redrive.clock import system_clock

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator

_A_SUNDAY_IN_2026 = 1_767_484_800.0


class ManualClock:
    """A clock that stands still until it is moved.

    A blocking ``sleep`` moves it by itself, because the sleeping thread cannot call ``advance``. An async sleep waits
    for ``advance``, unless the clock was made with ``auto_advance=True``.

    Attributes:
        slept: every sleep that was asked for, in order, in seconds.
        moment: how long before its time nothing has happened yet, for sure, when the clock has come there.
    """

    moment = 0.001

    def __init__(self, start: float = _A_SUNDAY_IN_2026, *, auto_advance: bool = False) -> None:
        self._start = start
        self._passed = 0.0
        self._auto_advance = auto_advance
        self._lock = Lock()
        self._alarms: list[tuple[float, int, Callable[[], object]]] = []
        self._order = count()
        self.slept: list[float] = []

    def monotonic(self) -> float:
        """Return the seconds that have passed since the clock was made."""
        return self._passed

    def time(self) -> float:
        """Return seconds since 1970."""
        return self._start + self._passed

    def advance(self, seconds: float) -> None:
        """Move the clock; every sleep and time limit that is due ends."""
        with self._lock:
            self._passed += seconds
            due: list[Callable[[], object]] = []
            while self._alarms and self._alarms[0][0] <= self._passed:
                due.append(heappop(self._alarms)[2])
        for ring in due:
            ring()

    def jump(self, seconds: float) -> None:
        """Set the wall clock forward or back, as an administrator or a time server does; nothing else moves."""
        self._start += seconds

    @property
    def sleepers(self) -> int:
        """How many sleeps and time limits wait for the clock to move."""
        return len(self._alarms)

    def sleep(self, seconds: float) -> None:
        """Note the sleep and move the clock by it."""
        self.slept.append(seconds)
        self.advance(seconds)

    async def sleep_async(self, seconds: float) -> None:
        """Note the sleep and wait until the clock has moved that far."""
        self.slept.append(seconds)
        if self._auto_advance:
            self.advance(seconds)
            await asyncio.sleep(0)  # noqa: TID251 - takes no time, lets others run
            return
        loop = asyncio.get_running_loop()
        woken = loop.create_future()
        with self._alarm(seconds, lambda: loop.call_soon_threadsafe(_wake, woken)):
            await woken

    @asynccontextmanager
    async def timeout(self, seconds: float) -> "AsyncGenerator[asyncio.Timeout]":
        """Limit an ``async with`` block to a time on this clock."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(None) as scope:
            with self._alarm(seconds, lambda: loop.call_soon_threadsafe(_expire, scope, loop)):
                yield scope

    @contextmanager
    def _alarm(self, seconds: float, ring: "Callable[[], object]") -> "Generator[None]":
        """End the block when the clock has moved that far, unless it is over by then."""
        alarm = (self._passed + seconds, next(self._order), ring)
        with self._lock:
            heappush(self._alarms, alarm)
        if seconds <= 0.0:
            self.advance(0.0)
        try:
            yield
        finally:
            with self._lock, suppress(ValueError):  # it is due
                self._alarms.remove(alarm)
                heapify(self._alarms)


def no_sleep() -> AbstractContextManager[list[float]]:
    """Switch all of Redrive's sleeping off, in the whole process, for a ``with`` block.

    Deadlines count what would have been slept. The block's value is the list of sleeps that were skipped.
    """
    return system_clock.skip_sleeps()


def _wake(sleeper: asyncio.Future[None]) -> None:
    if not sleeper.done():
        sleeper.set_result(None)


def _expire(scope: asyncio.Timeout, loop: asyncio.AbstractEventLoop) -> None:
    with suppress(RuntimeError):  # the block ended in the same moment
        scope.reschedule(loop.time())
