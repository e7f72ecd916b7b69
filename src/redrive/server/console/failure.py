# SPDX-License-Identifier: MIT
"""``/failed/{id}``: one failed message, why it failed, what was done about it, and what can be done next."""

import base64
import json
from typing import Annotated, Any, Final

from fastapi import Query, Response

from redrive.broker.views import View
from redrive.error_codes import statuses_of
from redrive.errors import FailureNotFound, InvalidRequest, RedriveError
from redrive.server.api.endpoint import Caller, KnownCaller
from redrive.server.api.failure_models import EditAsked, FailureId, Filtered
from redrive.server.api.failures import edit_failure, get_failure, get_failure_body, list_failures
from redrive.server.api.groups import get_group
from redrive.server.api.operations import get_operation
from redrive.server.api.pages import first_page
from redrive.server.api.upkeep import NoteAsked, write_note
from redrive.server.console.forms import Form, Posted, Poster, model_of
from redrive.server.console.operation_rows import operation_row
from redrive.server.console.pages import Pages, Reply
from redrive.server.console.sheet_form import transform_of
from redrive.server.console.shell import refusal
from redrive.server.console.subjects import link, named
from redrive.server.problems import problem_of

pages = Pages()

_STATUSES: Final = {
    "unresolved": ("bad", "circle-x", "Unresolved"),
    "retry-issued": ("info", "send", "Sent, unconfirmed"),
    "resolved": ("ok", "circle-check", "Resolved"),
    "archived": ("", "archive", "Archived"),
}

Place = Annotated[int, Query(ge=0, le=10_000, description="Which failure of it; 0: the last one.")]


@pages.get("/failed/{id}", "failures.read", "failure.html", topics=("failed",))
async def show_failure(
    caller: Caller,
    id: FailureId,  # noqa: A002 - it is called that everywhere
    q: Filtered = "",
    attempt: Place = 0,
    part: Annotated[str, Query(pattern="^(traceback|headers|raw)$")] = "traceback",
) -> View:
    """Show everything about a failed message."""
    found = await caller.ask(get_failure, id=id)
    return {
        **await _about(caller, found),
        "q": q,
        "part": part,
        "place": min(attempt, max(len(found["attempts_kept"]) - 1, 0)),
        **await _neighbours(caller, found, q),
    }


async def _about(caller: KnownCaller, found: View) -> View:
    tone, icon, word = _STATUSES[found["status"]]
    try:
        group = await caller.ask(get_group, id=found["group"]) if found["group"] else None
    except RedriveError:  # none of its messages is there any more
        group = None
    return {
        "failure": found,
        "tone": tone,
        "icon_name": icon,
        "word": word,
        "others": max((group["count"] if group else 1) - 1, 0),
        "strip": _strip(found),
        "edit_of": found["edit_of"],
        "edited_as": found["edited_as"],
        "copy_page": await _page_of_copy(caller, found),
    }


async def _page_of_copy(caller: KnownCaller, found: View) -> str:
    """Return the page of the edited copy of a message; empty if it has none, or it has not failed itself."""
    if found["edited_as"] is None:
        return ""
    try:
        copy = await caller.ask(get_failure, id=found["edited_as"])
    except FailureNotFound:
        return ""
    return named("/failed/{}", copy["id"])


def _strip(found: View) -> list[View]:
    """Return failures and operations as one strip, the oldest first: an operation before the failure it led to."""
    parts = {each["operation"]: {"what": "operation", **each} for each in reversed(found["operations"])}
    strip: list[View] = []
    for place in range(len(found["attempts_kept"]) - 1, -1, -1):
        failure = found["attempts_kept"][place]
        if failure["operation"] in parts:
            strip.append(parts.pop(failure["operation"]))
        strip.append({"what": "failure", "place": place, "at": failure["failed_at"], **failure})
    return [*strip, *parts.values()]


