# SPDX-License-Identifier: MIT
"""Collects the facts of all layers, and says what needs a person."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Self

from redrive.attention.facts import Facts, GroupFact, PipelineFact, QueueFact, RouteFact
from redrive.attention.figures import CAUGHT, Figures
from redrive.attention.rules import AttentionItem, Thresholds, items_of
from redrive.broker import is_own_queue, tallies
from redrive.clock import utc
from redrive.history import History
from redrive.pipeline import Pipelines
from redrive.recovery import Operation, Recovery, Status
from redrive.routes import Routes, route_label

_GROUPS = 200
_LISTED_GROUPS = 1_000
_OPERATIONS = 50
_TASKS = 1_000
_DAY_S = 86_400
_LATELY_S = 3_600
"""Operations that ended so long ago are facts, whatever their numbers: an old one may end after many newer ones."""


class Attention:
    """What needs a person, in sentences; and the figures of an overview. Made by ``redrive.open_attention``.

    Args:
        history: what happened.
        recovery: failures and operations.
        routes: the routes.
        pipelines: the pipelines.
        thresholds: from when on something needs a person.
    """

    def __init__(
        self,
        history: History,
        recovery: Recovery,
        routes: Routes,
        pipelines: Pipelines,
        thresholds: Thresholds | None = None,
    ) -> None:
        self._history = history
        self._recovery = recovery
        self._routes = routes
        self._pipelines = pipelines
        self._thresholds = thresholds or Thresholds()
        self._opened = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            for each in (self._history, self._recovery, self._routes, self._pipelines):
                await stack.enter_async_context(each)
            self._opened = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._opened.aclose()

    async def items(self) -> list[AttentionItem]:
        """Return what needs a person, the most urgent first."""
        return items_of(await self.facts(), self._thresholds)

    async def facts(self) -> Facts:
        """Return what the rules look at."""
        now, aside, services, (groups, operations), (queues, routes, pipelines) = await asyncio.gather(
            self._history.ledger.now(),
            self._recovery.aside(limit=_TASKS),
            self._recovery.services(),
            asyncio.gather(self._groups(), self._operations()),
            asyncio.gather(self._queues(), self._routes_with_work(), self._stuck()),
        )
        return Facts(
            now=utc(now),
            groups=tuple(groups),
            operations=tuple(operations),
            queues=tuple(queues),
            routes=tuple(routes),
            pipelines=tuple(pipelines),
            set_aside=len(aside),
            services=len(services),
        )

    async def figures(self) -> Figures:
        """Return the figures of an overview: what is unresolved, failed, recovered, waiting, under way, and caught."""
        counts = await self._recovery.count_by_status()
        queues = [queue for queue in await self._history.broker.queues() if not is_own_queue(queue.name)]
        failed = (tallies.QUEUE, tallies.FAILED)
        today = await self._history.counted_of_all([*CAUGHT.values(), failed], span=_DAY_S)
        caught = {layer: today[counted] for layer, counted in CAUGHT.items()}
        under_way = await self._recovery.operations(is_open=True, limit=_OPERATIONS)
        groups = await self._recovery.groups(limit=_LISTED_GROUPS, largest_first=True)
        yesterday = utc(await self._history.ledger.now() - _DAY_S)
        return Figures(
            unresolved=counts.get(Status.UNRESOLVED, 0),
            new_groups=sum(group.first_failed_at > yesterday for group in groups),
            failed_today=today[failed],
            recovered_today=caught["recover"],
            waiting=sum(queue.ready for queue in queues),
            oldest_at=min((queue.oldest_at for queue in queues if queue.oldest_at is not None), default=None),
            dead_letters=sum(queue.dead for queue in queues),
            operations=len(under_way),
            workers=len(await self._history.workers()),
            caught=caught,
        )

    async def _groups(self) -> list[GroupFact]:
        listed = await self._recovery.groups(limit=_GROUPS, largest_first=True)
        found = [group for group in listed if not group.is_snoozed]
        lately_s, ids = self._thresholds.lately_s, [group.id for group in found]
        if not found:
            return []
        today = await self._history.counted("failed", topic=tallies.GROUP, names=ids, span=_DAY_S)
        lately = await self._history.counted("failed", topic=tallies.GROUP, names=ids, span=lately_s)
        return [
            GroupFact(
                id=group.id,
                title=group.title,
                count=group.count,
                first_failed_at=group.first_failed_at,
                lately=lately[group.id],
                usual=(today[group.id] - lately[group.id]) * lately_s / max(_DAY_S - lately_s, 1),
            )
            for group in found
        ]

    async def _operations(self) -> list[Operation]:
        under_way = await self._recovery.operations(is_open=True, limit=_OPERATIONS)
        over = await self._recovery.operations(is_open=False, limit=_OPERATIONS)
        lately = await self._recovery.ledger.ended_since(utc(await self._history.ledger.now() - _LATELY_S))
        listed = {each.number for each in over}
        return [*under_way, *over, *(each for each in lately if each.number not in listed)]

    async def _queues(self) -> list[QueueFact]:
        return [
            QueueFact(name=queue.name, ready=queue.ready, oldest_at=queue.oldest_at)
            for queue in await self._history.unread(span=self._thresholds.unread_s)
            if not is_own_queue(queue.name)
        ]

    async def _routes_with_work(self) -> list[RouteFact]:
        lately = {rates.name: rates.per_minute for rates in await self._history.rates(tallies.ROUTE)}
        return [
            RouteFact(
                name=(name := route_label(info.route.application, info.route.name)),
                state=info.state,
                reason=info.reason,
                waiting=info.waiting,
                oldest_at=info.oldest_at,
                sent=round(lately.get(name, {}).get(tallies.SENT, 0.0) * 5),
                failed=round(lately.get(name, {}).get(tallies.FAILED, 0.0) * 5),
            )
            for info in await self._routes.find()
            if info.waiting
        ]

    async def _stuck(self) -> Sequence[PipelineFact]:
        found: dict[str, list[float]] = {}
        for task in await self._pipelines.stuck(overdue=self._thresholds.overdue_s, limit=_TASKS):
            found.setdefault(task.pipeline, []).append(task.due_at.timestamp())
        return [
            PipelineFact(name=name, stuck=len(times), oldest_at=utc(min(times)))
            for name, times in sorted(found.items())
        ]
