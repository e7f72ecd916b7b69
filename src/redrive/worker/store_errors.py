# SPDX-License-Identifier: MIT
"""Faults of the infrastructure: retried by layer 1, told to whoever wants to know, and never a message's fault."""

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
"""Gets the error, and what failed; may be async."""

RECONNECT = Exponential(min=0.8, max=30.0, max_attempts=4)
"""One round: the first try and three retries. Between rounds the worker waits as long as its policy ever does."""

_FOR_EVER = 1_000_000
_SHORTEST_PAUSE_S = 0.1
"""Between rounds, whatever the policy says: a store that is away is not asked without a pause."""


class Faults:
    """How the worker for one queue deals with a store that does not answer.

    Args:
        queue: whose messages are concerned.
        clock: what waiting goes by.
        chance: where random numbers come from.
        report: takes events.
        on_error: the program's own error handler.
        reconnect: how often one round tries, and how long it waits in between.
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

    async def insist(self, doing: str, do: Callable[[], Awaitable[T]], is_over: Callable[[], bool] | None = None) -> T:
        """Do something until the store answers, or until there is no point in it any more.

        Raises:
            EngineUnavailable: the store did not answer while there was a point in it.
        """
        while True:
            try:
                return await self._calls[doing](do)  # type: ignore[no-any-return]  # what ``do`` returns
            except EngineUnavailable as error:
                await self.tell(doing, error)
                if is_over is not None and is_over():
                    raise
            await pause(self._clock, max(_SHORTEST_PAUSE_S, self._reconnect.curve(_FOR_EVER)))

    def wait_after(self, failures: int) -> float:
        """Return the seconds to wait after that many failures in a row, for whoever tries by itself."""
        return max(_SHORTEST_PAUSE_S, self._reconnect.curve(failures))

    async def tell(self, doing: str, error: Exception) -> None:
        """Report a fault, and hand it to the program's error handler; that one's own failure is only reported."""
        self._tell(doing, error)
        if self._on_error is None:
            return
        try:
            answer = self._on_error(error, f"{doing} {self._queue}")
            if inspect.isawaitable(answer):
                await answer
        except (Exception, SystemExit) as failure:  # noqa: BLE001 - it is theirs, and the worker goes on
            self._tell("on_error", failure)

    def _tell(self, doing: str, error: BaseException) -> None:
        self._report(WorkerFault.of(self._queue, doing, error))


async def _call(do: Callable[[], Awaitable[T]]) -> T:
    """Call a function. Decorated, it is retried at a fifth of the cost of a plain call through ``Retry``."""
    return await do()


def check_reconnect(value: object) -> Backoff:
    """Return a policy for a store that does not answer, if it is one that comes to an end and tells."""
    if not isinstance(value, Backoff) or value.max_attempts is None:
        raise InvalidSetting(
            "reconnect", value, "must be a policy with max_attempts, such as Exponential(min=0.8, max_attempts=4)"
        )
    return value
