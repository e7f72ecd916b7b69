# SPDX-License-Identifier: MIT
"""The decider: opens the slots that have come. Any number of processes may run one at the same time."""

from redrive.broker import Send
from redrive.pipeline.cadence import Limits, catch_up
from redrive.pipeline.events import TasksExpired
from redrive.pipeline.infos import DestinationInfo
from redrive.pipeline.ledger import SlotTaken
from redrive.pipeline.plan import PipelineDestination
from redrive.pipeline.records import SlotKey, slot_message
from redrive.pipeline.stage import PipelineEnvironment

_AT_ONCE = 1_000
_JUST_NOW_S = 120.0


class Decider:
    """Decides for each destination of a pipeline whether a slot has come.

    Args:
        environment: what it works with.
    """

    def __init__(self, environment: PipelineEnvironment) -> None:
        self._environment = environment

    async def decide(self) -> int:
        """Open all slots that have come, and let expire what has waited for too long; return how many slots."""
        environment = self._environment
        opened = 0
        counted = [name for name, each in environment.plan.destinations.items() if _needs_count(each)]
        for info in await environment.ledger.destinations(environment.plan.name, counted):
            destination = environment.plan.destinations.get(info.name)
            if destination is not None and not info.is_held:
                opened += await self._decide(destination, info)
        while expired := await environment.ledger.expire(environment.plan.name, _AT_ONCE):
            environment.report(TasksExpired(environment.plan.name, len(expired)))
        return opened

    async def _decide(self, destination: PipelineDestination, info: DestinationInfo) -> int:
        now, opened = await self._environment.ledger.now(), 0
        for at in self._due(destination, info, now):
            opened += await self._open(destination, at, "time")
        if opened or not info.waiting or info.has_open_slot:
            return opened
        if destination.timing is None:  # it had one when its tasks were made
            return await self._open(destination, now, "untimed")
        oldest = now if info.oldest_at is None else info.oldest_at.timestamp()
        reason = destination.limits.reason(info.waiting_items, info.waiting_size, now - oldest)
        return 0 if reason is None else await self._open(destination, now, reason)

    def _due(self, destination: PipelineDestination, info: DestinationInfo, now: float) -> list[float]:
        if destination.timing is None:
            return []
        last = (info.last_slot or info.since).timestamp()
        if destination.catch_up == "none":  # a slot that has only just come is not one that was missed
            return catch_up(destination.timing, last, now, "latest", _JUST_NOW_S)
        return catch_up(destination.timing, last, now, destination.catch_up, destination.catch_up_window)

    async def _open(self, destination: PipelineDestination, at: float, closed_by: str) -> int:
        environment = self._environment
        slot = SlotKey(environment.plan.name, destination.name, at)
        wake_up = Send(environment.plan.batch_queue, slot_message(slot))
        try:
            await environment.broker.apply(wake_up, inside=environment.ledger.open_slot(slot, closed_by))
        except SlotTaken:
            return 0  # another process was faster
        return 1


def _needs_count(destination: PipelineDestination) -> bool:
    """Say whether it matters what waits for a destination: it may be a million tasks, so others are not counted."""
    return destination.timing is None or destination.limits != Limits()
