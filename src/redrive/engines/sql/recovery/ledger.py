# SPDX-License-Identifier: MIT
"""The ledger of an engine that is a database: each verb is a script."""

import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime

from redrive.broker.message import Message
from redrive.engines.sql.recovery import (
    audit,
    batches,
    failures,
    keys,
    leases,
    marking,
    operations,
    recording,
    set_asides,
)
from redrive.engines.sql.script import Script, Scripted
from redrive.recovery.arrivals import Arrival, Confirmation, Confirmed, Recorded, SetAside
from redrive.recovery.filter import Filter
from redrive.recovery.operation import Counts, Operation, Plan
from redrive.recovery.records import (
    Ask,
    AuditEntry,
    Batch,
    DryRun,
    FailedDetail,
    FailedMessage,
    GroupInfo,
    LaneInfo,
    Lease,
    Note,
    Part,
    ServiceInfo,
    Staged,
    Work,
)
from redrive.recovery.states import OperationEvent, OperationState, Outcome
from redrive.recovery.tags import KEY_BYTES


class SqlLedger:
    """Failed messages and operations in a database.

    Args:
        engine: the database.
        is_shared: whether somebody else opens and closes it.
    """

    def __init__(self, engine: Scripted, *, is_shared: bool = False) -> None:
        self._engine = engine
        self._is_shared = is_shared
        self._key: bytes | None = None

    async def open(self) -> None:
        """Connect, and bring the schema up to date."""
        if not self._is_shared:
            await self._engine.open()

    async def close(self) -> None:
        """Disconnect."""
        if not self._is_shared:
            await self._engine.close()

    async def now(self) -> float:
        """Return the ledger's time."""
        return await self._engine.look(_now)

    async def key(self) -> bytes:
        """Return the key that seals tags; the first who asks makes it."""
        if self._key is not None:
            return self._key
        key = await self._engine.look(keys.known)
        if key is None:
            made = secrets.token_bytes(KEY_BYTES)
            key = await self._engine.run(lambda _: keys.made(made))
        self._key = key
        return key

    # --- failed messages

    async def record(self, arrivals: Sequence[Arrival]) -> list[Recorded]:
        """Record failures."""
        return await self._engine.run(lambda now: recording.record(now, arrivals))

    async def confirm(self, confirmations: Sequence[Confirmation]) -> list[Confirmed]:
        """Note that recovered messages were handled."""
        return await self._engine.run(lambda now: recording.confirm(now, confirmations))

    async def find(
        self, chosen: Filter, *, after: int = 0, limit: int = 100, newest_first: bool = False
    ) -> list[FailedMessage]:
        """Return failed messages in the order in which they were first seen."""
        return await self._engine.look(
            lambda now: failures.find(now, chosen, after=after, limit=limit, newest_first=newest_first)
        )

    async def count(self, chosen: Filter) -> int:
        """Count failed messages."""
        return await self._engine.look(lambda now: failures.count(now, chosen))

    async def groups(
        self,
        classifier: str,
        chosen: Filter,
        *,
        after: str | None = None,
        limit: int = 100,
        largest_first: bool = False,
    ) -> list[GroupInfo]:
        """Return groups in order of their ids, or the largest first."""
        page = failures.Page(after, limit, largest_first)
        return await self._engine.look(lambda now: failures.groups(now, classifier, chosen, page))

    async def sources(self) -> list[str]:
        """Return the queues that failures were found in."""
        return await self._engine.look(failures.sources_seen)

    async def ids(self, beginning: str, limit: int = 2) -> list[str]:
        """Return the ids of failed messages that begin so."""
        return await self._engine.look(lambda now: failures.ids(now, beginning, limit))

    async def show(self, id: str) -> FailedDetail | None:  # noqa: A002 - it is called that everywhere
        """Return everything about one failed message."""
        return await self._engine.look(lambda now: failures.show(now, id))

    async def contents(self, numbers: Sequence[int]) -> list[Message]:
        """Return the messages of failures by their numbers."""
        return await self._engine.look(lambda now: failures.contents(now, numbers))

    async def set_aside(self, messages: Sequence[SetAside]) -> None:
        """Keep messages that could not be read."""
        await self._engine.run(lambda now: set_asides.set_aside(now, messages))

    async def aside(self, *, after: int = 0, limit: int = 100) -> list[SetAside]:
        """Return messages that could not be read."""
        return await self._engine.look(lambda now: set_asides.aside(now, after=after, limit=limit))

    async def drop_aside(self, number: int) -> None:
        """Forget a message that was set aside."""
        await self._engine.run(lambda now: set_asides.drop_aside(now, number))

    async def note(self, subject: str, text: str, actor: str) -> Note:
        """Write a note."""
        return await self._engine.run(lambda now: audit.note(now, subject, text, actor))

    async def notes(self, subject: str) -> list[Note]:
        """Return the notes about something."""
        return await self._engine.look(lambda now: audit.notes(now, subject))

    async def drop_note(self, number: int, actor: str) -> None:
        """Remove a note."""
        await self._engine.run(lambda now: audit.drop_note(now, number, actor))

    async def sweep(self, settled_before: datetime, limit: int = 1_000) -> int:
        """Delete messages that were resolved or archived before then."""
        return await self._engine.run(lambda now: failures.sweep(now, settled_before, limit))

    # --- operations

    async def request(self, ask: Ask) -> Operation:
        """Store a request."""
        return await self._engine.run(lambda now: operations.request(now, ask))

    async def requested(self, key: str) -> Operation | None:
        """Return the operation that was requested with a key."""
        return await self._engine.look(lambda now: operations.requested(now, key))

    async def dry_run(self, plan: Plan) -> DryRun:
        """Say what an operation would find."""
        return await self._engine.look(lambda now: operations.dry_run(now, plan))

    async def operation(self, number: int, *, newcomers: bool = False) -> Operation:
        """Return an operation with its figures."""
        return await self._engine.look(lambda now: operations.operation(now, number, newcomers=newcomers))

    async def operations(
        self, *, is_open: bool | None = None, before: int | None = None, limit: int = 50
    ) -> list[Operation]:
        """Return operations, the newest first."""
        return await self._engine.look(
            lambda now: operations.operations(now, is_open=is_open, before=before, limit=limit)
        )

    async def change(self, number: int, event: OperationEvent, *, actor: str = "", told: str = "") -> Operation:
        """Let something happen to an operation."""
        return await self._engine.run(lambda now: operations.change(now, number, event, actor=actor, told=told))

    async def set_rate(self, number: int, rate: float | None, *, actor: str = "") -> Operation:
        """Change the rate of an operation."""
        return await self._engine.run(lambda now: operations.set_rate(now, number, rate, actor=actor))

    async def parts(
        self, number: int, outcomes: Sequence[Outcome] = (), *, after: int = 0, limit: int = 100
    ) -> list[Part]:
        """Return the messages of an operation."""
        return await self._engine.look(lambda now: operations.parts(now, number, outcomes, after=after, limit=limit))

    async def acknowledge(self, number: int, *, actor: str = "") -> None:
        """Note that somebody has seen how an operation ended."""
        await self._engine.run(lambda now: operations.acknowledge(now, number, actor=actor))

    async def redirects(self) -> dict[str, str]:
        """Return where failed messages go instead of the queue they failed in."""
        return await self._engine.look(operations.redirects)

    async def redirect(self, queue: str, to: str | None, *, actor: str = "") -> None:
        """Make a redirect, or remove one."""
        await self._engine.run(lambda now: operations.redirect(now, queue, to, actor=actor))

    async def audit(self, entry: AuditEntry) -> None:
        """Add an entry to the audit trail."""
        await self._engine.run(lambda now: audit.audit(now, entry))

    async def trail(
        self, *, subject: str | None = None, before: int | None = None, limit: int = 100
    ) -> list[AuditEntry]:
        """Return the audit trail."""
        return await self._engine.look(lambda now: audit.trail(now, subject=subject, before=before, limit=limit))

    # --- work

    async def hold(self, name: str, session: str, seconds: float) -> Lease | None:
        """Take a lease."""
        return await self._engine.run(lambda now: leases.hold(now, name, session, seconds))

    async def renew(self, lease: Lease, seconds: float) -> None:
        """Lengthen a lease."""
        await self._engine.run(lambda now: leases.renew(now, lease, seconds))

    async def release(self, lease: Lease) -> None:
        """Give a lease back."""
        await self._engine.run(lambda now: leases.release(now, lease))

    async def present(self, session: str, host: str, seconds: float) -> None:
        """Note that a process serves."""
        await self._engine.run(lambda now: leases.present(now, session, host, seconds))

    async def absent(self, session: str) -> None:
        """Note that a process serves no longer."""
        await self._engine.run(lambda now: leases.absent(now, session))

    async def services(self) -> list[ServiceInfo]:
        """Return the processes that serve."""
        return await self._engine.look(leases.services)

    async def work(self) -> Work:
        """Say what there is to do."""
        return await self._engine.look(marking.work)

    async def mark(self, lease: Lease, operation: int) -> bool:
        """Give the next messages of an operation their turn."""
        return await self._engine.run(lambda now: marking.mark(now, lease, operation))

    async def claim(self, lease: Lease, operation: int) -> int:
        """Claim the messages of an operation's batches in marking."""
        return await self._engine.run(lambda now: marking.claim(now, lease, operation))

    async def canaries(self, operation: int) -> tuple[Counts, float]:
        """Return what became of an operation's canaries."""
        return await self._engine.look(lambda now: marking.canaries(now, operation))

    async def judged(self, lease: Lease, operation: int, event: OperationEvent, told: str) -> None:
        """Let the rest follow the canaries, or stop."""
        await self._engine.run(lambda now: marking.judged(now, lease, operation, event, told))

    async def settle(self, lease: Lease, operation: int) -> OperationState:
        """Bring an operation to its end, or to its beginning."""
        return await self._engine.run(lambda now: marking.settle(now, lease, operation))

    async def halt(self, lease: Lease, operation: int, told: str) -> bool:
        """Pause an operation that cannot be worked on."""
        return await self._engine.run(lambda now: operations.halt(now, lease, operation, told))

    async def next_batch(self, lease: Lease, lane: str) -> Batch | None:
        """Return a lane's next batch."""
        return await self._engine.look(lambda now: batches.next_batch(now, lease, lane))

    async def to_stage(self, batch: Batch, *, after: int = 0, limit: int = 200) -> tuple[list[Staged], int | None]:
        """Return messages of a batch that are still to be recovered."""
        return await self._engine.look(lambda now: batches.to_stage(now, batch, after=after, limit=limit))

    async def staged(
        self, lease: Lease, batch: Batch, copied: Mapping[str, int], refused: Mapping[int, str]
    ) -> set[int]:
        """Let a batch go forward."""
        return await self._engine.run(lambda now: batches.staged(now, lease, batch, copied, refused))

    async def pending(self, batch: Batch) -> set[int]:
        """Return the messages of a batch that are not done."""
        return await self._engine.look(lambda now: batches.pending(now, batch))

    async def latest(self, lease: Lease, batch: Batch) -> Batch:
        """Return how far a batch's operation is."""
        return await self._engine.look(lambda now: batches.latest(now, lease, batch))

    async def reserve(self, lease: Lease, batch: Batch, next_at: float) -> None:
        """Note that a lane sends now and not again before then."""
        await self._engine.run(lambda now: batches.reserve(now, lease, batch, next_at))

    async def forwarded(self, lease: Lease, batch: Batch, numbers: Sequence[int], *, told: str = "") -> None:
        """Note that messages have left for their destination."""
        await self._engine.run(lambda now: batches.forwarded(now, lease, batch, numbers, told=told))

    async def doubt(self, lease: Lease, batch: Batch, numbers: Sequence[int], told: str) -> None:
        """Note something about messages that is told with whatever becomes of them."""
        await self._engine.run(lambda now: batches.doubt(now, lease, batch, numbers, told))

    async def eject(self, lease: Lease, batch: Batch, reasons: Mapping[int, str]) -> None:
        """Note that messages could not be sent."""
        await self._engine.run(lambda now: batches.eject(now, lease, batch, reasons))

    async def unstage(self, lease: Lease, batch: Batch, numbers: Sequence[int]) -> None:
        """Take messages back that were staged and not sent."""
        await self._engine.run(lambda now: batches.unstage(now, lease, batch, numbers))

    async def finish(self, lease: Lease, batch: Batch, forwarded: Sequence[int] = ()) -> OperationState:
        """Delete a batch."""
        return await self._engine.run(lambda now: batches.finish(now, lease, batch, forwarded))

    async def count_strays(self, lease: Lease, lane: str, strays: int) -> None:
        """Count copies that were dropped."""
        await self._engine.run(lambda now: batches.count_strays(now, lease, lane, strays))

    async def lanes(self) -> list[LaneInfo]:
        """Return the lanes."""
        return await self._engine.look(batches.lanes)


def _now(now: float) -> Script[float]:
    return now
    yield  # a script that asks for nothing
