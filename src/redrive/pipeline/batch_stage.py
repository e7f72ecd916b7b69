# SPDX-License-Identifier: MIT
"""The batch stage: what waits for a slot is merged, and the slot is served once. What fails waits for the next slot."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from redrive.errors import TaskConflict, UsageError
from redrive.pipeline.cadence import sends_empty
from redrive.pipeline.events import SlotServed
from redrive.pipeline.functions import called
from redrive.pipeline.items import Body, Item, bodies_of
from redrive.pipeline.ledger import SlotTaken
from redrive.pipeline.new_tasks import Source, items_of, missing_items, sources_of
from redrive.pipeline.plan import PipelineDestination
from redrive.pipeline.records import NewTask, SlotKey, WaitingTask
from redrive.pipeline.stage import MOST_DEATHS, PipelineEnvironment, message_of, said
from redrive.pipeline.task_token import TaskToken, message_for
from redrive.worker import Context

_MOST_TASKS = 100_000
_SLOTS_OF_A_DAY = 3_000


class MergeBroken(Exception):
    """The merge function fails, and no single task is to blame."""


class _Merged(NamedTuple):
    """Items of tasks, and what the merge function has made of them; None: each is a shipment."""

    items: Sequence[Item]
    sources: Sequence[Source]
    bodies: list[Body] | None


@dataclass(frozen=True, slots=True)
class _Batch:
    """What is made in a slot.

    Attributes:
        members: the tasks that are in it.
        children: the send tasks.
        broken: tasks that break the merge, and why.
    """

    members: tuple[str, ...]
    children: tuple[NewTask, ...]
    broken: dict[str, str]


def _slot_in(body: bytes) -> tuple[str, float]:
    carried = json.loads(body)
    return str(carried["destination"]), float(carried["slot"])


class BatchStage:
    """Handles the messages of the batch queue: each is a slot of a destination.

    Args:
        environment: what it works with.
    """

    def __init__(self, environment: PipelineEnvironment) -> None:
        self._environment = environment

    async def handle(self, body: bytes, context: Context) -> None:
        """Serve one slot."""
        environment = self._environment
        name, at = message_of(body, _slot_in)
        slot = SlotKey(environment.plan.name, name, at)
        if not await environment.ledger.is_open(slot):
            return  # it was served, and the process died before its message was completed
        destination = environment.plan.destinations.get(slot.destination)
        if destination is None:
            await self._fail(slot, "the destination is no longer part of the pipeline", context)
            return
        if context.delivery_count > MOST_DEATHS:
            await self._fail(slot, f"{context.delivery_count - 1} processes have died at it", context)
            return
        members = await environment.ledger.waiting(slot.pipeline, slot.destination, _MOST_TASKS)
        for task in members:
            environment.check_version(task.version)
        try:
            if members:
                await self._serve(slot, await self._batches(destination, members, slot), context)
            else:
                await self._serve_empty(slot, destination, context)
        except MergeBroken as error:
            await self._fail(slot, str(error), context)
        except SlotTaken:
            return  # another process has served it

    # --- with tasks

    async def _batches(self, destination: PipelineDestination, members: Sequence[WaitingTask], slot: SlotKey) -> _Batch:
        done: list[str] = []
        children: list[NewTask] = []
        broken: dict[str, str] = {}
        for start in range(0, len(members), destination.max_tasks):
            chosen = members[start : start + destination.max_tasks]
            merged, bad = await self._merged(destination, chosen)
            broken |= bad
            done += [task.id for task in chosen if task.id not in bad]
            children.append(self._child(destination, merged, slot))
        return _Batch(tuple(done), tuple(children), broken)

    def _child(self, destination: PipelineDestination, merged: _Merged, slot: SlotKey) -> NewTask:
        environment = self._environment
        return environment.maker().for_sending(environment.new_id(), destination, *merged, slot_at=slot.at)

    async def _merged(
        self, destination: PipelineDestination, members: Sequence[WaitingTask]
    ) -> tuple[_Merged, dict[str, str]]:
        """Merge tasks; those that break the merge are left out, each for itself.

        Raises:
            MergeBroken: it cannot be said which tasks break it: then it is not theirs.
        """
        try:
            return await self._merge(destination, members), {}
        except Exception as error:  # noqa: BLE001 - the user's function; which task is to blame is found out
            first = said(error)
        broken = await self._broken(destination, members, first) if len(members) > 1 else {members[0].id: first}
        good = [each for each in members if each.id not in broken]
        if not good:
            raise MergeBroken(first)
        try:
            return await self._merge(destination, good), broken
        except Exception as error:
            raise MergeBroken(said(error)) from error

    async def _broken(
        self, destination: PipelineDestination, members: Sequence[WaitingTask], reason: str
    ) -> dict[str, str]:
        """Return the tasks that break the merge, by halving the list again and again."""
        if len(members) == 1:
            return {members[0].id: reason}
        found: dict[str, str] = {}
        middle = len(members) // 2
        for half in (members[:middle], members[middle:]):
            try:
                await self._merge(destination, half)
            except Exception as error:  # noqa: BLE001 - as above
                found |= await self._broken(destination, half, said(error))
        return found

    async def _merge(self, destination: PipelineDestination, members: Sequence[WaitingTask]) -> _Merged:
        sources = sources_of(members)
        items = items_of(sources)
        if destination.merge is None:
            return _Merged(items, sources, None)
        bodies = await called(destination.merge, list(items), bodies_of)
        if missing := missing_items(bodies, items):
            raise UsageError(f"merge has left out item {next(iter(missing.values())).id}")
        return _Merged(items, sources, bodies)

    # --- without

    async def _serve_empty(self, slot: SlotKey, destination: PipelineDestination, context: Context) -> None:
        environment = self._environment
        zone = getattr(destination.timing, "zone", "UTC")
        last = await environment.ledger.slots(slot.pipeline, slot.destination, _SLOTS_OF_A_DAY)
        empty = [each.at.timestamp() for each in last if each.is_empty]
        if not sends_empty(destination.when_empty, slot.at, empty, zone):
            await self._serve(slot, _Batch((), (), {}), context)
            return
        try:
            merge = destination.merge
            bodies = [Body(b"")] if merge is None else await called(merge, [], bodies_of)
        except Exception as error:
            raise MergeBroken(said(error)) from error
        child = environment.maker().for_sending(environment.new_id(), destination, (), (), bodies, slot_at=slot.at)
        await self._serve(slot, _Batch((), (child,), {}), context, is_empty=True)

    # --- what is stored

    async def _serve(self, slot: SlotKey, batch: _Batch, context: Context, *, is_empty: bool = False) -> None:
        environment = self._environment
        for child in batch.children:
            context.send(environment.plan.send_queue(child.destination), message_for(TaskToken(child.id)))
        inside = environment.ledger.serve_slot(slot, batch.members, batch.children, batch.broken, is_empty=is_empty)
        await context.complete(inside=inside)
        outcome = "empty" if not batch.members else "served"
        self._report(slot, outcome, len(batch.members), len(batch.broken))

    async def _fail(self, slot: SlotKey, reason: str, context: Context) -> None:
        try:
            await context.complete(inside=self._environment.ledger.fail_slot(slot, reason))
        except (SlotTaken, TaskConflict):
            return
        self._report(slot, "failed", 0, 0, reason)

    def _report(self, slot: SlotKey, outcome: str, tasks: int, broken: int, reason: str = "") -> None:
        environment = self._environment
        environment.report(SlotServed(slot.pipeline, slot.destination, slot.at, outcome, tasks, broken, reason))
