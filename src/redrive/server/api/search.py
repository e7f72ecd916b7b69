# SPDX-License-Identifier: MIT
"""``/suggest`` and ``/jump``: what a filter could go on with, and where a name or a number is."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, TypeAlias

from fastapi import Query
from pydantic import Field

from redrive.broker.views import View
from redrive.clock import utc
from redrive.recovery import suggestions
from redrive.server.api.endpoint import Caller, Endpoints
from redrive.server.api.models import ViewModel
from redrive.server.api.places import find_places
from redrive.server.api.record_models import record_model
from redrive.server.api.within import narrowed

if TYPE_CHECKING:  # it is made of the fields of the record
    SuggestionModel: TypeAlias = ViewModel
else:
    SuggestionModel = record_model(suggestions.Suggestion)

Most = Annotated[int, Query(ge=1, le=100, description="How many at most.")]


class PlaceModel(ViewModel):
    """Where something is."""

    subject: str = Field(description="What it is, as the audit trail names it.", examples=["queue:orders"])
    title: str = Field(description="What people call it.", examples=["orders"])
    path: str = Field(description="Where the API has it.", examples=["/api/v1/queues/orders"])


api = Endpoints("search")


@api.get("/suggest", "search.read", list[SuggestionModel])
async def suggest(
    caller: Caller,
    q: Annotated[str, Query(max_length=10_000, description="What is written of a filter.", examples=["queue:or"])] = "",
    limit: Most = 20,
) -> list[View]:
    """Return what a filter could go on with: keys, then values with their counts. No failure is read for it."""
    typed = suggestions.read_typed(q)

    async def find() -> list[suggestions.KindValue]:
        if typed.key not in suggestions.KINDS:
            return []
        wanted = suggestions.counted_filter(typed, utc(caller.desk.broker.clock.time()))
        chosen = await narrowed(caller.desk, caller.principal, wanted)
        if not chosen.is_about_kinds:  # none of the caller's queues is meant
            return []
        return await caller.desk.recovery.kind_values(typed.key, chosen, part=typed.part, limit=limit)

    values = await caller.look(find, narrowed=True)
    return [asdict(each) for each in suggestions.suggestions_of(typed, values, limit=limit)]


@api.get("/jump", "search.read", list[PlaceModel])
async def jump(
    caller: Caller,
    q: Annotated[
        str,
        Query(
            min_length=1,
            max_length=1_024,
            description="An id, a number, or a name or a part of it.",
            examples=["orders"],
        ),
    ],
    limit: Most = 20,
) -> list[View]:
    """Say where something is: a failed message, a group, an operation, a queue, a topic, a route, a pipeline, a task.

    What is named exactly comes first. A caller that is limited to queues finds what is in them.
    """
    return await caller.look(lambda: find_places(caller.desk, caller.principal, q.strip(), limit), narrowed=True)
