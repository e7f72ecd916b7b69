# SPDX-License-Identifier: MIT
"""Group commit: everybody who is waiting shares one transaction, so durability costs one fsync per group.

Requests gather while the transaction before them is being written, and for one turn of the event loop; there is no
waiting for company. A request that finds nobody else is run at once, on the thread that asked, unless the disk has
shown to be slow: the hop to another thread costs as much as a fast commit, and a slow commit would hold up the event
loop. A task that has been alone and asks again does not even wait for the turn.
"""

import asyncio
import types
from collections.abc import Callable, Generator
from queue import SimpleQueue
from threading import Thread
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_FAST_S = 0.002
"""A lone request may hold up the event loop for this long; a disk that takes longer gets a thread."""

_A_WHILE_S = 0.004
"""How long a lone caller's requests, one after another, hold up the event loop before everybody else has a turn."""


@types.coroutine
def _a_turn() -> Generator[None, None, None]:
    """Give the event loop one turn. ``asyncio.sleep(0)`` is this, with more around it."""
    yield


class Request(Generic[T]):
    """Something to be done in a transaction, and the caller who waits for it."""

    task: "asyncio.Task[Any] | None" = None
    future: "asyncio.Future[T] | None" = None
    result: T | None = None
    error: Exception | None = None

    is_the_users = False
    """Whether it runs code of the user, whose errors are his to see as they are."""

    needs_sync = True
    """Whether it must not be undone by a power cut."""

    is_single = True
    """Whether it is one thing, so that there is nothing to be done together."""

    def abandoned(self) -> None:
        """The caller was cancelled while it was being done. What it did stands, unless this undoes it."""


class Writer:
    """Runs requests in groups, one group at a time.

    Args:
        run: does a group in one transaction, filling in each request's result or error. It is called on one thread at a
            time. Told not to wait, it may return False to be called again on a thread that may.
        after: is called on the event loop when a group is done.
        monotonic: measures how long a group takes.
    """

    def __init__(
        self, run: Callable[[list[Any], bool], bool], after: Callable[[], None], monotonic: Callable[[], float]
    ) -> None:
        self._run = run
        self._after = after
        self._monotonic = monotonic
        self._pending: list[Any] = []
        self._is_scheduled = False
        self._is_busy = False
        self._loner: asyncio.Task[Any] | None = None
        self._held_s = 0.0
        self._cost_s = 0.0
        self._groups: SimpleQueue[list[Any] | None] = SimpleQueue()
        self._thread: Thread | None = None
        self._idle: asyncio.Event = asyncio.Event()
        self._idle.set()

    async def submit(self, request: Request[T]) -> T:
        """Have a request done with the next group; return its result."""
        task = asyncio.current_task()
        if task is not None and task is self._loner and self._is_idle() and self._run_now([request]):
            if self._held_s >= _A_WHILE_S:
                await self._give_a_turn(request)
            if request.error is not None:
                raise request.error
            return request.result  # type: ignore[return-value]  # it has one when it has no error
        loop = asyncio.get_running_loop()
        request.task = task
        request.future = loop.create_future()
        self._pending.append(request)
        if not self._is_scheduled and not self._is_busy:
            self._is_scheduled = True
            loop.call_soon(self._flush)
        try:
            return await request.future
        except asyncio.CancelledError:
            if request.future.done() and not request.future.cancelled():
                request.abandoned()  # it was done, and cancelled before it could say so
            raise

    async def close(self) -> None:
        """Wait until everything that was submitted is done, and end the thread."""
        while self._pending or self._is_busy or self._is_scheduled:
            self._idle.clear()
            await self._idle.wait()
        if self._thread is not None:
            self._groups.put(None)
            await asyncio.get_running_loop().run_in_executor(None, self._thread.join)
            self._thread = None

    def _flush(self) -> None:
        """Start a group with everybody who is waiting."""
        self._is_scheduled = False
        group = [request for request in self._pending if not request.future.done()]  # not those who left meanwhile
        self._pending = []
        if not group:
            self._idle.set()
            return
        # whoever was alone, and comes again, need not wait for company
        self._loner = group[0].task if len(group) == 1 else None
        if self._loner is not None and self._run_now(group):
            self._deliver(group)
            return
        self._is_busy = True
        if self._thread is None:
            self._thread = Thread(target=self._work, name="redrive-sqlite-writer", daemon=True)
            self._thread.start()
        self._groups.put(group)

    def _is_idle(self) -> bool:
        return not (self._pending or self._is_scheduled or self._is_busy)

    def _run_now(self, group: list[Any]) -> bool:
        """Do a lone request on this thread; False if that would hold up the event loop for too long."""
        if self._cost_s >= _FAST_S:
            return False
        began = self._monotonic()
        if not self._run(group, False):  # noqa: FBT003 - do not wait: this is the event loop
            return False
        self._held_s += self._note_cost(began)
        self._after()
        return True

    async def _give_a_turn(self, request: Any) -> None:  # noqa: ANN401 - a request of any kind
        """Let everybody else go on, as any await would; whoever submits something now is grouped with the others."""
        self._is_busy = True
        try:
            await _a_turn()
        except asyncio.CancelledError:
            request.abandoned()
            raise
        finally:
            self._is_busy = False
            self._held_s = 0.0
            self._go_on()

    def _work(self) -> None:
        while (group := self._groups.get()) is not None:
            began = self._monotonic()
            self._run(group, True)  # noqa: FBT003 - this thread may wait
            self._note_cost(began)
            group[0].future.get_loop().call_soon_threadsafe(self._finish, group)

    def _finish(self, group: list[Any]) -> None:
        self._is_busy = False
        self._after()
        self._deliver(group)

    def _deliver(self, group: list[Any]) -> None:
        for request in group:
            future = request.future
            if future.done():
                request.abandoned()
            elif request.error is not None:
                future.set_exception(request.error)
            else:
                future.set_result(request.result)
        self._go_on()

    def _go_on(self) -> None:
        """Begin the next group, if somebody waits for it."""
        if self._pending:
            self._is_scheduled = True
            self._pending[0].future.get_loop().call_soon(self._flush)
        else:
            self._idle.set()

    def _note_cost(self, began: float) -> float:
        # a moving average, quick to notice that a disk is slow and quick to forget one bad moment
        taken = self._monotonic() - began
        self._cost_s += 0.2 * (taken - self._cost_s)
        return taken
