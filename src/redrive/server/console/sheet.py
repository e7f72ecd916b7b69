# SPDX-License-Identifier: MIT
"""The sheet: what an operation would do, and then the button. ``/failed/recover``, ``archive`` and others.

Looking is a question (GET), so a sheet has an address. *Look again* and the button send the same form: the first shows
what would be, the second requests it. Whatever is wrong, the form comes back as it was, with the sentence.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import parse_qs

from fastapi import Query

from redrive.broker.views import View
from redrive.error_codes import statuses_of
from redrive.errors import InvalidFilter, InvalidRequest, QueueNotFound, RedriveError
from redrive.recovery import Filter
from redrive.server.api.endpoint import Caller, KnownCaller
from redrive.server.api.failure_models import Filtered, OperationAsked
from redrive.server.api.operations import make_dry_run, request_operation
from redrive.server.api.queues import list_queues
from redrive.server.console.failed import bar_of, groups_of, wrong_filter
from redrive.server.console.filter_bar import narrowed_to
from redrive.server.console.forms import Form, Posted, Poster, model_of
from redrive.server.console.pages import Pages, Reply
from redrive.server.console.sheet_form import (
    VERBS,
    asked_of,
    command_line,
    destination_rows,
    first_values,
    is_confirmed,
    must_confirm,
    which,
)
from redrive.server.console.text_formats import zone_of
from redrive.server.problems import problem_of

if TYPE_CHECKING:
    from redrive.history import DestinationHealth

pages = Pages()

_MOST_DESTINATIONS: Final = 20

Groups = Annotated[list[str] | None, Query(max_length=200, description="Groups that were ticked.")]
Ids = Annotated[list[str] | None, Query(max_length=200, description="Messages that were ticked.")]


def _declare(kind: str) -> None:
    """Declare the sheet of one kind of operation, and what its form does."""

    @pages.get(f"/failed/{kind}", "failures.dry-run", "sheet.html", topics=())
    async def show(  # pyright: ignore[reportUnusedFunction] - it is declared
        caller: Caller,
        q: Filtered = "",
        g: Groups = None,
        id: Ids = None,  # noqa: A002 - as addresses call it
        by: str = "exception",
    ) -> View | Reply:
        chosen = f"status:any {Filter(ids=tuple(id))}" if id else narrowed_to(q, by, g or ())
        try:
            return await _sheet(caller, kind, chosen or "status:unresolved", None, ids=id or ())
        except InvalidFilter as error:
            return wrong_filter(caller, chosen, "/failed", error)

    @pages.post(f"/failed/{kind}", "operations.request")
    async def do(caller: Poster, form: Posted) -> str | Reply:  # pyright: ignore[reportUnusedFunction] - as above
        try:
            view = await _sheet(caller, kind, form.get("q", ""), form, ids=form.all("id"))
            if form.get("do") != "request":
                return Reply("sheet.html", view)
            if view["confirm"] and not is_confirmed(form, view["total"]):
                raise InvalidRequest("confirm", f"type {view['total']:,} to confirm: so many messages are meant")
            made = await caller.ask(request_operation, asked=_asked(kind, form), key=form.key)
        except RedriveError as error:
            return await _again(caller, kind, form, error)
        return f"/operations/{made['number']}"


for _kind in VERBS:
    _declare(_kind)


def _asked(kind: str, form: Form) -> OperationAsked:
    return model_of(OperationAsked, **asked_of(kind, form, zone_of(form.get("zone", ""))))


async def _again(caller: KnownCaller, kind: str, form: Form, error: RedriveError) -> Reply:
    """Return the form as it was, with what is wrong."""
    problem = problem_of(error)
    try:
        view = await _sheet(caller, kind, form.get("q", ""), form, ids=form.all("id"), look=False)
    except RedriveError:
        view = await _sheet(caller, kind, "status:unresolved", None)
    return Reply("sheet.html", {**view, "sheet_problem": problem}, statuses_of(error.code).http_status)


async def _sheet(
    caller: KnownCaller, kind: str, q: str, form: Form | None, *, ids: Sequence[str] = (), look: bool = True
) -> View:
    """Return the sheet: the dry run, where messages would go, and the form as it was typed."""
    asked = _asked(kind, form) if form is not None and look else model_of(OperationAsked, kind=kind, **which(q, ids))
    found = await caller.ask(make_dry_run, asked=asked)
    values = dict(form) if form is not None else first_values(found)
    total = min(found["free"], asked.limit or found["free"])
    listed = await _list_behind(caller, q)
    return {
        **listed,
        "kind": kind,
        "verb": VERBS[kind],
        "dry": found,
        "total": total,
        "values": values,
        "destinations": await _destinations(caller, found),
        "queue_names": [each["name"] for each in await caller.ask(list_queues) if not each["is_topic"]],
        "command": command_line(kind, q, values),
        "confirm": must_confirm(total),
        "seconds": total / asked.rate if asked.rate else None,
        "sheet_problem": None,
        "sheet_q": q,
        "sheet_ids": list(ids),
    }


async def _list_behind(caller: KnownCaller, q: str) -> View:
    """Return the list that the sheet lies beside: that of the page it was opened from, if it says so."""
    came = parse_qs(caller.request.url.query)
    behind = came.get("q", [q])[0] if caller.request.method == "GET" else q
    bar = await bar_of(caller, behind, "/failed")
    return {**bar, **await groups_of(caller, behind)}


async def _destinations(caller: KnownCaller, found: Mapping[str, Any]) -> Sequence[View]:
    """Return where messages would go, and how it is doing there."""
    names = sorted(found["by_destination"], key=lambda name: -found["by_destination"][name])[:_MOST_DESTINATIONS]
    health: dict[str, DestinationHealth] = {}
    for name in names:
        try:
            health[name] = await caller.look(partial(caller.desk.history.destination_health, name), queues=[name])
        except QueueNotFound:  # the row says so
            continue
    return destination_rows(found, names, health)
