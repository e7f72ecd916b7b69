# SPDX-License-Identifier: MIT
"""Group commit: all waiting requests share one transaction, so one round trip and one sync serve them all.

Requests gather while the group before them is running, and for one turn of the event loop. No request waits longer than
that for others to join.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")
A = TypeVar("A", bound="Request[Any]")

_LARGEST_GROUP_BYTES = 32 * 1_048_576
"""How much of what callers send may be in one group; it is held in memory twice on its way."""


class Request(Generic[T]):
    """What a caller wants, and the future on which the caller waits."""

    __slots__ = ("future",)

    def __init__(self) -> None:
        self.future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    @property
    def size(self) -> int:
        """How many bytes it sends."""
        return 0

    def give(self, result: T) -> None:
        """Give the caller the result."""
        if self.future.done():
            self.abandoned(result)
        else:
            self.future.set_result(result)

    def fail(self, error: BaseException) -> None:
        """Give the caller the error."""
        if not self.future.done():
            self.future.set_exception(error)

    def abandoned(self, result: T) -> None:
        """Called when the caller was cancelled while the request ran. What it did stands, unless this undoes it."""


class Lane(Generic[A]):
    """Runs requests in groups.

    Args:
        run: runs a group, and gives each of its callers the result or the error.
        width: how many groups may run at the same time.
    """

    def __init__(self, run: Callable[[list[A]], Awaitable[None]], width: int = 1) -> None:
        self._run = run
        self._width = width
        self._pending: list[A] = []
        self._working: set[asyncio.Task[None]] = set()
        self._is_beginning = False

    @property
    def is_waited_for(self) -> bool:
        """Whether a request waits for the next group to begin."""
        return bool(self._pending)

    async def submit(self, ask: Request[T]) -> T:
        """Run a request with the next group; return its result."""
        self._pending.append(ask)  # type: ignore[arg-type]  # A is the kind that run takes
        if not self._is_beginning and len(self._working) < self._width:
            # it begins with the next turn of the event loop: requests of this turn are in the same group
            self._is_beginning = True
            self._working.add(asyncio.create_task(self._work(), name="redrive-postgres-lane"))
        try:
            return await ask.future
        except asyncio.CancelledError:
            if ask.future.done() and not ask.future.cancelled() and ask.future.exception() is None:
                ask.abandoned(ask.future.result())  # it was done, and the caller was cancelled before it got the result
            raise

    async def close(self) -> None:
        """Wait until everything that was submitted is done."""
        while self._working:
            await asyncio.wait(self._working)

    async def _work(self) -> None:
        self._is_beginning = False
        try:
            while group := self._next_group():
                await self._do(group)
        finally:
            self._working.remove(asyncio.current_task())  # type: ignore[arg-type]  # there is one

    async def _do(self, group: list[A]) -> None:
        try:
            await self._run(group)
        except BaseException as error:
            for ask in group:
                ask.fail(error)
            if not isinstance(error, Exception):
                raise

    def _next_group(self) -> list[A]:
        """Take all waiting requests, but no more than fit, and none whose caller was cancelled meanwhile."""
        group: list[A] = []
        size = 0
        for taken, ask in enumerate(self._pending):
            size += ask.size
            if group and size > _LARGEST_GROUP_BYTES:
                self._pending = self._pending[taken:]
                return group
            if not ask.future.done():
                group.append(ask)
        self._pending = []
        return group
