# SPDX-License-Identifier: MIT
"""What is counted for the history: of what, and what happened. Pure: no I/O, no clock.

A tally is a number under three words: a topic (``queue``), a name (``orders``) and a metric (``sent``). The code
that does the thing counts it; the engine adds up what was counted, and stores it by the minute.
"""

from collections.abc import Mapping
from typing import Final, Protocol, TypeAlias

Key: TypeAlias = tuple[str, str, str]
"""The topic, the name and the metric of a tally."""

# --- of what
QUEUE: Final = "queue"
"""A queue, or the queue of a subscription."""
GROUP: Final = "group"
"""A group of failures, by its id."""
ROUTE: Final = "route"
"""A route."""
DESTINATION: Final = "destination"
"""A destination of a pipeline, as ``pipeline/destination``."""
LANE: Final = "lane"
"""A destination that operations send to."""
CALL: Final = "call"
"""An operation of layer 1: calls under one name."""

# --- what happened
SENT: Final = "sent"
"""Messages stored in a queue; legs and shipments that were sent."""
DELIVERED: Final = "delivered"
"""Messages locked for a receiver, or taken out by one."""
REDELIVERED: Final = "redelivered"
"""Those of them that had been delivered before."""
COMPLETED: Final = "completed"
"""Messages completed."""
ABANDONED: Final = "abandoned"
"""Messages given back, to be delivered again."""
EXPIRED: Final = "expired"
"""Messages removed as their time to live was over; those that became dead letters are dead."""
DEAD: Final = "dead"
"""Messages that became dead letters."""
FAILED: Final = "failed"
"""Failures found by recovery; legs and shipments that failed; calls that were given up."""
RECOVERED: Final = "recovered"
"""Messages that were confirmed after recovery had sent them again."""
FAILED_AGAIN: Final = "failed_again"
"""Messages that failed again after recovery had sent them."""
RETRIED: Final = "retried"
"""Calls that were made again."""
UNKNOWN: Final = "unknown"
"""Shipments whose outcome is unknown."""
FILTERED: Final = "filtered"
"""Legs that a filter ended."""


class Tallying(Protocol):
    """A store that keeps a history: it adds up what was counted, and stores it by the minute."""

    def tally(self, counts: Mapping[Key, int]) -> None:
        """Count what was done. It is kept in memory, and stored with the next ``flush_tallies``."""
        ...

    async def flush_tallies(self) -> None:
        """Store what was counted, here and by the engine itself. It is to be called about once a second."""
        ...
