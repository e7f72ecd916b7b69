# SPDX-License-Identifier: MIT
"""How a page is declared: like an endpoint, with the action it is and the template that shows what it returns.

::

    pages = Pages()


    @pages.get("/queues/{name}", "queues.read", "queue.html", topics=("queue:{name}",))
    async def show_queue(caller: Caller, name: Name) -> View:
        return {"queue": await caller.ask(get_queue, name=name)}


    @pages.post("/queues/{name}/purge", "messages.purge")
    async def purge(caller: Poster, form: Posted, name: Name) -> str:
        await caller.ask(purge_messages, name=name, key=form.key)
        return named("/queues/{}", name)

The desk is asked in the action of the page before the function is called. What a page returns is redacted, gets what
the frame around it needs, and is rendered. A form returns the address to go on at (303), or a ``Reply``.

A request with the header ``Redrive-Fragment`` gets the block ``content`` alone, for a live update. Such an answer is
made once for all who may see the same and ask within a quarter of a second.
"""

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import wraps
from hashlib import blake2b
from http import HTTPStatus
from typing import Any, Final, TypeAlias

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from redrive.access import ACTIONS
from redrive.access.credentials import new_secret
from redrive.broker.views import View
from redrive.clock import Clock, utc
from redrive.server.api.endpoint import KnownCaller, described, with_names
from redrive.server.console import text_formats
from redrive.server.console.browser_names import FRAGMENT, ZONE
from redrive.server.console.shell import csrf_of, shell_of
from redrive.server.console.template_environment import Moment, render
from redrive.server.recent import ACTION

_SHARED_S: Final = 0.25
_MOST: Final = 200
_SEAT: Final = secrets.token_hex(16)
_CSRF: Final = f"csrf-{_SEAT}"
_KEY: Final = f"key-{_SEAT}"

