# SPDX-License-Identifier: MIT
"""What people decide about a group: who takes care of it, until when it needs no person, and what is known about it."""

from datetime import timedelta
from typing import Any, Final

from redrive.broker.views import View
from redrive.clock import utc
from redrive.errors import GroupNotFound, InvalidRequest
from redrive.server.api.endpoint import Caller, KnownCaller
from redrive.server.api.groups import GroupId, GroupStateAsked, get_group, set_group_state
from redrive.server.api.upkeep import NoteAsked, list_notes, write_note
from redrive.server.console.filter_bar import terms_of
from redrive.server.console.forms import Posted, Poster, model_of
from redrive.server.console.group_rows import brief_title
from redrive.server.console.pages import Pages
from redrive.server.console.subjects import link

pages = Pages()

SNOOZES: Final = {"1h": "1 hour", "8h": "8 hours", "1d": "1 day", "7d": "7 days"}
_SECONDS: Final = {"1h": 3_600, "8h": 28_800, "1d": 86_400, "7d": 604_800}


async def panel_of(caller: Caller, q: str) -> View | None:
    """Return what is known about the group that a filter is about; None if it is not about one."""
    groups = [term.partition(":")[2] for term in terms_of(q) if term.lower().startswith("group:")]
    if len(groups) != 1 or "," in groups[0]:
        return None
    try:
        group = await caller.ask(get_group, id=groups[0].strip("\"'"))
    except GroupNotFound:
        return None
    notes = await caller.ask(list_notes, subject=f"group:{group['id']}")
    return {**group, "title": brief_title(group["title"]), "written": notes, "snoozes": SNOOZES}


@pages.post("/failed/groups/{id}/state", "groups.change")
async def decide(caller: Poster, form: Posted, id: GroupId) -> str:  # noqa: A002 - it is called that everywhere
    """Give the group an owner, snooze it, or wake it; it wakes by itself when it has twice as many failures."""
    given: dict[str, Any] = {"reason": form.text("reason")}
    if "owner" in form:
        given["owner"] = form.text("owner")
    if "snooze" in form:
        given |= await _snooze(caller, id, form["snooze"])
    await caller.ask(set_group_state, id=id, asked=model_of(GroupStateAsked, **given))
    return link("/failed/list", q=f"group:{id}")


async def _snooze(caller: KnownCaller, id: str, word: str) -> dict[str, Any]:  # noqa: A002 - as above
    if word == "wake":
        return {"snoozed_until": None}
    if word not in _SECONDS:
        raise InvalidRequest("snooze", f"{word!r} is none of {', '.join(_SECONDS)} and wake")
    group = await caller.ask(get_group, id=id)
    until = utc(caller.desk.broker.clock.time()) + timedelta(seconds=_SECONDS[word])
    return {"snoozed_until": until.isoformat(), "wake_above": max(group["count"] * 2, 10)}


@pages.post("/failed/groups/{id}/notes", "notes.write")
async def add_note(caller: Poster, form: Posted, id: GroupId) -> str:  # noqa: A002 - as above
    """Write a note about the group."""
    asked = model_of(NoteAsked, subject=f"group:{id}", text=form.text("text"))
    await caller.ask(write_note, asked=asked, key=form.key)
    return link("/failed/list", q=f"group:{id}")
