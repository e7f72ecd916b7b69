# SPDX-License-Identifier: MIT
"""How an endpoint is declared: with the action it is, so that there is none without a rule for who may.

::

    api = Endpoints("queues")


    @api.get("/queues/{name}", "queues.read", QueueModel)
    async def get_queue(caller: Caller, name: Name) -> View:
        return queue_view(await caller.look(lambda: caller.desk.broker.inspect(name), queues=[name]))

The action is in the OpenAPI document (``x-redrive-action``, ``x-redrive-role``), and it is the one that the desk
checks: an endpoint cannot check another. One that answers without having asked the desk is an error.
"""

from collections.abc import Awaitable, Callable, Sequence
from copy import copy
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, Final, ParamSpec, TypeVar, cast
from urllib.parse import unquote

from fastapi import APIRouter, Depends, Path, Request
from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import HTTPConnection

from redrive.access import ACTIONS, Action, Principal, Redaction, RedactionRules
from redrive.broker.views import View
from redrive.server.api.client_disconnect import unless_left
from redrive.server.api.models import Problem
from redrive.server.recent import ACTION, UNCOVER_HEADER

if TYPE_CHECKING:
    from redrive.server.desk import Desk

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")
Declare = Callable[[Callable[P, Awaitable[R]]], Callable[P, Awaitable[R]]]

PREFIX: Final = "/api/v1"
_EXTRA: Final = "x-redrive-action"
_PLAIN: Final = frozenset({str, int, float, bool, list, type(None)})
_ACTION_OF: Final[dict[Callable[..., Awaitable[Any]], str]] = {}


class _NameConvertor(Convertor[str]):
    """A name in a path, quoted: ``orders%2F%24dead`` is one name. ``QuotedPaths`` leaves paths as they were sent."""

    regex = "[^/]+"

    def convert(self, value: str) -> str:
        return unquote(value, errors="replace")

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("name", _NameConvertor())


class KnownCaller:
    """Who calls an endpoint, and the desk: asked in the endpoint's own action.

    Attributes:
        principal: who.
        desk: the desk, for the facades that a call uses.
        action: what for.
        request: the request.
        has_asked: whether the desk was asked.
        redaction: hides what the caller is not to see; views are passed through it by themselves, and whatever else an
            endpoint returns, such as a download, by the endpoint.
    """

    def __init__(self, principal: Principal, desk: "Desk", action: str, redaction: Redaction, request: Request) -> None:
        self.principal = principal
        self.desk = desk
        self.request = request
        self.action = action
        self.has_asked = False
        self.redaction = redaction
        self._answers: dict[tuple[Callable[..., Awaitable[Any]], str], Any] = {}

    async def uncover(self, subject: str) -> None:
        """Hide nothing from here on, if the principal may see all; it is written to the audit trail."""
        await self.desk.uncover(self.principal, subject)
        self.hide_nothing()

    def hide_nothing(self) -> None:
        """Hide nothing from here on: the answer is not about messages, and a rule that matches it would spoil it."""
        self.redaction = Redaction(RedactionRules())

    @property
    def actor(self) -> str:
        """Who it is in the audit trail: what facades take as ``actor``."""
        return self.principal.actor

    async def look(
        self, call: Callable[[], Awaitable[T]], *, queues: Sequence[str] | None = None, narrowed: bool = False
    ) -> T:
        """Answer a question, as ``Desk.look`` does."""
        self.has_asked = True
        return await self.desk.look(self.principal, self.action, call, queues=queues, narrowed=narrowed)

    async def look_long(
        self, call: Callable[[], Awaitable[T]], *, queues: Sequence[str] | None = None, narrowed: bool = False
    ) -> T:
        """Answer a question that may take long; if the client goes away, it is cancelled."""
        return await self.look(lambda: unless_left(self.request.receive, call), queues=queues, narrowed=narrowed)

    async def change(
        self,
        subject: str,
        call: Callable[[], Awaitable[T]],
        *,
        reason: str = "",
        queues: Sequence[str] | None = None,
        narrowed: bool = False,
    ) -> T:
        """Change something, as ``Desk.change`` does."""
        self.has_asked = True
        return await self.desk.change(
            self.principal, self.action, subject, call, reason=reason, queues=queues, narrowed=narrowed
        )

    async def ask(self, endpoint: Callable[..., Awaitable[T]], **given: Any) -> T:
        """Answer with what an endpoint answers, in its own action: so a page asks the desk as the API does.

        What several parts of a page ask is answered once, so that they show the same. A form changes things in between,
        so there each question is answered anew.
        """
        key = endpoint, repr(given)
        is_shared = self.request.method == "GET" and _PLAIN.issuperset(map(type, given.values()))
        if is_shared and key in self._answers:
            return cast("T", self._answers[key])
        asked = copy(self)
        asked.action = _ACTION_OF[endpoint]
        answer = await endpoint(caller=asked, **given)
        self.has_asked = self.has_asked or asked.has_asked
        if is_shared:
            self._answers[key] = answer
        return answer


