# SPDX-License-Identifier: MIT
"""The pages of an error queue that are read without locks, by several tasks."""

import asyncio
from collections.abc import Sequence

from redrive.broker.port import StoredMessage, StoredMessages
from redrive.recovery.own_queues import PAGE_BYTES

_MOST_UNLOCKED = 200
"""How many pages are read without locks before what was left is looked at."""


class UnlockedPages:
    """How far a queue has been read without locks.

    Args:
        engine: where the queue is.
        queue: the queue.
        size: how many messages a page has.
    """

    def __init__(self, engine: StoredMessages, queue: str, size: int) -> None:
        self._engine = engine
        self._queue = queue
        self._size = size
        self._start = 0
        self._left = _MOST_UNLOCKED
        self._looking = asyncio.Lock()  # one task at a time

    async def next(self) -> Sequence[StoredMessage]:
        """Look at the next page of messages; an empty one if there is none, or if there were enough."""
        async with self._looking:
            if not self._left:
                return ()
            page = await self._engine.peek_stored(self._queue, self._size, start=self._start, max_bytes=PAGE_BYTES)
            self._left = self._left - 1 if page else 0
            self._start = page[-1].sequence + 1 if page else 0
            return page

    def stop(self) -> None:
        """Return no more pages: another process reads here, too."""
        self._left = 0
