# SPDX-License-Identifier: MIT
"""What is done to a queue: each has a page with its counts first, at ``/queues/{name}/send`` and so on."""

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, Final

from fastapi import Query

from redrive.broker import QueueSettings, dead_letter_queue
from redrive.broker.views import View
from redrive.errors import InvalidRequest, RedriveError
from redrive.server.api.endpoint import Caller, Name
from redrive.server.api.messages import (
    NewMessage,
    PurgeAsked,
    ResubmitAsked,
    SendAsked,
    purge_queue,
    resubmit_messages,
    send_messages,
)
from redrive.server.api.queues import StatedQueueSettings, get_queue, update_queue
from redrive.server.api.upkeep import RedirectAsked, add_redirect, list_redirects, remove_redirect
from redrive.server.console.forms import Form, Posted, Poster, model_of
from redrive.server.console.pages import Pages, Reply
from redrive.server.console.queues import settings_of
from redrive.server.console.subjects import link, named
from redrive.server.problems import problem_of

pages = Pages()

MOST_UNTYPED: Final = 10_000
"""Above that, the number must be typed."""

_TEMPLATE: Final = "queue_form.html"
_KEPT: Final = ("requires_session",)
_DEFAULTS: Final = QueueSettings()


Chosen = Annotated[list[int] | None, Query(max_length=1_000, description="Dead letters that were ticked.")]


async def _view(
    caller: Caller, name: str, what: str, form: Form | None = None, numbers: Sequence[int] | None = None
) -> View:
    queue = await caller.ask(get_queue, name=name)
    redirects = {each["from"]: each["to"] for each in await caller.ask(list_redirects)}
    return {
        "queue": queue,
        "what": what,
        "settings": [each for each in settings_of(queue["settings"]) if each["name"] not in _KEPT],
        "redirect": redirects.get(name) or "",
        "typed": {} if form is None else dict(form),
        "problem": None,
        "numbers": numbers or _numbers(form),
        "must_type": what == "purge" or (what == "resubmit" and queue["dead"] > MOST_UNTYPED),
    }


async def _done(caller: Poster, name: str, form: Form, what: str, call: Callable[[], Awaitable[str]]) -> str | Reply:
    """Do what a form says; if it is refused, show the form again with the reason."""
    try:
        return await call()
    except RedriveError as error:
        problem = problem_of(error)
        if problem["status"] not in (400, 404, 409, 422):
            raise
        return Reply(_TEMPLATE, {**await _view(caller, name, what, form), "problem": problem}, problem["status"])


def _after(name: str, did: str, count: int = 1) -> str:
    return link(named("/queues/{}", name), did=did, n=str(count))


# --- sending


@pages.get("/queues/{name}/send", "queues.read", _TEMPLATE, topics=())
async def ask_send(caller: Caller, name: Name) -> View:
    """Ask for a message to send."""
    return await _view(caller, name, "send")


@pages.post("/queues/{name}/send", "messages.send")
async def send(caller: Poster, form: Posted, name: Name) -> str | Reply:
    """Send one message."""

    async def call() -> str:
        given = {field: form.text(field) or None for field in ("id", "subject", "content_type", "session_id")}
        message = model_of(NewMessage, body=form.get("body", ""), headers=headers_of(form.text("headers")), **given)
        asked = model_of(SendAsked, messages=[message], delay=form.number("delay") or 0.0)
        sent = await caller.ask(send_messages, name=name, asked=asked, key=form.key)
        return _after(name, "sent", sent["sent"])

    return await _done(caller, name, form, "send", call)


def headers_of(text: str) -> dict[str, Any]:
    """Return headers, written as one on a line: ``customer: 7``. A value in JSON is that value, any other a text.

    Raises:
        InvalidRequest: a line has no colon.
    """
    found: dict[str, Any] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        key, colon, value = line.partition(":")
        if not colon or not key.strip():
            raise InvalidRequest("headers", f"{line[:100]!r} is no header; write customer: 7, one on a line")
        found[key.strip()] = _value(value.strip())
    return found


def _value(text: str) -> object:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, str | int | float | bool) or value is None else text


# --- removing, and sending again


@pages.get("/queues/{name}/purge", "queues.read", _TEMPLATE, topics=())
async def ask_purge(caller: Caller, name: Name, number: Chosen = None) -> View:
    """Show how many messages purging a queue would remove, or which dead letters."""
    return await _view(caller, name, "purge", numbers=number)