async def called(request: Request, connection: HTTPConnection | None = None) -> KnownCaller:
    """Return who calls, in the action of the endpoint.

    Args:
        request: the request.
        connection: what the door is shown; None: the request.
    """
    principal = await request.app.state.door.admit(connection or request)
    action: str = request.scope["route"].openapi_extra[_EXTRA]
    request.scope[ACTION] = action
    desk: Desk = request.app.state.desk
    caller = KnownCaller(principal, desk, action, await desk.hides(), request)
    if UNCOVER_HEADER in request.headers:
        await caller.uncover(f"{request.method} {request.url.path}")
    return caller


async def _called(request: Request) -> KnownCaller:
    return await called(request)


Caller = Annotated[KnownCaller, Depends(_called)]
"""Who calls: the parameter ``caller`` of every endpoint."""

Name = Annotated[str, Path(min_length=1, max_length=1_000, description="Its name; a slash in it is written %2F.")]


class Endpoints:
    """The endpoints about one thing.

    Args:
        tag: what they are about, as the OpenAPI document names the section.
        prefix: what all their paths begin with.

    Attributes:
        router: what the application mounts.
    """

    def __init__(self, tag: str, prefix: str = PREFIX) -> None:
        self.router = APIRouter(prefix=prefix, tags=[tag])

    def get(self, path: str, action: str, model: Any, **more: Any) -> "Declare[..., Any]":  # noqa: ANN401 - FastAPI's
        """Declare an endpoint that looks: a model of what it returns, and whatever else FastAPI takes."""
        return self._declare("GET", path, action, model, more)

    def put(self, path: str, action: str, model: Any, **more: Any) -> "Declare[..., Any]":  # noqa: ANN401 - FastAPI's
        """Declare an endpoint that makes something be so."""
        return self._declare("PUT", path, action, model, more)

    def post(self, path: str, action: str, model: Any, **more: Any) -> "Declare[..., Any]":  # noqa: ANN401 - FastAPI's
        """Declare an endpoint that starts or asks something."""
        return self._declare("POST", path, action, model, more)

    def patch(self, path: str, action: str, model: Any, **more: Any) -> "Declare[..., Any]":  # noqa: ANN401 - FastAPI's
        """Declare an endpoint that changes some of something."""
        return self._declare("PATCH", path, action, model, more)

    def delete(self, path: str, action: str, model: Any, **more: Any) -> "Declare[..., Any]":  # noqa: ANN401 - FastAPI's
        """Declare an endpoint that removes something."""
        return self._declare("DELETE", path, action, model, more)

    def inner(self, action: str) -> "Declare[..., Any]":
        """Declare a question that pages ask and that has no address; ``KnownCaller.ask`` takes it as an endpoint."""
        wanted = ACTIONS[action]

        def declare(function: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
            _ACTION_OF[function] = wanted.name
            return function

        return declare

    def public(self, path: str, model: Any, method: str = "POST", **more: Any) -> "Declare[..., Any]":  # noqa: ANN401 - FastAPI's
        """Declare an endpoint for those who have not signed in yet. Only such ones are without a principal."""
        wanted = ACTIONS["own.sign-in"]

        def declare(function: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
            self.router.add_api_route(
                path,
                function,
                methods=[method],
                response_model=model,
                openapi_extra={**described(wanted), "x-redrive-public": True},
                responses={"4XX": {"model": Problem}, "5XX": {"model": Problem}, **more.pop("responses", {})},
                operation_id=function.__name__.replace("_", "-"),
                **more,
            )
            return function

        return declare

    def _declare(self, method: str, path: str, action: str, model: Any, more: View) -> "Declare[..., Any]":  # noqa: ANN401 - FastAPI's
        wanted = ACTIONS[action]  # a KeyError at import: write the action into the table first
        extra = described(wanted)
        responses = {"4XX": {"model": Problem}, "5XX": {"model": Problem}, **more.pop("responses", {})}

        def declare(function: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
            _ACTION_OF[function] = wanted.name
            self.router.add_api_route(
                with_names(path),
                _checked(function),
                methods=[method],
                response_model=model,
                openapi_extra={**more.pop("openapi_extra", {}), **extra},
                responses=responses,
                operation_id=function.__name__.replace("_", "-"),
                **more,
            )
            return function

        return declare


def described(action: Action) -> View:
    """Return what a route says about its action."""
    return {_EXTRA: action.name, "x-redrive-role": action.role.value, "x-redrive-reach": action.reach.value}


def with_names(path: str) -> str:
    """Return a path whose parameters are quoted names, unless they say what they are."""
    return "/".join(
        f"{part[:-1]}:name}}" if part.startswith("{") and ":" not in part else part for part in path.split("/")
    )


def _checked(function: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """Return an endpoint that cannot answer without having asked the desk."""

    @wraps(function)
    async def endpoint(*, caller: KnownCaller, **given: Any) -> Any:  # noqa: ANN401 - as the endpoint
        answer = await function(caller=caller, **given)
        if not caller.has_asked:
            raise AssertionError(f"the endpoint {function.__name__} has answered without asking the desk")
        return await caller.redaction.shown(answer) if isinstance(answer, dict | list) else answer

    return endpoint
