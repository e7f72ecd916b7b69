# SPDX-License-Identifier: MIT
"""Finding failures, and seeing what becomes of them: the part of recovery that changes nothing."""

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Unpack

from redrive import duration
from redrive.broker import Broker, dead_letter_queue, is_own_queue
from redrive.clock import pause, utc
from redrive.errors import FailureNotFound, InvalidSetting, QueueNotFound
from redrive.recovery.arrivals import SetAside
from redrive.recovery.chosen import Chosen
from redrive.recovery.dry_run import DryRun
from redrive.recovery.filter import Filter
from redrive.recovery.filter_values import NO_MESSAGE
from redrive.recovery.group_state import GroupState
from redrive.recovery.ledger import Ledger
from redrive.recovery.list_order import START, Order, Place
from redrive.recovery.operation import Kind, Operation, Plan
from redrive.recovery.preview import Preview
from redrive.recovery.queues_by_route import QueuesByRoute, without_routes
from redrive.recovery.records import (
    AuditEntry,
    FailedDetail,
    FailedMessage,
    Found,
    GroupInfo,
    LaneInfo,
    Note,
    Part,
    ServiceInfo,
    TrailFilter,
)
from redrive.recovery.search import Search
from redrive.recovery.settings import RecoverOptions, RecoverySettings, check_known
from redrive.recovery.states import Outcome, Status
from redrive.recovery.suggestions import KINDS, KindValue
from redrive.recovery.transform import Transform
from redrive.recovery.transformer import TransformSettings, previews

PAGE = 200
_AT_A_TIME_S = 5.0
"""How long a page of a search may take before it is returned as it is."""

_LOOK_RARELY = 10
"""Following an operation counts its messages again and again; this may take a tenth of the time at most."""

_SHORTEST_ID = 4
"""So much of the beginning of an id is needed to find its message."""

_ID = re.compile(r"[0-9a-f]{32}")


