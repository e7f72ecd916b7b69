# SPDX-License-Identifier: MIT
"""Errors of the store: retried by layer 1, reported to telemetry and ``on_error``, and never counted as failures."""

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, TypeVar

from redrive.clock import Clock, pause
from redrive.errors import EngineUnavailable, InvalidSetting
from redrive.retry import Backoff, Exponential, retry
from redrive.telemetry import Event
from redrive.worker.events import WorkerFault

T = TypeVar("T")

OnError: TypeAlias = Callable[[Exception, str], object]
"""A function of the error and of what failed; it may be async."""

RECONNECT = Exponential(min=0.8, max=30.0, max_attempts=4)
"""One round: the first attempt and three retries. Between rounds the worker waits for the policy's longest delay."""

_FOR_EVER = 1_000_000
_SHORTEST_PAUSE_S = 0.1
"""Between rounds, whatever the policy says: a store that is down is never asked without a pause."""


class StoreErrors:
    """Retries and reports the errors of a store that does not answer, for one queue of a worker.

    Args:
        queue: the queue, for reports.
        clock: the clock.
        chance: where random numbers come from.
        report: takes events.
        on_error: the program's own error handler.
        reconnect: how many attempts one round has, and the delays between them.
    """

    def __init__(
        self,
        queue: str,
        *,
        clock: Clock,
        chance: Callable[[], float],
        report: Callable[[Event], None],
        on_error: OnError | None,
        reconnect: Backoff = RECONNECT,
    ) -> None:
        self._queue = queue
        self._clock = clock
        self._report = report
        self._on_error = on_error
        self._reconnect = reconnect
        self._calls: dict[str, Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]] = {
            doing: retry(
                on=EngineUnavailable,
                policy=reconnect,
                deadline=None,
                operation=f"{doing} {queue}",
                clock=clock,
                chance=chance,
            )(_call)
            for doing in ("receive", "settle")
        }

    async def keep_trying(
        self, doing: str, do: Callable[[], Awaitable[T]], is_over: Callable[[], bool] | None = None
    ) -> T:
        """Call a function until the store answers, or until ``is_over`` says that the result is of no use any more.

        Raises:
            EngineUnavailable: the store did not answer in time.
        """
        while True:
            try:
                return await self._calls[doing](do)  # type: ignore[no-any-return]  # what ``do`` returns
            except EngineUnavailable as error:
                await self.report(doing, error)
                if is_over is not None and is_over():
                    raise
            await pause(self._clock, max(_SHORTEST_PAUSE_S, self._reconnect.curve(_FOR_EVER)))

    def wait_after(self, failures: int) -> float:
        """Return the seconds to wait after that many failures in a row, for a caller with its own loop."""
        return max(_SHORTEST_PAUSE_S, self._reconnect.curve(failures))

    async def report(self, doing: str, error: Exception) -> None:
        """Report an error, and call the program's error handler; a failure of that handler is only reported."""
        self._send_event(doing, error)
        if self._on_error is None:
            return
        try:
            answer = self._on_error(error, f"{doing} {self._queue}")
            if inspect.isawaitable(answer):
                await answer
        except (Exception, SystemExit) as failure:  # noqa: BLE001 - the program's error handler must not stop the worker
            self._send_event("on_error", failure)

    def _send_event(self, doing: str, error: BaseException) -> None:
        self._report(WorkerFault.of(self._queue, doing, error))


async def _call(do: Callable[[], Awaitable[T]]) -> T:
    """Call a function. As a decorated function it costs a fifth of what a call through ``Retry`` costs."""
    return await do()


def check_reconnect(value: object) -> Backoff:
    """Return the policy if it has ``max_attempts``: a round must end, so that its error is reported."""
    if not isinstance(value, Backoff) or value.max_attempts is None:
        raise InvalidSetting(
            "reconnect", value, "must be a policy with max_attempts, such as Exponential(min=0.8, max_attempts=4)"
        )
    return value
