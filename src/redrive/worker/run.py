# SPDX-License-Identifier: MIT
"""One run of a worker: its subscriptions from their start to their end."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from redrive.broker import Broker, QueueInfo
from redrive.clock import pause
from redrive.worker.environment import Surroundings
from redrive.worker.handler import Handler
from redrive.worker.hung_handlers import LATEST_END_S
from redrive.worker.subscription import Subscription


class WorkerRun:
    """One run of a worker, from its start to its end."""

    def __init__(self, broker: Broker, grace_s: float) -> None:
        self._clock = broker.clock
        self._grace_s = grace_s
        self._loop = asyncio.get_running_loop()
        self._subscriptions: list[Subscription] = []
        self._stopping = asyncio.Event()
        self._now = asyncio.Event()
        self._fatal: BaseException | None = None

    @property
    def is_stopping(self) -> bool:
        """Whether it has been told to stop."""
        return self._stopping.is_set()

    def add(self, handler: Handler, queue: QueueInfo, around: Surroundings) -> None:
        """Take a handler into it."""
        self._subscriptions.append(Subscription(handler, queue, around))

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
        """Run, wind down, and raise what ended it if that was an error; also stop when it was idle for some seconds."""
        for subscription in self._subscriptions:
            subscription.start()
        watching = None if idle_s is None else asyncio.create_task(self._stop_when_idle(idle_s))
        try:
            await self._stopping.wait()
            if watching is not None:
                watching.cancel()
                await asyncio.wait([watching])  # what it has taken meanwhile is handled or given back like the rest
            await self._each(Subscription.stop_receiving)
            await self._wind_down()
        finally:  # also when the program cancels us
            await self._each(Subscription.stop_receiving)
            await self._each(Subscription.release)
            for subscription in self._subscriptions:
                subscription.cancel_handlers()
            await self._each(Subscription.close)
        if self._fatal is not None:
            raise self._fatal

    async def _stop_when_idle(self, idle_s: float) -> None:
        """Stop when no message has been in hand for some seconds, and then none is ready anywhere.

        A handler may send to another queue of this worker: so all queues are looked at after the last handler ended,
        and it counts only if nothing has come meanwhile.
        """
        try:
            while True:
                await self._each(Subscription.idle)
                if not all(subscription.is_idle for subscription in self._subscriptions):
                    continue
                taken = self._taken
                idle_since = max(subscription.idle_since for subscription in self._subscriptions)
                if (left := idle_since + idle_s - self._clock.monotonic()) > 0:
                    await pause(self._clock, left)
                found = await asyncio.gather(*(subscription.look() for subscription in self._subscriptions))
                if not any(found) and taken == self._taken:
                    break
        except Exception as error:  # noqa: BLE001 - it ends the worker, like an error of its other parts
            self.fail(error)
        else:
            self._stopping.set()

    @property
    def _taken(self) -> int:
        return sum(subscription.taken for subscription in self._subscriptions)

    async def _wind_down(self) -> None:
        """Let handlers end by themselves, then by being cancelled, unless it has to be now."""
        if await self._finished_within(self._grace_s) or self._now.is_set():
            return
        for subscription in self._subscriptions:
            subscription.cancel_handlers()
        await self._finished_within(LATEST_END_S)  # then its message is given back all the same

    async def _finished_within(self, seconds: float) -> bool:
        """Wait until all handlers have ended; False if it took too long, or has to be now."""
        finished = asyncio.ensure_future(self._each(Subscription.finished))
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

    async def _each(self, do: Callable[[Subscription], Coroutine[Any, Any, None]]) -> None:
        await asyncio.gather(*(do(subscription) for subscription in self._subscriptions))
