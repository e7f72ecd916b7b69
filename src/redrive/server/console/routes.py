# SPDX-License-Identifier: MIT
"""``/routes``: how the routes do, and one of them from its receiver to its sender; pause, drain, try and replay it."""

import json
from collections.abc import Sequence
from typing import Any, Final

from fastapi import Response

from redrive.broker import tallies
from redrive.broker.views import View
from redrive.routes import route_label
from redrive.server.api.endpoint import Caller, Name
from redrive.server.api.messages import ResubmitAsked
from redrive.server.api.pages import Page
from redrive.server.api.routes import (
    Application,
    DrainAsked,
    PauseAsked,
    TrialAsked,
    drain_route,
    get_route,
    list_dead_legs,
    list_routes,
    pause_route,
    replay_route,
    resume_route,
    tap_route,
    try_route_once,
)
from redrive.server.api.series import list_series
from redrive.server.console.forms import Posted, Poster, model_of
from redrive.server.console.next_page import next_address
from redrive.server.console.pages import Pages, Reply
from redrive.server.console.subjects import link, named

pages = Pages()

_SPAN_S: Final = 86_400
_STEP_S: Final = 3_600
_OUTCOMES: Final = (tallies.SENT, tallies.FILTERED, tallies.FAILED, tallies.DEAD)
_TAP_S: Final = 1.0
_TRIED: Final = '{"total": 250}'
_TONES: Final = {"running": "ok", "paused": "warn", "draining": "info"}


@pages.get("/routes", "routes.read", "routes.html", topics=("routes",))
async def show_routes(caller: Caller, application: Application = None) -> View:
    """Show how the routes do."""
    found = await caller.ask(list_routes, application=application)
    counted = await _counted(caller, [_label(each) for each in found])
    rows = [_row(each, counted.get(_label(each), {})) for each in found]
    rows.sort(key=lambda each: (-each["dead"], each["oldest_at"] or "~", each["name"]))
    return {"routes": rows, "application": application}


@pages.get("/routes/{name}", "routes.read", "route.html", topics=("routes", "route:{name}"))
async def show_route(
    caller: Caller, name: Name, page: Page, response: Response, application: Application = None
) -> View:
    """Show a route: its parts, what passed each of them, what is dead, and what it has been."""
    found = await caller.ask(get_route, name=name, application=application)
    whose = found["application"]
    dead = await caller.ask(list_dead_legs, name=name, page=page, application=whose) if found["queue"] else []
    counted = await _counted(caller, [_label(found)])
    return {
        "route": _row(found, counted.get(_label(found), {})),
        "history": found["history"],
        "dead": dead,
        "more": next_address(response),
    }


@pages.get("/routes/{name}/tap", "routes.tap", "route_tap.html", topics=())
async def show_tap(caller: Caller, name: Name, application: Application = None) -> View:
    """Show what passes a route: for a second, then as a stream if the browser runs scripts."""
    found = await caller.ask(get_route, name=name, application=application)
    stream = await caller.ask(tap_route, name=name, application=found["application"], seconds=_TAP_S)
    lines = [line if isinstance(line, str) else bytes(line).decode() async for line in stream.body_iterator]
    return {
        "route": _row(found, {}),
        "seen": [json.loads(line.removeprefix("data: ")) for line in lines],
        "seconds": int(_TAP_S),
        "stream": link(named("/api/v1/routes/{}/tap", name), application=found["application"], seconds=600),
    }


# --- changing


@pages.get("/routes/{name}/pause", "routes.read", "route_sheet.html", topics=())
async def ask_pause(caller: Caller, name: Name, application: Application = None) -> View:
    """Ask why a route is paused."""
    return await _sheet(caller, name, application, "pause")


@pages.post("/routes/{name}/pause", "routes.change")
async def pause(caller: Poster, form: Posted, name: Name, application: Application = None) -> str:
    """Pause a route."""
    asked = model_of(PauseAsked, reason=form.text("reason"))
    await caller.ask(pause_route, name=name, asked=asked, application=application)
    return _page_of(name, application)


@pages.post("/routes/{name}/resume", "routes.change")
async def resume(caller: Poster, name: Name, application: Application = None) -> str:
    """Let a route go on."""
    await caller.ask(resume_route, name=name, application=application)
    return _page_of(name, application)


