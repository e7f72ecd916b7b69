# SPDX-License-Identifier: MIT
"""``/redirects``, ``/notes``, ``/audit``, ``/asides``, ``/ingest`` and ``/sweep``: what belongs to all failures."""

from typing import Annotated

from fastapi import Path, Query
from pydantic import Field

from redrive.broker import dead_letter_queue, is_own_queue
from redrive.broker.rules import ERROR_QUEUE
from redrive.broker.views import View
from redrive.recovery import AuditEntry, MessageFailed, MessageSetAside, Note, Recovery, views
from redrive.server.api.endpoint import Caller, Endpoints, Name
from redrive.server.api.failure_models import AuditModel, NoteModel, SetAsideModel
from redrive.server.api.groups import group_within
from redrive.server.api.models import ViewModel
from redrive.server.api.pages import LARGEST_NUMBER, PAGED, After, Before, Page
from redrive.server.api.requests import Key, instant_in, once
from redrive.server.api.within import failure_within, operation_within
from redrive.telemetry import Event

Subject = Annotated[
    str,
    Query(
        pattern=r"^(group|failure|operation):[^\x00-\x1f\x7f]{1,300}$",
        description="What they are about: group:<id>, failure:<id> or operation:<number>.",
        examples=["operation:7"],
    ),
]
Moment = Annotated[
    str | None,
    Query(max_length=40, description="A time in ISO 8601, with its zone.", examples=["2031-05-04T09:30:00Z"]),
]


class RedirectModel(ViewModel):
    """Where failed messages of a queue go; ``to`` is null if they go to the queue they failed in."""

    from_: str = Field(alias="from", examples=["orders"])
    to: str | None = Field(examples=["orders-v2"])


class RedirectAsked(ViewModel):
    """Where failed messages of a queue go from now on."""

    to: str = Field(min_length=1, max_length=1_000, description="The queue.", examples=["orders-v2"])


class NoteAsked(ViewModel):
    """A note about a group, a failed message or an operation."""

    subject: str = Field(
        pattern=r"^(group|failure|operation):[^\x00-\x1f\x7f]{1,300}$",
        description="group:<id>, failure:<id> or operation:<number>.",
        examples=["operation:7"],
    )
    text: str = Field(min_length=1, max_length=100_000, examples=["bug 4711, fixed in 2.3"])


class NoteRemoved(ViewModel):
    """A note that was removed."""

    note: int
    removed: bool


class ReimportAsked(ViewModel):
    """How messages that were set aside are read again."""

    queue: str | None = Field(None, max_length=1_000, description="The queue they failed in, if they do not say.")


class ReimportModel(ViewModel):
    """How many messages that were set aside could be read this time."""

    read: int
    left: int


class IngestAsked(ViewModel):
    """Which queues failures are read from; without any, those that were read before."""

    queues: list[str] = Field([], max_length=1_000, description="Error queues.")
    dead: bool = Field(default=False, description="Also the dead letters of all queues.")


class IngestModel(ViewModel):
    """How many failures were read."""

    read: int
    set_aside: int = Field(description="How many could not be read.")
    sources: list[str] = Field(description="The queues that were read.")


class SweepAsked(ViewModel):
    """What is deleted."""

    older_than: float = Field(ge=0, le=3_153_600_000, description="Seconds since it was settled.", examples=[2_592_000])


class SweepModel(ViewModel):
    """How many records were deleted because of their age."""

    deleted: int


api = Endpoints("failures")


# --- redirects


@api.get("/redirects", "redirects.read", list[RedirectModel])
async def list_redirects(caller: Caller) -> list[View]:
    """List where failed messages go instead of the queue they failed in."""
    found = await caller.look(caller.desk.recovery.redirects, narrowed=True)
    has = caller.principal.has
    return views.redirects_view({queue: to for queue, to in found.items() if has(queue) and has(to)})


@api.put("/redirects/{queue}", "redirects.change", RedirectModel)
async def add_redirect(caller: Caller, queue: Name, asked: RedirectAsked) -> View:
    """Send failed messages of a queue to another, in every recovery that is requested from now on."""
    redirect = caller.desk.recovery.redirect
    await caller.change(
        f"queue:{queue}", lambda: redirect(queue, asked.to, actor=caller.actor), queues=[queue, asked.to]
    )
    return views.redirect_view(queue, asked.to)


@api.delete("/redirects/{queue}", "redirects.change", RedirectModel)
async def remove_redirect(caller: Caller, queue: Name) -> View:
    """Remove the redirect of a queue."""
    redirect = caller.desk.recovery.redirect
    await caller.change(f"queue:{queue}", lambda: redirect(queue, None, actor=caller.actor), queues=[queue])
    return views.redirect_view(queue, None)


# --- notes


@api.get("/notes", "notes.read", list[NoteModel])
async def list_notes(caller: Caller, subject: Subject) -> list[View]:
    """List the notes about something, the oldest first."""

    async def find() -> list[Note]:
        await _check_subject(caller, subject)
        return await caller.desk.recovery.notes(subject)

    return views.records_view(await caller.look(find, narrowed=True))


