# SPDX-License-Identifier: MIT
"""What every part of recovery works with."""

from collections.abc import Callable
from dataclasses import dataclass

from redrive.broker import Broker
from redrive.recovery.ledger import Ledger
from redrive.telemetry import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What every part of recovery works with.

    Attributes:
        broker: where the queues are.
        ledger: what is to be done, and what was done.
        new_id: names processes, and attempts at staging.
        chance: where random numbers come from.
        report: takes events.
    """

    broker: Broker
    ledger: Ledger
    new_id: Callable[[], str]
    chance: Callable[[], float]
    report: Callable[[Event], None]


class Stopping(Exception):
    """The process is about to stop; what is under way goes on later."""


class NotYet(Exception):
    """There is more to do, and its time has not come.

    Args:
        seconds: how long that is from now.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class Hopeless(Exception):
    """An operation cannot be worked on; the text says why, and what to do."""
