# SPDX-License-Identifier: MIT
"""``/groups``: what failed messages have in common."""

from typing import Annotated, Any, Literal

from fastapi import Path, Query
from pydantic import Field

from redrive.broker.views import View
from redrive.errors import GroupNotFound
from redrive.recovery import Filter, GroupInfo, views
from redrive.server.api.endpoint import Caller, Endpoints
from redrive.server.api.failure_models import Filtered, GroupModel, GroupStateModel
from redrive.server.api.models import Instant, ViewModel, stated
from redrive.server.api.pages import LARGEST_NUMBER, PAGED, Page
from redrive.server.api.requests import instant_in
from redrive.server.api.within import ANY, filter_within, narrowed

By = Annotated[
    str,
    Query(
        pattern=r"^[\w.-]{1,100}$",
        description="What they are compared by: exception, queue, type, or a classifier of your own.",
    ),
]
Order = Annotated[Literal["largest", "id"], Query(description="The largest first, or by id; only these have pages.")]
GroupId = Annotated[
    str, Path(pattern=r"^[^\x00-\x1f\x7f]{1,300}$", description="The group's id.", examples=["3f2a9c4e5b6d7081"])
]


class GroupStateAsked(ViewModel):
    """What is decided about a group."""

    owner: str = Field(
        "", max_length=1_024, description="Who takes care of it; empty: it has no owner.", examples=["ann"]
    )
    snoozed_until: Instant | None = Field(None, description="Until when it needs no person; null: it wakes now.")
    wake_above: int | None = Field(
        None, ge=0, le=LARGEST_NUMBER, description="It wakes before that if more of its messages are unresolved."
    )
    reason: str = Field("", max_length=1_024, description="Why, for the audit trail.")


api = Endpoints("failures")


@api.get("/groups", "groups.read", list[GroupModel], responses=PAGED)
async def list_groups(
    caller: Caller,
    page: Page,
    q: Filtered = "",
    by: By = "exception",
    *,
    order: Order = "largest",
    after: Annotated[str, Query(max_length=300, description="Begin after this id.")] = "",
) -> list[View]:
    """Show what failed messages have in common. A group has the same exception from the same place in the code."""

    async def find() -> list[GroupInfo]:
        chosen = await filter_within(caller.desk, caller.principal, q)
        last = page.after(after) or None
        is_by_size = order == "largest" and last is None
        return await caller.desk.reader(chosen).groups(
            chosen, by=by, after=last, limit=page.limit, largest_first=is_by_size
        )

    found = await caller.look_long(find, narrowed=True)
    return views.records_view(page.of(found, found[-1].id if found and order == "id" else None))


@api.get("/groups/{id}", "groups.read", GroupModel)
async def get_group(caller: Caller, id: GroupId, by: By = "exception") -> View:  # noqa: A002 - it is called that
    """Return a group: how many failed messages it has, whatever their status, and since when."""
    return views.record_view(await caller.look(lambda: group_within(caller, id, by), narrowed=True))


@api.put("/groups/{id}/state", "groups.change", GroupStateModel)
async def set_group_state(caller: Caller, id: GroupId, asked: GroupStateAsked) -> View:  # noqa: A002 - as above
    """Decide who takes care of a group, and until when it needs no person; what is left out stays as it is.

    A snoozed group is counted and listed as before. It wakes at its time, or when more of its messages are unresolved
    than `wake_above` allows. A caller limited to queues may decide about groups with messages in these queues only.
    """
    change: dict[str, Any] = {**stated(asked), "actor": caller.actor}
    if asked.snoozed_until is not None:
        change["snoozed_until"] = instant_in("snoozed_until", asked.snoozed_until)
    set_state = caller.desk.recovery.set_group_state
    decided = await caller.change(
        f"group:{id}",
        lambda: set_state(id, **change),
        reason=asked.reason,
        queues=await _queues_of(caller, id),
    )
    return views.group_state_view(id, decided)


async def _queues_of(caller: Caller, id: str) -> list[str] | None:  # noqa: A002 - as above
    """Return the queues that a group has messages in, if a caller that is limited to queues has all of these."""
    if caller.principal.queues is None:
        return None
    found = await caller.desk.recovery.groups(Filter(status=ANY, groups=(id,)), by="queue", limit=1_000)
    names = [each.id for each in found]
    return names if names and all(map(caller.principal.has, names)) else None  # which are others' is not said


async def group_within(caller: Caller, id: str, by: str = "exception") -> GroupInfo:  # noqa: A002 - as above
    """Return a group that the caller may see.

    Raises:
        GroupNotFound: there is none with that id, or it has no message in the caller's queues.
    """
    terms = {"queue": {"queues": (id,)}, "type": {"types": (id,)}}.get(by, {"groups": (id,)})
    wanted = await narrowed(caller.desk, caller.principal, Filter(status=ANY, **terms))  # type: ignore[arg-type]
    found = await caller.desk.recovery.groups(wanted, by=by, limit=1_000, largest_first=True)
    for each in found:
        if each.id == id:
            return each
    raise GroupNotFound(id)
