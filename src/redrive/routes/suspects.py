# SPDX-License-Identifier: MIT
"""Legs that were on their way when processes died. One of them may be the cause, so they are tried one at a time.

Without this, a leg that ends its process would take all legs with it that are on their way beside it each time.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from redrive.clock import Clock, pause

AWAY_S: Final = 0.5
"""For how long a suspect is given back while another one is tried."""

_ALONE_AFTER_S: Final = 0.1
"""How long a suspect waits before it is tried: by then the others are given back."""

_CRASHES: Final = 2
"""After how many deaths a leg is a suspect: the first may have been a power cut, or a person."""


class Suspects:
    """Which suspect of this process is being tried, of all its routes.

    Args:
        clock: what waiting goes by.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._is_trying = False

    def must_wait(self, deliveries: int) -> bool:
        """Say whether a leg must be given back, because another suspect is being tried.

        Args:
            deliveries: how often the leg was delivered, this time included, without an end that is known.
        """
        return self._is_trying and deliveries > _CRASHES

    @asynccontextmanager
    async def trying(self, deliveries: int) -> AsyncGenerator[None]:
        """Try a leg: if it is a suspect, alone."""
        if deliveries <= _CRASHES:
            yield
            return
        self._is_trying = True
        try:
            await pause(self._clock, _ALONE_AFTER_S)
            yield
        finally:
            self._is_trying = False
