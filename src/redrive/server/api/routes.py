# SPDX-License-Identifier: MIT
"""``/routes``: list them, add and change them, pause, drain, remove and try them, and replay what failed."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Annotated, Any, ClassVar

from fastapi import Query, Request
from fastapi.responses import StreamingResponse
from pydantic import ConfigDict, Field

from redrive.broker import Message, dead_letter_queue
from redrive.broker.views import View, received_view, resubmitted_view
from redrive.errors import InvalidRequest, InvalidSetting, RouteConflict, RouteNotFound
from redrive.parts import is_in_folders, is_in_variables
from redrive.routes import RouteInfo, Routes, views
from redrive.routes.removal import changed_route, readable_route
from redrive.routes.route_file import route_of
from redrive.server.api.endpoint import Caller, Endpoints, Name
from redrive.server.api.message_models import HeaderModel, MessageModel, ReceivedModel
from redrive.server.api.messages import ResubmitAsked, ResubmittedModel
from redrive.server.api.models import Instant, ViewModel
from redrive.server.api.pages import PAGED, Page
from redrive.server.api.requests import Key, once
from redrive.server.settings import ServerSettings

_LONGEST_TAP_S = 600.0
_CALLING = ("python", "call")
_OF_THIS_MACHINE = ("file", "tail")
_MAY_BE_IN_VARIABLES = ("url", "secret", "password")

Application = Annotated[
    str | None,
    Query(max_length=200, description="Whose route; needed only if several have one of that name.", examples=["shop"]),
]


class SourceModel(ViewModel):
    """Where a route's events come from."""

    kind: str = Field(examples=["http"])
    address: str
    text: str = Field(description="As people write it, without secrets.")


class FilterModel(ViewModel):
    """What an event passes."""

    kind: str = Field(examples=["match"])
    text: str


class SenderModel(ViewModel):
    """Where a route's events go."""

    kind: str = Field(examples=["webhook"])
    destination: str
    text: str


class RouteModel(ViewModel):
    """A route: what it is, what it is doing, and what waits on it."""

    name: str = Field(examples=["big-orders"])
    application: str = Field(examples=["default"])
    version: int
    state: str = Field(examples=["running"])
    reason: str
    changed_at: Instant | None
    source: SourceModel
    filters: list[FilterModel]
    sender: SenderModel
    settings: dict[str, Any]
    delivery: str
    guarantee: str = Field(examples=["at_least_once"])
    queue: str | None = Field(description="The queue of its legs; null if they are not stored.")
    waiting: int
    oldest_at: Instant | None
    dead: int


class RouteVersion(ViewModel):
    """What a route was after one of its changes."""

    version: int
    state: str
    reason: str
    changed_at: Instant | None
    until: Instant | None
    definition: str | None = Field(description="null: it cannot be read here.")


class RouteDetail(RouteModel):
    """A route with everything that it has been, the newest first."""

    history: list[RouteVersion]


