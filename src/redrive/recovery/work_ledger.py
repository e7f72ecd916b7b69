# SPDX-License-Identifier: MIT
"""The part of the ledger port that the work on operations needs: leases, marking, batches and lanes.

A verb that is part of this work takes a ``Lease``, and is refused with ``LeaseLost`` when the lease has gone to another
process.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from redrive.recovery.operation import Counts
from redrive.recovery.records import Batch, LaneInfo, Lease, ServiceInfo, Staged, Work
from redrive.recovery.states import OperationEvent, OperationState


class LeaseStore(Protocol):
    """Which process serves, and what it works on."""

    async def hold(self, name: str, session: str, seconds: float) -> Lease | None:
        """Take a lease that is free or has ended; None if another session has it."""
        ...

    async def renew(self, lease: Lease, seconds: float) -> None:
        """Lengthen a lease, if the caller still holds it."""
        ...

    async def release(self, lease: Lease) -> None:
        """Give a lease back, if the caller still holds it."""
        ...

    async def present(self, session: str, host: str, seconds: float) -> None:
        """Note that a process serves, and will note it again within so many seconds."""
        ...

    async def absent(self, session: str) -> None:
        """Note that a process serves no longer."""
        ...

    async def services(self) -> list[ServiceInfo]:
        """Return the processes that serve, the oldest first."""
        ...


class MarkingStore(Protocol):
    """The work on an operation: marking and claiming its messages, judging its canaries, ending it."""

    async def work(self) -> Work:
        """Say what there is to do."""
        ...

    async def mark(self, lease: Lease, operation: int) -> bool:
        """Put the next messages of an operation into batches, in state marking.

        If the operation is being cancelled, note them as cancelled instead. Returns False if there are no more for now.
        """
        ...

    async def claim(self, lease: Lease, operation: int) -> int:
        """Claim the messages of an operation's batches in marking, also those of a process that has died.

        An operation that sends nothing finishes them in the same transaction. Returns how many it claimed.
        """
        ...

    async def canaries(self, operation: int) -> tuple[Counts, float]:
        """Return the outcomes of an operation's canaries, and the seconds since the last of them was sent."""
        ...

    async def advance(self, lease: Lease, operation: int, event: OperationEvent, reason: str) -> bool:
        """Change the state of an operation under way; False if its state does not allow that."""
        ...

    async def settle(self, lease: Lease, operation: int) -> OperationState:
        """End an operation if it has nothing left to do, or start it if it is due."""
        ...


class BatchStore(Protocol):
    """Batches and their lanes, from staging to the last message that is forwarded."""

    async def next_batch(self, lease: Lease, lane: str) -> Batch | None:
        """Return the batch that a lane is forwarding, or else the next one to be staged."""
        ...

    async def to_stage(self, batch: Batch, *, after: int = 0, limit: int = 200) -> tuple[list[Staged], int | None]:
        """Return messages of a batch that are still to be staged, as many as fit into memory.

        And the number after which to go on; None if there are no more. Messages that cannot be read are left out.
        """
        ...

    async def staged(
        self, lease: Lease, batch: Batch, copied: Mapping[str, int], refused: Mapping[int, str]
    ) -> set[int]:
        """Move a batch to forwarding.

        Args:
            lease: the right to work in its lane.
            batch: the batch, with the staging id that its copies carry.
            copied: the messages that have a copy in the staging queue: their ids and numbers.
            refused: the numbers of those that have none, and why.

        Returns:
            The numbers of the messages that are on their way.
        """
        ...

    async def pending(self, batch: Batch) -> set[int]:
        """Return the numbers of the messages of a batch that are not done."""
        ...

    async def latest(self, lease: Lease, batch: Batch) -> Batch:
        """Return a batch with its operation's present plan and state, if the lease is still valid."""
        ...

    async def reserve(self, lease: Lease, batch: Batch, next_at: float) -> None:
        """Note that a lane sends now, and not again before ``next_at``."""
        ...

    async def forwarded(self, lease: Lease, batch: Batch, numbers: Sequence[int], *, reason: str = "") -> None:
        """Note that messages have left for their destination."""
        ...

    async def doubt(self, lease: Lease, batch: Batch, numbers: Sequence[int], reason: str) -> None:
        """Note a doubt about messages; it is added to the reason of their outcome."""
        ...

    async def eject(self, lease: Lease, batch: Batch, reasons: Mapping[int, str]) -> None:
        """Note that messages could not be sent: they are unresolved again."""
        ...

    async def unstage(self, lease: Lease, batch: Batch, numbers: Sequence[int]) -> None:
        """Take back messages that were staged and not sent, because their operation was paused or cancelled."""
        ...

    async def finish(self, lease: Lease, batch: Batch, forwarded: Sequence[int] = ()) -> OperationState:
        """Delete a batch whose last messages have been forwarded; return the state of the operation.

        Messages that are still pending are skipped, because their status has changed, or cancelled with the operation.
        """
        ...

    async def count_strays(self, lease: Lease, lane: str, strays: int) -> None:
        """Count copies that belonged to no batch, and were dropped."""
        ...

    async def lanes(self) -> list[LaneInfo]:
        """Return the lanes, and who is at work in each."""
        ...
