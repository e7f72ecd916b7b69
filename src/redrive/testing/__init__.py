# SPDX-License-Identifier: MIT
"""What your tests need to run without waiting: a clock you move yourself, and a switch for all sleeping."""

from redrive.testing.manual_clock import ManualClock, no_sleep

__all__ = ["ManualClock", "no_sleep"]
