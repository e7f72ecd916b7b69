# SPDX-License-Identifier: MIT
"""The figures of an overview. Pure: no I/O, no clock."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from redrive.broker import tallies

CAUGHT: Final[Mapping[str, tuple[str, str]]] = {
    "retry": (tallies.CALL, tallies.RETRIED),
    "redeliver": (tallies.QUEUE, tallies.REDELIVERED),
    "replay": (tallies.ROUTE, tallies.FAILED),
    "re-run": (tallies.DESTINATION, tallies.FAILED),
    "recover": (tallies.LANE, tallies.RECOVERED),
}
"""What counts as caught by each layer: the topic and the metric of the history."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """How things stand, in a few numbers.

    Attributes:
        unresolved: failed messages that are unresolved.
        new_groups: groups, of the 1,000 largest, of which the first failure is less than 24 hours old.
        failed_today: failures in the last 24 hours.
        recovered_today: messages that were recovered in the last 24 hours.
        waiting: messages that wait in queues.
        oldest_at: since when the oldest of them waits, if there is one.
        dead_letters: dead letters in queues.
        operations: operations under way, 50 at most.
        workers: workers that are running.
        caught: what each layer has caught in the last 24 hours, by its word: calls retried (``retry``), messages
            redelivered, attempts of legs and of shipments that are made again, messages recovered.
    """

    unresolved: int
    new_groups: int
    failed_today: int
    recovered_today: int
    waiting: int
    oldest_at: datetime | None
    dead_letters: int
    operations: int
    workers: int
    caught: Mapping[str, int]
