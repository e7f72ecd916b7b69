# SPDX-License-Identifier: MIT
"""``/failed`` and ``/failed/list``: failed messages in groups, and one by one, by one filter."""

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

from fastapi import Query, Response
from fastapi.responses import RedirectResponse

from redrive.broker import tallies
from redrive.broker.views import View
from redrive.errors import InvalidFilter
from redrive.recovery import FailedMessage
from redrive.server.api.endpoint import Caller
from redrive.server.api.failure_models import Filtered
from redrive.server.api.failures import count_failures, count_failures_by_status, list_failures
from redrive.server.api.groups import By, list_groups
from redrive.server.api.pages import LOOKED_UNTIL, Page, first_page
from redrive.server.api.saved_views import ViewAsked, list_views, save_view
from redrive.server.api.search import suggest
from redrive.server.api.series import list_series
from redrive.server.api.upkeep import list_asides, list_notes
from redrive.server.api.within import filter_within
from redrive.server.console.filter_bar import STATUSES, chips_of, status_of, with_status
from redrive.server.console.forms import Posted, Poster, model_of
from redrive.server.console.group_panel import panel_of
from redrive.server.console.group_rows import group_row
from redrive.server.console.next_page import next_address
from redrive.server.console.pages import Pages, Reply
from redrive.server.console.shell import refusal
from redrive.server.console.subjects import link

pages = Pages()

_MOST_GROUPS: Final = 200
_SUGGESTED: Final = ("queue", "exception", "type")
_SUGGESTED_EACH: Final = 8
_SHOWN: Final = 25
_LISTED: Final = 50
_WAYS: Final = {"exception": "Exception", "queue": "Queue", "type": "Type"}
_SORTS: Final = {"largest": "Largest first", "latest": "Newest failure first", "oldest": "Oldest group first"}
_ORDERS: Final = {"last-failed": "Newest failure first", "newest": "Newest first", "oldest": "Oldest first"}

Added = Annotated[str, Query(max_length=10_000, description="A term to add to the filter.")]
Sort = Annotated[Literal["largest", "latest", "oldest"], Query(description="Which group comes first.")]
Listed = Annotated[Literal["last-failed", "newest", "oldest"], Query(description="Which message comes first.")]


@pages.get("/failed", "groups.read", "failed.html", topics=("failed",))
async def show_failed(
    caller: Caller,
    q: Filtered = "",
    *,
    add: Added = "",
    by: By = "exception",
    sort: Sort = "largest",
    start: Annotated[int, Query(ge=0, le=10_000)] = 0,
    edit: bool = False,
) -> View | Reply | Response:
    """Show what failed messages have in common."""
    if add.strip():
        return RedirectResponse(link("/failed", q=f"{q} {add}".strip(), by="" if by == "exception" else by), 303)
    try:
        return {**await bar_of(caller, q, "/failed", by=by, edit=edit), **await groups_of(caller, q, by, sort, start)}
    except InvalidFilter as error:
        return wrong_filter(caller, q, "/failed", error)


async def groups_of(caller: Caller, q: str, by: str = "exception", sort: str = "largest", start: int = 0) -> View:
    """Return a page of groups with what is known about each: its line, its last message, its notes."""
    found = await caller.ask(list_groups, page=first_page(caller.request, _MOST_GROUPS), q=q, by=by)
    if sort != "largest":
        key, is_reverse = ("last_failed_at", True) if sort == "latest" else ("first_failed_at", False)
        found = sorted(found, key=lambda each: each[key], reverse=is_reverse)
    shown = found[start : start + _SHOWN]
    lines = await _lines(caller, by, shown)
    newest = await _newest(caller, q, by, shown)
    rows: list[View] = []
    for each in shown:
        last = newest.get(each["id"])
        notes = await caller.ask(list_notes, subject=f"group:{each['id']}") if each["notes"] else []
        rows.append(group_row(each, last, lines.get(each["id"]), notes, q=q, by=by))
    goes_on = start + _SHOWN < len(found)
    return {
        "groups": rows,
        "ways": _WAYS,
        "sorts": _SORTS,
        "sort": sort,
        "next": link("/failed", q=q, by=by, sort=sort, start=start + _SHOWN) if goes_on else "",
        "is_cut": len(found) >= _MOST_GROUPS,
    }


async def _newest(caller: Caller, q: str, by: str, groups: Sequence[View]) -> dict[str, FailedMessage]:
    """Return the newest message of each group; of those without a type there is no filter, so none is shown.

    What contains a text is not searched for here: that takes as long for each group as for the list of all of them.
    """

    async def find() -> dict[str, FailedMessage]:
        chosen = await filter_within(caller.desk, caller.principal, q)
        if chosen.text is not None:
            return {}
        ids = [each["id"] for each in groups if each["id"]]
        return await caller.desk.reader(chosen).newest_in_groups(ids, chosen, by=by)

    return await caller.look_long(find, narrowed=True)