class RouteAsked(ViewModel):
    """A route, as a file describes it; further settings beside these are those of a route."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow", strict=True)

    application: str = Field("default", max_length=200)
    source: dict[str, Any] = Field(examples=[{"kind": "queue", "queue": "orders"}])
    filters: list[dict[str, Any]] = Field([], max_length=100)
    sender: dict[str, Any] = Field(examples=[{"kind": "queue", "queue": "billing"}])


class PauseAsked(ViewModel):
    """Why a route is paused."""

    reason: str = Field("", max_length=1_024)


class DrainAsked(ViewModel):
    """How long draining may take."""

    within: float | None = Field(None, gt=0, le=315_360_000, description="Seconds; what is left then becomes dead.")


class TrialAsked(ViewModel):
    """The event that goes through a route on trial."""

    body: str = Field(examples=['{"total": 250}'])
    id: str = Field("test", min_length=1, max_length=1_024)
    subject: str | None = None
    content_type: str | None = None
    headers: dict[str, HeaderModel] = Field({}, examples=[{"region": "eu"}])


class StepModel(ViewModel):
    """What a filter or the sender did with an event."""

    step: str
    outcome: str
    messages: list[MessageModel]


class StepsModel(ViewModel):
    """The way of an event through a route."""

    route: str
    application: str
    steps: list[StepModel]


api = Endpoints("routes")


@api.get("/routes", "routes.read", list[RouteModel])
async def list_routes(caller: Caller, application: Application = None) -> list[View]:
    """List the routes, what waits on each, and how many of its events are dead."""
    found = await caller.look(lambda: caller.desk.routes.find(application))
    return [views.route_view(each) for each in found]


@api.get("/routes/{name}", "routes.read", RouteDetail)
async def get_route(caller: Caller, name: Name, application: Application = None) -> View:
    """Return a route: its parts without their secrets, its state, what waits on it, and its history."""

    async def find() -> View:
        info = await _route(caller.desk.routes, name, application)
        history = await caller.desk.routes.versions(name, info.route.application)
        return {
            **views.route_view(info),
            "history": [views.version_view(each, readable_route(each.definition)) for each in history],
        }

    return await caller.look(find)


@api.put("/routes/{name}", "routes.write", RouteModel)
async def write_route(caller: Caller, request: Request, name: Name, asked: RouteAsked) -> View:
    """Add a route, or change it. Processes that run routes follow within a second.

    A part that calls a function can name only those that the settings of the server allow; a part that reads or writes
    files, only those in its ``folders``; one that reads environment variables, only its ``variables``.
    """
    table = {"name": name, **asked.model_dump()}

    async def write() -> RouteInfo:
        _check_parts(table, request.app.state.settings)
        wanted = route_of(table)
        await caller.desk.routes.apply(wanted)
        return await caller.desk.routes.show(wanted.name, wanted.application)

    return views.route_view(await caller.change(f"route:{name}", write))


def _check_parts(table: View, settings: ServerSettings) -> None:
    """Refuse parts through which a request would reach the code, the files or the secrets of this machine."""
    for part in (table["source"], *table["filters"], table["sender"]):
        kind, function = part.get("kind"), part.get("function")
        if kind in _CALLING and function not in settings.allow:
            raise InvalidSetting("function", function, "is not allowed here; add it to allow in redrive.toml")
        if kind in _OF_THIS_MACHINE:
            for name in ("path", "position_file"):
                if isinstance(path := part.get(name), str) and not is_in_folders(path, settings.folders):
                    raise InvalidSetting(name, path, "is not allowed here; add its folder to folders in redrive.toml")
        for name, variable in _variables_of(part):
            if not is_in_variables(variable, settings.variables):
                problem = "names a variable that is not allowed here; add it to variables in redrive.toml"
                raise InvalidSetting(name, f"env:{variable}", problem)


def _variables_of(part: View) -> list[tuple[str, str]]:
    """Return the settings of a part that are read from the environment, each with the name of its variable."""
    headers = part.get("headers")
    given: dict[str, Any] = {name: part.get(name) for name in _MAY_BE_IN_VARIABLES}
    given |= {f"headers.{name}": value for name, value in headers.items()} if isinstance(headers, dict) else {}
    return [
        (name, value.removeprefix("env:"))
        for name, value in given.items()
        if isinstance(value, str) and value.startswith("env:")
    ]


@api.delete("/routes/{name}", "routes.write", RouteModel)
async def remove_route(caller: Caller, name: Name, application: Application = None) -> View:
    """Remove a route now. Events that wait on it become dead letters of its queue."""
    return await _changed(caller, name, application, caller.desk.routes.remove)


@api.post("/routes/{name}/pause", "routes.change", RouteModel)
async def pause_route(caller: Caller, name: Name, asked: PauseAsked, application: Application = None) -> View:
    """Stop delivering on a route. Its events are stored, and wait."""
    pause = caller.desk.routes.pause
    return await _changed(
        caller, name, application, lambda one, whose: pause(one, whose, reason=asked.reason), asked.reason
    )


@api.post("/routes/{name}/resume", "routes.change", RouteModel)
async def resume_route(caller: Caller, name: Name, application: Application = None) -> View:
    """Deliver again on a route that was paused, or that was being drained."""
    return await _changed(caller, name, application, caller.desk.routes.resume)


@api.post("/routes/{name}/drain", "routes.change", RouteModel)
async def drain_route(caller: Caller, name: Name, asked: DrainAsked, application: Application = None) -> View:
    """Give a route no more events; it is removed when it has delivered what it has."""
    drain = caller.desk.routes.drain
    return await _changed(caller, name, application, lambda one, whose: drain(one, whose, within=asked.within))


@api.post("/routes/{name}/test", "routes.test", StepsModel)
async def try_route_once(caller: Caller, name: Name, asked: TrialAsked, application: Application = None) -> View:
    """Send an event through a route on trial. Nothing is sent, and filters that reach outside are not called."""

    async def trial() -> View:
        info = await _route(caller.desk.routes, name, application)
        given = asked.model_dump(exclude={"body"})
        event = Message(asked.body.encode("utf-8", "backslashreplace"), **given)
        return views.steps_view(info.route, await caller.desk.routes.test(name, event, info.route.application))

    return await caller.change(f"route:{name}", trial)


@api.get("/routes/{name}/dead", "routes.read", list[ReceivedModel], responses=PAGED)
async def list_dead_legs(caller: Caller, name: Name, page: Page, application: Application = None) -> list[View]:
    """List the events that a route could not deliver, and why."""

    async def find() -> list[Any]:
        queue = _queue_of(await _route(caller.desk.routes, name, application))
        dead = dead_letter_queue(queue)
        return await caller.desk.broker.peek(dead, max_messages=page.limit, start=page.after(-1) + 1)

    found = await caller.look(find)
    return [received_view(each) for each in page.of(found, found[-1].sequence if found else None)]


@api.post("/routes/{name}/replay", "routes.change", ResubmittedModel)
async def replay_route(
    caller: Caller, name: Name, asked: ResubmitAsked, key: Key = None, application: Application = None
) -> View:
    """Try the dead events of a route again, on that route alone."""

    async def replay() -> View:
        info = await _route(caller.desk.routes, name, application)
        whose = info.route.application
        done = await caller.desk.routes.replay(name, whose, max_messages=asked.max_messages)
        return resubmitted_view(_queue_of(info), done)

    return await caller.change(f"route:{name}", once(caller, key, replay))


@api.get(
    "/routes/{name}/tap",
    "routes.tap",
    None,
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def tap_route(
    caller: Caller,
    name: Name,
    application: Application = None,
    seconds: Annotated[float, Query(gt=0, le=_LONGEST_TAP_S, description="For how long.")] = 60.0,
) -> StreamingResponse:
    """Follow a route: an event of the stream for each leg that it deals with, while it does."""
    info = await caller.look(lambda: _route(caller.desk.routes, name, application))

    async def lines() -> AsyncIterator[str]:
        async for seen in caller.desk.routes.tap(info.route.name, info.route.application, seconds=seconds):
            yield f"data: {json.dumps(await caller.redaction.shown(seen), ensure_ascii=False)}\n\n"

    return StreamingResponse(lines(), media_type="text/event-stream", headers={"cache-control": "no-store"})


# --- inside


async def _route(routes: Routes, name: str, application: str | None) -> RouteInfo:
    """Return a route of an application, or of the one application that has it."""
    if application is not None:
        return await routes.show(name, application)
    owners = [each.application for each in await routes.ledger.routes() if each.name == name]
    if len(owners) > 1:
        raise InvalidRequest("query.application", f"{', '.join(owners)} each have a route {name!r}; say which")
    if not owners:
        raise RouteNotFound(name)
    return await routes.show(name, owners[0])


def _queue_of(info: RouteInfo) -> str:
    if info.queue is None:
        raise RouteConflict(info.route.name, "its delivery is direct, which stores nothing: it has no dead events")
    return info.queue


async def _changed(
    caller: Caller,
    name: str,
    application: str | None,
    change: Callable[[str, str], Awaitable[None]],
    reason: str = "",
) -> View:
    async def do() -> RouteInfo:
        info = await _route(caller.desk.routes, name, application)
        return await changed_route(caller.desk.routes, info, change)

    return views.route_view(await caller.change(f"route:{name}", do, reason=reason))