@pages.post("/queues/{name}/purge", "messages.purge")
async def purge(caller: Poster, form: Posted, name: Name) -> str | Reply:
    """Remove what can be received now, if its number was typed, and it is not much more by now; or dead letters."""

    async def call() -> str:
        if numbers := _numbers(form):
            check_typed(form, len(numbers))
            asked, dead = model_of(PurgeAsked, sequences=numbers), dead_letter_queue(name)
            removed = await caller.ask(purge_queue, name=dead, asked=asked, key=form.key)
            return _after(name, "purged", removed["removed"])
        queue = await caller.ask(get_queue, name=name)
        check_typed(form, queue["ready"])
        removed = await caller.ask(purge_queue, name=name, key=form.key)
        return _after(name, "purged", removed["removed"])

    return await _done(caller, name, form, "purge", call)


@pages.get("/queues/{name}/resubmit", "queues.read", _TEMPLATE, topics=())
async def ask_resubmit(caller: Caller, name: Name, number: Chosen = None) -> View:
    """Show how many dead letters could be sent again, or which of them."""
    return await _view(caller, name, "resubmit", numbers=number)


@pages.post("/queues/{name}/resubmit", "messages.resubmit")
async def resubmit(caller: Poster, form: Posted, name: Name) -> str | Reply:
    """Send dead letters to their queue again: all, the oldest of them, or those that were ticked."""

    async def call() -> str:
        dead = (await caller.ask(get_queue, name=name))["dead"]
        most, numbers = form.whole("max_messages"), _numbers(form)
        if not numbers and min(dead, most or dead) > MOST_UNTYPED:
            check_typed(form, dead)
        asked = model_of(ResubmitAsked, max_messages=most, sequences=numbers or None)
        found = await caller.ask(resubmit_messages, name=name, asked=asked, key=form.key)
        return _after(name, "resubmitted", found["resubmitted"])

    return await _done(caller, name, form, "resubmit", call)


def _numbers(form: Form | None) -> list[int]:
    """Return the dead letters that were ticked.

    Raises:
        InvalidRequest: one of them is no number.
    """
    given = [] if form is None else form.all("number")
    if not all(each.isdecimal() for each in given):
        raise InvalidRequest("number", f"{given!r} are not all numbers of messages")
    return [int(each) for each in given]


def check_typed(form: Form, now: int) -> None:
    """See that the number on the page was typed, and that there are not more than twice as many by now.

    Raises:
        InvalidRequest: it was not, or there are.
    """
    shown, typed = form.whole("shown") or 0, form.whole("count")
    if typed != shown:
        raise InvalidRequest("count", f"type {shown:,} to confirm it")
    if now > 2 * shown:
        raise InvalidRequest("count", f"there are {now:,} messages by now, and the page showed {shown:,}; look again")


# --- settings and redirect


@pages.get("/queues/{name}/settings", "queues.read", _TEMPLATE, topics=())
async def ask_settings(caller: Caller, name: Name) -> View:
    """Show the settings of a queue, to be changed."""
    return await _view(caller, name, "settings")


@pages.post("/queues/{name}/settings", "queues.update")
async def change_settings(caller: Poster, form: Posted, name: Name) -> str | Reply:
    """Change settings of a queue: those that are other than they were."""

    async def call() -> str:
        before = (await caller.ask(get_queue, name=name))["settings"]
        wanted = {each: _setting(form, each) for each in before if each not in _KEPT}
        changed = {each: value for each, value in wanted.items() if value != before[each]}
        if changed:
            await caller.ask(update_queue, name=name, settings=model_of(StatedQueueSettings, **changed))
        return _after(name, "changed")

    return await _done(caller, name, form, "settings", call)


def _setting(form: Form, name: str) -> object:
    usual = getattr(_DEFAULTS, name)
    if isinstance(usual, bool):
        return form.text(name) == "yes"
    if isinstance(usual, int):
        return form.whole(name)
    if name == "journey":
        given = form.text(name)
        return given if given in ("trouble", "all", "none") else form.number(name)
    return form.number(name)


@pages.get("/queues/{name}/redirect", "queues.read", _TEMPLATE, topics=())
async def ask_redirect(caller: Caller, name: Name) -> View:
    """Ask where failed messages of a queue go."""
    return await _view(caller, name, "redirect")


@pages.post("/queues/{name}/redirect", "redirects.change")
async def change_redirect(caller: Poster, form: Posted, name: Name) -> str | Reply:
    """Send failed messages of a queue to another from now on; if it is empty, to the queue they failed in."""

    async def call() -> str:
        to = form.text("to")
        if to:
            await caller.ask(add_redirect, queue=name, asked=model_of(RedirectAsked, to=to))
        else:
            await caller.ask(remove_redirect, queue=name)
        return _after(name, "redirected")

    return await _done(caller, name, form, "redirect", call)
