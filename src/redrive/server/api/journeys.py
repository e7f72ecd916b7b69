# SPDX-License-Identifier: MIT
"""``/journeys``: what happened to a message, in all layers."""

from typing import Annotated

from fastapi import Path
from pydantic import Field

from redrive.broker.views import View
from redrive.journey import views
from redrive.server.api.endpoint import Caller, Endpoints
from redrive.server.api.models import Instant, ViewModel

MessageId = Annotated[
    str,
    Path(
        pattern=r"^[^\x00-\x1f\x7f]{1,1024}$",
        description="The id of a message, or of a task, an item or a shipment of a pipeline.",
        examples=["order-17"],
    ),
]


class HappeningModel(ViewModel):
    """Something that happened at a place."""

    at: Instant
    event: str
    said: str


class NodeModel(ViewModel):
    """One place of a journey."""

    id: str
    kind: str
    layer: str
    title: str
    message_id: str
    state: str
    begin: Instant
    end: Instant | None = Field(description="null: it is under way.")
    happenings: list[HappeningModel]


class EdgeModel(ViewModel):
    """A step from one place to the next."""

    source: str
    target: str
    kind: str


class JourneyPart(ViewModel):
    """What a part of the time was spent on."""

    kind: str
    begin: Instant
    end: Instant
    node: str | None


class JourneyModel(ViewModel):
    """What happened to a message: a graph of places, where its time went, and what is not known."""

    id: str
    state: str
    begin: Instant
    end: Instant
    seconds: float
    times: dict[str, float] = Field(description="Seconds, by what they were spent on.")
    nodes: list[NodeModel]
    edges: list[EdgeModel]
    parts: list[JourneyPart]
    notes: list[str] = Field(description="What is not known, in sentences.")


api = Endpoints("journeys")


@api.get("/journeys/{id}", "journeys.read", JourneyModel)
async def get_journey(caller: Caller, id: MessageId) -> View:  # noqa: A002 - it is called that everywhere
    """Show what happened to a message, with its parents and children. Not for a caller limited to queues."""
    return views.journey(await caller.look(lambda: caller.desk.journeys.find(id)))
