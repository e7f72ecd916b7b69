# SPDX-License-Identifier: MIT
"""Slow questions to a SQLite file: on connections and threads of their own, each for a limited time.

A question whose time is over, or whose caller has left, is interrupted. SQLite forgets an interruption that comes
between two statements, so it is repeated until the thread has come back. (A progress handler would do without that, but
each of its calls waits for Python's lock, and so would slow down everything else.)
"""

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Generic, TypeVar

from redrive.clock import Clock
from redrive.errors import QuestionTooSlow

T = TypeVar("T")

SIZE: Final = 2
"""So many questions are answered at a time."""

_INTERRUPT_EVERY_S: Final = 0.005


class SlowReaders:
    """The connections for slow questions. They are opened when they are needed.

    Args:
        connect: opens a connection.
        clock: what the time limit goes by.
    """

    def __init__(self, connect: Callable[[], sqlite3.Connection], clock: Clock) -> None:
        self._connect = connect
        self._clock = clock
        self._threads: ThreadPoolExecutor | None = None
        self._free = asyncio.Semaphore(SIZE)
        self._idle: list[sqlite3.Connection] = []
        self._asked: dict[_Question[Any], asyncio.Future[Any]] = {}
        self._ending: set[asyncio.Task[None]] = set()

    async def ask(self, read: Callable[[sqlite3.Connection], T], seconds: float) -> T:
        """Answer a question; what else comes out of SQLite is not translated.

        Args:
            read: finds the answer.
            seconds: how long that may take, waiting for a connection included.

        Raises:
            QuestionTooSlow: it takes longer, or the database is being closed.
        """
        until = self._clock.monotonic() + seconds
        try:
            async with self._clock.timeout(seconds):
                await self._free.acquire()
        except TimeoutError:
            raise QuestionTooSlow(seconds) from None
        if self._threads is None:
            self._threads = ThreadPoolExecutor(SIZE, "redrive-sqlite-questions")
        question = _Question(self._connection, read)
        running = asyncio.get_running_loop().run_in_executor(self._threads, question.answer)
        self._asked[question] = running
        try:
            async with self._clock.timeout(max(0.0, until - self._clock.monotonic())):
                return await asyncio.shield(running)
        except TimeoutError:
            raise QuestionTooSlow(seconds) from None
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:
                raise QuestionTooSlow(seconds) from error
            raise
        finally:
            ending = asyncio.ensure_future(self._end(question, running))
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)

    async def close(self) -> None:
        """End all questions, and close the connections."""
        for question, running in list(self._asked.items()):
            await self._end(question, running)
        while self._ending:
            await asyncio.wait(self._ending)
        if self._threads is not None:
            self._threads.shutdown(wait=False)  # they have nothing left to do
        while self._idle:
            self._idle.pop().close()
        self._threads, self._free = None, asyncio.Semaphore(SIZE)  # the next loop may be another

    async def _end(self, question: "_Question[Any]", running: "asyncio.Future[Any]") -> None:
        """Interrupt a question until it has ended, if it has not, and let the next one have its connection."""
        while not running.done():
            question.interrupt()
            await asyncio.wait([running], timeout=_INTERRUPT_EVERY_S)
        if not running.cancelled():
            running.exception()  # its caller knows, or has left
        if self._asked.pop(question, None) is not None:
            self._idle += question.given_back()
            self._free.release()

    def _connection(self) -> sqlite3.Connection:
        return self._idle.pop() if self._idle else self._connect()


class _Question(Generic[T]):
    """A question that is being answered, in a thread.

    Args:
        connect: returns a connection.
        read: finds the answer.
    """

    def __init__(self, connect: Callable[[], sqlite3.Connection], read: Callable[[sqlite3.Connection], T]) -> None:
        self._connect = connect
        self._read = read
        self._connection: sqlite3.Connection | None = None

    def answer(self) -> T:
        """Find the answer."""
        self._connection = connection = self._connect()
        _end_transaction(connection)  # if the one before was interrupted here
        connection.execute("BEGIN")
        try:
            return self._read(connection)
        finally:
            _end_transaction(connection)

    def interrupt(self) -> None:
        """End the statement that is running, if one is."""
        if self._connection is not None:
            self._connection.interrupt()

    def given_back(self) -> list[sqlite3.Connection]:
        """Return its connection, which it no longer needs, if it had one."""
        return [] if self._connection is None else [self._connection]


def _end_transaction(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")
