# SPDX-License-Identifier: MIT
"""``/operations``: what is under way and what is over; ``/operations/{number}``: what becomes of each message."""

import re
from typing import Annotated, Final

from fastapi import Query, Response

from redrive.broker.views import View
from redrive.server.api.endpoint import Caller
from redrive.server.api.failure_models import OperationNumber, OutcomeWord, RateAsked, ReasonAsked
from redrive.server.api.failures import list_failures
from redrive.server.api.groups import list_groups
from redrive.server.api.operations import (
    acknowledge_operation,
    cancel_operation,
    change_operation,
    get_operation,
    list_lanes,
    list_operations,
    list_outcomes,
    pause_operation,
    resume_operation,
)
from redrive.server.api.pages import Page, first_page
from redrive.server.api.queues import list_queues
from redrive.server.api.series import get_operation_series
from redrive.server.api.upkeep import list_audit
from redrive.server.console.forms import Posted, Poster, model_of
from redrive.server.console.group_rows import named_group
from redrive.server.console.next_page import next_address
from redrive.server.console.operation_charts import destinations_of, results_over_time
from redrive.server.console.operation_rows import operation_row
from redrive.server.console.operation_story import (
    OUTCOME_LOOKS,
    STOPPED,
    canary_of,
    figures_of,
    plan_of,
    steps_of,
    trail_of,
)
from redrive.server.console.pages import Pages
from redrive.server.console.shell import refusal

pages = Pages()

_MOST_OPEN: Final = 50
_MOST_CAUSES: Final = 10
_SHOWN: Final = 25
_MOST_ENTRIES: Final = 20
_MODULES: Final = re.compile(r"^(?:\w+\.)+(?=\w+(?:$|: ))")
"""The modules of an exception, before its name."""

Chosen = Annotated[OutcomeWord | None, Query(description="Only messages with this outcome.")]


# --- all of them


@pages.get("/operations", "operations.read", "operations.html", topics=("operations", "operation"))
async def show_operations(caller: Caller, page: Page, response: Response) -> View:
    """Show the operations: those under way with their pace, then those that are over."""
    under_way: list[View] = []
    if "cursor" not in caller.request.query_params:
        found = await caller.ask(list_operations, page=first_page(caller.request, _MOST_OPEN), is_open=True)
        under_way = [await _with_pace(caller, operation_row(each)) for each in found]
    over = await caller.ask(list_operations, page=page, is_open=False)
    return {
        "under_way": under_way,
        "over": [operation_row(each) for each in over],
        "more": next_address(response),
    }


async def _with_pace(caller: Caller, row: View) -> View:
    series = await caller.ask(get_operation_series, number=row["number"])
    return {**row, "per_second": series["per_second"], "left_s": series["left_s"]}


# --- one of them


@pages.get(
    "/operations/{number:int}",
    "operations.read",
    "operation.html",
    topics=("operation:{number}", "operations"),  # the latter: another process may be at work on it
)
async def show_operation(
    caller: Caller, number: OperationNumber, page: Page, response: Response, outcome: Chosen = None
) -> View:
    """Show an operation: how far it is, what came back, and what became of each message."""
    found = operation_row(await caller.ask(get_operation, number=number))
    series = await caller.ask(get_operation_series, number=number)
    parts = await _messages(caller, number, page, outcome)
    return {
        "operation": found,
        "is_stopped": found["word"] == STOPPED,
        "canaries": canary_of(found)["count"] if found["plan"].get("canary") else 0,
        "figures": figures_of(found),
        "steps": steps_of(found),
        "plan": plan_of(found),
        "pace": {"per_second": series["per_second"], "left_s": series["left_s"]},
        "chart": results_over_time(series["samples"]) if found["kind"] == "recover" else None,
        "destinations": await _destinations(caller, series["samples"]),
        "causes": await _causes(caller, found),
        "trail": await _trail(caller, number),
        "messages": parts,
        "outcome": outcome or "",
        "outcome_words": OUTCOME_LOOKS[outcome][2] if outcome else "",
        "more": next_address(response),
    }


