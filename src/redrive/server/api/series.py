# SPDX-License-Identifier: MIT
"""``/series`` and ``/workers``: what happened, over time, and who handles messages."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from fastapi import Query
from pydantic import Field

from redrive.broker import QueueInfo, is_own_queue, tallies
from redrive.broker.views import View
from redrive.history import SeriesQuestion, WorkerInfo, metrics, views
from redrive.server.api.endpoint import Caller, Endpoints
from redrive.server.api.failure_models import OperationNumber
from redrive.server.api.models import Instant, ViewModel
from redrive.server.api.record_models import record_model
from redrive.server.api.within import operation_within

_LONGEST_S = 34_560_000

if TYPE_CHECKING:  # they are known at run time only
    MetricName: TypeAlias = str
    TopicName: TypeAlias = str
    WorkerModel: TypeAlias = ViewModel
else:
    MetricName = Literal[tuple(metrics.NAMES)]
    TopicName = Literal[tuple(metrics.TOPICS)]
    WorkerModel = record_model(WorkerInfo, "Worker")


ThingName = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]{1,300}$")]


class SeriesModel(ViewModel):
    """A number over time, of one thing."""

    metric: str = Field(examples=["sent"])
    topic: str = Field(examples=["queue"])
    name: str | None = Field(examples=["orders"])
    start: Instant
    end: Instant
    step: int = Field(description="How many seconds a step is.", examples=[300])
    values: list[int | None] = Field(description="One for each step; null: nothing is known.")


class WorkersModel(ViewModel):
    """The workers that are running, and queues that none reads."""

    workers: list[WorkerModel]
    unread: list[str] = Field(description="Queues with messages, of which none was received for ten minutes.")


class SampleModel(ViewModel):
    """What had become of the messages of an operation by a time."""

    at: Instant
    sent: int
    lanes: dict[str, dict[str, int]] = Field(
        description="How many messages had which outcome, by destination.", examples=[{"orders": {"succeeded": 12}}]
    )


class OperationSeries(ViewModel):
    """An operation over time, and how fast it is."""

    number: int = Field(examples=[7])
    samples: list[SampleModel] = Field(description="Every five seconds while something changed; the oldest first.")
    per_second: float = Field(description="How many messages were sent a second, lately.", examples=[48.5])
    left_s: float | None = Field(description="Seconds until the rest is sent at that pace; null: it does not move.")


api = Endpoints("history")


@api.get("/series", "series.read", list[SeriesModel])
async def list_series(
    caller: Caller,
    *,
    metric: Annotated[MetricName, Query(description="What was counted or noted.")] = "sent",
    topic: Annotated[TopicName, Query(description="Of what kind of thing.")] = "queue",
    name: Annotated[list[ThingName] | None, Query(max_length=100, description="Of which; repeatable.")] = None,
    span: Annotated[float, Query(ge=60, le=_LONGEST_S, description="How many seconds back from now.")] = 86_400.0,
    step: Annotated[float | None, Query(ge=60, le=_LONGEST_S, description="Seconds, whole minutes.")] = None,
) -> list[View]:
    """Return what happened over time, of each thing to which it happened. Limited callers see their own."""
    question = SeriesQuestion(metric=metric, topic=topic, names=name, span=span, step=step)
    found: list[list[View]] = await list_several_series(caller, [question])
    return found[0]


@api.inner("series.read")
async def list_several_series(caller: Caller, questions: Sequence[SeriesQuestion]) -> list[list[View]]:
    """Return the same for several questions of a page."""
    is_of_queues = all(each.topic == tallies.QUEUE for each in questions)
    named = sorted({name for each in questions for name in each.names or ()}) if is_of_queues else []
    found = await caller.look(
        lambda: caller.desk.history.series_of_all(questions), queues=named or None, narrowed=is_of_queues
    )
    has = caller.principal.has
    return [
        [views.series_view(each) for each in one.values() if each.topic != tallies.QUEUE or has(each.name or "")]
        for one in found
    ]


@api.get("/operations/{number}/series", "operations.read", OperationSeries)
async def get_operation_series(caller: Caller, number: OperationNumber) -> View:
    """Return what had become of the messages of an operation over time, by destination, and how fast it is."""

    async def find() -> View:
        operation = await operation_within(caller.desk, caller.principal, number, newcomers=False)
        return views.operation_series_view(number, await caller.desk.history.operation(number), operation.progress)

    return await caller.look(find, narrowed=True)


@api.get("/workers", "workers.read", WorkersModel)
async def list_workers(caller: Caller) -> View:
    """List the workers that are running, and queues that none reads. Limited callers see their own."""

    async def find() -> tuple[list[WorkerInfo], list[QueueInfo]]:
        return await caller.desk.history.workers(), await caller.desk.history.unread()

    workers, unread = await caller.look(find, narrowed=True)
    has = caller.principal.has
    own = [replace(each, queues=tuple(filter(has, each.queues))) for each in workers if any(map(has, each.queues))]
    names = [each.name for each in unread if not is_own_queue(each.name) and has(each.name)]
    return {"workers": [views.worker_view(each) for each in own], "unread": names}
