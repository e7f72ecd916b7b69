# SPDX-License-Identifier: MIT
"""New tasks: of a submission, of what a process function has yielded, of a batch. Pure: no I/O, no clock."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from redrive.errors import UsageError
from redrive.pipeline.items import Body, Item, Output
from redrive.pipeline.plan import PipelineDestination, PipelinePlan
from redrive.pipeline.records import NewItem, NewShipment, NewTask, TaskItem, WaitingTask, body_id, item_id

_ID_SPACE = 16


def task_id(now: float, random_part: str) -> str:
    """Return an id for a task. It begins with its time, so ids are in the order in which tasks were made."""
    return f"{int(now * 1000):012x}{random_part[:_ID_SPACE]}"


class Source(NamedTuple):
    """An item of a task that is stored: where a new item comes from.

    Attributes:
        task: the task.
        item: the item there.
    """

    task: str
    item: TaskItem


def submitted(plan: PipelinePlan, version: int, id_: str, bodies: Sequence[bytes]) -> NewTask:
    """Return the process task of a submission."""
    items = [
        NewItem(id=item_id(id_, index), body=body, body_id=body_id(id_, index), size=len(body))
        for index, body in enumerate(bodies, 1)
    ]
    return NewTask(id=id_, pipeline=plan.name, stage="process", version=version, items=items)


def items_of(sources: Sequence[Source]) -> tuple[Item, ...]:
    """Return the items that a function of the pipeline is given; their places are those in the list."""
    return tuple([Item(item.id, item.body, index) for index, (_, item) in enumerate(sources, 1)])


def grouped(outputs: Iterable[object], plan: PipelinePlan, sources: Sequence[Source]) -> dict[str, list[Item]]:
    """Return the items of outputs by their destinations; those for one destination are one task.

    Raises:
        UsageError: something is no output, or an item is not one of the report.
        DestinationNotFound: the pipeline has no such destination.
    """
    found: dict[str, list[Item]] = {}
    for output in outputs:
        if not isinstance(output, Output):
            raise UsageError(f"a process function must yield Output(destination, items), not {type(output).__name__}")
        plan.destination(output.destination)
        for item in output.items:
            if not 1 <= item.index <= len(sources) or sources[item.index - 1].item.id != item.id:
                raise UsageError(f"item {item.id} is not one of this report; use item.with_body(…) to change one")
            found.setdefault(output.destination, []).append(item)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskMaker:
    """Makes the tasks that follow others.

    Attributes:
        plan: the pipeline.
        version: its version.
        now: the time, in seconds since 1970.
    """

    plan: PipelinePlan
    version: int
    now: float

    def for_slot(
        self, id_: str, destination: PipelineDestination, items: Sequence[Item], sources: Sequence[Source]
    ) -> NewTask:
        """Return a task that waits for a slot of its destination."""
        if destination.timing is None:
            raise AssertionError("a destination without a timing has no slots")
        due_at = destination.timing.next_after(self.now)
        return NewTask(
            id=id_,
            pipeline=self.plan.name,
            stage="batch",
            destination=destination.name,
            version=self.version,
            due_at=due_at,
            not_after=destination.backstop.not_after(due_at, destination.timing.period),
            items=[_new_item(id_, index, item, sources) for index, item in enumerate(items, 1)],
        )

    def for_sending(
        self,
        id_: str,
        destination: PipelineDestination,
        items: Sequence[Item],
        sources: Sequence[Source],
        bodies: Sequence[Body] | None,
        *,
        slot_at: float | None = None,
    ) -> NewTask:
        """Return a task that is to be sent.

        Args:
            id_: its id.
            destination: where to.
            items: the items.
            sources: where they come from.
            bodies: what the merge function has made of them; None: each item is a shipment.
            slot_at: the slot that it was batched for.
        """
        kept = [_new_item(id_, index, item, sources) for index, item in enumerate(items, 1)]
        if bodies is None:
            shipments = [_lone_shipment(id_, index, item) for index, item in enumerate(kept, 1)]
            for index, new in enumerate(kept, 1):
                new.shipment = index
        else:
            shipments = [_shipment(id_, index, body, len(items)) for index, body in enumerate(bodies, 1)]
            places = _places(bodies, items)
            for index, new in enumerate(kept):
                new.shipment = places.get(index)
        return NewTask(
            id=id_,
            pipeline=self.plan.name,
            stage="send",
            destination=destination.name,
            version=self.version,
            slot_at=slot_at,
            items=kept,
            shipments=shipments,
        )


def _new_item(task: str, index: int, item: Item, sources: Sequence[Source]) -> NewItem:
    parent, source = sources[item.index - 1]
    body = item.body
    is_same = body is source.body or body == source.body
    return NewItem(
        id=item.id,
        body=None if is_same else body,
        body_id=source.body_id if is_same else body_id(task, index),
        size=len(body),
        parent=(parent, source.index),
    )


def _lone_shipment(task: str, index: int, item: NewItem) -> NewShipment:
    return NewShipment(delivery_id=f"{task}-{index}", body=None, body_id=item.body_id, item_count=1)


def _shipment(task: str, index: int, body: Body, all_items: int) -> NewShipment:
    content = body.content.encode() if isinstance(body.content, str) else body.content
    return NewShipment(
        delivery_id=f"{task}-{index}",
        body=content,
        body_id=body_id(task, index, is_shipment=True),
        item_count=len(body.items) or all_items,
        content_type=body.content_type,
    )


def _places(bodies: Sequence[Body], items: Sequence[Item]) -> dict[int, int]:
    """Return the shipment of each item, by the item's place in the list."""
    found: dict[int, int] = {}
    for shipment, body in enumerate(bodies, 1):
        chosen = {item.index for item in body.items} if body.items else None
        for place, item in enumerate(items):
            if chosen is None or item.index in chosen:
                found.setdefault(place, shipment)
    return found


def sources_of(members: Iterable[WaitingTask]) -> list[Source]:
    """Return the items of tasks, in their order."""
    return [Source(task.id, item) for task in members for item in task.items]


def missing_items(bodies: Sequence[Body] | None, items: Sequence[Item]) -> Mapping[int, Item]:
    """Return the items that are in no body: a merge function that leaves some out would lose them."""
    if bodies is None:
        return {}
    places = _places(bodies, items)
    return {place: item for place, item in enumerate(items) if place not in places}