async def _lines(caller: Caller, by: str, groups: Sequence[View]) -> dict[str, list[int]]:
    """Return how many failed in 24 hours, by half hours, of groups or queues."""
    topic = {"exception": tallies.GROUP, "queue": tallies.QUEUE}.get(by)
    is_hidden = topic == tallies.GROUP and caller.principal.queues is not None
    if topic is None or is_hidden or not groups:
        return {}
    names = [each["id"] for each in groups if each["id"]]
    found = await caller.ask(list_series, metric=tallies.FAILED, topic=topic, name=names, span=86_400, step=1_800)
    return {each["name"]: each["values"] for each in found}


@pages.get("/failed/list", "failures.read", "failures.html", topics=("failed",))
async def show_failures(
    caller: Caller,
    page: Page,
    response: Response,
    q: Filtered = "",
    *,
    add: Added = "",
    order: Listed = "last-failed",
    edit: bool = False,
) -> View | Reply | Response:
    """Show failed messages one by one."""
    if add.strip():
        return RedirectResponse(link("/failed/list", q=f"{q} {add}".strip(), order=order), 303)
    page.limit = min(page.limit, _LISTED)
    try:
        found = await caller.ask(list_failures, page=page, q=q, order=order)
        return {
            **await bar_of(caller, q, "/failed/list", edit=edit),
            "failures": found,
            "panel": await panel_of(caller, q),
            "order": order,
            "orders": _ORDERS,
            "next": next_address(response),
            "looked_until": response.headers.get(LOOKED_UNTIL, "").partition("/")[0],
        }
    except InvalidFilter as error:
        return wrong_filter(caller, q, "/failed/list", error)


@pages.get("/failed/asides", "asides.read", "asides.html", topics=("failed",))
async def show_asides(caller: Caller, page: Page, response: Response) -> View:
    """Show messages that could not be read as failures, and why."""
    found = await caller.ask(list_asides, page=page)
    return {"asides": found, "next": next_address(response)}


@pages.post("/failed/views", "views.change")
async def save(caller: Poster, form: Posted) -> str:
    """Save the filter under a name."""
    asked = model_of(ViewAsked, name=form.text("name"), filter=form.get("q", ""), by=form.text("by", "exception"))
    await caller.ask(save_view, asked=asked)
    return link("/failed", q=asked.filter, by="" if asked.by == "exception" else asked.by)


async def bar_of(caller: Caller, q: str, path: str, *, by: str = "exception", edit: bool = False) -> View:
    """Return the tabs, the chips and the counts of a filter."""
    matching = await caller.ask(count_failures, q=q)
    all_of_status = await caller.ask(count_failures_by_status)
    word = status_of(q)
    is_narrow = bool(chips_of(q))  # these counts would not be those of the lists that the tabs lead to
    tabs = [
        {
            "name": name,
            "q": with_status(q, status),
            "n": None if is_narrow else all_of_status.get(status or "unresolved", 0),
            "is_here": word == status,
        }
        for status, name, _ in STATUSES
    ]
    return {
        **bare_bar(caller, q, path),
        "tabs": tabs,
        "matching": matching["count"],
        "is_more": matching.get("more", False),
        "all_of_status": all_of_status.get(word or "unresolved", 0),
        "by": by,
        "edit": edit,
        "views": await caller.ask(list_views),
        "has_asides": not refusal(caller.principal, "asides.read"),
        "suggested": await _suggested(caller, q),
    }


async def _suggested(caller: Caller, q: str) -> list[View]:
    """Return terms that the filter could go on with, with their counts; they are part of the page."""
    found: list[View] = []
    for key in _SUGGESTED:
        begun = f"{q} {key}:".strip()
        found += await caller.ask(suggest, q=begun, limit=_SUGGESTED_EACH)
    return [each for each in found if not each["term"].endswith(":")]


def bare_bar(caller: Caller, q: str, path: str, error: InvalidFilter | None = None) -> View:  # noqa: ARG001 - as bar_of
    """Return what the bar needs of a filter itself."""
    return {"q": q, "list_path": path, "chips": chips_of(q, error), "status": status_of(q), "problem": ""}


def wrong_filter(caller: Caller, q: str, path: str, error: InvalidFilter) -> Reply:
    """Return the page of a filter that cannot be understood: the term is marked, and the sentence stands below."""
    view: dict[str, Any] = {**bare_bar(caller, q, path, error), "problem": error.problem, "edit": True}
    return Reply("wrong_filter.html", view, 422)
