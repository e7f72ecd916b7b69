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
        ledger: where failures and operations are stored.
        new_id: makes names for processes, and for attempts at staging.
        chance: where random numbers come from.
        report: takes events.
        is_reported: says whether anything gets events of a kind.
    """

    broker: Broker
    ledger: Ledger
    new_id: Callable[[], str]
    chance: Callable[[], float]
    report: Callable[[Event], None]
    is_reported: Callable[[type[Event]], bool]


class Stopping(Exception):
    """The process is about to stop; its work goes on later, here or in another process."""


class NotYet(Exception):
    """There is more work, but not yet.

    Args:
        seconds: how long from now.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class Hopeless(Exception):
    """An operation cannot be worked on; the text says why, and what to do."""
