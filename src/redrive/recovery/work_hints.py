# SPDX-License-Identifier: MIT
"""Hints between the processes that serve recovery: there is work. One that is lost costs the time of a poll."""

import asyncio
from contextlib import suppress
from typing import Any

from redrive.broker import Message, Send
from redrive.broker.rules import RECOVERY_HINTS
from redrive.errors import RedriveError
from redrive.recovery.environment import Tools
from redrive.recovery.events import RecoveryFault


class WorkHints:
    """The queue of hints, as one process sees it."""

    def __init__(self, tools: Tools) -> None:
        self._engine = tools.broker.engine
        self._new_id = tools.new_id
        self._report = tools.report

    async def send(self) -> None:
        """Tell the other processes that there is work."""
        try:
            await self._engine.apply([Send(RECOVERY_HINTS, Message(b"", id=self._new_id(), ttl=60.0))])
        except RedriveError as error:
            self._report(RecoveryFault.of("waking others", error))

    async def wait(self, woken: asyncio.Event, seconds: float) -> None:
        """Wait for a hint from another process, or for an event of this one."""
        waits: set[asyncio.Future[Any]] = {
            asyncio.ensure_future(self._engine.wait(RECOVERY_HINTS, seconds)),
            asyncio.ensure_future(woken.wait()),
        }
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
        with suppress(RedriveError):  # it has served; and if it stays, it only wakes this process once more
            await self._engine.lock_next(RECOVERY_HINTS, 100, delete=True)