Function: TypeAlias = Callable[..., Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Reply:
    """A page that is not the usual one.

    Attributes:
        template: what shows it.
        view: what it shows.
        status: the status of the answer.
    """

    template: str
    view: View
    status: int = HTTPStatus.OK


class Pages:
    """The pages about one thing.

    Attributes:
        router: what the application mounts.
    """

    def __init__(self) -> None:
        self.router = APIRouter(include_in_schema=False)

    def get(
        self, path: str, action: str, template: str, *, topics: Sequence[str] = ("everything",)
    ) -> Callable[[Function], Function]:
        """Declare a page.

        Args:
            path: its address; the names in it are parameters of the function.
            action: what it is, in ``redrive.access.ACTIONS``.
            template: what shows it: a template with a block ``content``.
            topics: what it is about, so that it is fetched again when that changes; names of the path may be in it.
        """

        def declare(function: Function) -> Function:
            @wraps(function)
            async def page(*, caller: KnownCaller, **given: Any) -> Response:
                await _ask_first(caller)
                return await _page(caller, lambda: function(caller=caller, **given), template, topics)

            return self._add("GET", path, action, page)

        return declare

    def post(self, path: str, action: str) -> Callable[[Function], Function]:
        """Declare what a form does.

        Args:
            path: where it is sent.
            action: what it is.
        """

        def declare(function: Function) -> Function:
            @wraps(function)
            async def posted(*, caller: KnownCaller, **given: Any) -> Response:
                await _ask_first(caller)
                answer = await function(caller=caller, **given)
                if isinstance(answer, Response):
                    return answer
                if isinstance(answer, Reply):
                    return await _whole(caller, answer, ())
                return RedirectResponse(answer, HTTPStatus.SEE_OTHER)

            return self._add("POST", path, action, posted)

        return declare

    def public(self, path: str, method: str = "GET") -> Callable[[Function], Function]:
        """Declare a page for those who have not signed in yet; it takes a request and returns a response."""

        def declare(function: Function) -> Function:
            extra = {**described(ACTIONS["own.sign-in"]), "x-redrive-public": True}
            self.router.add_api_route(path, function, methods=[method], response_model=None, openapi_extra=extra)
            return function

        return declare

    def _add(self, method: str, path: str, action: str, page: Function) -> Function:
        self.router.add_api_route(
            with_names(path), page, methods=[method], response_model=None, openapi_extra=described(ACTIONS[action])
        )
        return page


async def _ask_first(caller: KnownCaller) -> None:
    """Ask the desk in the action of the page, whatever the page goes on to ask."""

    async def nothing() -> None:
        caller.request.scope[ACTION] = "own.page"  # it has the name and the token of the caller: it is not shared

    await caller.look(nothing, narrowed=True)


# --- answering


async def _page(
    caller: KnownCaller, call: Callable[[], Awaitable[Any]], template: str, topics: Sequence[str]
) -> Response:
    if FRAGMENT in caller.request.headers:
        return await _fragment(caller, call, template)
    found = await call()
    if isinstance(found, Response):
        return found
    reply = found if isinstance(found, Reply) else Reply(template, found)
    return await _whole(caller, reply, topics)


async def _whole(caller: KnownCaller, reply: Reply, topics: Sequence[str]) -> Response:
    names = caller.request.path_params
    heard = " ".join(topic.format_map(names) for topic in topics)
    view = await caller.redaction.shown(reply.view)
    context = {**view, **await shell_of(caller), "topics": heard, "csrf": _CSRF, "key": _KEY}
    html = render(reply.template, context, moment_of(caller.request))
    return _answer(caller, html, reply.status)


async def _fragment(caller: KnownCaller, call: Callable[[], Awaitable[Any]], template: str) -> Response:
    """Answer a live update: with the block ``content``, shared by those who may see the same."""
    request = caller.request
    moment = moment_of(request)
    who = caller.principal
    key = (who.role, who.queues, who.may_see_bodies, str(moment.zone), request.url.path, request.url.query)

    async def made() -> str | Response:
        found = await call()
        if isinstance(found, Response):
            return found
        reply = found if isinstance(found, Reply) else Reply(template, found)
        view = await caller.redaction.shown(reply.view)
        context = {**view, **await shell_of(caller), "topics": "", "csrf": _CSRF, "key": _KEY}
        return render(reply.template, context, moment, "content")

    shared: _Shared = request.app.state.console
    html = await shared.get(key, made)
    return html if isinstance(html, Response) else _answer(caller, html)


def _answer(caller: KnownCaller, html: str, status: int = HTTPStatus.OK) -> Response:
    """Return the answer; its tag is that of what it shows, whatever the token and the key in its forms are."""
    tag = f'W/"{blake2b(html.encode(errors="replace"), digest_size=12).hexdigest()}"'
    own = html.replace(_CSRF, csrf_of(caller.request) or "").replace(_KEY, new_secret())
    headers = {"etag": tag, "vary": f"cookie, accept, {FRAGMENT}"}
    return HTMLResponse(own.encode(errors="replace"), status, headers=headers)


def moment_of(request: Request) -> Moment:
    """Return when and where a page is read: the browser says its zone in a cookie."""
    clock: Clock = request.app.state.desk.broker.clock
    return Moment(utc(clock.time()), text_formats.zone_of(request.cookies.get(ZONE, "")))


@dataclass(slots=True)
class _Kept:
    made_at: float = float("-inf")
    html: str | Response = ""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class _Shared:
    """Fragments that were made a moment ago.

    Args:
        clock: what age goes by.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept: OrderedDict[object, _Kept] = OrderedDict()

    async def get(self, key: object, make: Callable[[], Awaitable[str | Response]]) -> str | Response:
        """Return a fragment; those who ask for the same at the same time wait for one to be made.

        How old it may be is counted from when it was asked for: else, on a busy machine, it would be too old for each
        of those who have waited for it, and be made for one after the other.
        """
        asked = self._clock.monotonic()
        kept = self._kept.setdefault(key, _Kept())
        self._kept.move_to_end(key)
        while len(self._kept) > _MOST:
            self._kept.popitem(last=False)
        async with kept.lock:
            if asked - kept.made_at > _SHARED_S:
                began = self._clock.monotonic()
                kept.html = await make()
                kept.made_at = began
            return kept.html


def shared_by(clock: Clock) -> object:
    """Return what the application keeps fragments in: ``app.state.console``."""
    return _Shared(clock)
