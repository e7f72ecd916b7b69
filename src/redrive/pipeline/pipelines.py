# SPDX-License-Identifier: MIT
"""What people do with the tasks of pipelines: find them, send them again, hold a destination, revive and cancel.

Every change is written into the history, with who has made it and why.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Self, TypeAlias, get_args

from redrive.broker import Broker, Send
from redrive.errors import DestinationConflict, DestinationNotFound, InvalidSetting, PipelineNotFound, TaskConflict
from redrive.pipeline.infos import ActionInfo, DestinationInfo, LineageEdge, SlotInfo
from redrive.pipeline.ledger import PipelineLedger, SlotTaken
from redrive.pipeline.records import (
    NewAction,
    ShipmentInfo,
    SlotKey,
    Stage,
    TaskInfo,
    batch_queue,
    process_queue,
    send_queue,
    slot_message,
)
from redrive.pipeline.states import TASKS, ShipmentState, TaskEvent, TaskState
from redrive.pipeline.stored_plan import StoredPlan, stored_plan
from redrive.pipeline.task_token import TaskToken, message_for

Which: TypeAlias = Literal["failed", "unknown", "all"]
_OVERDUE_S = 900.0
_WHICH: dict[str, tuple[ShipmentState, ...]] = {
    "failed": (ShipmentState.PENDING, ShipmentState.REFUSED),
    "unknown": (ShipmentState.UNKNOWN, ShipmentState.INTENT),
    "all": tuple(ShipmentState),
}


@dataclass(frozen=True, slots=True)
class TaskDetail:
    """A task with everything that belongs to it.

    Attributes:
        task: the task.
        shipments: what is sent of it.
        history: what was done with it, from its beginning.
    """

    task: TaskInfo
    shipments: tuple[ShipmentInfo, ...]
    history: tuple[ActionInfo, ...]


@dataclass(frozen=True, slots=True)
class Trace:
    """Where an item, or all items of a task, have come from and gone to.

    Attributes:
        edges: their steps.
        tasks: the tasks of these steps, in the order in which they were made.
    """

    edges: tuple[LineageEdge, ...]
    tasks: tuple[TaskInfo, ...]


class Pipelines:
    """The pipelines of a broker, to be entered with ``async with``.

    Args:
        broker: where their queues are; it is open by then.
        ledger: where their tasks are.
    """

    def __init__(self, broker: Broker, ledger: PipelineLedger) -> None:
        self.broker = broker
        self.ledger = ledger

    async def __aenter__(self) -> Self:
        await self.ledger.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.ledger.close()

    # --- questions

    async def names(self) -> list[str]:
        """Return the names of all pipelines."""
        return [name for name, _ in await self.ledger.pipelines()]

    async def plan_of(self, pipeline: str) -> StoredPlan:
        """Return what a pipeline is, as its last version is stored.

        Raises:
            PipelineNotFound: there is no such pipeline.
        """
        for version, definition in await self.ledger.versions(pipeline):
            return stored_plan(pipeline, version, definition)
        raise PipelineNotFound(pipeline)

    async def destinations(self, pipeline: str) -> list[DestinationInfo]:
        """Return the destinations of a pipeline, with what waits for them.

        Raises:
            PipelineNotFound: there is no such pipeline.
        """
        found = await self.ledger.destinations(pipeline)
        if not found:
            raise PipelineNotFound(pipeline)
        return found

    async def failure_queues(self, pipeline: str, destination: str | None = None) -> dict[str, tuple[Stage, str]]:
        """Return the queues whose dead letters are the messages of failed tasks, with their stage and destination.

        To recover these is to run all these tasks again: of a send task only what failed is sent.

        Args:
            pipeline: the pipeline.
            destination: only that of this destination.
        """
        found: dict[str, tuple[Stage, str]] = {}
        if destination is None:
            found[process_queue(pipeline)] = "process", ""
        for each in await self.destinations(pipeline):
            if destination in (None, each.name):
                found[send_queue(pipeline, each.name)] = "send", each.name
        return found

    async def stuck(
        self, pipeline: str | None = None, *, overdue: float = _OVERDUE_S, limit: int = 100
    ) -> list[TaskInfo]:
        """Return what should have been done a while ago, and what a person has to look at; the oldest first.

        Args:
            pipeline: only of this pipeline.
            overdue: how many seconds ago it should have been done.
            limit: how many at most.
        """
        return await self.ledger.stuck(overdue, limit, pipeline)

    async def tasks(
        self,
        pipeline: str | None = None,
        *,
        destination: str | None = None,
        states: Sequence[TaskState] = (),
        limit: int = 100,
        before: str | None = None,
    ) -> list[TaskInfo]:
        """Return tasks, the newest first; ``before``: the id of the last one of the page before."""
        return await self.ledger.tasks(pipeline, destination, states, limit, before)

    async def counts(self, pipeline: str) -> dict[tuple[str, str, TaskState], int]:
        """Return how many tasks there are, by stage, destination and state."""
        return await self.ledger.counts(pipeline)

    async def show(self, task: str) -> TaskDetail:
        """Return a task with its shipments and its history.

        Raises:
            TaskNotFound: there is no such task.
        """
        info = await self.ledger.task(task)
        shipments = await self.ledger.shipments(task)
        return TaskDetail(info, tuple(shipments), tuple(await self.ledger.history(task, None, 1_000)))

    async def trace(self, item: str) -> Trace:
        """Return where an item, or all items of a task, have come from and gone to."""
        edges = await self.ledger.lineage(item)
        ids = {edge.child[0] for edge in edges} or {item}
        tasks = sorted([await self.ledger.task(id_) for id_ in ids], key=_made)
        place = {task.id: index for index, task in enumerate(tasks)}
        return Trace(tuple(sorted(edges, key=lambda edge: (place[edge.child[0]], edge.child[1]))), tuple(tasks))

    async def history(self, pipeline: str | None = None, *, limit: int = 100) -> list[ActionInfo]:
        """Return what was done last, the newest first."""
        return await self.ledger.history(None, pipeline, limit)

    async def slots(self, pipeline: str, destination: str, *, limit: int = 20) -> list[SlotInfo]:
        """Return the last slots of a destination, the newest first."""
        return await self.ledger.slots(pipeline, destination, limit)

    # --- changes

    async def resend(
        self, task: str, *, which: Which = "failed", again: bool = False, actor: str = "", reason: str = ""
    ) -> TaskInfo:
        """Send a task again, or process it again; return it as it is then.

        Args:
            task: its id.
            which: of a send task: only what failed, only what has an unknown outcome, or all shipments.
            again: whether shipments that have arrived are sent once more, with another delivery id.
            actor: who wants that.
            reason: why.

        Raises:
            TaskConflict: its state does not allow it, or there is nothing to send.
        """
        info = await self.ledger.task(task)
        items = await self._chosen(info, which, again=again)
        action = NewAction(name="resend", actor=actor, reason=reason, detail={"which": which, "items": items})
        token = TaskToken(task, info.epoch + 1, 0, tuple(items))
        await self._rerun(info, token, items, action, again=again)
        return await self.ledger.task(task)

    async def _chosen(self, info: TaskInfo, which: Which, *, again: bool) -> list[int]:
        if which not in _WHICH:
            raise InvalidSetting("which", which, f"must be one of: {', '.join(_WHICH)}")
        if info.stage == "batch":
            raise TaskConflict(info.id, "it waits for a slot, and is not sent itself; revive it")
        if info.state is TaskState.READY:
            raise TaskConflict(info.id, "it is not done yet, and is tried by itself when it is due")
        if info.stage == "process":
            return []
        shipments = await self.ledger.shipments(info.id)
        chosen = [each for each in shipments if each.state in _WHICH[which]]
        if not again:
            chosen = [each for each in chosen if each.state is not ShipmentState.SENT]
        if not chosen:
            raise TaskConflict(info.id, _nothing_to_send(shipments))
        return [each.index for each in chosen]

    async def _rerun(
        self, info: TaskInfo, token: TaskToken, items: Sequence[int], action: NewAction, *, again: bool = False
    ) -> None:
        is_send = info.stage == "send"
        queue = send_queue(info.pipeline, info.destination) if is_send else process_queue(info.pipeline)
        inside = self.ledger.rerun(info.token, items, action, again=again)
        await self.broker.apply(Send(queue, message_for(token)), inside=inside)

    async def resolve(
        self,
        task: str,
        items: Sequence[int],
        *,
        arrived: bool,
        actor: str = "",
        reason: str = "",
    ) -> TaskInfo:
        """Say what has become of shipments with an unknown outcome; those that have not arrived are sent again.

        Args:
            task: the task.
            items: the shipments, counted from 1.
            arrived: whether they have arrived.
            actor: who says so.
            reason: how it is known.
        """
        info = await self.ledger.task(task)
        await self._check_unsettled(info, items)
        word = "sent" if arrived else "not-sent"
        action = NewAction(name="resolve", actor=actor, reason=reason, detail={"items": list(items), "as": word})
        if arrived:
            await self.ledger.resolve_sent(info.token, items, action)
        else:
            await self._rerun(info, TaskToken(task, info.epoch + 1, 0, tuple(items)), items, action)
        return await self.ledger.task(task)

    async def _check_unsettled(self, info: TaskInfo, items: Sequence[int]) -> None:
        """See that a task has these shipments, and that it is not known of any that it has arrived."""
        states = {each.index: each.state for each in await self.ledger.shipments(info.id)}
        for index in items:
            if index not in states:
                raise TaskConflict(info.id, f"it has no shipment {index}; it has {len(states)}")
            if states[index] is ShipmentState.SENT:
                raise TaskConflict(info.id, f"shipment {index} has arrived; to send it once more, resend it (--again)")

    async def hold(self, pipeline: str, destination: str, *, actor: str = "", reason: str = "") -> None:
        """Let nothing be batched for a destination and sent to it, until it is released."""
        await self.ledger.hold(pipeline, destination, NewAction(name="hold", actor=actor, reason=reason), is_held=True)

    async def release(self, pipeline: str, destination: str, *, actor: str = "", reason: str = "") -> None:
        """Let a destination that was held go on."""
        await self.ledger.hold(
            pipeline, destination, NewAction(name="release", actor=actor, reason=reason), is_held=False
        )

    async def send_now(self, pipeline: str, destination: str, *, actor: str = "", reason: str = "") -> int:
        """Let what waits for a slot of a destination be batched and sent now; return how many tasks wait.

        The next slot on its timetable comes as it would have.

        Raises:
            DestinationNotFound: the pipeline has no such destination.
            DestinationConflict: it is held, nothing waits for it, or a slot of it is being served.
        """
        found = {each.name: each for each in await self.destinations(pipeline)}
        if (info := found.get(destination)) is None:
            raise DestinationNotFound(pipeline, destination, tuple(found))
        if info.is_held:
            raise DestinationConflict(pipeline, destination, "it is held; release it first")
        if not info.waiting:
            raise DestinationConflict(pipeline, destination, "nothing waits for a slot; there is nothing to send")
        slot = SlotKey(pipeline, destination, await self.ledger.now())
        action = NewAction(name="send-now", actor=actor, reason=reason, detail={"tasks": info.waiting})
        try:
            wake_up = Send(batch_queue(pipeline), slot_message(slot))
            await self.broker.apply(wake_up, inside=self.ledger.open_now(slot, action))
        except SlotTaken:
            raise DestinationConflict(pipeline, destination, "a slot of it is being served; wait for it") from None
        return info.waiting

    async def revive(self, task: str, *, actor: str = "", reason: str = "") -> TaskInfo:
        """Let a task that has expired, failed or was cancelled wait for the next slot of its destination.

        Raises:
            TaskConflict: it never waited for a slot; or its state does not allow it.
        """
        info = await self.ledger.task(task)
        if info.stage != "batch":
            raise TaskConflict(task, f"it is a {info.stage} task, and never waits for a slot; resend it")
        _check_allows(info, TaskEvent.REVIVE, "only what has expired, failed or was cancelled can be revived")
        now = await self.ledger.now()
        span = None if info.not_after is None else (info.not_after - info.due_at).total_seconds()
        action = NewAction(name="revive", actor=actor, reason=reason)
        await self.ledger.revive(info.token, now, None if span is None else now + span, action)
        return await self.ledger.task(task)

    async def cancel(self, task: str, *, actor: str = "", reason: str = "") -> TaskInfo:
        """Let nothing more be done with a task.

        Raises:
            TaskConflict: it has ended.
        """
        info = await self.ledger.task(task)
        _check_allows(info, TaskEvent.CANCEL, "there is nothing left to cancel")
        await self.ledger.cancel(info.token, NewAction(name="cancel", actor=actor, reason=reason))
        return await self.ledger.task(task)

    async def prune(self, ended_before: float, *, limit: int = 1_000) -> int:
        """Remove tasks that ended before an instant, with their bodies and history; return how many."""
        removed = 0
        while removed < limit and (count := await self.ledger.prune(ended_before, min(500, limit - removed))):
            removed += count
        return removed


def _made(task: TaskInfo) -> tuple[datetime, int, str]:
    """Return a key that sorts tasks as they were made: at one instant, what a task has made comes after it."""
    return task.created_at, get_args(Stage).index(task.stage), task.id


def _check_allows(info: TaskInfo, event: TaskEvent, otherwise: str) -> None:
    """Refuse what the state of a task does not allow, and say which state that is."""
    if (info.state, event) not in TASKS:
        raise TaskConflict(info.id, f"it is {info.state.word}: {otherwise}")


def _nothing_to_send(shipments: Sequence[ShipmentInfo]) -> str:
    """Return why nothing of a task is sent, and what to say instead."""
    count = {state: sum(each.state is state for each in shipments) for state in ShipmentState}
    if doubtful := count[ShipmentState.UNKNOWN] + count[ShipmentState.INTENT]:
        problem = f"nothing has failed, and {doubtful} of {len(shipments)} shipments have an unknown outcome"
        return f"{problem}; to send these, say which='unknown' (--items unknown)"
    problem = f"there is nothing to send: {count[ShipmentState.SENT]} of {len(shipments)} shipments have arrived"
    return f"{problem}; to send these once more, say which='all', again=True (--items all --again)"
