# SPDX-License-Identifier: MIT
"""What an engine has counted since it was last stored: a few numbers in memory, stored in one small transaction.

A message costs an addition, not a statement. If the process dies, what was counted since the last time is lost, about a
second of it; nothing is ever stored twice.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from redrive.broker.tallies import Key
from redrive.engines.sql.history import tallies
from redrive.engines.sql.script import Script
from redrive.errors import RedriveError


class TallyBuffer:
    """Numbers that are not stored yet.

    Args:
        run: runs a script in a transaction.
    """

    def __init__(self, run: Callable[[Callable[[], Script[None]]], Awaitable[None]]) -> None:
        self._run = run
        self._counts: dict[Key, int] = {}
        self._storing: asyncio.Future[None] | None = None

    def add(self, counts: Mapping[Key, int]) -> None:
        """Count what a transaction did that is committed."""
        mine = self._counts
        for key, count in counts.items():
            mine[key] = mine.get(key, 0) + count

    async def flush(self) -> None:
        """Store everything that was counted; to its end, even if the caller is cancelled."""
        if self._storing is not None:
            await asyncio.wait([self._storing])
        if self._storing is None and self._counts:
            self._storing = asyncio.ensure_future(self._store())
            self._storing.add_done_callback(self._stored)
            await asyncio.shield(self._storing)

    async def _store(self) -> None:
        taken, self._counts = self._counts, {}
        try:
            await self._run(lambda: tallies.add(taken))
        except RedriveError as error:
            if not getattr(error, "may_be_done", False):  # otherwise it would be counted twice
                self.add(taken)
            raise

    def _stored(self, storing: "asyncio.Future[None]") -> None:
        self._storing = None
        if not storing.cancelled():
            storing.exception()  # the caller reports it, if there is still one
