# SPDX-License-Identifier: MIT
"""``/failures``: find failed messages, see why they failed, download, export and edit them."""

from collections.abc import Sequence
from typing import Annotated, Final, Literal

from fastapi import Query, Response
from fastapi.responses import StreamingResponse

from redrive.broker.views import View
from redrive.recovery import FailedDetail, FailedMessage, Operation, Order, Place, Status, Transform, views
from redrive.server.api.endpoint import Caller, Endpoints
from redrive.server.api.export import CSV, EXPORTS, NDJSON
from redrive.server.api.failure_models import (
    CountModel,
    EditAsked,
    FailedModel,
    FailureDetail,
    FailureId,
    Filtered,
    OperationModel,
)
from redrive.server.api.models import stated
from redrive.server.api.pages import SEARCHED, Page
from redrive.server.api.requests import Key
from redrive.server.api.within import failure_within, filter_within

Format = Annotated[Literal["ndjson", "csv"], Query(description="Lines of JSON with everything, or a table.")]
AfterPlace = Annotated[
    str,
    Query(
        pattern=r"^([0-9T:.+Z-]{10,40}/)?[0-9]{1,18}$",
        description="Begin after this number; with order=last-failed after a time and a number.",
        examples=["17", "2026-11-01T10:00:00Z/17"],
    ),
]
Listed = Annotated[
    Literal["oldest", "newest", "last-failed"],
    Query(description="As they were first seen, the newest first, or the newest failure first."),
]

_MOST_COUNTED: Final = 10_000

api = Endpoints("failures")


@api.get("/failures", "failures.read", list[FailedModel], responses=SEARCHED)
async def list_failures(
    caller: Caller,
    page: Page,
    q: Filtered = "",
    after: AfterPlace = "0",
    order: Listed = "oldest",
) -> list[View]:
    """List failed messages: as they were first seen, the newest first, or the newest failure first.

    A search for text returns what it has found after some seconds. ``Redrive-Looked-Until`` says how far it got, and
    the next page goes on there.
    """

    async def find() -> Sequence[FailedMessage]:
        chosen, by = await filter_within(caller.desk, caller.principal, q), Order.of(order)
        last, desk = Place.of(page.after(after), by), caller.desk
        if chosen.text is None:
            found = await desk.reader(chosen).failed(chosen, after=last, limit=page.limit, order=by)
            return page.of(found, str(found[-1].place) if found else None)
        searched = await desk.slow.search(chosen, after=last, limit=page.limit, order=by, within=desk.question_limit)
        if not searched.is_over:
            page.goes_on(str(searched.place), looked_until=len(searched.messages) < page.limit)
        return searched.messages

    return views.records_view(await caller.look_long(find, narrowed=True))


@api.get("/failures/count", "failures.read", CountModel, response_model_exclude_unset=True)
async def count_failures(
    caller: Caller,
    q: Filtered = "",
    *,
    exact: Annotated[bool, Query(description="Count all, however many; otherwise up to 10,000 are.")] = False,
) -> View:
    """Count failed messages.

    By status, queue, type, exception and group all are counted, at once. By anything else they have to be read: then it
    stops after 10,000, and says that there are more, unless ``exact`` asks for all of them.
    """

    async def count() -> View:
        chosen = await filter_within(caller.desk, caller.principal, q)
        most = _MOST_COUNTED if chosen.is_slow and not exact else None
        return views.count_view(await caller.desk.reader(chosen).count(chosen, most=most), most)

    return await caller.look_long(count, narrowed=True)


@api.get("/failures/statuses", "failures.read", dict[str, int])
async def count_failures_by_status(caller: Caller, q: Filtered = "status:any") -> View:
    """Count failed messages of each status, or of those statuses that the filter names."""

    async def count() -> dict[Status, int]:
        chosen = await filter_within(caller.desk, caller.principal, q)
        return await caller.desk.reader(chosen).count_by_status(chosen)

    return views.count_by_status_view(await caller.look_long(count, narrowed=True))


@api.get(
    "/failures/export",
    "failures.export",
    None,
    response_class=StreamingResponse,
    responses={200: {"content": {NDJSON: {"schema": {"type": "string"}}, CSV: {"schema": {"type": "string"}}}}},
)
async def export_failures(
    caller: Caller,
    q: Filtered = "",
    format: Format = "ndjson",  # noqa: A002 - it is called that everywhere
) -> Response:
    """Download failed messages: as lines of JSON with all details, or as a table (CSV) without bodies.

    It is made while it is read, so it may be of any length. If something fails before its end, the connection is closed
    without an end. Cells of a table that a spreadsheet would take for formulas are quoted with an apostrophe.
    """
    chosen = await caller.look(lambda: filter_within(caller.desk, caller.principal, q), narrowed=True)
    media_type, lines = EXPORTS[format]
    named = {"content-disposition": f'attachment; filename="failures.{format}"'}
    shown = lines(caller.desk.slow, chosen, caller.redaction)
    return StreamingResponse(shown, media_type=media_type, headers=named)


@api.get("/failures/{id}", "failures.read", FailureDetail)
async def get_failure(caller: Caller, id: FailureId) -> View:  # noqa: A002 - it is called that everywhere
    """Return everything about a failed message: attempts, headers, body, operations, notes."""
    return views.detail_view(await _found(caller, id))


@api.get(
    "/failures/{id}/body",
    "failures.read",
    None,
    response_class=Response,
    responses={200: {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}},
)
async def get_failure_body(caller: Caller, id: FailureId) -> Response:  # noqa: A002 - as above
    """Download the body of a failed message, byte for byte but for what is hidden."""
    found = await _found(caller, id)
    headers = {"content-disposition": f'attachment; filename="{found.summary.id}"', "cache-control": "no-store"}
    shown = await caller.redaction.shown_body(found.message.body)
    return Response(shown, media_type="application/octet-stream", headers=headers)


async def _found(caller: Caller, id: str) -> FailedDetail:  # noqa: A002 - as above
    return await caller.look(lambda: failure_within(caller.desk, caller.principal, id), narrowed=True)


@api.post("/failures/{id}/edit", "failures.edit", OperationModel)
async def edit_failure(caller: Caller, id: FailureId, asked: EditAsked, key: Key = None) -> View:  # noqa: A002 - as above
    """Send an edited copy of a failed message, with an id of its own; the two are linked both ways."""

    async def edit() -> Operation:
        found = await failure_within(caller.desk, caller.principal, id)
        transform = Transform.from_json(stated(asked.transform))
        return await caller.desk.recovery.edit(
            found.summary.id, transform, actor=caller.actor, reason=asked.reason, key=key
        )

    return views.operation_view(await caller.change(f"failure:{id}", edit, reason=asked.reason, narrowed=True))
