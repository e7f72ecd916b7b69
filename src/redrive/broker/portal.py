# SPDX-License-Identifier: MIT
"""An event loop in a thread, for programs that have none."""

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import ExitStack
from functools import partial
from threading import Lock, RLock, Thread, get_ident
from typing import Any, TypeAlias, TypeVar

from redrive.errors import UsageError

T = TypeVar("T")
Ending: TypeAlias = Callable[[], Coroutine[Any, Any, None]]

_HOW = "with connect_blocking(...) as broker, or broker.open()"
_PATIENCE_S = 5.0
"""How long calls of other threads may take to notice that the broker is closed."""


class Portal:
    """Runs coroutines on an event loop of its own and waits for them; safe to use from any thread.

    There is no thread before it is opened, so that a program may open it after a fork.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Thread | None = None
        self._pid = 0
        self._was_open = False
        self._lock = Lock()
        self._closing = RLock()  # a signal handler may close what the same thread is closing
        self._endings: list[Ending] = []

    @property
    def is_open(self) -> bool:
        """Whether it was opened, in this process, and not closed since."""
        return self._loop is not None and self._pid == os.getpid()

    def open(self) -> None:
        """Start the loop and its thread."""
        if self._loop is not None:
            is_ours = self._pid == os.getpid()
            raise UsageError("this broker is open already; share it between threads" if is_ours else self._why_not())
        loop = asyncio.new_event_loop()
        self._thread = Thread(target=loop.run_forever, name="redrive-portal", daemon=True)
        self._thread.start()
        self._loop, self._pid, self._was_open = loop, os.getpid(), True
        self._endings.clear()

    def close_first(self, ending: Ending) -> None:
        """Note what has to end before all that was there already, when the portal is closed."""
        self._endings.append(ending)

    def end(self, ending: Ending) -> None:
        """End something now that was to end with the portal; nothing if it has ended."""
        if self.is_open and ending in self._endings:
            self._endings.remove(ending)
            self.run(ending())

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and return its result. An interrupt while waiting cancels it."""
        running = self._started(coroutine)
        try:
            result, interrupt = running.result()
        except CancelledError:
            if not self.is_open:
                raise UsageError(self._why_not()) from None
            raise
        except BaseException:
            running.cancel()
            raise
        if interrupt is not None:
            raise interrupt
        return result  # type: ignore[return-value]  # it has one when nothing interrupted it

    def iterate(self, items: AsyncIterator[T]) -> Iterator[T]:
        """Return the items of an asynchronous iterator, each when it is asked for."""
        try:
            while found := self.run(_next(items)):
                yield found[0]
        finally:
            if self.is_open:
                self.run(_closed(items))

    def _started(self, coroutine: Coroutine[Any, Any, T]) -> "Future[tuple[T | None, BaseException | None]]":
        if self._thread is not None and self._thread.ident == get_ident():
            coroutine.close()
            raise UsageError("a callback runs on the broker's own thread and cannot wait for it; use another thread")
        if self.is_open:  # asked before the lock, which a fork may have caught in the hands of another thread
            with self._lock:  # a loop that is about to stop takes nothing more: it would never end
                if self._loop is not None:
                    return asyncio.run_coroutine_threadsafe(_carried(coroutine), self._loop)
        coroutine.close()
        raise UsageError(self._why_not())

    def close(self) -> None:
        """End what runs on the loop, the last one first, then the loop and its thread.

        In a process that was forked since, they are not there to be ended. Another thread that closes it waits.
        """
        if not self.is_open:
            return
        with self._closing, ExitStack() as endings:
            if self.is_open:
                endings.callback(self._end_loop)
                for ending in self._endings:
                    endings.callback(partial(self.end, ending))

    def _end_loop(self) -> None:
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None and self._thread is not None:
            asyncio.run_coroutine_threadsafe(_finish_others(), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            self._thread.join()
            self._thread = None  # another thread may get its number
            loop.close()

    def _why_not(self) -> str:
        if self._loop is not None:
            return (
                f"this broker was opened by process {self._pid}, and this is process {os.getpid()}, forked from it: "
                f"open a broker in each process, after the fork: {_HOW}"
            )
        if self._was_open:
            return f"this broker is closed; open it again: {_HOW}"
        return f"this broker is not open; open it first: {_HOW}"


async def _carried(coroutine: Coroutine[Any, Any, T]) -> tuple[T | None, BaseException | None]:
    """Return a result, or what is to be raised where it is waited for: in a task it would end the event loop."""
    try:
        return await coroutine, None
    except (SystemExit, KeyboardInterrupt) as interrupt:
        return None, interrupt


async def _next(items: AsyncIterator[T]) -> tuple[T] | None:
    """Return the next item; None if there is none."""
    async for item in items:
        return (item,)
    return None


async def _closed(items: AsyncIterator[Any]) -> None:
    """End an iterator of which no more is asked for."""
    if isinstance(items, AsyncGenerator):
        await items.aclose()


async def _finish_others() -> None:
    """Let calls of other threads end, so that none of them waits for ever."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        _, late = await asyncio.wait(others, timeout=_PATIENCE_S)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()
