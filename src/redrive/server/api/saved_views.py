# SPDX-License-Identifier: MIT
"""``/views``: filters that people keep under a name, for all who use the server."""

from typing import TYPE_CHECKING, Annotated, TypeAlias

from fastapi import Path
from pydantic import Field

from redrive.access import SavedView
from redrive.broker.views import View
from redrive.clock import utc
from redrive.recovery import Filter
from redrive.server.api.endpoint import Caller, Endpoints
from redrive.server.api.models import ViewModel
from redrive.server.api.pages import LARGEST_NUMBER
from redrive.server.api.record_models import record_model

ViewNumber = Annotated[int, Path(ge=1, le=LARGEST_NUMBER, description="The view's number.", examples=[3])]

if TYPE_CHECKING:  # it is made of the fields of the record
    SavedViewModel: TypeAlias = ViewModel
else:
    SavedViewModel = record_model(SavedView)


class ViewAsked(ViewModel):
    """A filter, and what it is called."""

    name: str = Field(
        pattern=r"^[^\x00-\x1f\x7f]{1,100}$", description="What it is called.", examples=["payments of today"]
    )
    filter: str = Field(max_length=10_000, description="The filter.", examples=["queue:payments age<1d"])
    by: str = Field("exception", pattern=r"^[\w.-]{1,100}$", description="What groups are compared by.")


api = Endpoints("views")


@api.get("/views", "views.read", list[SavedViewModel])
async def list_views(caller: Caller) -> list[View]:
    """List the saved views of all, in order of their names."""
    return [each.view() for each in await caller.look(caller.desk.saved_views.all)]


@api.post("/views", "views.change", SavedViewModel)
async def save_view(caller: Caller, asked: ViewAsked) -> View:
    """Save a filter under a name; your own view of that name is replaced, and keeps its number."""

    async def save() -> SavedView:
        Filter.parse(asked.filter, now=utc(caller.desk.broker.clock.time()))  # it is refused now, not when it is used
        return await caller.desk.saved_views.save(caller.principal, asked.name, asked.filter, asked.by)

    return (await caller.change(f"view:{asked.name}", save)).view()


@api.delete("/views/{number}", "views.change", SavedViewModel)
async def remove_view(caller: Caller, number: ViewNumber) -> View:
    """Remove a saved view: one of your own, or as an admin any."""
    remove = caller.desk.saved_views.remove
    return (await caller.change(f"view:{number}", lambda: remove(caller.principal, number))).view()
