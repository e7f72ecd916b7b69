# SPDX-License-Identifier: MIT
"""Wakes receivers that wait for messages: at once when this process makes one ready, otherwise by looking regularly.

A hint may be late or wrong; a receiver finds what is due by asking the database. While no receiver waits, no look is
made.
"""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence

from redrive.background import KeepGoing
from redrive.clock import Clock, pause

_A_MOMENT_S = 5.0

_logger = logging.getLogger("redrive.broker")


class Hints:
    """The receivers that wait, by queue.

    Args:
        clock: measures how long they wait.
        look: returns those of the waiting queues in which a receiver may find something now, and when the next lock
            ends or scheduled message comes due. It wakes only receivers that have a reason to ask: with a thousand
            queues, waking all of them for one message would keep a core busy.
        every: how many seconds a change by another process may go unseen.
    """

    def __init__(
        self,
        clock: Clock,
        look: Callable[[Sequence[str]], Awaitable[tuple[Collection[str], float | None]]],
        every: float,
    ) -> None:
        self._clock = clock
        self._look = look
        self._every = every
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}
        self._looking: asyncio.Task[None] | None = None
        self._left_at: dict[str, float] = {}
        self._missed: set[str] = set()  # queues of hints that no receiver waited for
        self._is_closed = False

    @property
    def queues(self) -> list[str]:
        """The queues for which a receiver waits, or was woken a moment ago and is about to ask."""
        since = self._clock.monotonic() - _A_MOMENT_S
        self._left_at = {queue: at for queue, at in self._left_at.items() if at >= since}
        return [*{**self._waiting, **self._left_at}]

    def asked(self, queue: str) -> None:
        """Note that a receiver is about to ask for messages: it finds what earlier hints were about."""
        self._missed.discard(queue)

    def wake(self, queues: Iterable[str]) -> None:
        """Wake every receiver that waits for one of these queues.

        If none does, one may have found nothing a moment ago and be about to wait: it will not wait then.
        """
        for queue in queues:
            if queue not in self._waiting:
                self._missed.add(queue)
            for waiting in self._waiting.get(queue, ()):
                if not waiting.done():
                    waiting.set_result(None)

    def open(self) -> None:
        """Let receivers wait again."""
        self._is_closed = False

    async def wait(self, queue: str, seconds: float) -> None:
        """Wait until something may be ready in a queue, at most that long; not at all once it is closed."""
        if self._is_closed or queue in self._missed:
            self._missed.discard(queue)
            await self._clock.sleep_async(0.0)  # if it is closed, the caller's next call raises that
            return
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(queue, set()).add(waiting)
        if self._looking is None:
            self._looking = asyncio.create_task(self._look_around(), name="redrive-hints")
        limit = asyncio.create_task(self._clock.sleep_async(seconds))
        try:
            await asyncio.wait((waiting, limit), return_when=asyncio.FIRST_COMPLETED)
        finally:
            limit.cancel()
            self._forget(queue, waiting)

    async def close(self) -> None:
        """Wake all receivers, let none wait any more, and stop looking."""
        self._is_closed = True
        self.wake(list(self._waiting))
        if self._looking is not None:
            looking, self._looking = self._looking, None
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)

    def _forget(self, queue: str, waiting: asyncio.Future[None]) -> None:
        others = self._waiting[queue]
        others.discard(waiting)
        if not others:
            del self._waiting[queue]
            self._left_at[queue] = self._clock.monotonic()
        if not self._waiting and self._looking is not None:
            self._looking.cancel()
            self._looking = None

    async def _look_around(self) -> None:
        # The next receive reports what is wrong; waking all receivers again and again would not help.
        keep_going = KeepGoing(_logger, "looking for messages failed", level=logging.DEBUG)
        while True:
            next_due: float | None = None
            with keep_going:
                found, next_due = await self._look(list(self._waiting))
                self.wake(found)
            left = math.inf if next_due is None else next_due - self._clock.time()
            if left > 0:  # otherwise it has come due during the look, and the next look finds it
                await pause(self._clock, min(self._every, left))
