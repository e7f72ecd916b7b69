# SPDX-License-Identifier: MIT
"""``/operations``: request them, see how far they are, and control them; ``/dry-runs`` and ``/previews`` before."""

from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import Query

from redrive.broker.views import View
from redrive.recovery import Operation, Outcome, Part, views
from redrive.server.api.endpoint import Caller, Endpoints
from redrive.server.api.failure_models import (
    DryRunModel,
    LaneModel,
    OperationAsked,
    OperationDetail,
    OperationModel,
    OperationNumber,
    OutcomeWord,
    PartModel,
    PreviewAsked,
    PreviewsModel,
    RateAsked,
    ReasonAsked,
    ServiceModel,
)
from redrive.server.api.operation_requests import dry_run, preview, request
from redrive.server.api.pages import PAGED, After, Before, Page
from redrive.server.api.requests import Key
from redrive.server.api.within import has_operation, operation_within

_SEEN_AT_MOST = 5_000
"""So many operations are looked at for one page of a caller that sees few of them."""

api = Endpoints("operations")


# --- before


@api.post("/dry-runs", "failures.dry-run", DryRunModel)
async def make_dry_run(caller: Caller, asked: OperationAsked) -> View:
    """Say what an operation would find and where it would send it, and do nothing."""
    queues = None if asked.redirect is None else [asked.redirect]
    return await caller.look_long(lambda: dry_run(caller, asked), queues=queues, narrowed=True)


@api.post("/previews", "failures.preview", PreviewsModel)
async def make_preview(caller: Caller, asked: PreviewAsked) -> View:
    """Say what a transform would change about the first messages, and do nothing."""
    return views.previews_view(await caller.look_long(lambda: preview(caller, asked), narrowed=True))


# --- requesting


@api.post("/operations", "operations.request", OperationModel)
async def request_operation(caller: Caller, asked: OperationAsked, key: Key = None) -> View:
    """Request an operation: recover, archive, restore or resolve failed messages.

    The request is stored before the answer is sent; whatever fails or changes after that is not part of it. The same
    ``Idempotency-Key`` with the same request gives the same operation; with another request it is a conflict.
    """
    queues = None if asked.redirect is None else [asked.redirect]
    subject = f"filter:{asked.filter}" if asked.filter is not None else f"{len(asked.ids or ())} ids"
    made = await caller.change(
        subject, lambda: request(caller, asked, key), reason=asked.reason, queues=queues, narrowed=True
    )
    return views.operation_view(made)


# --- looking


@api.get("/operations", "operations.read", list[OperationModel], responses=PAGED)
async def list_operations(
    caller: Caller,
    page: Page,
    before: Before = 0,
    *,
    is_open: Annotated[
        bool | None, Query(alias="open", description="Only those under way, or only the others.")
    ] = None,
    key: Annotated[
        str | None,
        Query(max_length=200, pattern=r"^[\x21-\x7e]+$", description="Only the one that was requested with this key."),
    ] = None,
) -> list[View]:
    """List operations, the newest first."""

    async def find() -> list[Operation]:
        if key is not None:
            named = await caller.desk.recovery.ledger.requested(key)
            return [named] if named is not None and await has_operation(caller.desk, caller.principal, named) else []
        last, found, seen = page.after(before) or None, list[Operation](), 0
        while seen < _SEEN_AT_MOST and len(found) < page.limit:
            more = await caller.desk.recovery.operations(is_open=is_open, before=last, limit=page.limit)
            for each in more:
                last, seen = each.number, seen + 1
                if await has_operation(caller.desk, caller.principal, each):
                    found.append(each)
                if len(found) == page.limit:
                    break
            if len(more) < page.limit:
                return found
        if last is not None:
            page.goes_on(last)
        return found

    return [views.operation_view(each) for each in await caller.look(find, narrowed=True)]


