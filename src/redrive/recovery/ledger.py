# SPDX-License-Identifier: MIT
"""The ledger port: what layer 5 requires of a store. A small protocol for each role, and one that has them all.

Each verb is one transaction. The ledger never relies on sharing one with the queues: they may be in another database,
or in a foreign broker. Where both are in one database, a failure is recorded in the transaction that completes its
message. A verb that is part of the work on an operation or in a lane takes a ``Lease``, and is refused with
``LeaseLost`` when the lease has gone to another process.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from redrive.broker import Complete
from redrive.recovery.arrivals import Arrival, Confirmation, Confirmed, Recorded, SetAside
from redrive.recovery.filter import Filter
from redrive.recovery.list_order import START, Order, Place
from redrive.recovery.operation import Counts, Operation, Plan
from redrive.recovery.records import (
    AuditEntry,
    Batch,
    CountDifference,
    DryRun,
    FailedDetail,
    FailedMessage,
    Found,
    GroupInfo,
    LaneInfo,
    Lease,
    Note,
    OperationRequest,
    Part,
    ServiceInfo,
    Staged,
    Work,
)
from redrive.recovery.states import OperationEvent, OperationState, Outcome, Status
from redrive.recovery.suggestions import KindValue


class FailureStore(Protocol):
    """Failed messages: recording them, finding them, and forgetting them."""

    is_with_queues: bool
    """Whether it is in the database of the queues, so that both can change in one transaction."""

    async def record(self, arrivals: Sequence[Arrival], *, completing: Sequence[Complete] = ()) -> list[Recorded]:
        """Record failures; say for each to which message it belongs, and whether it was new.

        The same failure twice is one attempt.

        Args:
            arrivals: the failures.
            completing: the messages that these were read from, to be completed in the same transaction; only if the
                ledger is with the queues.

        Raises:
            LockLost: one of those messages is not locked any more; nothing was done.
        """
        ...

    async def confirm(self, confirmations: Sequence[Confirmation]) -> list[Confirmed]:
        """Note that recovered messages were handled; say for each what that changed."""
        ...

    async def find(
        self, chosen: Filter, *, after: Place = START, limit: int = 100, order: Order = Order.OLDEST
    ) -> list[FailedMessage]:
        """Return failed messages in an order, from the one after a place in it on."""
        ...

    async def search(
        self, chosen: Filter, *, after: Place = START, limit: int = 100, order: Order = Order.OLDEST, part: int = 1_000
    ) -> Found:
        """Look through so many of the messages that match the other terms for those that contain the text."""
        ...

    async def sources(self) -> list[str]:
        """Return the queues that failures were found in."""
        ...

    async def show(self, id: str) -> FailedDetail | None:  # noqa: A002 - it is called that everywhere
        """Return everything about the failed message whose id begins so; None if there is none, or more than one."""
        ...

    async def sweep(self, settled_before: datetime, limit: int = 1_000) -> int:
        """Delete messages that were resolved or archived before then, and operations that ended: a bounded number.

        Returns how many there were; call it again until there are none.
        """
        ...


class CountStore(Protocol):
    """How many failed messages there are, counted whenever one changes."""

    async def count(self, chosen: Filter, *, most: int | None = None) -> int:
        """Count failed messages; stop at one more than the most, unless they are counted already."""
        ...

    async def count_by_status(self, chosen: Filter) -> dict[Status, int]:
        """Count failed messages of each status that the filter has."""
        ...

    async def groups(
        self,
        classifier: str,
        chosen: Filter,
        *,
        after: str | None = None,
        limit: int = 100,
        largest_first: bool = False,
    ) -> list[GroupInfo]:
        """Return groups in order of their ids, from the one after ``after`` on; or the largest first."""
        ...

    async def kind_values(self, key: str, chosen: Filter, part: str, limit: int) -> list[KindValue]:
        """Return the values of a key (``queue``, ``type``, ``exception``, ``group``) that contain a part.

        Those with most failures come first. The filter is about kinds, and no failure is read.
        """
        ...

    async def check_counts(self) -> list[CountDifference]:
        """Compare the stored counts with the messages; return what differs."""
        ...

    async def repair_counts(self) -> list[CountDifference]:
        """Count all messages anew if a stored count is wrong; return what differed."""
        ...


class SetAsideStore(Protocol):
    """Messages from error queues that could not be read."""

    async def set_aside(self, messages: Sequence[SetAside]) -> None:
        """Keep messages that could not be read; one that is there already is not kept twice."""
        ...

    async def aside(self, *, after: int = 0, limit: int = 100) -> list[SetAside]:
        """Return messages that could not be read."""
        ...

    async def drop_aside(self, number: int) -> None:
        """Forget a message that was set aside."""
        ...


class AuditStore(Protocol):
    """Notes that people write, and the trail of who did what."""

    async def note(self, subject: str, text: str, actor: str) -> Note:
        """Write a note about ``group:<id>``, ``failure:<id>`` or ``operation:<number>``."""
        ...

    async def notes(self, subject: str) -> list[Note]:
        """Return the notes about something, the oldest first."""
        ...

    async def drop_note(self, number: int, actor: str) -> None:
        """Remove a note.

        Raises:
            NoteNotFound: there is none with this number.
        """
        ...

    async def audit(self, entry: AuditEntry) -> None:
        """Add an entry to the audit trail that is not a change of the ledger itself, such as a refusal."""
        ...

    async def trail(
        self, *, subject: str | None = None, before: int | None = None, limit: int = 100
    ) -> list[AuditEntry]:
        """Return the audit trail, the newest entry first."""
        ...


class OperationStore(Protocol):
    """Operations, and what people decide about them."""

    async def request(self, ask: OperationRequest) -> Operation:
        """Store a request; the same key twice gives the same operation."""
        ...

    async def requested(self, key: str) -> Operation | None:
        """Return the operation that was requested with a key."""
        ...

    async def dry_run(self, plan: Plan) -> DryRun:
        """Say what an operation would find, and do nothing."""
        ...

    async def operation(self, number: int, *, newcomers: bool = False) -> Operation:
        """Return an operation with its figures and, if asked, the number of messages that came too late for it."""
        ...

    async def operations(
        self, *, is_open: bool | None = None, before: int | None = None, limit: int = 50
    ) -> list[Operation]:
        """Return operations, the newest first."""
        ...

    async def change(self, number: int, event: OperationEvent, *, actor: str = "", reason: str = "") -> Operation:
        """Change the state of an operation for a person; ``OperationConflict`` if its state does not allow that."""
        ...

    async def set_rate(self, number: int, rate: float | None, *, actor: str = "") -> Operation:
        """Change the rate of an operation that is under way."""
        ...

    async def parts(
        self, number: int, outcomes: Sequence[Outcome] = (), *, after: int = 0, limit: int = 100
    ) -> list[Part]:
        """Return the messages of an operation, with what became of each."""
        ...

    async def acknowledge(self, number: int, *, actor: str = "") -> None:
        """Note that a person has seen how an operation ended."""
        ...


class RedirectStore(Protocol):
    """Where failed messages go instead of the queue they failed in."""

    async def redirects(self) -> dict[str, str]:
        """Return where failed messages go instead of the queue they failed in."""
        ...

    async def redirect(self, queue: str, to: str | None, *, actor: str = "") -> None:
        """Send failed messages of a queue to another, or no longer (None); ``RedirectRefused`` for a chain."""
        ...


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


class Ledger(
    FailureStore,
    CountStore,
    SetAsideStore,
    AuditStore,
    OperationStore,
    RedirectStore,
    LeaseStore,
    MarkingStore,
    BatchStore,
    Protocol,
):
    """A store of everything that layer 5 knows."""

    async def open(self) -> None:
        """Connect, and bring the schema up to date."""
        ...

    async def close(self) -> None:
        """Disconnect."""
        ...

    async def now(self) -> float:
        """Return the ledger's time, in seconds since 1970: it decides leases and due times."""
        ...

    async def key(self) -> bytes:
        """Return the key that seals the tags of recovered copies; it is made once, and never changes."""
        ...
