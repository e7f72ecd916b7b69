# SPDX-License-Identifier: MIT
"""A clock for several engines on one file."""

from redrive.clock import system_clock
from redrive.testing import ManualClock


class SharedClock(ManualClock):
    """A clock that only its test moves.

    A manual clock moves by itself when a thread sleeps by it. So an engine that waits for a file which another one is
    writing to moves it again and again, until that one is done: on a busy machine by as much as locks and leases last.
    """

    def sleep(self, seconds: float) -> None:
        """Note the sleep and really sleep."""
        self.slept.append(seconds)
        system_clock.sleep(seconds)
