# SPDX-License-Identifier: MIT
"""Threads for blocking handlers: as many as run at a time, and none that keeps the program from ending.

The standard library's pool waits for its threads when the interpreter exits, so one hung handler would keep a stopped
worker alive. These are daemon threads.
"""

import asyncio
import contextvars
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import TypeAlias, TypeVar

T = TypeVar("T")

_Job: TypeAlias = Callable[[], None]


class Threads:
    """Runs functions in at most ``limit`` threads, which are started when they are needed."""

    def __init__(self, limit: int, name: str) -> None:
        self._limit = limit
        self._name = name
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._started = 0
        self._busy = 0

    async def run(self, fn: Callable[[], T]) -> T:
        """Run a function in a thread, with the context variables of the caller."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        context = contextvars.copy_context()

        def job() -> None:
            try:
                result = context.run(fn)
            except BaseException as error:  # noqa: BLE001 - the caller gets it, whatever it is
                _call_on_loop(loop, self._finish, done, None, error)
            else:
                _call_on_loop(loop, self._finish, done, result, None)

        self._busy += 1
        if self._busy > self._started and self._started < self._limit:
            self._started += 1
            Thread(target=self._work, name=f"{self._name}-{self._started}", daemon=True).start()
        self._jobs.put(job)
        return await done

    def close(self) -> None:
        """Let the threads end when they have nothing to do."""
        for _ in range(self._started):
            self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()

    def _finish(self, done: asyncio.Future[T], result: T, error: BaseException | None) -> None:
        self._busy -= 1
        if done.done():
            return
        if isinstance(error, StopIteration):  # a future cannot carry it
            error = RuntimeError("a handler raised StopIteration")
        if error is None:
            done.set_result(result)
        else:
            done.set_exception(error)


def _call_on_loop(loop: asyncio.AbstractEventLoop, *call: object) -> None:
    with suppress(RuntimeError):  # the loop is closed: no caller waits
        loop.call_soon_threadsafe(*call)  # type: ignore[arg-type]  # the callback and its arguments
