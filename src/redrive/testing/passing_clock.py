# SPDX-License-Identifier: MIT
"""A clock for tests of stores that have a clock of their own, which no one can move."""

from typing import Final

from redrive.clock import system_clock
from redrive.testing.manual_clock import ManualClock

_SPARE: Final = 1.05
_LONGEST_S: Final = 2.5


class PassingClock(ManualClock):
    """A clock that is moved like a ``ManualClock``, and really waits meanwhile, only not so long.

    A store has to let a second of this clock last as long as ``pace`` says. So instants are as exact as those of a
    ``ManualClock``, and whatever the store does by itself has happened when ``advance`` returns.

    Args:
        pace: how many real seconds one of this clock is: 1/30 lets a lock of a minute last two seconds.
        resolution_s: how many real seconds later than its time the store may do something.

    Attributes:
        pace: as above.
        moment: as of every clock; so much longer, since what the test itself does takes time on the store's clock.
    """

    moment = 25.0

    def __init__(self, pace: float, resolution_s: float) -> None:
        super().__init__()
        self.pace = pace
        self._resolution_s = resolution_s

    def advance(self, seconds: float) -> None:
        """Wait as long as that takes, two and a half seconds at most, and move the clock."""
        if seconds > 0:
            late = self._resolution_s if seconds >= 1 else 0.0
            system_clock.sleep(min(_LONGEST_S, seconds * self.pace * _SPARE + late))
        super().advance(seconds)
