# SPDX-License-Identifier: MIT
"""Retrying a block of code: ``for attempt in retry(on=...): with attempt: ...``, and the same with ``async for``."""

from redrive.errors import UsageError
from redrive.retry.ambient import Attempt
from redrive.retry.call import REFUSED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from redrive.retry.call import RetriedCall


class BlockAttempt:
    """One pass of the loop: the code under ``with attempt:`` is the attempt.

    Attributes:
        number: which attempt it is, counted from 1.
    """

    __slots__ = ("_passes", "number")

    def __init__(self, passes: "_Passes", number: int) -> None:
        self._passes = passes
        self.number = number

    def __enter__(self) -> "Attempt":
        return self._passes.entered()

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _traceback: "TracebackType | None"
    ) -> bool:
        return self._passes.left(error)


class _Passes:
    """The passes of one loop, and the waits between them."""

    def __init__(self, operation: "RetriedCall") -> None:
        self._operation = operation
        self._delay: float | None = 0.0
        self._error: Exception | None = None
        self._is_entered = True

    def _is_over(self) -> bool:
        if not self._is_entered:
            raise UsageError("write 'with attempt:' inside the loop, around what is to be retried")
        return self._delay is None

    def _pause(self) -> float | None:
        """Return the wait for the breaker, or None if it lets the next pass begin; raise if the call must not wait."""
        error, self._error, self._delay = self._error, None, None
        try:
            pause = self._operation.pause(error)
            if error is not None and pause == REFUSED:
                raise error
            self._error = None if pause is None else error
            self._delay = 0.0
            return pause
        finally:
            error = None

    def _pass(self) -> BlockAttempt:
        self._is_entered = False
        return BlockAttempt(self, self._operation.number)

    def entered(self) -> "Attempt":
        """Begin the attempt."""
        self._is_entered = True
        self._operation.open()
        return Attempt(self._operation)

    def left(self, error: BaseException | None) -> bool:
        """End the attempt; return whether another pass follows, so that its error is suppressed."""
        self._delay = None
        try:
            if error is None:
                self._operation.accepts(None)
            elif isinstance(error, Exception):
                self._delay = self._operation.delay_after(error)
                self._error = None if self._delay is None else error
            else:
                self._operation.abandon()
        finally:
            self._operation.close()
        return self._delay is not None


class Attempts(_Passes):
    """The iterator of ``for attempt in retry(...)``."""

    def __iter__(self) -> "Self":
        return self

    def __next__(self) -> BlockAttempt:
        if self._is_over():
            raise StopIteration
        clock = self._operation.plan.clock
        if self._delay:
            clock.sleep(self._delay)
        while (pause := self._pause()) is not None:
            clock.sleep(pause)
        return self._pass()


class AsyncAttempts(_Passes):
    """The iterator of ``async for attempt in retry(...)``."""

    def __aiter__(self) -> "Self":
        return self

    async def __anext__(self) -> BlockAttempt:
        if self._is_over():
            raise StopAsyncIteration
        clock = self._operation.plan.clock
        if self._delay:
            await clock.sleep_async(self._delay)
        while (pause := self._pause()) is not None:
            await clock.sleep_async(pause)
        return self._pass()
