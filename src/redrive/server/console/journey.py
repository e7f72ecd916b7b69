# SPDX-License-Identifier: MIT
"""``/find``: a message by its id; ``/journey/{id}``: every record of it, in all layers, as a graph."""

from http import HTTPStatus
from typing import Annotated, Final

from fastapi import Query
from fastapi.responses import RedirectResponse

from redrive.broker.views import View
from redrive.errors import InvalidSetting, JourneyNotFound
from redrive.server.api.endpoint import Caller
from redrive.server.api.journeys import MessageId, get_journey
from redrive.server.console.journey_graph import rows_of
from redrive.server.console.pages import Pages, Reply
from redrive.server.console.subjects import named, page_of

pages = Pages()

_STATES: Final = {
    "under way": ("info", "clock", "Under way"),
    "failed": ("bad", "triangle-alert", "Failed"),
    "ended": ("ok", "circle-check", "Ended"),
    "unknown": ("warn", "circle-question-mark", "Nothing says what became of it"),
}
_TIMES: Final = (
    ("handling", "at work", "f-ok", "ok", False),
    ("in recovery", "in recovery", "f-info", "info", False),
    ("in batch", "waiting for a slot", "f-info", "hatched", True),
    ("delayed", "waiting for redelivery", "f-warn", "warn", False),
    ("failed", "waiting for a person", "f-bad", "bad", False),
    ("waiting", "waiting in a queue", "f-warn", "warn", True),
    ("no record", "no record", "f-idle", "", True),
)
"""Where time goes: its kind, its words, the colour of its bar and of its key, and whether it is hatched."""
_THOUSANDTH: Final = 1_000


@pages.get("/find", "search.read", "find.html", topics=())
async def find(
    caller: Caller,
    id: Annotated[str, Query(max_length=1_024)] = "",  # noqa: A002 - it is called that everywhere
) -> View | Reply | RedirectResponse:
    """Find a message by its id, and go to its journey."""
    wanted = id.strip()
    if not wanted:
        return {"wanted": "", "is_missing": False}
    try:
        await caller.ask(get_journey, id=wanted)
    except (JourneyNotFound, InvalidSetting):
        return _missing(wanted)
    return RedirectResponse(named("/journey/{}", wanted), HTTPStatus.SEE_OTHER)


def _missing(wanted: str) -> Reply:
    return Reply("find.html", {"wanted": wanted, "is_missing": True}, HTTPStatus.NOT_FOUND)


@pages.get("/journey/{id}", "journeys.read", "journey.html")
async def show_journey(caller: Caller, id: MessageId) -> View | Reply:  # noqa: A002 - it is called that everywhere
    """Show what happened to a message, where its time went, and what can be done next."""
    try:
        found = await caller.ask(get_journey, id=id)
    except (JourneyNotFound, InvalidSetting):
        return _missing(id)
    tone, icon, word = _STATES.get(found["state"], ("", "info", found["state"]))
    rows = rows_of(found)
    return {
        "journey": found,
        "tone": tone,
        "icon_name": icon,
        "word": word,
        "rows": [_linked(each) for each in rows],
        "times": [
            {"words": words, "seconds": found["times"][kind], "colour": colour, "key": key, "waits": waits}
            for kind, words, colour, key, waits in _TIMES
            if kind in found["times"]
        ],
        "bar": [
            (colour, max(round(found["times"][kind] * _THOUSANDTH), 1), waits)
            for kind, _, colour, _, waits in _TIMES
            if kind in found["times"]
        ],
        "whole": max(round(sum(found["times"].values()) * _THOUSANDTH), 1),
        "figures": _figures(found),
        "failures": [each for each in found["nodes"] if each["kind"] == "failure" and each["state"] == "unresolved"],
    }


def _figures(journey: View) -> list[View]:
    """Return how many places, failures and recoveries a journey has."""
    nodes = journey["nodes"]
    count = {kind: sum(each["kind"] == kind for each in nodes) for kind in ("message", "failure", "operation")}
    again = sum(each["event"] in ("abandoned", "lock-expired") for node in nodes for each in node["happenings"])
    return [
        {"words": "Queues it was in", "n": count["message"], "more": ""},
        {"words": "Redelivered", "n": again, "more": "layer 2"},
        {"words": "Recovered", "n": count["operation"], "more": "layer 5"},
    ]


def _linked(row: View) -> View:
    """Return a row with the page of its place."""
    if row["is_gap"]:
        return row
    node = row["node"]
    page = {
        "message": lambda: named("/queues/{}", node["title"]),
        "event": lambda: named("/topics/{}", node["title"]),
        "failure": lambda: page_of(node["id"]),
        "operation": lambda: page_of(node["id"]),
        "task": lambda: named("/journey/{}", node["message_id"]),
    }.get(node["kind"])
    return {**row, "page": page() if page else ""}
