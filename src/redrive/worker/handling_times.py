# SPDX-License-Identifier: MIT
"""How long the last messages took to be handled. Pure: no I/O, no clock."""

from collections import deque
from typing import Final

_LATELY: Final = 500
"""How many messages count as the last ones."""


class HandlingTimes:
    """The times of the last messages of one handler.

    Attributes:
        handled: how many there have been.
    """

    def __init__(self) -> None:
        self.handled = 0
        self._seconds: deque[float] = deque(maxlen=_LATELY)

    def add(self, seconds: float) -> None:
        """Note how long a message took."""
        self.handled += 1
        self._seconds.append(seconds)

    @property
    def p95_s(self) -> float | None:
        """Within how many seconds 95 of 100 were handled; None if there are none."""
        ordered = sorted(self._seconds)
        return ordered[-(-95 * len(ordered) // 100) - 1] if ordered else None
