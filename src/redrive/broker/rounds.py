# SPDX-License-Identifier: MIT
"""The work that no call asks for: upkeep every few seconds, and storing what was counted every second."""

import logging

from redrive.background import KeepGoing
from redrive.broker.port import Maintenance, Tallying
from redrive.clock import Clock, pause

_FLUSH_EVERY_S = 1.0
"""How much of the history the death of a process may lose."""

_logger = logging.getLogger("redrive.broker")


class Rounds:
    """Does a broker's rounds, until it is cancelled.

    Args:
        engine: the store.
        tallying: the same, if it keeps a history.
        clock: what waiting goes by.
        every: how often, in seconds, there is upkeep.
    """

    def __init__(self, engine: Maintenance, tallying: Tallying | None, clock: Clock, every: float) -> None:
        self._engine = engine
        self._tallying = tallying
        self._clock = clock
        self._every = every
        self._upkeep = KeepGoing(_logger, "upkeep failed")
        self._history = KeepGoing(_logger, "storing the history failed")

    async def run(self) -> None:
        """Do them, again and again."""
        due = self._clock.monotonic()
        while True:
            if self._clock.monotonic() >= due:
                if not await self._keep_up():
                    continue
                due = self._clock.monotonic() + self._every
            else:
                await self._flush()
            left = due - self._clock.monotonic()
            await pause(self._clock, left if self._tallying is None else min(left, _FLUSH_EVERY_S))

    async def _keep_up(self) -> bool:
        """Do one round of upkeep; False if more is due at once."""
        with self._upkeep:
            return (await self._engine.upkeep()).is_finished
        return True

    async def _flush(self) -> None:
        if self._tallying is not None:
            with self._history:
                await self._tallying.flush_tallies()
