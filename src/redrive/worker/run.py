# SPDX-License-Identifier: MIT
"""One run of a worker: its handlers from their start to their end."""

import asyncio
import os
import socket
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from typing import Any

from redrive.broker import Broker, QueueInfo
from redrive.broker.port import WorkerReport
from redrive.clock import pause
from redrive.worker.environment import WorkerEnvironment
from redrive.worker.handler import Handler
from redrive.worker.handler_run import HandlerRun
from redrive.worker.hung_handlers import LATEST_END_S


@cache
def _version() -> str:
    return version("redrive")


class WorkerRun:
    """One run of a worker, from its start to its end."""

    def __init__(self, broker: Broker, grace_s: float) -> None:
        self._clock = broker.clock
        self._grace_s = grace_s
        self._loop = asyncio.get_running_loop()
        self._handlers: list[HandlerRun] = []
        self._stopping = asyncio.Event()
        self._now = asyncio.Event()
        self._fatal: BaseException | None = None

    @property
    def is_stopping(self) -> bool:
        """Whether a stop was requested."""
        return self._stopping.is_set()

    def report(self, worker: str, session: str) -> WorkerReport:
        """Return what the worker says about itself."""
        times = [handler.times.p95_s for handler in self._handlers]
        return WorkerReport(
            session=session,
            name=worker,
            host=socket.gethostname(),
            pid=os.getpid(),
            version=_version(),
            queues=tuple(handler.queue for handler in self._handlers),
            concurrency=sum(handler.concurrency for handler in self._handlers),
            in_flight=sum(handler.in_flight for handler in self._handlers),
            handled=sum(handler.times.handled for handler in self._handlers),
            p95_s=max((each for each in times if each is not None), default=None),
        )

    def add(self, handler: Handler, queue: QueueInfo, environment: WorkerEnvironment) -> None:
        """Add a handler."""
        self._handlers.append(HandlerRun(handler, queue, environment))

    def stop(self, *, now: bool) -> None:
        """Begin to stop."""
        with suppress(RuntimeError):  # the loop is closed: it has stopped
            self._loop.call_soon_threadsafe(self._stop, now)

    def _stop(self, now: bool) -> None:  # noqa: FBT001 - a callback's argument
        self._stopping.set()
        if now:
            self._now.set()

    def fail(self, error: BaseException) -> None:
        """Note an error that ends the worker."""
        self._fatal = self._fatal or error
        self._stopping.set()

    async def until_stopped(self, idle_s: float | None) -> None:
        """Run until it is stopped or idle for ``idle_s`` seconds, let the handlers end, and raise the error, if any."""
        for handler in self._handlers:
            handler.start()
        watching = None if idle_s is None else asyncio.create_task(self._stop_when_idle(idle_s))
        try:
            await self._stopping.wait()
            if watching is not None:
                watching.cancel()
                await asyncio.wait([watching])  # messages that it has received are handled or given back
            await self._each(HandlerRun.stop_receiving)
            await self._wind_down()
        finally:  # also when the program cancels this task
            await self._each(HandlerRun.stop_receiving)
            await self._each(HandlerRun.release)
            for handler in self._handlers:
                handler.cancel_handlers()
            await self._each(HandlerRun.close)
        if self._fatal is not None:
            raise self._fatal

    async def _stop_when_idle(self, idle_s: float) -> None:
        """Stop when no handler has had a message for some seconds, and no queue has one ready.

        A handler may send to another queue of this worker. So all queues are asked after the last handler has ended,
        and the answer counts only if no message has arrived meanwhile.
        """
        try:
            while True:
                await self._each(HandlerRun.idle)
                if not all(handler.is_idle for handler in self._handlers):
                    continue
                taken = self._taken
                idle_since = max(handler.idle_since for handler in self._handlers)
                if (left := idle_since + idle_s - self._clock.monotonic()) > 0:
                    await pause(self._clock, left)
                found = await asyncio.gather(*(handler.look() for handler in self._handlers))
                if not any(found) and taken == self._taken:
                    break
        except Exception as error:  # noqa: BLE001 - it ends the worker, like an error in any other part
            self.fail(error)
        else:
            self._stopping.set()

    @property
    def _taken(self) -> int:
        return sum(handler.taken for handler in self._handlers)

    async def _wind_down(self) -> None:
        """Wait for handlers to end by themselves, then cancel them; if the worker must stop now, do not wait."""
        if await self._finished_within(self._grace_s) or self._now.is_set():
            return
        for handler in self._handlers:
            handler.cancel_handlers()
        await self._finished_within(LATEST_END_S)  # after that, messages are given back even if a handler runs

    async def _finished_within(self, seconds: float) -> bool:
        """Wait until all handlers have ended; False if that took too long, or the worker must stop now."""
        finished = asyncio.ensure_future(self._each(HandlerRun.finished))
        now = asyncio.ensure_future(self._now.wait())
        try:
            with suppress(TimeoutError):
                async with self._clock.timeout(seconds):
                    await asyncio.wait((finished, now), return_when=asyncio.FIRST_COMPLETED)
            return finished.done()
        finally:
            finished.cancel()
            now.cancel()
            await asyncio.wait((finished, now))

    async def _each(self, do: Callable[[HandlerRun], Coroutine[Any, Any, None]]) -> None:
        await asyncio.gather(*(do(handler) for handler in self._handlers))
