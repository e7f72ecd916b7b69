# SPDX-License-Identifier: MIT
"""The only file that reads the system's clock or sleeps.

Everything that waits or asks for the time gets a ``Clock``; tests give it ``redrive.testing.ManualClock``.
"""

import time
from datetime import UTC, datetime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager
    from typing import Protocol

    class Expiry(Protocol):
        """A time limit on a block; says afterwards whether the limit ended the block."""

        def expired(self) -> bool: ...

    class Clock(Protocol):
        """Time and waiting, as one replaceable part."""

        def monotonic(self) -> float:
            """Return seconds that never go back, for measuring."""
            ...

        def time(self) -> float:
            """Return seconds since 1970, for instants that are stored or shown."""
            ...

        def sleep(self, seconds: float) -> None:
            """Wait, blocking the thread."""
            ...

        async def sleep_async(self, seconds: float) -> None:
            """Wait, letting other tasks run."""
            ...

        def timeout(self, seconds: float) -> AbstractAsyncContextManager[Expiry]:
            """Limit an ``async with`` block; it ends with ``TimeoutError`` when the time is over."""
            ...

else:

    class Clock:
        """Time and waiting, as one replaceable part: ``monotonic time sleep sleep_async timeout``."""


__all__ = ["Clock", "SystemClock", "pause", "system_clock", "utc"]

_WAKING_S = 0.0001
"""Longer than a thread takes to wake up, and a fraction of what is computed before."""


class SystemClock:
    """The machine's clock.

    Attributes:
        skipped: the sleeps that were skipped, while sleeping is switched off; None otherwise.
    """

    __slots__ = ("skipped",)

    def __init__(self) -> None:
        self.skipped: list[float] | None = None

    monotonic = staticmethod(time.monotonic)
    time = staticmethod(time.time)

    def sleep(self, seconds: float) -> None:
        """Wait, blocking the thread."""
        if self.skipped is None:
            time.sleep(seconds)
        else:
            self.skipped.append(seconds)

    async def sleep_async(self, seconds: float) -> None:
        """Wait, letting other tasks run; also when sleeping is switched off."""
        import asyncio

        if self.skipped is not None:
            self.skipped.append(seconds)
            seconds = 0.0
        await asyncio.sleep(seconds)

    def timeout(self, seconds: float) -> "AbstractAsyncContextManager[Expiry]":
        """Limit an ``async with`` block; it ends with ``TimeoutError`` when the time is over."""
        import asyncio

        return asyncio.timeout(seconds)

    def skip_sleeps(self) -> "_Skipping":
        """Switch sleeping off for a ``with`` block; it yields the list of sleeps that were skipped."""
        return _Skipping(self)


class _Skipping:
    """The block in which a system clock does not sleep. Blocks nest: the innermost list gets the sleeps."""

    def __init__(self, clock: SystemClock) -> None:
        self._clock = clock
        self._outer: list[float] | None = None

    def __enter__(self) -> list[float]:
        skipped: list[float] = []
        self._outer, self._clock.skipped = self._clock.skipped, skipped
        return skipped

    def __exit__(self, *_: object) -> None:
        self._clock.skipped = self._outer


system_clock = SystemClock()
"""The clock that is used if none is given."""


async def pause(clock: Clock, seconds: float) -> None:
    """Wait, even if a test has switched sleeping off: for work that repeats and would otherwise spin."""
    import asyncio

    try:
        async with clock.timeout(seconds):
            await asyncio.get_running_loop().create_future()
    except TimeoutError:
        return


def give_way() -> None:
    """Let other threads of this process run, for work that takes long on the thread of an event loop.

    A thread that waits for the interpreter takes a while to wake up. The event loop gives the interpreter up for less
    than that at each of its turns, so a thread that writes to a database waited for whole pages of other work.
    """
    time.sleep(_WAKING_S)


def utc(seconds: float) -> datetime:
    """Return the instant that many seconds after 1970, in UTC."""
    return datetime.fromtimestamp(seconds, UTC)
