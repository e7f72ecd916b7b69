# SPDX-License-Identifier: MIT
"""``/jump``: from an id, a number or a name to its page; ``/more``, for what has no room on a phone; and ``/help``."""

from typing import Annotated, Final

from fastapi import Query
from fastapi.responses import RedirectResponse

from redrive.broker.views import View
from redrive.server.api.endpoint import Caller
from redrive.server.api.search import jump
from redrive.server.console.pages import Pages
from redrive.server.console.subjects import page_of

pages = Pages()

KEYS: Final = (
    ("g o", "Overview; f Failed, p Operations, q Queues, r Routes, l Pipelines, a Audit"),
    ("Ctrl K", "Find a message, a queue, a group"),
    ("/", "The filter"),
    ("j k", "Next and previous row"),
    ("x", "Select the row; Shift x those from the last one to it, * a all of the page"),
    ("r", "Recover"),
    ("e", "Archive"),
    ("v", "Resolve"),
    ("n", "Write a note"),
    ("[ ]", "Previous and next failure"),
    ("p", "Pause live updates, and resume them"),
    ("z", "Your zone, or UTC"),
    ("t", "Dark, light, or as the system has it"),
    ("?", "The keys"),
    ("Esc", "Leave a field, close a sheet"),
)
"""The keys, and what each does."""

_ICONS: Final = {
    "queue": "inbox",
    "topic": "radio",
    "route": "split",
    "pipeline": "workflow",
    "operation": "rotate-ccw",
    "failure": "circle-x",
    "group": "triangle-alert",
    "message": "waypoints",
}


@pages.get("/jump", "search.read", "jump.html", topics=())
async def show_places(caller: Caller, q: Annotated[str, Query(max_length=1_024)] = "") -> View | RedirectResponse:
    """Show what an id, a number or a part of a name could mean; if that is one thing, go there."""
    wanted = q.strip()
    found = await caller.ask(jump, q=wanted) if wanted else []
    if len(found) == 1:
        return RedirectResponse(page_of(found[0]["subject"]), 303)
    shown = [{**each, "icon": _ICONS.get(each["subject"].partition(":")[0], "link")} for each in found]
    return {"wanted": wanted, "found": shown}


@pages.get("/more", "own.read", "more.html", topics=())
async def show_more(caller: Caller) -> View:  # noqa: ARG001 - every page has one
    """Show all places, and who is signed in."""
    return {}


@pages.get("/help", "own.read", "help.html", topics=())
async def show_help(caller: Caller) -> View:  # noqa: ARG001 - every page has one
    """Show the keys."""
    return {"keys": KEYS}
