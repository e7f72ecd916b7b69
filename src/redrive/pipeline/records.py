# SPDX-License-Identifier: MIT
"""What the ledger of pipelines stores and returns. Pure: no I/O, no clock, no randomness."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal, NamedTuple, TypeAlias

from redrive.broker import Message
from redrive.pipeline.states import ShipmentState, TaskEvent, TaskState
from redrive.pipeline.task_token import TaskToken

Stage: TypeAlias = Literal["process", "batch", "send"]
DEAD_LETTER: Final = "dead_letter"
"""Where the detail of ``process_error`` and ``send_error`` has the number of the task's message, a dead letter."""

QUEUES: Final = "pipelines/"
"""What the names of the queues of all pipelines begin with."""


# --- what the ledger stores


def body_id(task: str, index: int, *, is_shipment: bool = False) -> str:
    """Return where the bytes of a new item or shipment of a task are stored."""
    return f"{task}/{'s' if is_shipment else ''}{index}"


def item_id(task: str, index: int) -> str:
    """Return the id of an item, which it keeps through all stages: its first task, and its place there."""
    return f"{task}.{index}"


def process_queue(pipeline: str) -> str:
    """Return the queue of the process stage of a pipeline."""
    return f"{QUEUES}{pipeline}/process"


def batch_queue(pipeline: str) -> str:
    """Return the queue of the slots of a pipeline."""
    return f"{QUEUES}{pipeline}/batch"


def send_queue(pipeline: str, destination: str) -> str:
    """Return the queue of what is to be sent to a destination of a pipeline."""
    return f"{QUEUES}{pipeline}/send/{destination}"


def first_task(item: str) -> str:
    """Return the task that an item was submitted with."""
    task, _, _ = item.rpartition(".")
    return task


def owns(task: str, body: str) -> bool:
    """Say whether bytes were stored with a task; otherwise they are those of a task that it comes from."""
    return body.startswith(f"{task}/")


@dataclass(slots=True, kw_only=True)  # not frozen: many are made, and that takes longer
class NewItem:
    """An item of a new task.

    Attributes:
        id: the item's id, which it keeps through all stages.
        body: its bytes; None if they are those of the parent.
        parent: the task that it comes from, and its place there, counted from 1; None if it was submitted.
        body_id: where its bytes are stored.
        size: how many bytes.
        shipment: the shipment that it is in, counted from 1; None: it is in none.
    """

    id: str
    body: bytes | None
    body_id: str
    size: int
    parent: tuple[str, int] | None = None
    shipment: int | None = None


@dataclass(slots=True, kw_only=True)  # not frozen: many are made, and that takes longer
class NewShipment:
    """A shipment of a new task.

    Attributes:
        delivery_id: names it for its destination.
        body: its bytes; None if they are stored already, as those of an item.
        body_id: where its bytes are stored.
        item_count: how many items are in it.
        content_type: what the bytes are.
    """

    delivery_id: str
    body: bytes | None
    body_id: str
    item_count: int
    content_type: str | None = None


@dataclass(slots=True, kw_only=True)  # not frozen: many are made, and that takes longer
class NewTask:
    """A task to be stored.

    Attributes:
        id: its id.
        pipeline: whose it is.
        stage: what is to be done.
        destination: where it is to go; empty: not known yet.
        version: the version of the pipeline that made it.
        due_at: when it is to be done, in seconds since 1970; None: now.
        not_after: when it expires if it still waits for a slot.
        slot_at: the slot that it was batched for.
        items: its items, in order.
        shipments: what is to be sent, in order.
    """

    id: str
    pipeline: str
    stage: Stage
    destination: str = ""
    version: int
    due_at: float | None = None
    not_after: float | None = None
    slot_at: float | None = None
    items: Sequence[NewItem] = ()
    shipments: Sequence[NewShipment] = ()

    @property
    def size(self) -> int:
        """How many bytes its items have."""
        items = self.items
        return items[0].size if len(items) == 1 else sum([item.size for item in items])


@dataclass(slots=True, kw_only=True)  # not frozen: many are made, and that takes longer
class NewAction:
    """What is written into the history of a task.

    Attributes:
        name: what was done: ``process_warning``, ``send_error``, ``resend``.
        attempt: which attempt it was, counted from 1.
        actor: who did it; empty: the pipeline itself.
        reason: why.
        detail: more, as JSON values.
    """

    name: str
    attempt: int = 1
    actor: str = ""
    reason: str = ""
    detail: Mapping[str, object] = field(default_factory=dict[str, object])


