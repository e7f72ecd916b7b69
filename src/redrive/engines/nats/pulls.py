# SPDX-License-Identifier: MIT
"""Lets receives share a pull: those of one queue that come at the same time ask its consumer once, for all of them."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from redrive.clock import Clock
from redrive.engines.nats.catalog import Definition
from redrive.engines.nats.consumers import HandedOut, PullEnd

_MOST: Final = 256
"""How many messages one pull asks for."""


@dataclass(frozen=True, slots=True)
class Pulled:
    """What a receive has got of a pull.

    Attributes:
        messages: what was handed out; they are locked.
        end: why these are all.
        began: when the pull was made: the locks last from then on.
    """

    messages: list[HandedOut]
    end: PullEnd
    began: float


@dataclass(eq=False, slots=True)
class _Request:
    queue: Definition
    limit: int
    done: asyncio.Future[Pulled]


Pull = Callable[[Definition, int, int | None], Awaitable[tuple[list[HandedOut], PullEnd]]]


class SharedPulls:
    """The pulls of all queues. One is under way for each queue, and the next serves those who ask meanwhile.

    Args:
        pull: asks a queue's consumer.
        clock: says when.
    """

    def __init__(self, pull: Pull, clock: Clock) -> None:
        self._pull = pull
        self._clock = clock
        self._waiting: dict[str, deque[_Request]] = {}
        self._working: set[asyncio.Task[None]] = set()

    async def next(self, queue: Definition, limit: int, max_bytes: int | None) -> Pulled:
        """Return messages that are ready; a receive that counts bytes has a pull of its own."""
        if max_bytes is not None:
            began = self._clock.time()
            return Pulled(*await self._pull(queue, limit, max_bytes), began)
        request = _Request(queue, limit, asyncio.get_running_loop().create_future())
        waiting = self._waiting.get(queue.key)
        if waiting is None:
            waiting = self._waiting[queue.key] = deque()
            task = asyncio.create_task(self._work(queue.key, waiting), name="redrive-nats-pull")
            self._working.add(task)
            task.add_done_callback(self._working.discard)
        waiting.append(request)
        return await request.done

    async def _work(self, key: str, waiting: deque[_Request]) -> None:
        try:
            while waiting:
                await self._serve(_group(waiting))
        finally:
            del self._waiting[key]

    async def _serve(self, group: list[_Request]) -> None:
        began = self._clock.time()
        try:
            found, end = await self._pull(group[0].queue, sum(each.limit for each in group), None)
        except Exception as error:  # noqa: BLE001 - it is the callers'
            for each in group:
                if not each.done.done():
                    each.done.set_exception(error)
            return
        rest = deque(found)
        for each in group:
            if not each.done.done():
                part = [rest.popleft() for _ in range(min(each.limit, len(rest)))]
                each.done.set_result(Pulled(part, PullEnd.MORE if len(part) == each.limit else end, began))


def _group(waiting: deque[_Request]) -> list[_Request]:
    """Return those who share the next pull."""
    group = [waiting.popleft()]
    limit = group[0].limit
    while waiting and limit + waiting[0].limit <= _MOST:
        group.append(waiting.popleft())
        limit += group[-1].limit
    return group
