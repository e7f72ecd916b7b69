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

A request with the header ``Redrive-Fragment`` gets the block ``content`` and the counts of the frame: a live update.
Such an answer is made once for all who may see the same and ask within a quarter of a second.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from http import HTTPStatus
from typing import Any, TypeAlias

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from redrive.access import ACTIONS
from redrive.access.credentials import new_secret
from redrive.broker.views import View
from redrive.clock import Clock, utc
from redrive.server.api.endpoint import KnownCaller, described, with_names
from redrive.server.console import text_formats
from redrive.server.console.browser_names import FRAGMENT, ZONE
from redrive.server.console.fragments import CSRF_SEAT, KEY_SEAT, Fragment, Fragments, csrf_of, key_of, tag_of
from redrive.server.console.shell import shell_of
from redrive.server.console.template_environment import Moment, render
from redrive.server.recent import ACTION, UNCOVER_HEADER

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
    context = {**view, **await shell_of(caller), "topics": heard, "csrf": CSRF_SEAT, "key": KEY_SEAT}
    html = render(reply.template, context, moment_of(caller.request))
    return _answer(caller, html, reply.status)


async def _fragment(caller: KnownCaller, call: Callable[[], Awaitable[Any]], template: str) -> Response:
    """Answer a live update: with the block ``content``, shared by those who may see the same."""
    request, who = caller.request, caller.principal

    async def made() -> Fragment | Response:
        found = await call()
        if isinstance(found, Response):
            return found
        reply = found if isinstance(found, Reply) else Reply(template, found)
        view = await caller.redaction.shown(reply.view)
        context = {**view, **await shell_of(caller), "topics": "", "csrf": CSRF_SEAT, "key": KEY_SEAT}
        moment = moment_of(request)
        counts = render("counts.html", context, moment)
        return Fragment(render(reply.template, context, moment, "content") + counts, who)

    shared: Fragments = request.app.state.console
    # what is shown to one who may see all, because they ask for it, is for no one else
    is_own = UNCOVER_HEADER in request.headers
    found = await made() if is_own else await shared.get(key_of(who, request), who, made)
    return found.answer(request) if isinstance(found, Fragment) else found


def _answer(caller: KnownCaller, html: str, status: int) -> Response:
    tag = tag_of(html.encode(errors="replace"))
    own = html.replace(CSRF_SEAT, csrf_of(caller.request) or "").replace(KEY_SEAT, new_secret())
    headers = {"etag": tag, "vary": f"cookie, accept, {FRAGMENT}"}
    return HTMLResponse(own.encode(errors="replace"), status, headers=headers)


def moment_of(request: Request) -> Moment:
    """Return when and where a page is read: the browser says its zone in a cookie."""
    clock: Clock = request.app.state.desk.broker.clock
    return Moment(utc(clock.time()), text_formats.zone_of(request.cookies.get(ZONE, "")))