# --- what the ledger returns


@dataclass(slots=True, kw_only=True)  # not frozen: many are made, and that takes longer
class TaskItem:
    """An item of a task, with its bytes.

    Attributes:
        index: its place in the task, counted from 1.
        id: the item's id, which it keeps through all stages.
        body: its bytes.
        body_id: where they are stored.
    """

    index: int
    id: str
    body: bytes
    body_id: str


class WaitingTask(NamedTuple):
    """A task that waits for a slot: what is needed of it to serve that.

    Attributes:
        id: its id.
        version: the version of the pipeline that made it.
        items: its items, in order.
    """

    id: str
    version: int
    items: list[TaskItem]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskInfo:
    """A task as it is now.

    Attributes:
        id: its id.
        pipeline: whose it is.
        stage: what is to be done, or was done.
        destination: where it is to go; empty: not known yet.
        state: where it stands.
        due_at: when it is to be done.
        not_after: when it expires if it still waits for a slot.
        epoch: how often a person has changed its course.
        retries: how often sending was tried again.
        retry_items: the shipments that are still to be sent; empty: all.
        item_count: how many items it has.
        size: how many bytes they have.
        version: the version of the pipeline that made it.
        slot_at: the slot that it was batched for.
        reason: why it is in that state.
        created_at: when it was made.
        changed_at: when it was last changed.
    """

    id: str
    pipeline: str
    stage: Stage
    destination: str
    state: TaskState
    due_at: datetime
    not_after: datetime | None
    epoch: int
    retries: int
    retry_items: tuple[int, ...]
    item_count: int
    size: int
    version: int
    slot_at: datetime | None
    reason: str
    created_at: datetime
    changed_at: datetime

    @property
    def token(self) -> TaskToken:
        """What a message for it carries now."""
        return TaskToken(self.id, self.epoch, self.retries, self.retry_items)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShipmentInfo:
    """A shipment of a task, without its bytes.

    Attributes:
        task: the task's id.
        index: its place in the task, counted from 1.
        delivery_id: names it for its destination.
        state: where it stands.
        attempt: how often it was tried.
        item_count: how many items are in it.
        content_type: what its bytes are.
        receipt: what the destination said of it.
        reason: why it is in that state.
        changed_at: when it was last changed.
    """

    task: str
    index: int
    delivery_id: str
    state: ShipmentState
    attempt: int
    item_count: int
    content_type: str | None
    receipt: str
    reason: str
    changed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ShipmentWork:
    """A shipment that is to be sent now.

    Attributes:
        info: the shipment.
        body: its bytes.
        may_be_there: whether it may have arrived: its outcome is unknown, or an attempt has begun and never ended.
    """

    info: ShipmentInfo
    body: bytes
    may_be_there: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SendWork:
    """A send task that was begun.

    Attributes:
        task: the task.
        shipments: what is to be sent now.
        others: the other shipments of the task.
        wait: seconds until the rate of the destination allows that.
    """

    task: TaskInfo
    shipments: tuple[ShipmentWork, ...]
    others: tuple[ShipmentInfo, ...] = ()
    wait: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ShipmentResult:
    """What is stored of a shipment after an attempt.

    Attributes:
        index: its place in the task, counted from 1.
        state: where it stands now.
        receipt: what the destination said of it.
        reason: why it is in that state.
    """

    index: int
    state: ShipmentState
    receipt: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SendResult:
    """What is stored after an attempt to send.

    Attributes:
        shipments: what came of each shipment that was tried.
        event: what happens to the task.
        action: what is written into the history.
        retry: what the message for the next attempt carries, if there is one.
        due_at: when that is, in seconds since 1970.
    """

    shipments: tuple[ShipmentResult, ...]
    event: TaskEvent
    action: NewAction
    retry: TaskToken | None = None
    due_at: float | None = None


@dataclass(frozen=True, slots=True)
class SlotKey:
    """Which slot it is.

    Attributes:
        pipeline: the pipeline.
        destination: the destination.
        at: its instant, in seconds since 1970.
    """

    pipeline: str
    destination: str
    at: float


def slot_message(slot: SlotKey) -> Message:
    """Return the message that lets a slot be served."""
    return Message.of({"destination": slot.destination, "slot": slot.at})
