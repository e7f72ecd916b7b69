# SPDX-License-Identifier: MIT
"""Group commit: all waiting requests share one transaction, so durability costs one fsync per group.

Requests gather while the transaction before them is being written, and for one turn of the event loop; no request waits
longer for others to join. A request that is alone is run at once, on its caller's thread, unless the disk has proved to
be slow: the switch to another thread costs as much as a fast commit, and a slow commit would block the event loop. A
task whose request was alone and that submits another does not even wait for the turn.
"""

import asyncio
import types
from collections.abc import Callable, Generator
from queue import SimpleQueue
from threading import Thread
from typing import Any, Generic, TypeVar

from redrive.errors import EngineUnavailable

T = TypeVar("T")

_FAST_S = 0.004
"""A lone request may block the event loop for this long; if the disk takes longer, a thread is used."""

_A_WHILE_S = 0.004
"""How long a lone caller's requests, one after another, may block the event loop before other tasks get a turn."""


@types.coroutine
def _a_turn() -> Generator[None, None, None]:
    """Give the event loop one turn. ``asyncio.sleep(0)`` is this, with more around it."""
    yield


class Request(Generic[T]):
    """Work to be done in a transaction, and the future on which its caller waits."""

    task: "asyncio.Task[Any] | None" = None
    future: "asyncio.Future[T] | None" = None
    result: T | None = None
    error: BaseException | None = None

    script: "Callable[[], Any] | None" = None
    """The script that it is, or that goes with it, if that may run together with others."""

    is_the_users = False
    """Whether it runs code of the user, who gets the errors of that code unchanged."""

    needs_sync = True
    """Whether it must not be undone by a power cut."""

    is_single = True
    """Whether it is a single operation, which needs no grouping."""

    def abandoned(self) -> None:
        """Called when the caller was cancelled while the request ran. What it did stands, unless this undoes it."""


class Writer:
    """Runs requests in groups, one group at a time.

    Args:
        run: runs a group in one transaction, filling in each request's result or error. It is called on one thread at a
            time. If it may not wait, it may return False, and is then called again on a thread that may.
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
        """Run a request with the next group; return its result."""
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
        except BaseException:  # its own error; or the caller was cancelled, or its coroutine closed
            if not request.future.done():
                request.future.cancel()  # so that the delivery of the result sees that no caller waits for it
            elif not request.future.cancelled() and request.error is None:
                request.abandoned()  # it was done, and the caller was cancelled before it could take the result
            raise

    async def finish(self) -> None:
        """Wait until everything that was submitted is done."""
        while self._pending or self._is_busy or self._is_scheduled:
            self._idle.clear()
            await self._idle.wait()

    async def close(self) -> None:
        """Wait until everything that was submitted is done, and end the thread."""
        await self.finish()
        thread, self._thread = self._thread, None
        if thread is not None:
            self._groups.put(None)
            thread.join()  # it has nothing to do; and while the interpreter ends, no other thread could wait for it

    def _flush(self) -> None:
        """Start a group of all waiting requests."""
        self._is_scheduled = False
        group = [request for request in self._pending if not request.future.done()]  # not of cancelled callers
        self._pending = []
        if not group:
            self._idle.set()
            return
        # a task that was alone, and submits again, need not wait for others to join
        self._loner = group[0].task if len(group) == 1 else None
        try:
            is_done = self._loner is not None and self._run_now(group)
            if not is_done:
                self._hand_over(group)
        except BaseException as error:  # noqa: BLE001 - the callers must hear of it; an interrupt reaches them too
            _fail(group, error)
            is_done = True
        if is_done:
            self._deliver(group)

    def _hand_over(self, group: list[Any]) -> None:
        """Let the thread run a group."""
        if self._thread is None:
            thread = Thread(target=self._work, name="redrive-sqlite-writer", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                raise EngineUnavailable(
                    f"no thread can be started to write with; nothing was done ({error})"
                ) from error
            self._thread = thread
        self._is_busy = True
        self._groups.put(group)

    def _is_idle(self) -> bool:
        return not (self._pending or self._is_scheduled or self._is_busy)

    def _run_now(self, group: list[Any]) -> bool:
        """Run a lone request on this thread; False if that would block the event loop for too long."""
        if self._cost_s >= _FAST_S:
            return False
        began = self._monotonic()
        if not self._run(group, False):  # noqa: FBT003 - do not wait: this is the event loop
            return False
        self._held_s += self._note_cost(began)
        self._call_after()
        return True

    async def _give_a_turn(self, request: Any) -> None:  # noqa: ANN401 - a request of any kind
        """Let other tasks run, as any await would; the requests they submit now are grouped."""
        self._is_busy = True
        try:
            await _a_turn()
        except BaseException:
            if request.error is None:
                request.abandoned()
            raise
        finally:
            self._is_busy = False
            self._held_s = 0.0
            self._go_on()

    def _work(self) -> None:
        while (group := self._groups.get()) is not None:
            began = self._monotonic()
            try:
                self._run(group, True)  # noqa: FBT003 - this thread may wait
            except BaseException as error:  # noqa: BLE001 - the callers must hear of it, and the thread must go on
                _fail(group, error)
            self._note_cost(began)
            try:
                group[0].future.get_loop().call_soon_threadsafe(self._finish, group)
            except RuntimeError:  # the event loop was closed meanwhile, and no caller waits any more
                self._is_busy = False

    def _finish(self, group: list[Any]) -> None:
        self._is_busy = False
        self._call_after()
        self._deliver(group)

    def _call_after(self) -> None:
        """Call what follows a group. Its callers have their results already, so a failure here is not theirs."""
        try:
            self._after()
        except Exception as error:  # noqa: BLE001 - reported to the event loop
            _report("what follows a group of requests failed", error)

    def _deliver(self, group: list[Any]) -> None:
        try:
            for request in group:
                try:
                    _answer(request)
                except Exception as error:  # noqa: BLE001 - reported to the event loop; the others get their results
                    _report("a result could not be delivered", error)
        finally:
            self._go_on()

    def _go_on(self) -> None:
        """Begin the next group, if a request is waiting."""
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


def _answer(request: Any) -> None:  # noqa: ANN401 - a request of any kind
    """Give a caller the result, or the error."""
    if request.future.done():
        if request.error is None:
            request.abandoned()
    elif isinstance(request.error, StopIteration):  # no future takes it, and no coroutine can raise it
        unraisable = RuntimeError("StopIteration was raised")
        unraisable.__cause__ = request.error
        request.future.set_exception(unraisable)
    elif request.error is not None:
        request.future.set_exception(request.error)
    else:
        request.future.set_result(request.result)


def _fail(group: list[Any], error: BaseException) -> None:
    for request in group:
        request.error = error


def _report(message: str, error: Exception) -> None:
    asyncio.get_running_loop().call_exception_handler({"message": message, "exception": error})
