# SPDX-License-Identifier: MIT
"""Calling and waiting until there is an outcome: one loop that blocks, one that awaits.

``RetriedCall`` makes all decisions. Every function here drops its reference to an error before it returns: a frame that
is part of the error's traceback and holds the error is garbage that only the cycle collector can find.
"""

from redrive.retry.ambient import ambient
from redrive.retry.call import REFUSED, RetriedCall

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any, TypeVar

    from redrive.retry.settings import RetryPlan

    T = TypeVar("T")


class Live:
    """The plan in force. Reading a policy file again replaces it; calls that are running keep theirs."""

    __slots__ = ("plan",)

    def __init__(self, plan: "RetryPlan") -> None:
        self.plan = plan

    def current(self) -> "RetryPlan":
        """Return the plan for an operation that begins, or whose first attempt has failed."""
        return self.plan


def begin(live: Live, name: str) -> RetriedCall:
    """Return a new operation whose first attempt is still to come."""
    plan = live.current()
    started = plan.clock.monotonic()
    if plan.budget is not None:
        plan.budget.called(started)
    return RetriedCall(plan, plan.operation or name, started, ambient.get())


def adopt(live: Live, name: str, started: float) -> RetriedCall:
    """Return the operation of a call whose first attempt has just failed, outside."""
    plan = live.current()
    operation = RetriedCall(plan, plan.operation or name, started, None)
    if plan.breaker is not None:
        operation.adopt()
    return operation


def attempts(
    operation: RetriedCall,
    fn: "Callable[..., T]",
    args: "tuple[Any, ...]",
    kwargs: "dict[str, Any]",
    failure: Exception | None = None,
) -> "T":
    """Call until a result is accepted or the operation gives up; ``failure`` is that of an adopted first attempt."""
    clock = operation.plan.clock
    is_gated = operation.plan.breaker is not None
    result: T = None  # type: ignore[assignment]  # until there is one; then it is only returned if it is
    is_first = failure is None
    operation.open()
    try:
        while True:
            if not is_first:
                delay = operation.delay_after(failure, result)
                if delay is None:
                    return _outcome(failure, result)
                if delay > 0.0:
                    clock.sleep(delay)
            if is_gated and not _passes_breaker(operation, failure, result):
                return _outcome(failure, result)
            is_first = False
            try:
                result = fn(*args, **kwargs)
            except Exception as error:  # noqa: BLE001 - which errors are retried is the operation's to say
                failure = error
            except BaseException:
                operation.abandon()
                raise
            else:
                failure = None
                if operation.accepts(result):
                    return result
    finally:
        operation.close()
        failure = None


async def attempts_async(
    operation: RetriedCall,
    fn: "Callable[..., Awaitable[T]]",
    args: "tuple[Any, ...]",
    kwargs: "dict[str, Any]",
    failure: Exception | None = None,
) -> "T":
    """Await until a result is accepted or the operation gives up; ``failure`` is that of an adopted first attempt."""
    clock = operation.plan.clock
    is_gated = operation.plan.breaker is not None
    result: T = None  # type: ignore[assignment]  # until there is one; then it is only returned if it is
    is_first = failure is None
    operation.open()
    try:
        while True:
            if not is_first:
                delay = operation.delay_after(failure, result)
                if delay is None:
                    return _outcome(failure, result)
                if delay > 0.0:
                    await clock.sleep_async(delay)
            if is_gated and not await _passes_breaker_async(operation, failure, result):
                return _outcome(failure, result)
            is_first = False
            limit = operation.time_limit()
            try:
                result = await (fn(*args, **kwargs) if limit is None else _within(limit, operation, fn, args, kwargs))
            except Exception as error:  # noqa: BLE001 - which errors are retried is the operation's to say
                failure = error
            except BaseException:
                operation.abandon()
                raise
            else:
                failure = None
                if operation.accepts(result):
                    return result
    finally:
        operation.close()
        failure = None


def _passes_breaker(operation: RetriedCall, failure: Exception | None, result: object) -> bool:
    """Wait until the breaker lets the next attempt through; False if it does not."""
    while (pause := operation.pause(failure, result)) is not None:
        if pause == REFUSED:
            return False
        operation.clock.sleep(pause)
    return True


async def _passes_breaker_async(operation: RetriedCall, failure: Exception | None, result: object) -> bool:
    """Wait until the breaker lets the next attempt through; False if it does not."""
    while (pause := operation.pause(failure, result)) is not None:
        if pause == REFUSED:
            return False
        await operation.clock.sleep_async(pause)
    return True


def _outcome(failure: Exception | None, result: "T") -> "T":
    """Return or raise the outcome of the last attempt."""
    try:
        if failure is not None:
            raise failure
        return result
    finally:
        failure = None


async def _within(
    limit: float,
    operation: RetriedCall,
    fn: "Callable[..., Awaitable[T]]",
    args: "tuple[Any, ...]",
    kwargs: "dict[str, Any]",
) -> "T":
    """Await one attempt, cut off at its limit."""
    scope = None
    try:
        async with operation.plan.clock.timeout(limit) as scope:
            return await fn(*args, **kwargs)
    except TimeoutError:
        if scope is None or not scope.expired():  # the call's own time-out, not the attempt's
            raise
    raise operation.cut_off(limit)