async def _messages(caller: Caller, number: int, page: Page, outcome: str | None) -> list[View]:
    """Return messages of an operation, with what is known of each."""
    page.limit = min(page.limit, _SHOWN)
    parts = await caller.ask(list_outcomes, number=number, page=page, outcome=None if outcome is None else [outcome])
    known: dict[str, View] = {}
    if parts:
        wanted = f"id:{','.join(each['id'] for each in parts)} status:any"
        found = await caller.ask(list_failures, page=first_page(caller.request, len(parts)), q=wanted)
        known = {each["id"]: each for each in found}
    shown: list[View] = []
    for part in parts:
        tone, icon, words = OUTCOME_LOOKS[part["outcome"]]
        failure = known.get(part["id"], {})
        shown.append(
            {
                **part,
                "tone": tone,
                "icon": icon,
                "words": words,
                "message_id": failure.get("message_id", part["id"]),
                "type": failure.get("message_type", ""),
                "is_kept": part["id"] in known,
                "why": _MODULES.sub("", part["reason"]) or _why(part["outcome"], failure),
            }
        )
    return shown


def _why(outcome: str, failure: View) -> str:
    if outcome != "failed-again" or not failure:
        return ""
    return f"{failure['exception_type'].rpartition('.')[2]}: {failure['exception_message']}"


async def _destinations(caller: Caller, samples: list[View]) -> list[View]:
    if not samples:
        return []
    return destinations_of(samples, await caller.ask(list_lanes), await caller.ask(list_queues))


async def _causes(caller: Caller, operation: View) -> list[View]:
    """Return why messages failed again, and whether that is what they had failed of before, if it is known."""
    if not operation["progress"]["failed_again"]:
        return []
    wanted = f"operation:{operation['number']} outcome:failed-again status:any"
    found = await caller.ask(list_groups, page=first_page(caller.request, _MOST_CAUSES), q=wanted)
    asked = operation["plan"]["filter"].get("groups", [])
    return [
        {
            **each,
            **named_group(each["title"]),
            "is_same": each["id"] in asked if asked else None,
            "q": f"{wanted} group:{each['id']}",
        }
        for each in found
    ]


async def _trail(caller: Caller, number: int) -> list[View] | None:
    """Return what people did with an operation; None if the caller may not see that."""
    if refusal(caller.principal, "audit.read"):
        return None
    page = first_page(caller.request, _MOST_ENTRIES)
    return trail_of(await caller.ask(list_audit, page=page, subject=f"operation:{number}"))


# --- asking before something changes


@pages.get("/operations/{number:int}/cancel", "operations.read", "operation_change.html", topics=())
async def ask_cancel(caller: Caller, number: OperationNumber) -> View:
    """Show what cancelling an operation would leave undone."""
    return {"operation": operation_row(await caller.ask(get_operation, number=number)), "what": "cancel"}


@pages.get("/operations/{number:int}/rate", "operations.read", "operation_change.html", topics=())
async def ask_rate(caller: Caller, number: OperationNumber) -> View:
    """Ask how fast an operation is to send."""
    return {"operation": operation_row(await caller.ask(get_operation, number=number)), "what": "rate"}


# --- changing


def _next(form: Posted, number: int) -> str:
    return "/operations" if form.text("to") == "list" else f"/operations/{number}"


@pages.post("/operations/{number:int}/pause", "operations.change")
async def pause(caller: Poster, form: Posted, number: OperationNumber) -> str:
    """Stop sending until the operation is resumed."""
    await caller.ask(pause_operation, number=number, asked=model_of(ReasonAsked, reason=form.text("reason")))
    return _next(form, number)


@pages.post("/operations/{number:int}/resume", "operations.change")
async def resume(caller: Poster, form: Posted, number: OperationNumber) -> str:
    """Continue an operation that was paused, by a person or by its canaries."""
    await caller.ask(resume_operation, number=number, asked=model_of(ReasonAsked, reason=form.text("reason")))
    return _next(form, number)


@pages.post("/operations/{number:int}/cancel", "operations.change")
async def cancel(caller: Poster, form: Posted, number: OperationNumber) -> str:
    """Stop sending for good; when this returns, nothing more is sent."""
    await caller.ask(cancel_operation, number=number, asked=model_of(ReasonAsked, reason=form.text("reason")))
    return _next(form, number)


@pages.post("/operations/{number:int}/acknowledge", "operations.change")
async def acknowledge(caller: Poster, form: Posted, number: OperationNumber) -> str:
    """Note that a person has seen how an operation ended."""
    await caller.ask(acknowledge_operation, number=number)
    return _next(form, number)


@pages.post("/operations/{number:int}/rate", "operations.change")
async def change_rate(caller: Poster, form: Posted, number: OperationNumber) -> str:
    """Change how fast an operation sends, from now on."""
    await caller.ask(change_operation, number=number, asked=model_of(RateAsked, rate=form.number("rate")))
    return _next(form, number)
