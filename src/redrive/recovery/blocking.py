# SPDX-License-Identifier: MIT
# Written by tools/generate_blocking.py from recovery.py, bookkeeping.py, queries.py. Change those, run: make blocking
"""Recovery for programs without an event loop: scripts, Django, Flask. The same implementation, waited for."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from types import TracebackType
from typing import NoReturn, Self, Unpack

from redrive import duration
from redrive.broker import BlockingBroker
from redrive.errors import UsageError
from redrive.recovery.arrivals import SetAside
from redrive.recovery.chosen import Chosen
from redrive.recovery.dry_run import DryRun
from redrive.recovery.filter import Filter
from redrive.recovery.group_state import GroupChange, GroupState
from redrive.recovery.list_order import Order, Place
from redrive.recovery.operation import Kind, Operation
from redrive.recovery.preview import Preview
from redrive.recovery.records import (
    AuditEntry,
    CountDifference,
    FailedDetail,
    FailedMessage,
    Found,
    GroupInfo,
    LaneInfo,
    Note,
    Part,
    ServiceInfo,
)
from redrive.recovery.recovery import Recovery
from redrive.recovery.service import Step
from redrive.recovery.settings import RecoverOptions, RecoveryRequest, RequestedBy
from redrive.recovery.states import Outcome, Status
from redrive.recovery.suggestions import KindValue
from redrive.recovery.transform import Transform
from redrive.recovery.transformer import TransformSettings


class BlockingRecovery:
    """Failed messages, and what is done about them. Made by ``redrive.open_recovery`` for a blocking broker.

    Use it as ``with open_recovery(broker) as recovery``, inside ``with connect_blocking(...) as broker``; or ``open``
    it when the broker is open. It runs on the broker's event loop, and is closed with the broker at the latest.
    """

    def __init__(self, recovery: Recovery, broker: BlockingBroker) -> None:
        self._inner = recovery
        self._portal = broker.portal

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> NoReturn:
        raise UsageError("its broker blocks, and so does it: use it as with open_recovery(...)")

    async def __aexit__(self, *_: object) -> None:
        """Only there so that Python asks ``__aenter__``."""

    def open(self) -> None:
        """Connect, and declare the queues it needs. ``with`` does it for you."""
        self._portal.run(self._inner.open())
        self._portal.close_first(self._inner.close)

    def close(self) -> None:
        """Let ``run`` come to an end, wait for it, and disconnect; nothing if it is not open."""
        self._portal.end(self._inner.close)

    def stop(self) -> None:
        """Let ``run`` come to an end in the thread that called it. A signal handler may call this."""

        async def stop() -> None:
            self._inner.stop()

        self._portal.run(stop())

    @property
    def transforms(self) -> TransformSettings:
        """How messages are changed, in previews and on their way."""
        return self._inner.transforms

    def failed(
        self, chosen: Chosen = "", *, after: Place | int = 0, limit: int = 100, order: Order | str = Order.OLDEST
    ) -> list[FailedMessage]:
        """Return failed messages in an order.

        Args:
            chosen: which.
            after: the ``place`` of the last one of the page before; its ``number`` is enough, unless the order is that
                of the last failures.
            limit: how many at most.
            order: ``oldest``: as they were first seen; ``newest``: the other way round; ``last-failed``: the one whose
                last failure is the newest comes first.
        """
        return self._portal.run(self._inner.failed(chosen, after=after, limit=limit, order=order))

    def search(
        self,
        chosen: Chosen,
        *,
        after: Place | int = 0,
        limit: int = 100,
        order: Order | str = Order.OLDEST,
        within: duration.Duration = 5.0,
    ) -> Found:
        """Return failed messages that contain a text: as many as are found in some time, and how far that is.

        Args:
            chosen: which; its text is what is searched for.
            after: the ``place`` of the page before.
            limit: how many at most.
            order: as for ``failed``.
            within: how long it may take, about; then the answer is what was found so far.
        """
        return self._portal.run(self._inner.search(chosen, after=after, limit=limit, order=order, within=within))

    def pages(self, chosen: Chosen = "") -> Iterator[Sequence[FailedMessage]]:
        """Return all failed messages, page by page, in the order in which they were first seen."""
        return self._portal.iterate(self._inner.pages(chosen))

    def export(self, chosen: Chosen = "") -> Iterator[FailedDetail]:
        """Return everything about failed messages, one by one."""
        return self._portal.iterate(self._inner.export(chosen))

    def count(self, chosen: Chosen = "", *, most: int | None = None) -> int:
        """Count failed messages.

        Args:
            chosen: which.
            most: stop at one more than that, unless they are counted already: by status, queue, type, exception, group.
        """
        return self._portal.run(self._inner.count(chosen, most=most))

    def count_by_status(self, chosen: Chosen = "status:any") -> dict[Status, int]:
        """Count failed messages of each status, or of those statuses that the filter names."""
        return self._portal.run(self._inner.count_by_status(chosen))

    def groups(
        self,
        chosen: Chosen = "",
        *,
        by: str = "exception",
        after: str | None = None,
        limit: int = 100,
        largest_first: bool = False,
    ) -> list[GroupInfo]:
        """Return groups of failed messages, in order of their ids.

        Args:
            chosen: which messages.
            by: ``exception``, ``queue``, ``type``, or the name of a classifier of yours.
            after: the id of the last group of the page before.
            limit: how many at most.
            largest_first: in order of their sizes instead; then there is no page after this one.
        """
        return self._portal.run(
            self._inner.groups(chosen, by=by, after=after, limit=limit, largest_first=largest_first)
        )

    def newest_in_groups(
        self, ids: Sequence[str], chosen: Chosen = "", *, by: str = "exception"
    ) -> dict[str, FailedMessage]:
        """Return the newest failed message of groups, by their ids; a group without any is left out.

        Args:
            ids: the ids of the groups.
            chosen: which messages.
            by: as for ``groups``.
        """
        return self._portal.run(self._inner.newest_in_groups(ids, chosen, by=by))

    def kind_values(self, key: str, chosen: Chosen = "", *, part: str = "", limit: int = 20) -> list[KindValue]:
        """Return the values by which failed messages are counted, those with most messages first; none is read.

        Args:
            key: ``queue``, ``type``, ``exception`` or ``group``.
            chosen: which messages: by status, queue, type, exception and group only.
            part: what the values contain; of groups, what their titles contain, or how their ids begin.
            limit: how many at most.

        Raises:
            InvalidSetting: there is no such key, or the messages are chosen by something else.
        """
        return self._portal.run(self._inner.kind_values(key, chosen, part=part, limit=limit))

    def group_state(self, id: str) -> GroupState:
        """Return what people decided about a group, and what became of its messages that were sent again.

        Raises:
            GroupNotFound: there is none with that id; groups by queue or type have no state.
        """
        return self._portal.run(self._inner.group_state(id))

    def sources(self) -> list[str]:
        """Return the queues that failures were found in: what fails again comes back there."""
        return self._portal.run(self._inner.sources())

    def unread(self, sources: Sequence[str]) -> dict[str, int]:
        """Return how many failures are not in the store yet, by queue: in error queues, and dead letters of others.

        An answer without them must not look as if there were none. Queues without any are left out.

        Args:
            sources: the queues that failures are read from.
        """
        return self._portal.run(self._inner.unread(sources))

    def unread_in(self, queue: str) -> int:
        """Return how many failures can be read from a queue and from its dead-letter queue."""
        return self._portal.run(self._inner.unread_in(queue))

    def show(self, id: str) -> FailedDetail:
        """Return everything about one failed message.

        Args:
            id: its id, or as much of the beginning of it as no other has.

        Raises:
            FailureNotFound: there is none with that id, or more than one begins so.
        """
        return self._portal.run(self._inner.show(id))

    def aside(self, *, after: int = 0, limit: int = 100) -> list[SetAside]:
        """Return messages from error queues that could not be read."""
        return self._portal.run(self._inner.aside(after=after, limit=limit))

    def settled(self, chosen: Chosen) -> Filter:
        """Return the filter that is meant, with instants in place of ages, and queues in place of routes.

        Raises:
            InvalidFilter: it cannot be understood.
            InvalidSetting: there is no such route.
        """
        return self._portal.run(self._inner.settled(chosen))

    def dry_run(self, chosen: Chosen, kind: Kind = Kind.RECOVER, **how: Unpack[RecoverOptions]) -> DryRun:
        """Say what ``recover``, or another kind of operation, would find, and do nothing."""
        return self._portal.run(self._inner.dry_run(chosen, kind, **how))

    def preview(self, chosen: Chosen, transform: Transform, *, sample: int = 5) -> list[Preview]:
        """Say what a transform would do to the first few messages, and do nothing."""
        return self._portal.run(self._inner.preview(chosen, transform, sample=sample))

    def operations(self, *, is_open: bool | None = None, before: int | None = None, limit: int = 50) -> list[Operation]:
        """Return operations, the newest first: all, those under way, or those that are over."""
        return self._portal.run(self._inner.operations(is_open=is_open, before=before, limit=limit))

    def operation(self, number: int, *, newcomers: bool = True) -> Operation:
        """Return an operation with its figures.

        Args:
            number: its number.
            newcomers: whether to count what came after the request; that takes longer than all else.

        Raises:
            OperationNotFound: there is none with that number.
        """
        return self._portal.run(self._inner.operation(number, newcomers=newcomers))

    def outcomes(
        self, number: int, outcomes: Sequence[Outcome] = (), *, after: int = 0, limit: int = 100
    ) -> list[Part]:
        """Return the messages of an operation that have had their turn, with what became of each."""
        return self._portal.run(self._inner.outcomes(number, outcomes, after=after, limit=limit))

    def follow(
        self, number: int, *, every: duration.Duration = 0.5, until_heard: duration.Duration = 0.0
    ) -> Iterator[Operation]:
        """Return an operation again and again, until it is over.

        Args:
            number: its number.
            every: how long to wait in between; longer if there are so many messages that counting them takes long.
            until_heard: how long to wait for outcomes of sent messages, counted from the last one; 0: not at all.
        """
        return self._portal.iterate(self._inner.follow(number, every=every, until_heard=until_heard))

    def lanes(self) -> list[LaneInfo]:
        """Return the lanes: what goes to one destination, and who is at work there."""
        return self._portal.run(self._inner.lanes())

    def services(self) -> list[ServiceInfo]:
        """Return the processes that serve: read failures, and work on operations. None means that all of that waits."""
        return self._portal.run(self._inner.services())

    def redirects(self) -> dict[str, str]:
        """Return where failed messages go instead of the queue they failed in."""
        return self._portal.run(self._inner.redirects())

    def notes(self, subject: str) -> list[Note]:
        """Return the notes about something, the oldest first."""
        return self._portal.run(self._inner.notes(subject))

    def trail(
        self,
        *,
        subject: str | None = None,
        actor: str | None = None,
        action: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> list[AuditEntry]:
        """Return who did what, why, and what came of it; the newest first.

        Args:
            subject: what it was about: ``operation:7``, ``queue:orders``.
            actor: who did it.
            action: what was done: ``recover``, ``queues.delete``.
            since: written then or later.
            until: written before then.
            before: the number of the last entry of the page before.
            limit: how many at most.
        """
        return self._portal.run(
            self._inner.trail(
                subject=subject, actor=actor, action=action, since=since, until=until, before=before, limit=limit
            )
        )

    @property
    def session(self) -> str:
        """The name of this process in the ledger."""
        return self._inner.session

    def run(self) -> None:
        """Read failures and work on operations until ``stop`` is called or the task is cancelled."""
        self._portal.run(self._inner.run())

    def ingest(self) -> bool:
        """Read all failures that are there now; False if there were none."""
        return self._portal.run(self._inner.ingest())

    def step(self) -> Step:
        """Do everything that can be done now, and return: true if that was something, and when there is more to do."""
        return self._portal.run(self._inner.step())

    def recover(self, chosen: Chosen, **how: Unpack[RecoveryRequest]) -> Operation:
        """Ask for messages to be sent to where they failed, and return the operation that does it.

        The request is stored before this returns. Whatever fails or changes after that is not part of it.

        Raises:
            OperationConflict: an operation has the same messages already; it is named.
            QueueNotFound: the messages are redirected to a queue that is not declared.
        """
        return self._portal.run(self._inner.recover(chosen, **how))

    def edit(self, id: str, transform: Transform, **who: Unpack[RequestedBy]) -> Operation:
        """Send an edited copy of a failed message, with an id of its own; the two are linked both ways.

        Raises:
            FailureNotFound: there is none with that id.
            OperationConflict: another operation has the message already; the error names it.
            TransformFailed: the message cannot be changed like that.
        """
        return self._portal.run(self._inner.edit(id, transform, **who))

    def archive(self, chosen: Chosen, *, limit: int | None = None, **who: Unpack[RequestedBy]) -> Operation:
        """Archive messages that need no recovery; they are kept until ``sweep`` deletes them."""
        return self._portal.run(self._inner.archive(chosen, limit=limit, **who))

    def restore(self, chosen: Chosen, *, limit: int | None = None, **who: Unpack[RequestedBy]) -> Operation:
        """Make messages unresolved again that were archived or resolved."""
        return self._portal.run(self._inner.restore(chosen, limit=limit, **who))

    def resolve(self, chosen: Chosen, *, limit: int | None = None, **who: Unpack[RequestedBy]) -> Operation:
        """Note that messages need no recovery, or that those that were sent have been handled."""
        return self._portal.run(self._inner.resolve(chosen, limit=limit, **who))

    def pause(self, number: int, *, actor: str = "", reason: str = "") -> Operation:
        """Stop sending for now. Staged messages are taken back."""
        return self._portal.run(self._inner.pause(number, actor=actor, reason=reason))

    def resume(self, number: int, *, actor: str = "", reason: str = "") -> Operation:
        """Go on with an operation that was paused, or that its canaries stopped."""
        return self._portal.run(self._inner.resume(number, actor=actor, reason=reason))

    def cancel(self, number: int, *, actor: str = "", reason: str = "") -> Operation:
        """Cancel an operation; messages that were not sent are free again. After this returns, none is sent."""
        return self._portal.run(self._inner.cancel(number, actor=actor, reason=reason))

    def set_rate(self, number: int, rate: float | None, *, actor: str = "") -> Operation:
        """Change how many messages a second an operation sends to each destination; None: as fast as it goes."""
        return self._portal.run(self._inner.set_rate(number, rate, actor=actor))

    def acknowledge(self, number: int, *, actor: str = "") -> None:
        """Note that a person has seen how an operation ended."""
        self._portal.run(self._inner.acknowledge(number, actor=actor))

    def reimport(self, *, queue: str | None = None, actor: str = "") -> tuple[int, int]:
        """Read again what was set aside; return how many could be read, and how many still cannot.

        Args:
            queue: the queue they failed in, for those that do not say.
            actor: who asks for it.
        """
        return self._portal.run(self._inner.reimport(queue=queue, actor=actor))

    def redirect(self, queue: str, to: str | None, *, actor: str = "") -> None:
        """Send failed messages of a queue to another from now on, or no longer (None).

        Raises:
            QueueNotFound: the other queue is not declared.
            RedirectRefused: it would make a chain, or there is one already.
        """
        self._portal.run(self._inner.redirect(queue, to, actor=actor))

    def note(self, subject: str, text: str, *, actor: str = "") -> Note:
        """Write a note about ``group:<id>``, ``failure:<id>`` or ``operation:<number>``."""
        return self._portal.run(self._inner.note(subject, text, actor=actor))

    def drop_note(self, number: int, *, actor: str = "") -> None:
        """Remove a note; the audit trail keeps what it said.

        Raises:
            NoteNotFound: there is none with this number.
        """
        self._portal.run(self._inner.drop_note(number, actor=actor))

    def audit(self, action: str, subject: str, *, actor: str = "", reason: str = "", outcome: str = "done") -> None:
        """Write an entry to the audit trail about a change that is not recovery's own, such as one of a queue.

        Args:
            action: what was done: ``queues.delete``.
            subject: what it was about: ``queue:orders``.
            actor: who did it.
            reason: why.
            outcome: what came of it.
        """
        self._portal.run(self._inner.audit(action, subject, actor=actor, reason=reason, outcome=outcome))

    def set_group_state(self, id: str, **change: Unpack[GroupChange]) -> GroupState:
        """Decide who takes care of a group, and until when it needs no person; what is left out stays as it is.

        A snoozed group is counted and listed as before. It wakes at its time, or when more of its messages are
        unresolved than ``wake_above`` allows.

        Raises:
            GroupNotFound: there is none with that id; groups by queue or type have no state.
        """
        return self._portal.run(self._inner.set_group_state(id, **change))

    def sweep(self, keep: duration.Duration, *, actor: str = "") -> int:
        """Delete what was resolved or archived longer ago than that, and operations that ended; return how many."""
        return self._portal.run(self._inner.sweep(keep, actor=actor))

    def check_counts(self, *, repair: bool = False, actor: str = "") -> list[CountDifference]:
        """Compare the stored counts of failed messages with the messages, which takes long; return what differs.

        Args:
            repair: whether to count all messages anew if a count is wrong; changes of failures wait for that.
            actor: who asks for it.
        """
        return self._portal.run(self._inner.check_counts(repair=repair, actor=actor))