@pages.get("/routes/{name}/drain", "routes.read", "route_sheet.html", topics=())
async def ask_drain(caller: Caller, name: Name, application: Application = None) -> View:
    """Say what draining a route does."""
    return await _sheet(caller, name, application, "drain")


@pages.post("/routes/{name}/drain", "routes.change")
async def drain(caller: Poster, form: Posted, name: Name, application: Application = None) -> str:
    """Drain a route; it is removed in the end."""
    asked = model_of(DrainAsked, within=form.number("within"))
    done = await caller.ask(drain_route, name=name, asked=asked, application=application)
    return "/routes" if done["state"] == "removed" else _page_of(name, application)


@pages.get("/routes/{name}/replay", "routes.read", "route_sheet.html", topics=())
async def ask_replay(caller: Caller, name: Name, application: Application = None) -> View:
    """Say how many dead events would be tried again."""
    return await _sheet(caller, name, application, "replay")


@pages.post("/routes/{name}/replay", "routes.change")
async def replay(caller: Poster, form: Posted, name: Name, application: Application = None) -> str:
    """Try the dead events of a route again."""
    asked = model_of(ResubmitAsked, max_messages=form.whole("max_messages"))
    await caller.ask(replay_route, name=name, asked=asked, key=form.key, application=application)
    return _page_of(name, application)


@pages.get("/routes/{name}/test", "routes.read", "route_test.html", topics=())
async def ask_test(caller: Caller, name: Name, application: Application = None) -> View:
    """Show the form for an event on trial."""
    found = await caller.ask(get_route, name=name, application=application)
    return {"route": _row(found, {}), "body": _TRIED, "subject": "", "content_type": "application/json", "steps": None}


@pages.post("/routes/{name}/test", "routes.test")
async def try_event(caller: Poster, form: Posted, name: Name, application: Application = None) -> Reply:
    """Send an event through a route on trial, and show what each step did with it."""
    found = await caller.ask(get_route, name=name, application=application)
    given: dict[str, Any] = {
        "body": form.get("body", ""),
        "subject": form.text("subject") or None,
        "content_type": form.text("content_type") or None,
    }
    asked = model_of(TrialAsked, **given)
    done = await caller.ask(try_route_once, name=name, asked=asked, application=found["application"])
    typed = {key: value or "" for key, value in given.items()}
    return Reply("route_test.html", {"route": _row(found, {}), **typed, "steps": done["steps"]})


# --- inside


async def _sheet(caller: Caller, name: str, application: str | None, verb: str) -> View:
    found = await caller.ask(get_route, name=name, application=application)
    return {"route": _row(found, {}), "verb": verb}


def _page_of(name: str, application: str | None) -> str:
    return link(named("/routes/{}", name), application=application)


def _label(route: View) -> str:
    return route_label(route["application"], route["name"])


async def _counted(caller: Caller, labels: Sequence[str]) -> dict[str, dict[str, list[int]]]:
    """Return what became of the legs of routes, hour by hour of a day: by route and outcome."""
    lines: dict[str, dict[str, list[int]]] = {label: {} for label in labels}
    if labels:
        for metric in _OUTCOMES:
            found = await caller.ask(
                list_series, metric=metric, topic=tallies.ROUTE, name=labels[:100], span=_SPAN_S, step=_STEP_S
            )
            for each in found:
                lines[each["name"]][metric] = [value or 0 for value in each["values"]]
    return lines


def _row(route: View, lines: dict[str, list[int]]) -> View:
    """Return a route as pages show it: with what became of its legs in a day."""
    sums = {metric: sum(lines.get(metric, ())) for metric in _OUTCOMES}
    sent, filtered, dead = sums[tallies.SENT], sums[tallies.FILTERED], sums[tallies.DEAD]
    usual = None if route["application"] == "default" else route["application"]
    return {
        **route,
        "tone": _TONES.get(route["state"], ""),
        "page": _page_of(route["name"], usual),
        "owner": usual,
        "sums": sums,
        "came": sent + filtered + dead,
        "passed": sent + dead,
        "bar": [("f-ok", sent, False), ("f-idle", filtered, False), ("f-bad", dead, False)],
        "line": lines.get(tallies.SENT, []),
        "is_failing": sums[tallies.FAILED] > sent,
    }