@api.get("/operations/{number}", "operations.read", OperationDetail, response_model_exclude_unset=True)
async def get_operation(caller: Caller, number: OperationNumber) -> View:
    """Return an operation: its figures, what was asked for, and its notes."""

    async def find() -> View:
        found = await operation_within(caller.desk, caller.principal, number)
        notes = await caller.desk.recovery.notes(f"operation:{number}")
        return views.operation_detail_view(found, notes, None)

    return await caller.look(find, narrowed=True)


@api.get("/operations/{number}/outcomes", "operations.read", list[PartModel], responses=PAGED)
async def list_outcomes(
    caller: Caller,
    number: OperationNumber,
    page: Page,
    after: After = 0,
    outcome: Annotated[list[OutcomeWord] | None, Query(description="Only these; repeatable.")] = None,
) -> list[View]:
    """List the messages of an operation that have had their turn, with what became of each."""
    words = outcome or ()
    wanted = [each for each in Outcome if each.word in words]

    async def find() -> list[Part]:
        await operation_within(caller.desk, caller.principal, number, newcomers=False)
        return await caller.desk.recovery.outcomes(number, wanted, after=page.after(after), limit=page.limit)

    found = await caller.look(find, narrowed=True)
    return views.records_view(page.of(found, found[-1].failure if found else None))


@api.get("/lanes", "operations.read", list[LaneModel])
async def list_lanes(caller: Caller) -> list[View]:
    """List the lanes: each destination, the batch that is sent to it, and the process that sends it."""
    found = await caller.look(caller.desk.recovery.lanes, narrowed=True)
    return views.records_view(each for each in found if caller.principal.has(each.name))


@api.get("/services", "operations.read", list[ServiceModel])
async def list_services(caller: Caller) -> list[View]:
    """List the processes that serve: they read failures and work on operations."""
    return views.records_view(await caller.look(caller.desk.recovery.services, narrowed=True))


# --- changing


async def _changed(caller: Caller, number: int, change: Callable[[], Awaitable[object]], reason: str = "") -> View:
    async def do() -> Operation:
        await operation_within(caller.desk, caller.principal, number, newcomers=False)
        made = await change()
        return made if isinstance(made, Operation) else await caller.desk.recovery.operation(number)

    return views.operation_view(await caller.change(f"operation:{number}", do, reason=reason, narrowed=True))


@api.post("/operations/{number}/pause", "operations.change", OperationModel)
async def pause_operation(caller: Caller, number: OperationNumber, asked: ReasonAsked) -> View:
    """Stop sending until the operation is resumed."""
    pause = caller.desk.recovery.pause
    return await _changed(caller, number, lambda: pause(number, actor=caller.actor, reason=asked.reason), asked.reason)


@api.post("/operations/{number}/resume", "operations.change", OperationModel)
async def resume_operation(caller: Caller, number: OperationNumber, asked: ReasonAsked) -> View:
    """Continue an operation that was paused, by a person or by its canaries."""
    resume = caller.desk.recovery.resume
    return await _changed(caller, number, lambda: resume(number, actor=caller.actor, reason=asked.reason), asked.reason)


@api.post("/operations/{number}/cancel", "operations.change", OperationModel)
async def cancel_operation(caller: Caller, number: OperationNumber, asked: ReasonAsked) -> View:
    """Stop sending for good, and release what was not sent. When this returns, nothing more is sent."""
    cancel = caller.desk.recovery.cancel
    return await _changed(caller, number, lambda: cancel(number, actor=caller.actor, reason=asked.reason), asked.reason)


@api.post("/operations/{number}/acknowledge", "operations.change", OperationModel)
async def acknowledge_operation(caller: Caller, number: OperationNumber) -> View:
    """Record that you have seen how an operation ended."""
    return await _changed(caller, number, lambda: caller.desk.recovery.acknowledge(number, actor=caller.actor))


@api.patch("/operations/{number}", "operations.change", OperationModel)
async def change_operation(caller: Caller, number: OperationNumber, asked: RateAsked) -> View:
    """Change how fast an operation sends, from now on."""
    set_rate = caller.desk.recovery.set_rate
    return await _changed(caller, number, lambda: set_rate(number, asked.rate, actor=caller.actor))
