# SPDX-License-Identifier: MIT
"""What the tables of all layers know of a message, as the ledger returns it. Pure: no I/O, no clock.

Times are seconds since 1970.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What was noted of a message when it happened, in the transaction of what happened.

    Attributes:
        message_id: the message; for the layer of pipelines, the task.
        parent: the message that was being handled when this one was sent.
        at: when it happened.
        since: when the lock began that has ended here, or was last renewed.
        until: when the message is available again.
        layer: the layer: ``redeliver`` or ``re-run``.
        event: what happened: ``sent``, ``abandoned``, ``failed``, ``lock-expired``, ``dead-lettered``, ``expired``,
            ``deferred``, ``completed``, or ``submitted`` to a pipeline.
        place: the queue, or the pipeline.
        attempt: how often it had been delivered.
        reason: why.
    """

    message_id: str
    parent: str | None
    at: float
    since: float | None
    until: float | None
    layer: str
    event: str
    place: str
    attempt: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedMessage:
    """A message that is in a queue now.

    Attributes:
        message_id: its id.
        parent: the message that was being handled when it was sent.
        queue: where it is.
        state: what it is doing.
        enqueued_at: when it was sent.
        due_at: when its lock ends, or when it becomes available.
        locked_since: when its lock began, or was last renewed.
        delivery_count: how often it was delivered.
        is_dead: whether it is a dead letter.
        failed_queue: the queue that it failed in, if it is in an error queue.
        reason: why it is a dead letter, or has failed.
    """

    message_id: str
    parent: str | None
    queue: str
    state: str
    enqueued_at: float
    due_at: float | None = None
    locked_since: float | None = None
    delivery_count: int = 0
    is_dead: bool = False
    failed_queue: str | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureAttempt:
    """One failure of a message that recovery knows.

    Attributes:
        at: when.
        operation: the operation that had sent it; None: it came from its sender.
        exception: what was raised.
    """

    at: float
    operation: int | None
    exception: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FailurePart:
    """A failed message in one operation.

    Attributes:
        operation: the operation's number.
        kind: what it does.
        actor: who asked for it.
        reason: why.
        requested_at: when.
        outcome: what became of the message.
        at: when that was known.
    """

    operation: int
    kind: str
    actor: str
    reason: str
    requested_at: float
    outcome: str
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureRecord:
    """A failed message as recovery knows it.

    Attributes:
        id: the failed message's id.
        message_id: the message's own id.
        parent: the message that was being handled when it was sent.
        queue: where it failed.
        status: where it stands.
        settled_at: since when, if that is the end.
        edit_of: the failed message that this is an edited copy of.
        edited_as: what the edited copy is called.
        attempts: its failures, the first one first.
        parts: the operations it was in, the first one first.
    """

    id: str
    message_id: str
    parent: str | None
    queue: str
    status: str
    settled_at: float | None
    edit_of: str | None
    edited_as: str | None
    attempts: tuple[FailureAttempt, ...] = ()
    parts: tuple[FailurePart, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskAction:
    """What was done with a task of a pipeline."""

    name: str
    at: float
    attempt: int
    actor: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskShipment:
    """What a task of a pipeline has sent, or is to send."""

    delivery_id: str
    state: str
    attempt: int
    receipt: str
    reason: str
    changed_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRecord:
    """A task of a pipeline.

    Attributes:
        id: its id.
        pipeline: whose it is.
        stage: what is to be done, or was done.
        destination: where it is to go.
        state: where it stands.
        created_at: when it was made.
        changed_at: when it was last changed.
        slot_at: the slot that it was batched for.
        item_count: how many items it has.
        reason: why it is in that state.
        parents: the tasks that its items come from.
        actions: its history.
        shipments: what it sends.
    """

    id: str
    pipeline: str
    stage: str
    destination: str
    state: str
    created_at: float
    changed_at: float
    slot_at: float | None = None
    item_count: int = 1
    reason: str = ""
    parents: tuple[str, ...] = ()
    actions: tuple[TaskAction, ...] = ()
    shipments: tuple[TaskShipment, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """All that is known of some messages.

    Attributes:
        entries: what was noted, in order.
        queued: where they are now.
        failures: what recovery knows of them.
        tasks: the tasks of pipelines that came from them.
        submissions: which task came from which message: pairs of the message's id and the task's.
        topics: the names of all topics.
        was_cut: whether there are more messages in the queues than were looked at.
        now: the time of the store.
    """

    entries: tuple[Entry, ...] = ()
    queued: tuple[QueuedMessage, ...] = ()
    failures: tuple[FailureRecord, ...] = ()
    tasks: tuple[TaskRecord, ...] = ()
    submissions: frozenset[tuple[str, str]] = frozenset()
    topics: frozenset[str] = field(default_factory=frozenset[str])
    was_cut: bool = False
    now: float = 0.0