@api.post("/notes", "notes.write", NoteModel)
async def write_note(caller: Caller, asked: NoteAsked, key: Key = None) -> View:
    """Write a note about a failed message, a group or an operation."""

    async def write() -> Note:
        await _check_subject(caller, asked.subject)
        return await caller.desk.recovery.note(asked.subject, asked.text, actor=caller.actor)

    return views.record_view(await caller.change(asked.subject, once(caller, key, write), narrowed=True))


@api.delete("/notes/{number}", "notes.delete", NoteRemoved)
async def remove_note(
    caller: Caller, number: Annotated[int, Path(ge=1, le=LARGEST_NUMBER, description="The note's number.")]
) -> View:
    """Remove a note; the audit trail keeps what it said. Not for a caller limited to queues."""
    drop = caller.desk.recovery.drop_note
    await caller.change(f"note:{number}", lambda: drop(number, actor=caller.actor))
    return views.note_removed_view(number)


async def _check_subject(caller: Caller, subject: str) -> None:
    """See that a caller limited to queues writes and reads about these only."""
    if caller.principal.queues is None:
        return
    kind, _, which = subject.partition(":")
    if kind == "failure":
        await failure_within(caller.desk, caller.principal, which)
    elif kind == "group":
        await group_within(caller, which)
    else:
        number = int(which) if which.isascii() and which.isdecimal() and len(which) < 19 else 0
        await operation_within(caller.desk, caller.principal, number, newcomers=False)


# --- the audit trail


@api.get("/audit", "audit.read", list[AuditModel], responses=PAGED)
async def list_audit(
    caller: Caller,
    page: Page,
    *,
    subject: Annotated[
        str | None, Query(max_length=1_000, description="Only entries about operation:7, queue:orders …")
    ] = None,
    actor: Annotated[str | None, Query(max_length=1_000, description="Only entries of this actor.")] = None,
    action: Annotated[
        str | None, Query(max_length=1_000, description="Only entries of recover, queues.delete …")
    ] = None,
    since: Moment = None,
    until: Moment = None,
    before: Before = 0,
) -> list[View]:
    """Show the audit trail, the newest entry first: who did what, why, and with what result; refusals, too."""
    recovery = caller.desk.recovery

    async def find() -> list[AuditEntry]:
        return await recovery.trail(
            subject=subject,
            actor=actor,
            action=action,
            since=None if since is None else instant_in("since", since),
            until=None if until is None else instant_in("until", until),
            before=page.after(before) or None,
            limit=page.limit,
        )

    found = await caller.look(find)
    return views.records_view(page.of(found, found[-1].number if found else None))


# --- what is not read yet, or could not be


@api.get("/asides", "asides.read", list[SetAsideModel], responses=PAGED)
async def list_asides(caller: Caller, page: Page, after: After = 0) -> list[View]:
    """List messages that could not be read as failures, and why."""
    found = await caller.look(lambda: caller.desk.recovery.aside(after=page.after(after), limit=page.limit))
    return [views.set_aside_view(each) for each in page.of(found, found[-1].number if found else None)]


@api.post("/asides/reimport", "asides.reimport", ReimportModel)
async def reimport_asides(caller: Caller, asked: ReimportAsked, key: Key = None) -> View:
    """Read again the messages that were set aside."""
    reimport = caller.desk.recovery.reimport
    call = once(caller, key, lambda: reimport(queue=asked.queue, actor=caller.actor))
    return views.reimport_view(*await caller.change("set aside", call))


@api.post("/ingest", "failures.ingest", IngestModel)
async def ingest_failures(caller: Caller, asked: IngestAsked, key: Key = None) -> View:
    """Read failures out of error queues and dead-letter queues into the store."""
    read = [0, 0]

    def count(event: Event) -> None:
        read[0] += isinstance(event, MessageFailed)
        read[1] += isinstance(event, MessageSetAside)

    async def ingest() -> tuple[str, ...]:
        desk = caller.desk
        for each in asked.queues:
            await desk.broker.inspect(each)
        sources = tuple(asked.queues) or (ERROR_QUEUE, *await desk.recovery.sources())
        if asked.dead:
            names = [each.name for each in await desk.broker.queues() if not is_own_queue(each.name)]
            sources = (*sources, *map(dead_letter_queue, names))
        sources = tuple(dict.fromkeys(sources))
        await Recovery(desk.broker, desk.recovery.ledger, sources=sources, on_event=count).ingest()
        return sources

    sources = await caller.change("failures", once(caller, key, ingest))
    return views.ingest_view(read[0], read[1], sources)


@api.post("/sweep", "failures.sweep", SweepModel)
async def sweep_failures(caller: Caller, asked: SweepAsked, key: Key = None) -> View:
    """Delete what was resolved or archived longer ago than that, and operations that ended."""
    sweep = caller.desk.recovery.sweep
    call = once(caller, key, lambda: sweep(asked.older_than, actor=caller.actor))
    return views.sweep_view(await caller.change("failures", call))