async def _neighbours(caller: KnownCaller, found: View, q: str) -> View:
    """Return the messages before and after this one, in the list it was opened from."""
    near: dict[str, str] = {}
    for name, order in (("previous", "oldest"), ("next", "newest")):
        listed = await caller.ask(
            list_failures, page=first_page(caller.request, 1), q=q, after=str(found["number"]), order=order
        )
        near[name] = link(named("/failed/{}", listed[0]["id"]), q=q) if listed else ""
    return near


@pages.post("/failed/{id}/notes", "notes.write")
async def add_note(caller: Poster, form: Posted, id: FailureId) -> str:  # noqa: A002 - as above
    """Write a note about it."""
    asked = model_of(NoteAsked, subject=f"failure:{id}", text=form.text("text"))
    await caller.ask(write_note, asked=asked, key=form.key)
    return named("/failed/{}", id)


# --- editing


@pages.get("/failed/{id}/edit", "failures.read", "edit.html", topics=())
async def show_edit(caller: Caller, id: FailureId) -> View:  # noqa: A002 - as above
    """Show the form that changes a message."""
    return await _edit_view(caller, id, None)


@pages.post("/failed/{id}/edit", "failures.edit")
async def send_edited(caller: Poster, form: Posted, id: FailureId) -> str | Reply:  # noqa: A002 - as above
    """Show what was changed, or send the copy."""
    try:
        transform = await _transform(caller, id, form)
        if form.get("do") != "request":
            return Reply("edit.html", await _edit_view(caller, id, form))
        if not transform:
            raise InvalidRequest("body", "nothing was changed; recover the message instead")
        asked = model_of(EditAsked, transform=transform, reason=form.text("reason"))
        made = await caller.ask(edit_failure, id=id, asked=asked, key=form.key)
    except RedriveError as error:
        view = {**await _edit_view(caller, id, form), "edit_problem": problem_of(error)}
        return Reply("edit.html", view, statuses_of(error.code).http_status)
    return f"/operations/{made['number']}"


async def _transform(caller: KnownCaller, id: str, form: Form) -> dict[str, Any]:  # noqa: A002 - as above
    """Return what was changed, as a transform."""
    made = transform_of(form)
    body = form.get("body")
    found = await caller.ask(get_failure, id=id)
    if body is not None and body != found["message"]["body"].replace("\r\n", "\n"):
        if "json" in (found["message"]["content_type"] or ""):
            _check_json(body)
        made["body"] = base64.b64encode(body.encode()).decode()
    return made


def _check_json(body: str) -> None:
    try:
        json.loads(body)
    except ValueError as error:
        raise InvalidRequest("body", f"this is no JSON: {error}; mend it there") from None


async def _edit_view(caller: KnownCaller, id: str, form: Form | None) -> View:  # noqa: A002 - as above
    found = await caller.ask(get_failure, id=id)
    message = found["message"]
    original = message["body"].encode(errors="surrogatepass")
    is_text = message["body_encoding"] == "utf-8" and message["body"].replace("\n", "").replace("\t", "").isprintable()
    is_whole = is_text and await caller.redaction.shown_body(original) == original
    typed = dict(form) if form is not None else {}
    return {
        **await _about(caller, found),
        "taken": await _taken(caller, found),
        "values": typed,
        "can_edit_body": is_whole,
        "body_text": typed.get("body", message["body"]) if is_whole else "",
        "was_text": message["body"] if is_whole else "",
        "has_looked": form is not None,
        "edit_problem": None,
    }


async def _taken(caller: KnownCaller, found: View) -> View | None:
    """Return the operation by which another person was first; None if the message can still be edited."""
    if found["status"] == "unresolved" or not found["operations"] or refusal(caller.principal, "operations.read"):
        return None
    return operation_row(await caller.ask(get_operation, number=found["operations"][0]["operation"]))


@pages.get("/failed/{id}/body", "failures.read", "failure.html", topics=())
async def download(caller: Caller, id: FailureId) -> Response:  # noqa: A002 - as above
    """Download the body."""
    return await caller.ask(get_failure_body, id=id)
