# SPDX-License-Identifier: MIT
"""The frame around every page: who looks, where they can go, and how much there is."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from fastapi import Request

from redrive.access import ACTIONS, Principal, PrincipalKind, check
from redrive.broker.views import View
from redrive.clock import utc
from redrive.errors import Forbidden
from redrive.server.api.endpoint import Caller
from redrive.server.api.failures import count_failures_by_status
from redrive.server.api.operations import list_operations
from redrive.server.api.pages import first_page
from redrive.server.api.pipelines import list_pipelines
from redrive.server.api.queues import list_queues
from redrive.server.api.routes import list_routes
from redrive.server.api.topics import list_topics
from redrive.server.console import text_formats
from redrive.server.console.browser_names import DENSITY, THEME, ZONE

_MOST_OPERATIONS: Final = 50
_PLACES: Final = (
    ("Overview", "/", "layout-dashboard", ""),
    ("Failed", "/failed", "triangle-alert", "failed"),
    ("Operations", "/operations", "rotate-ccw", "operations"),
    ("Find a message", "/find", "waypoints", ""),
    ("Queues", "/queues", "inbox", "queues"),
    ("Topics", "/topics", "radio", "topics"),
    ("Routes", "/routes", "split", "routes"),
    ("Pipelines", "/pipelines", "workflow", "pipelines"),
    ("Audit", "/audit", "scroll-text", ""),
    ("Settings", "/settings", "settings", ""),
)
_HOMES: Final = ("Queues", "Topics", "Routes", "Pipelines")
_OF_LAYERS: Final = ("Topics", "Routes", "Pipelines")


def refusal(principal: Principal, action: str) -> str:
    """Return why a principal may not do something; empty if they may. The desk decides; this is for buttons."""
    try:
        check(principal, ACTIONS[action], None, narrowed=True)
    except Forbidden as error:
        return error.problem
    return ""


async def shell_of(caller: Caller) -> View:
    """Return what the frame of a page shows."""
    request, principal = caller.request, caller.principal
    counts = await _counts(caller)
    zone = text_formats.zone_of(request.cookies.get(ZONE, ""))
    theme, density = request.cookies.get(THEME, ""), request.cookies.get(DENSITY, "")
    return {
        "who": {
            "name": principal.name,
            "role": principal.role.value.capitalize(),
            "is_session": principal.kind is PrincipalKind.SESSION,
        },
        "places": _places(request, counts),
        "counts": counts,
        "path": request.url.path,
        "query": request.url.query,
        "zone": str(zone),
        "clock": utc(caller.desk.broker.clock.time()).astimezone(zone),
        "zone_name": text_formats.zone_name(utc(caller.desk.broker.clock.time()).astimezone(zone)),
        "theme": theme if theme in ("light", "dark") else "",
        "density": density if density == "compact" else "",
        "refusal": partial(refusal, principal),
    }


def _places(request: Request, counts: Mapping[str, int]) -> dict[str, list[View]]:
    """Return where one can go from here: pages that are there, of layers that are used."""
    known: frozenset[str] = request.app.state.pages
    parts: dict[str, list[View]] = {"main": [], "homes": [], "foot": []}
    for name, path, icon, counted in _PLACES:
        n = counts.get(counted, 0) if counted else 0
        if path not in known or (name in _OF_LAYERS and not n):
            continue
        here = request.url.path
        is_here = (
            here == path
            or (path != "/" and here.startswith(f"{path}/"))
            or (name == "Find a message" and here.startswith("/journey"))
        )
        part = "homes" if name in _HOMES else "foot" if name in ("Audit", "Settings") else "main"
        parts[part].append(
            {
                "name": name,
                "path": path,
                "icon": icon,
                "n": n,
                "is_here": is_here,
                "is_counted": bool(counted),
                "is_hot": counted == "failed",
            }
        )
    return parts


async def _counts(caller: Caller) -> dict[str, int]:
    """Return how much there is, of what the caller may see."""
    may = {action: not refusal(caller.principal, action) for action in _COUNTED}
    counts: dict[str, int] = {}
    if may["failures.read"]:
        by_status = await caller.ask(count_failures_by_status)
        counts["failed"] = by_status.get("unresolved", 0)
        counts["unconfirmed"] = by_status.get("retry-issued", 0)
        counts["resolved"] = by_status.get("resolved", 0)
        counts["archived"] = by_status.get("archived", 0)
    for name, action, endpoint, more in _LISTS:
        if may[action]:
            given: dict[str, Any] = (
                {"page": first_page(caller.request, _MOST_OPERATIONS), **more} if name == "operations" else {}
            )
            found = await caller.ask(endpoint, **given)
            counts[name] = sum(not each.get("is_topic") for each in found)  # a topic is no queue, although it is listed
    return counts


_LISTS: Final[Sequence[tuple[str, str, Callable[..., Awaitable[list[View]]], dict[str, Any]]]] = (
    ("operations", "operations.read", list_operations, {"is_open": True}),
    ("queues", "queues.read", list_queues, {}),
    ("topics", "topics.read", list_topics, {}),
    ("routes", "routes.read", list_routes, {}),
    ("pipelines", "pipelines.read", list_pipelines, {}),
)
_COUNTED: Final = ("failures.read", *(action for _, action, _, _ in _LISTS))
