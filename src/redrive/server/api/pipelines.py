# SPDX-License-Identifier: MIT
"""``/pipelines`` and ``/tasks``: what pipelines do, what is stuck, and doing it again."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from fastapi import Path, Query
from pydantic import Field

from redrive.broker.views import View
from redrive.clock import utc
from redrive.errors import DestinationNotFound
from redrive.pipeline import (
    ActionInfo,
    DestinationInfo,
    LineageEdge,
    Pipelines,
    ShipmentInfo,
    SlotInfo,
    TaskInfo,
    TaskState,
    views,
)
from redrive.server.api.endpoint import Caller, Endpoints, Name
from redrive.server.api.failure_models import ReasonAsked
from redrive.server.api.models import Instant, ViewModel
from redrive.server.api.pages import PAGED, Limit, Page
from redrive.server.api.record_models import lower_name, record_model
from redrive.server.api.requests import Key, once

_NEXT_SLOTS = 10

if TYPE_CHECKING:  # they are made of the fields of the records
    ActionModel: TypeAlias = ViewModel
    DestinationModel: TypeAlias = ViewModel
    EdgeModel: TypeAlias = ViewModel
    ShipmentModel: TypeAlias = ViewModel
    SlotModel: TypeAlias = ViewModel
    TaskModel: TypeAlias = ViewModel
    StateWord: TypeAlias = str
else:
    ActionModel = record_model(ActionInfo, "TaskAction", lower_name)
    DestinationModel = record_model(DestinationInfo, "Destination", lower_name)
    EdgeModel = record_model(LineageEdge, "ItemStep", lower_name)
    ShipmentModel = record_model(ShipmentInfo, "Shipment", lower_name)
    SlotModel = record_model(SlotInfo, "Slot", lower_name)
    TaskModel = record_model(TaskInfo, "Task", lower_name)
    StateWord = Literal[tuple(each.word for each in TaskState)]


class PlannedDestination(ViewModel):
    """A destination of a pipeline: what it is, and what waits for it."""

    name: str = Field(examples=["lab"])
    kind: str = Field(examples=["http"])
    transport: str = Field(description="As people write it, without secrets.")
    timing: str | None = Field(description="When its slots are; null: everything is sent at once.")
    settings: dict[str, Any]
    next_slot: Instant | None
    pipeline: str | None = None
    since: Instant | None = None
    is_held: bool = False
    reason: str = ""
    last_slot: Instant | None = None
    waiting: int = 0
    waiting_items: int = 0
    waiting_size: int = 0
    oldest_at: Instant | None = None
    has_open_slot: bool = False


class TaskCount(ViewModel):
    """How many tasks there are of one stage and destination in one state."""

    stage: str
    destination: str
    state: str
    count: int


class PipelineModel(ViewModel):
    """What a pipeline is, and how many tasks it has."""

    name: str = Field(examples=["reports"])
    version: int
    settings: dict[str, Any]
    destinations: list[PlannedDestination]
    tasks: list[TaskCount]


class TaskDetailModel(TaskModel):
    """A task with its shipments and its history."""

    shipments: list[ShipmentModel]
    history: list[ActionModel]


class TraceModel(ViewModel):
    """Where an item, or all items of a task, have come from and gone to."""

    steps: list[EdgeModel]
    tasks: list[TaskModel]
    shipments: list[ShipmentModel]


class SlotsModel(ViewModel):
    """The slots of a destination: those that came, and the next ones."""

    timing: str | None
    zone: str = Field(examples=["Europe/Berlin"])
    slots: list[SlotModel]
    next: list[Instant]


class ResendAsked(ReasonAsked):
    """What of a task is sent again."""

    items: Literal["failed", "unknown", "all"] = Field("failed", description="Which shipments.")
    again: bool = Field(default=False, description="With all: also what has arrived, with another delivery id.")


class ResolveAsked(ReasonAsked):
    """What has become of shipments with an unknown outcome."""

    items: list[Annotated[int, Field(ge=1, le=1_000_000)]] = Field(
        min_length=1, max_length=10_000, description="The shipments, counted from 1."
    )
    arrived: bool = Field(description="Whether they have arrived; what has not is sent again.")


TaskName = Annotated[
    str, Path(pattern=r"^[\x21-\x7e]{1,200}$", description="The task's id.", examples=["0190f3a2b4c6"])
]
Destination = Annotated[str, Path(min_length=1, max_length=300, description="The destination's name.")]
OfDestination = Annotated[str | None, Query(max_length=300, description="Only for this destination.")]
Overdue = Annotated[float, Query(ge=0, le=315_360_000, description="How many seconds work must be overdue.")]

api = Endpoints("pipelines")


# --- looking


@api.get("/pipelines", "pipelines.read", list[PipelineModel], response_model_exclude_unset=True)
async def list_pipelines(caller: Caller) -> list[View]:
    """List the pipelines, their destinations, and how many tasks they have."""

    async def find() -> list[View]:
        return [await _pipeline(caller.desk.pipelines, name) for name in await caller.desk.pipelines.names()]

    return await caller.look(find)


@api.get("/pipelines/{name}", "pipelines.read", PipelineModel, response_model_exclude_unset=True)
async def get_pipeline(caller: Caller, name: Name) -> View:
    """Return a pipeline, and what waits in it."""
    return await caller.look(lambda: _pipeline(caller.desk.pipelines, name))


async def _pipeline(pipelines: Pipelines, name: str) -> View:
    plan, infos = await pipelines.plan_of(name), await pipelines.destinations(name)
    now = await pipelines.ledger.now()
    timings = {each.name: each.timing for each in plan.destinations.values() if each.timing is not None}
    coming = {each: utc(timing.next_after(now)) for each, timing in timings.items()}
    return views.pipeline_view(plan, infos, await pipelines.counts(name), coming)


@api.get("/pipelines/{name}/tasks", "pipelines.read", list[TaskModel], responses=PAGED)
async def list_tasks(
    caller: Caller,
    name: Name,
    page: Page,
    destination: OfDestination = None,
    state: Annotated[list[StateWord] | None, Query(description="Only these; repeatable.")] = None,
) -> list[View]:
    """List the tasks of a pipeline, the newest first."""
    states = [each for each in TaskState if each.word in (state or ())]

    async def find() -> list[TaskInfo]:
        pipelines = caller.desk.pipelines
        await _check(pipelines, name, destination)
        before = page.after("") or None
        return await pipelines.tasks(name, destination=destination, states=states, limit=page.limit, before=before)

    found = await caller.look(find)
    return [views.record_view(each) for each in page.of(found, found[-1].id if found else None)]


@api.get("/pipelines/{name}/stuck", "pipelines.read", list[TaskModel])
async def list_stuck_of_pipeline(
    caller: Caller, name: Name, overdue: Overdue = 900.0, limit: Limit = 100
) -> list[View]:
    """List what of a pipeline should have been done by now, and what needs a person; the oldest first."""

    async def find() -> list[TaskInfo]:
        await _check(caller.desk.pipelines, name, None)
        return await caller.desk.pipelines.stuck(name, overdue=overdue, limit=limit)

    return [views.record_view(each) for each in await caller.look(find)]


@api.get("/stuck", "pipelines.read", list[TaskModel])
async def list_stuck(caller: Caller, overdue: Overdue = 900.0, limit: Limit = 100) -> list[View]:
    """List what of all pipelines should have been done by now, and what needs a person; the oldest first."""
    stuck = caller.desk.pipelines.stuck
    return [views.record_view(each) for each in await caller.look(lambda: stuck(overdue=overdue, limit=limit))]


@api.get("/pipelines/{name}/history", "pipelines.read", list[ActionModel])
async def list_pipeline_history(caller: Caller, name: Name, limit: Limit = 100) -> list[View]:
    """Show what was done last in a pipeline, by whom and why; the newest first."""

    async def find() -> list[ActionInfo]:
        await _check(caller.desk.pipelines, name, None)
        return await caller.desk.pipelines.history(name, limit=limit)

    return [views.record_view(each) for each in await caller.look(find)]


@api.get("/pipelines/{name}/destinations/{destination}/slots", "pipelines.read", SlotsModel)
async def list_slots(caller: Caller, name: Name, destination: Destination, limit: Limit = 20) -> View:
    """List the last slots of a destination, the newest first, and when the next ones are."""

    async def find() -> View:
        pipelines = caller.desk.pipelines
        await _check(pipelines, name, destination)
        stored = (await pipelines.plan_of(name)).destinations.get(destination)
        served = await pipelines.slots(name, destination, limit=limit)
        timing = None if stored is None else stored.timing
        at, coming = await pipelines.ledger.now() - 1e-3, list[str]()
        while timing is not None and len(coming) < _NEXT_SLOTS:
            at = timing.next_after(at)
            coming.append(utc(at).isoformat())
        return {
            "timing": None if stored is None else stored.rule or None,
            "zone": str(getattr(timing, "zone", "UTC")),
            "slots": [views.record_view(each) for each in served],
            "next": coming,
        }

    return await caller.look(find)


@api.get("/tasks/{task}", "pipelines.read", TaskDetailModel)
async def get_task(caller: Caller, task: TaskName) -> View:
    """Return a task, what its destination said of each shipment, and its history."""
    return views.detail_view(await caller.look(lambda: caller.desk.pipelines.show(task)))


@api.get("/tasks/{task}/trace", "pipelines.read", TraceModel)
async def trace_task(caller: Caller, task: TaskName) -> View:
    """Show where an item (``TASK.N``), or all items of a task, have come from and gone to."""

    async def find() -> View:
        pipelines = caller.desk.pipelines
        trace = await pipelines.trace(task)
        sends = [each.id for each in trace.tasks if each.stage == "send"]
        shipments = [each for sent in sends for each in await pipelines.ledger.shipments(sent)]
        return {**views.trace_view(trace), "shipments": [views.record_view(each) for each in shipments]}

    return await caller.look(find)


# --- changing


@api.post("/pipelines/{name}/destinations/{destination}/hold", "pipelines.change", DestinationModel)
async def hold_destination(caller: Caller, name: Name, destination: Destination, asked: ReasonAsked) -> View:
    """Let nothing be batched for a destination and sent to it, until it is released."""
    return await _held(caller, name, destination, asked.reason, caller.desk.pipelines.hold)


@api.post("/pipelines/{name}/destinations/{destination}/release", "pipelines.change", DestinationModel)
async def release_destination(caller: Caller, name: Name, destination: Destination, asked: ReasonAsked) -> View:
    """Let a destination that was held go on."""
    return await _held(caller, name, destination, asked.reason, caller.desk.pipelines.release)


@api.post("/pipelines/{name}/destinations/{destination}/send-now", "pipelines.change", DestinationModel)
async def send_destination_now(
    caller: Caller, name: Name, destination: Destination, asked: ReasonAsked, key: Key = None
) -> View:
    """Let what waits for a slot of a destination be batched and sent now."""
    send_now = caller.desk.pipelines.send_now

    async def send(*given: str, **who: str) -> None:
        await once(caller, key, lambda: send_now(*given, **who))()

    return await _held(caller, name, destination, asked.reason, send)


async def _held(
    caller: Caller, name: str, destination: str, reason: str, change: Callable[..., Awaitable[None]]
) -> View:
    async def do() -> DestinationInfo:
        await _check(caller.desk.pipelines, name, destination)
        await change(name, destination, actor=caller.actor, reason=reason)
        found = await caller.desk.pipelines.destinations(name)
        return next(each for each in found if each.name == destination)

    return views.record_view(await caller.change(f"destination:{name}/{destination}", do, reason=reason))


@api.post("/tasks/{task}/resend", "pipelines.change", TaskModel)
async def resend_task(caller: Caller, task: TaskName, asked: ResendAsked, key: Key = None) -> View:
    """Send a task again, or process it again. What has arrived is not sent again, unless that is asked for."""
    resend = caller.desk.pipelines.resend
    who = {"actor": caller.actor, "reason": asked.reason}
    return await _task(
        caller, task, asked.reason, once(caller, key, lambda: resend(task, which=asked.items, again=asked.again, **who))
    )


@api.post("/tasks/{task}/revive", "pipelines.change", TaskModel)
async def revive_task(caller: Caller, task: TaskName, asked: ReasonAsked, key: Key = None) -> View:
    """Let a task that has expired, failed or was cancelled wait for the next slot of its destination."""
    revive = caller.desk.pipelines.revive
    who = {"actor": caller.actor, "reason": asked.reason}
    return await _task(caller, task, asked.reason, once(caller, key, lambda: revive(task, **who)))


@api.post("/tasks/{task}/resolve", "pipelines.change", TaskModel)
async def resolve_task(caller: Caller, task: TaskName, asked: ResolveAsked, key: Key = None) -> View:
    """Say what has become of shipments with an unknown outcome; those that have not arrived are sent again."""
    resolve = caller.desk.pipelines.resolve
    who = {"actor": caller.actor, "reason": asked.reason}
    return await _task(
        caller, task, asked.reason, once(caller, key, lambda: resolve(task, asked.items, arrived=asked.arrived, **who))
    )


@api.post("/tasks/{task}/cancel", "pipelines.change", TaskModel)
async def cancel_task(caller: Caller, task: TaskName, asked: ReasonAsked) -> View:
    """Let nothing more be done with a task."""
    cancel = caller.desk.pipelines.cancel
    return await _task(caller, task, asked.reason, lambda: cancel(task, actor=caller.actor, reason=asked.reason))


async def _task(caller: Caller, task: str, reason: str, change: Callable[[], Awaitable[TaskInfo]]) -> View:
    return views.record_view(await caller.change(f"task:{task}", change, reason=reason))


async def _check(pipelines: Pipelines, pipeline: str, destination: str | None) -> None:
    """Refuse a destination that a pipeline does not have, and name those that it has."""
    known = tuple(each.name for each in await pipelines.destinations(pipeline))
    if destination is not None and destination not in known:
        raise DestinationNotFound(pipeline, destination, known)
