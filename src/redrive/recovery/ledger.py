# SPDX-License-Identifier: MIT
"""The ledger port: what layer 5 requires of a store. A small protocol for each role, and one that has them all.

Each verb is one transaction. The ledger never relies on sharing one with the queues: they may be in another database,
or in a foreign broker. Where both are in one database, a failure is recorded in the transaction that completes its
message. What the work on operations needs is in ``work_ledger.py``.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from redrive.broker import Complete
from redrive.recovery.arrivals import AlikeArrival, Arrival, Confirmation, Confirmed, Recorded, SetAside
from redrive.recovery.dry_run import DryRun
from redrive.recovery.filter import Filter
from redrive.recovery.group_state import GroupState
from redrive.recovery.list_order import START, Order, Place
from redrive.recovery.operation import Operation, Plan
from redrive.recovery.records import (
    AuditEntry,
    CountDifference,
    FailedDetail,
    FailedMessage,
    Found,
    GroupInfo,
    Note,
    OperationRequest,
    Part,
    TrailFilter,
)
from redrive.recovery.states import OperationEvent, Outcome, Status
from redrive.recovery.suggestions import KindValue
from redrive.recovery.work_ledger import BatchStore, LeaseStore, MarkingStore


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

    async def record_unlocked(
        self, arrivals: Sequence[Arrival | AlikeArrival], *, queue: str, sequences: Sequence[int]
    ) -> list[Recorded]:
        """Record failures of messages that no one has locked, and take these out of their queue, in one transaction.

        Only if the ledger is with the queues.

        Args:
            arrivals: the failures.
            queue: the queue that they were found in.
            sequences: the numbers of their messages there.

        Raises:
            LockLost: one of those messages is gone, or was delivered to someone; nothing was done.
        """
        ...

    async def begin_reading(self, queue: str) -> bool:
        """Note that a process reads a queue without locks; False if that is noted already.

        Such a note stays when its process dies: then one of the messages may be the cause.
        """
        ...

    async def end_reading(self, queue: str) -> None:
        """Remove the note that a process reads a queue without locks."""
        ...

    async def confirm(self, confirmations: Sequence[Confirmation]) -> list[Confirmed]:
        """Note that recovered messages were handled; say for each what that changed."""
        ...

    async def find(
        self, chosen: Filter, *, after: Place = START, limit: int = 100, order: Order = Order.OLDEST
    ) -> list[FailedMessage]:
        """Return failed messages in an order, from the one after a place in it on."""
        ...

    async def newest_in_groups(self, chosen: Filter, by: str, ids: Sequence[str]) -> dict[str, FailedMessage]:
        """Return the newest failed message of each of these groups, by their ids."""
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


class GroupStore(Protocol):
    """What people decide about groups."""

    async def group_state(self, id: str) -> GroupState:  # noqa: A002 - it is called that everywhere
        """Return what is decided about a group; ``GroupNotFound`` if there is none with that id."""
        ...

    async def set_group_state(
        self,
        id: str,  # noqa: A002 - as above
        change: Mapping[str, Any],
        *,
        actor: str = "",
        reason: str = "",
    ) -> GroupState:
        """Store what is decided about a group, and return all of it.

        Args:
            id: the group.
            change: ``owner``, a text, or ``snoozed_until``, an instant or None, with ``wake_above``, or both.
            actor: who decides it.
            reason: why.

        Raises:
            GroupNotFound: there is none with that id.
        """
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

    async def trail(self, wanted: TrailFilter, *, before: int | None = None, limit: int = 100) -> list[AuditEntry]:
        """Return entries of the audit trail, the newest first."""
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

    async def ended_since(self, since: datetime, limit: int = 1_000) -> list[Operation]:
        """Return the operations that have ended since an instant, the first to end first."""
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


class Ledger(
    FailureStore,
    CountStore,
    GroupStore,
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