class Reader:
    """What can be seen of failed messages and operations."""

    def __init__(
        self,
        broker: Broker,
        ledger: Ledger,
        transforms: TransformSettings | None = None,
        queues_by_route: QueuesByRoute = without_routes,
    ) -> None:
        self._broker = broker
        self._ledger = ledger
        self._queues_by_route = queues_by_route
        self._transforms = transforms or TransformSettings()

    @property
    def transforms(self) -> TransformSettings:
        """How messages are changed, in previews and on their way."""
        return self._transforms

    # --- failed messages

    async def failed(
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
        wanted, by = await self.settled(chosen), Order.of(order)
        return await self._ledger.find(wanted, after=Place.of(after, by), limit=limit, order=by)

    async def search(
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
        by, seconds = Order.of(order), duration.seconds("within", within)
        search = Search(self._ledger, self._broker.clock, await self.settled(chosen), by)
        return await search.page(Place.of(after, by), limit, seconds)

    async def pages(self, chosen: Chosen = "") -> AsyncIterator[Sequence[FailedMessage]]:
        """Return all failed messages, page by page, in the order in which they were first seen."""
        wanted = await self.settled(chosen)  # ages count from now, not from each page
        search, place, is_over = Search(self._ledger, self._broker.clock, wanted), START, False
        while not is_over:
            if wanted.text is not None:
                found = await search.page(place, PAGE, _AT_A_TIME_S)
                page, place, is_over = found.messages, found.place, found.is_over
            else:
                page = await self._ledger.find(wanted, after=place, limit=PAGE)
                place, is_over = page[-1].place if page else place, len(page) < PAGE
            if page:
                yield page

    async def export(self, chosen: Chosen = "") -> AsyncIterator[FailedDetail]:
        """Return everything about failed messages, one by one."""
        async for page in self.pages(chosen):
            for each in page:
                detail = await self._ledger.show(each.id)
                if detail is not None:
                    yield detail

    async def count(self, chosen: Chosen = "", *, most: int | None = None) -> int:
        """Count failed messages.

        Args:
            chosen: which.
            most: stop at one more than that, unless they are counted already: by status, queue, type, exception, group.
        """
        return await self._ledger.count(await self.settled(chosen), most=most)

    async def count_by_status(self, chosen: Chosen = "status:any") -> dict[Status, int]:
        """Count failed messages of each status, or of those statuses that the filter names."""
        return await self._ledger.count_by_status(await self.settled(chosen))

    async def groups(
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
        wanted = await self.settled(chosen)
        return await self._ledger.groups(by, wanted, after=after, limit=limit, largest_first=largest_first)

    async def newest_in_groups(
        self, ids: Sequence[str], chosen: Chosen = "", *, by: str = "exception"
    ) -> dict[str, FailedMessage]:
        """Return the newest failed message of groups, by their ids; a group without any is left out.

        Args:
            ids: the ids of the groups.
            chosen: which messages.
            by: as for ``groups``.
        """
        return await self._ledger.newest_in_groups(await self.settled(chosen), by, list(ids))

    async def kind_values(self, key: str, chosen: Chosen = "", *, part: str = "", limit: int = 20) -> list[KindValue]:
        """Return the values by which failed messages are counted, those with most messages first; none is read.

        Args:
            key: ``queue``, ``type``, ``exception`` or ``group``.
            chosen: which messages: by status, queue, type, exception and group only.
            part: what the values contain; of groups, what their titles contain, or how their ids begin.
            limit: how many at most.

        Raises:
            InvalidSetting: there is no such key, or the messages are chosen by something else.
        """
        wanted = await self.settled(chosen)
        if key not in KINDS:
            raise InvalidSetting("key", key, f"must be one of {', '.join(KINDS)}")
        if not wanted.is_about_kinds:
            raise InvalidSetting("chosen", str(wanted), "must be about status, queue, type, exception and group only")
        return await self._ledger.kind_values(key, wanted, part, limit)

    async def group_state(self, id: str) -> GroupState:  # noqa: A002 - it is called that everywhere
        """Return what people decided about a group, and what became of its messages that were sent again.

        Raises:
            GroupNotFound: there is none with that id; groups by queue or type have no state.
        """
        return await self._ledger.group_state(id)

    async def sources(self) -> list[str]:
        """Return the queues that failures were found in: what fails again comes back there."""
        return await self._ledger.sources()

    async def unread(self, sources: Sequence[str]) -> dict[str, int]:
        """Return how many failures are not in the store yet, by queue: in error queues, and dead letters of others.

        An answer without them must not look as if there were none. Queues without any are left out.

        Args:
            sources: the queues that failures are read from.
        """
        found = {queue: await self.unread_in(queue) for queue in sources}
        for queue in await self._broker.queues():
            dead = dead_letter_queue(queue.name)
            if queue.name not in found and dead not in found and not is_own_queue(queue.name):
                found[dead] = queue.dead
        return {queue: number for queue, number in found.items() if number}

    async def unread_in(self, queue: str) -> int:
        """Return how many failures can be read from a queue and from its dead-letter queue."""
        try:
            found = await self._broker.inspect(queue)
        except QueueNotFound:
            return 0
        return found.ready + found.dead

    async def show(self, id: str) -> FailedDetail:  # noqa: A002 - it is called that everywhere
        """Return everything about one failed message.

        Args:
            id: its id, or as much of the beginning of it as no other has.

        Raises:
            FailureNotFound: there is none with that id, or more than one begins so.
        """
        found = await self._ledger.show(id) if len(id) >= _SHORTEST_ID else None
        if found is None:
            raise FailureNotFound(id)
        return found

    async def aside(self, *, after: int = 0, limit: int = 100) -> list[SetAside]:
        """Return messages from error queues that could not be read."""
        return await self._ledger.aside(after=after, limit=limit)

    async def settled(self, chosen: Chosen) -> Filter:
        """Return the filter that is meant, with instants in place of ages, and queues in place of routes.

        Raises:
            InvalidFilter: it cannot be understood.
            InvalidSetting: there is no such route.
        """
        return (await self._filter_and_malformed(chosen))[0]

    # --- what recovery would do

    async def dry_run(self, chosen: Chosen, kind: Kind = Kind.RECOVER, **how: Unpack[RecoverOptions]) -> DryRun:
        """Say what ``recover``, or another kind of operation, would find, and do nothing."""
        check_known("dry_run", how, RecoverOptions)
        plan, malformed = await self._plan(chosen, how)
        if kind is not Kind.RECOVER:
            plan = Plan(kind=kind, filter=plan.filter, limit=plan.limit)
        found = await self._ledger.dry_run(plan)
        return found if not malformed else replace(found, unknown_ids=(*found.unknown_ids, *malformed))

    async def preview(self, chosen: Chosen, transform: Transform, *, sample: int = 5) -> list[Preview]:
        """Say what a transform would do to the first few messages, and do nothing."""
        shown = {each.id: await self.show(each.id) for each in await self.failed(chosen, limit=sample)}
        return await previews({each: found.message for each, found in shown.items()}, transform, self._transforms)

    # --- operations

    async def operations(
        self, *, is_open: bool | None = None, before: int | None = None, limit: int = 50
    ) -> list[Operation]:
        """Return operations, the newest first: all, those under way, or those that are over."""
        return await self._ledger.operations(is_open=is_open, before=before, limit=limit)

    async def operation(self, number: int, *, newcomers: bool = True) -> Operation:
        """Return an operation with its figures.

        Args:
            number: its number.
            newcomers: whether to count what came after the request; that takes longer than all else.

        Raises:
            OperationNotFound: there is none with that number.
        """
        return await self._ledger.operation(number, newcomers=newcomers)

    async def outcomes(
        self, number: int, outcomes: Sequence[Outcome] = (), *, after: int = 0, limit: int = 100
    ) -> list[Part]:
        """Return the messages of an operation that have had their turn, with what became of each."""
        return await self._ledger.parts(number, outcomes, after=after, limit=limit)

    async def follow(
        self, number: int, *, every: duration.Duration = 0.5, until_heard: duration.Duration = 0.0
    ) -> AsyncIterator[Operation]:
        """Return an operation again and again, until it is over.

        Args:
            number: its number.
            every: how long to wait in between; longer if there are so many messages that counting them takes long.
            until_heard: how long to wait for outcomes of sent messages, counted from the last one; 0: not at all.
        """
        wait, patience = duration.seconds("every", every), duration.seconds("until_heard", until_heard, zero=True)
        waiting, since = -1, 0.0
        clock = self._broker.clock
        while True:
            began = clock.monotonic()
            operation = await self.operation(number, newcomers=False)
            now = clock.monotonic()
            yield operation
            if operation.progress.waiting != waiting or not operation.is_over:
                waiting, since = operation.progress.waiting, now
            if operation.is_over and (not waiting or now - since >= patience):
                return
            await pause(clock, max(wait, _LOOK_RARELY * (now - began)))

    async def lanes(self) -> list[LaneInfo]:
        """Return the lanes: what goes to one destination, and who is at work there."""
        return await self._ledger.lanes()

    async def services(self) -> list[ServiceInfo]:
        """Return the processes that serve: read failures, and work on operations. None means that all of that waits."""
        return await self._ledger.services()

    async def redirects(self) -> dict[str, str]:
        """Return where failed messages go instead of the queue they failed in."""
        return await self._ledger.redirects()

    async def notes(self, subject: str) -> list[Note]:
        """Return the notes about something, the oldest first."""
        return await self._ledger.notes(subject)

    async def trail(
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
        wanted = TrailFilter(subject=subject, actor=actor, action=action, since=since, until=until)
        return await self._ledger.trail(wanted, before=before, limit=limit)

    # --- inside

    async def _filter_and_malformed(self, chosen: Chosen) -> tuple[Filter, tuple[str, ...]]:
        """Return a filter, and the given ids that cannot be ids. An empty list of ids matches no message."""
        now = utc(self._broker.clock.time())
        if isinstance(chosen, Filter | str):
            wanted = Filter.parse(chosen, now=now) if isinstance(chosen, str) else chosen.at(now)
            return await self._off_routes(wanted), ()
        ids = [each for each in chosen if isinstance(each, str) and _ID.fullmatch(each)]
        malformed = tuple(str(each) for each in chosen if each not in ids)
        return Filter(status=frozenset(Status), ids=tuple(ids) or (NO_MESSAGE,)), malformed

    async def _off_routes(self, wanted: Filter) -> Filter:
        return wanted.on(await self._queues_by_route()) if wanted.routes else wanted

    async def _plan(self, chosen: Chosen, how: Mapping[str, Any]) -> tuple[Plan, tuple[str, ...]]:
        wanted, malformed = await self._filter_and_malformed(chosen)
        settings = {name: value for name, value in how.items() if name in RecoverySettings.names()}
        if settings.get("again") and wanted.status == frozenset({Status.UNRESOLVED}):
            wanted = replace(wanted, status=frozenset({Status.UNRESOLVED, Status.RETRY_ISSUED}))
        at = settings.get("at")
        if at is not None and not isinstance(at, datetime):
            settings["at"] = utc(await self._ledger.now() + duration.seconds("at", at, zero=True))
        plan = Plan(filter=wanted, **settings)
        self._transforms.check(plan.transform)
        if plan.redirect is not None:
            await self._broker.inspect(plan.redirect)
        return plan, malformed
