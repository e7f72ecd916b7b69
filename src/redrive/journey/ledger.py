# SPDX-License-Identifier: MIT
"""The ledger port of journeys: all that the tables know of some messages. Pure: no I/O, no clock."""

from collections.abc import Sequence
from typing import Protocol

from redrive.journey.records import Records


class JourneyLedger(Protocol):
    """What the tables of all layers know of messages."""

    async def open(self) -> None:
        """Connect, and bring the schema up to date."""
        ...

    async def close(self) -> None:
        """Disconnect."""
        ...

    async def records(self, ids: Sequence[str], most_queued: int, *, back: bool = False) -> Records:
        """Return what is known of messages with these ids, of their children, and of what pipelines made of them.

        Args:
            ids: the ids of messages; an id of a task, an item or a shipment of a pipeline stands for that.
            most_queued: how many messages in queues are looked at, the newest ones: no index has their ids.
            back: whether the tasks that a task came from are returned, too: of a batch, all that are in it.
        """
        ...
