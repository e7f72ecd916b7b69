# SPDX-License-Identifier: MIT
"""Calls a handler: decodes its payload, runs it on the event loop or in a thread, with its timeout and its retries."""

import asyncio
import inspect
from collections.abc import Callable
from functools import partial
from threading import get_ident
from typing import Any

from redrive.clock import Clock
from redrive.errors import UsageError
from redrive.retry import Retry, retry
from redrive.worker.context import BlockingContext, Context
from redrive.worker.handler import Handler
from redrive.worker.held_message import HeldMessage
from redrive.worker.threads import Threads


class Caller:
    """Calls one handler.

    Args:
        handler: the handler.
        clock: the clock.
        chance: where random numbers come from.
        on_overdue: called with the message and the timeout when a call in a thread takes longer than its timeout.
    """

    def __init__(
        self,
        handler: Handler,
        clock: Clock,
        chance: Callable[[], float],
        on_overdue: Callable[[HeldMessage, float], None],
    ) -> None:
        self._handler = handler
        self._clock = clock
        self._chance = chance
        self._on_overdue = on_overdue
        self._threads = Threads(handler.concurrency + handler.most_hung, f"redrive-{handler.queue}")
        self._is_plain = handler.is_async and handler.timeout is None and handler.retry_in_place is None

    def close(self) -> None:
        """Let the threads end."""
        self._threads.close()

    async def call(self, lease: HeldMessage, context: Context | BlockingContext | None) -> None:
        """Call the handler with a message, and with its context if it takes one.

        Whatever it raises is raised here, as an ``Exception``.
        Two are raised unchanged: ``CancelledError``, and ``KeyboardInterrupt``, which is Ctrl-C on an event loop.
        """
        here = asyncio.current_task()
        try:
            await self._call(lease, context)
        except (Exception, asyncio.CancelledError, KeyboardInterrupt):
            raise
        except BaseException as error:
            if not _is_running(here):
                raise  # GeneratorExit: this coroutine is closed before it has ended
            raise _as_failure(error) from error

    async def _call(self, lease: HeldMessage, context: Context | BlockingContext | None) -> None:
        handler = self._handler
        args: list[Any] = [] if handler.decode is None else [handler.decode(lease.received.message)]
        if context is not None:
            args.append(context)
        if self._is_plain:
            await handler.fn(*args)
        elif handler.retry_in_place is None:
            await self._call_once(lease, args)
        else:
            await self._in_place(lease).call_async(self._call_again, lease, args, context)

    def _in_place(self, lease: HeldMessage) -> Retry:
        """Return the retries while the lock is held: of transient failures, while the message is not settled."""
        policy = self._handler.policy

        def may_pass(error: Exception) -> bool:
            is_ours = self._handler.receive_and_delete or (lease.phase == "handling" and not lease.is_lost)
            return is_ours and (policy is None or policy.kind_of(error, lease.received.message) == "retry")

        return retry(
            on=may_pass,
            policy=self._handler.retry_in_place,
            deadline=None,
            operation=self._handler.name,
            clock=self._clock,
            chance=self._chance,
        )

    async def _call_again(self, lease: HeldMessage, args: list[Any], context: Context | BlockingContext | None) -> None:
        if context is not None:
            context.take_sends()  # what a failed attempt has sent is discarded
        await self._call_once(lease, args)

    async def _call_once(self, lease: HeldMessage, args: list[Any]) -> None:
        limit = self._handler.timeout
        if not self._handler.is_async:
            await self._call_in_thread(lease, args, limit)
        elif limit is None:
            await self._handler.fn(*args)
        else:
            await self._call_within(args, limit)

    async def _call_within(self, args: list[Any], limit: float) -> None:
        scope = None
        try:
            async with self._clock.timeout(limit) as scope:
                await self._handler.fn(*args)
        except TimeoutError as error:
            if scope is not None and scope.expired():
                raise self._timed_out(limit) from error
            raise

    async def _call_in_thread(self, lease: HeldMessage, args: list[Any], limit: float | None) -> None:
        job = asyncio.ensure_future(self._threads.run(partial(self._run, lease, args)))
        job.add_done_callback(_seen)  # a stopping worker does not wait for it
        if limit is None:
            await asyncio.shield(job)
            return
        scope = None
        try:
            async with self._clock.timeout(limit) as scope:
                await asyncio.shield(job)
        except TimeoutError:
            if scope is None or not scope.expired():
                raise
            self._on_overdue(lease, limit)
            await asyncio.wait([job])
            raise self._timed_out(limit) from (None if job.cancelled() else job.exception())

    def _run(self, lease: HeldMessage, args: list[Any]) -> None:
        lease.thread = get_ident()
        try:
            result = self._handler.fn(*args)
        except Exception:
            raise
        except BaseException as error:
            raise _as_failure(error) from error
        if inspect.isawaitable(result):
            if inspect.iscoroutine(result):
                result.close()
            raise UsageError(f"{self._handler.name} returned something to await; declare it with async def")

    def _timed_out(self, limit: float) -> TimeoutError:
        return TimeoutError(f"{self._handler.name} took longer than its timeout of {limit:g} s")


def _is_running(task: asyncio.Task[Any] | None) -> bool:
    try:
        return asyncio.current_task() is task
    except RuntimeError:  # the event loop is closed
        return False


def _as_failure(error: BaseException) -> RuntimeError:
    """Return a failure of the message in place of an exception that would end the program."""
    said = f": {error}" if str(error) else ""
    failure = RuntimeError(f"the handler raised {type(error).__name__}{said}; to end the worker, call its stop()")
    return failure.with_traceback(error.__traceback__)


def _seen(job: asyncio.Future[None]) -> None:
    """Read the result of a call, so that asyncio does not warn about an exception that was never retrieved."""
    if not job.cancelled():
        job.exception()
