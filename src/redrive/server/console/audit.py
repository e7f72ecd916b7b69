# SPDX-License-Identifier: MIT
"""``/audit``: who did what, about what, why, and with what result; refusals, too. ``/audit/export`` is all of it."""

from collections.abc import AsyncIterator
from typing import Annotated, Any, Final

from fastapi import Query, Response
from fastapi.responses import StreamingResponse

from redrive.broker.views import View
from redrive.errors import InvalidSetting
from redrive.server.api.endpoint import Caller
from redrive.server.api.export import CSV, csv_line
from redrive.server.api.pages import MOST, Page, first_page
from redrive.server.api.upkeep import list_audit
from redrive.server.console.next_page import next_address
from redrive.server.console.operation_story import REFUSED, person
from redrive.server.console.pages import Pages, Reply
from redrive.server.console.subjects import link, page_of
from redrive.server.problems import problem_of

pages = Pages()

_SHOWN: Final = 50
_FIELDS: Final = ("actor", "action", "subject", "since", "until")
_COLUMNS: Final = ("number", "at", "actor", "action", "subject", "reason", "outcome")
_KNOWN: Final = ("queue", "topic", "operation", "failure", "group")

Term = Annotated[str, Query(max_length=1_000)]
Instant = Annotated[str, Query(max_length=40)]


def _given(actor: str, action: str, subject: str, since: str, until: str) -> dict[str, str]:
    """Return what was typed, without what was left empty."""
    typed = dict(zip(_FIELDS, (actor, action, subject, since, until), strict=True))
    return {name: text.strip() for name, text in typed.items() if text.strip()}


@pages.get("/audit", "audit.read", "audit.html", topics=("audit",))
async def show_audit(
    caller: Caller,
    page: Page,
    response: Response,
    *,
    actor: Term = "",
    action: Term = "",
    subject: Term = "",
    since: Instant = "",
    until: Instant = "",
) -> View | Reply:
    """Show the audit trail, the newest entry first."""
    given = _given(actor, action, subject, since, until)
    page.limit = min(page.limit, _SHOWN)
    view: dict[str, Any] = {
        "given": given,
        "terms": [
            (name, text, link("/audit", **{k: v for k, v in given.items() if k != name}))
            for name, text in given.items()
        ],
        "export": link("/audit/export", **given),
        "problem": None,
        "entries": [],
        "more": "",
    }
    try:
        found = await caller.ask(list_audit, page=page, **given)
    except InvalidSetting as error:
        problem = problem_of(error)
        return Reply("audit.html", {**view, "problem": problem}, problem["status"])
    return {**view, "entries": [_shown(each) for each in found], "more": next_address(response)}


def _shown(entry: View) -> View:
    """Return an entry as the page shows it: who, what about, and a tone for what came of it."""
    outcome: str = entry["outcome"]
    kind = entry["subject"].partition(":")[0]
    tone, icon = (
        ("bad", "ban") if outcome.startswith(REFUSED) else ("", "clock") if outcome == "begun" else ("ok", "check")
    )
    return {
        **entry,
        "by": person(entry["actor"]),
        "origin": entry["actor"].partition(" (")[2].removesuffix(")"),
        "page": page_of(entry["subject"]) if kind in _KNOWN and ":" in entry["subject"] else "",
        "tone": tone,
        "icon": icon,
        "result": outcome.partition(":")[0] or "done",
        "more": outcome.partition(":")[2].strip(),
    }


@pages.get("/audit/export", "audit.read", "audit.html", topics=())
async def export_audit(
    caller: Caller,
    *,
    actor: Term = "",
    action: Term = "",
    subject: Term = "",
    since: Instant = "",
    until: Instant = "",
) -> Response:
    """Download all entries that match, as a table."""
    given = _given(actor, action, subject, since, until)
    first = await caller.ask(list_audit, page=first_page(caller.request, MOST), **given)
    headers = {"content-disposition": 'attachment; filename="audit.csv"', "cache-control": "no-store"}
    return StreamingResponse(_lines(caller, given, first), media_type=f"{CSV}; charset=utf-8", headers=headers)


async def _lines(caller: Caller, given: dict[str, str], found: list[View]) -> AsyncIterator[str]:
    yield csv_line(list(_COLUMNS))
    while found:
        shown = await caller.redaction.shown(found)
        yield "".join(csv_line([each[name] for name in _COLUMNS]) for each in shown)
        if len(found) < MOST:
            return
        page = first_page(caller.request, MOST)
        found = await caller.ask(list_audit, page=page, before=found[-1]["number"], **given)
