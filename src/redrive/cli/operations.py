# SPDX-License-Identifier: MIT
"""``redrive operations``: see what was asked for, watch it, hold it up, or serve whatever is asked for."""

import asyncio
import logging
import signal
from contextlib import suppress
from typing import Annotated, NamedTuple

import typer
from rich.text import Text

from redrive import connect
from redrive.cli import screen, telling, wording
from redrive.cli.choosing import OUTCOMES, complete_outcome
from redrive.cli.exit_status import ExitStatus
from redrive.cli.failed import Limit
from redrive.cli.ledgers import (
    Actor,
    AllowTransform,
    Desk,
    Place,
    Sources,
    opened,
    store_of,
    unread,
    who,
    with_recovery,
)
from redrive.cli.option_groups import spread
from redrive.cli.reaching import Yes, confirm, missing_file, seconds, url_of
from redrive.cli.recovering import Detach, Wait
from redrive.cli.watching import Watch, conclude, tell
from redrive.errors import RedriveError
from redrive.printable import one_line
from redrive.recovery import Note, Operation, OperationState, Outcome, Part, views

app = typer.Typer(no_args_is_help=True)


def complete_operation(context: typer.Context) -> list[tuple[str, str]]:
    """Return the operations there are, for a shell; nothing if that cannot be found out quickly."""
    url, store = url_of(context), store_of(context)
    try:
        return [] if missing_file(url) or missing_file(store or url) else asyncio.run(_numbers(url, store))
    except RedriveError:
        return []


async def _numbers(url: str, store: str | None) -> list[tuple[str, str]]:
    async with connect(url) as broker, opened(broker, store, None) as desk:
        found = await desk.recovery.operations(limit=20)
    return [(str(each.number), f"{each.plan.kind.value}, {each.state.word}") for each in found]


Number = Annotated[int, typer.Argument(metavar="N", min=1, help="Its number.", autocompletion=complete_operation)]
Reason = Annotated[str, typer.Option(metavar="TEXT", help="Why; for the audit trail.")]


@app.callback()
def _operations() -> None:
    """See what was asked for, watch it, hold it up, or serve whatever is asked for.

    Examples:
      redrive operations list --open
      redrive operations show 7 --outcome failed,skipped
      redrive operations watch 7
      redrive operations pause 7 --reason 'the warehouse is down again'
      redrive operations run
    """


class _Seen(NamedTuple):
    """An operation, some of its messages with what is known of why they failed, and notes."""

    operation: Operation
    parts: list[Part]
    reasons: dict[str, Text]
    notes: list[Note]
    is_waiting: bool


@app.command("list")
@spread
def list_operations(
    context: typer.Context,
    place: Place,
    *,
    is_open: Annotated[bool, typer.Option("--open", help="Only those that are not over.")] = False,
    before: Annotated[int | None, typer.Option(metavar="N", help="Go on before this one.")] = None,
    limit: Limit = 20,
) -> None:
    """List operations, the newest first."""

    async def look(desk: Desk) -> tuple[list[Operation], bool]:
        found = await desk.recovery.operations(is_open=True if is_open else None, before=before, limit=limit)
        return found, await _is_waiting(desk, found)

    found, is_waiting = with_recovery(context, look)
    if place.as_json:
        screen.print_json([views.operation_view(each) for each in found])
    elif found:
        screen.print_table(telling.operations_table(found))
    else:
        none = "no operations are under way" if is_open else "no operations yet; ask for one: redrive recover"
        screen.say(none if before is None else f"no operations before {before}")
    if len(found) == limit:
        screen.hint(f"there may be more: --before {found[-1].number}")
    _warn(is_waiting=is_waiting)


async def _is_waiting(desk: Desk, operations: list[Operation]) -> bool:
    """Say whether somebody should be at work on some of these, and nobody is there to be."""
    is_work = any(not each.is_over and each.state is not OperationState.PAUSED for each in operations)
    return is_work and not await desk.recovery.services()


def _warn(*, is_waiting: bool) -> None:
    if is_waiting:
        told = "nobody serves, so nothing is done: redrive operations run, or watch one: redrive operations watch N"
        screen.hint(told, "yellow")


@app.command()
@spread
def services(context: typer.Context, place: Place) -> None:
    """See which processes serve: read failures, and work on what is asked for."""
    found = with_recovery(context, lambda desk: desk.recovery.services())
    if place.as_json:
        screen.print_json(views.records_view(found))
        return
    for each in found:
        told = f"{each.host}, for {screen.age(each.since)}, as {each.session}"
        screen.say(told)
    if not found:
        screen.say("nobody serves; redrive operations run does")


@app.command()
@spread
def show(
    context: typer.Context,
    number: Number,
    place: Place,
    sources: Sources,
    *,
    outcome: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WORD", autocompletion=complete_outcome, help="List its messages with this outcome; any is all."
        ),
    ] = None,
    after: Annotated[int, typer.Option(metavar="MESSAGE", min=0, help="Go on after it.", show_default=False)] = 0,
    limit: Limit = 20,
) -> None:
    """Show an operation: its figures, and what became of its messages.

    Examples:
      redrive operations show 7
      redrive operations show 7 --outcome failed,failed-again
    """
    wanted = _outcomes(outcome)

    async def look(desk: Desk) -> _Seen:
        operation = await desk.recovery.operation(number)
        parts = await desk.recovery.outcomes(number, wanted, after=after, limit=limit) if outcome else []
        failed = await desk.recovery.failed([each.id for each in parts], limit=limit) if parts else []
        reasons = {each.id: telling.why(each.exception_type, each.exception_message) for each in failed}
        notes = await desk.recovery.notes(f"operation:{number}")
        return _Seen(operation, parts, reasons, notes, await _is_waiting(desk, [operation]))

    operation, parts, reasons, notes, is_waiting = with_recovery(context, look, sources)
    if place.as_json:
        screen.print_json(views.operation_detail_view(operation, notes, parts if outcome else None))
        return
    tell(operation)
    _print_request(operation, notes)
    if outcome:
        _print_parts(parts, reasons)
    if len(parts) == limit:
        screen.hint(f"there may be more: --after {parts[-1].failure}")
    _warn(is_waiting=is_waiting)


@app.command()
@spread
def watch(context: typer.Context, number: Number, place: Place, sources: Sources, *, wait: Wait = "5s") -> None:
    """Work on operations until this one is over, and watch it; after Ctrl-C others go on with it, if there are some."""
    _watched(context, number, place, sources, wait)


@app.command()
@spread
def pause(context: typer.Context, number: Number, place: Place, *, reason: Reason = "", actor: Actor = None) -> None:
    """Send nothing more for now."""
    operation = with_recovery(context, lambda desk: desk.recovery.pause(number, actor=who(actor), reason=reason))
    _print_changed(operation, place)


@app.command()
@spread
def resume(
    context: typer.Context,
    number: Number,
    place: Place,
    sources: Sources,
    *,
    reason: Reason = "",
    actor: Actor = None,
    wait: Wait = "5s",
    detach: Detach = False,
) -> None:
    """Go on with an operation that was paused, or that its canaries stopped, and watch it."""
    operation = with_recovery(context, lambda desk: desk.recovery.resume(number, actor=who(actor), reason=reason))
    if detach:
        _print_changed(operation, place)
    else:
        _watched(context, number, place, sources, wait)


@app.command()
@spread
def cancel(
    context: typer.Context, number: Number, place: Place, *, reason: Reason = "", actor: Actor = None, yes: Yes = False
) -> None:
    """Send nothing more, and let go of what was not sent. When this returns, nothing more will be sent."""
    confirm(f"Cancel operation {number}? What was sent stays sent.", yes=yes)
    operation = with_recovery(context, lambda desk: desk.recovery.cancel(number, actor=who(actor), reason=reason))
    _print_changed(operation, place)


@app.command("set-rate")
@spread
def set_rate(
    context: typer.Context,
    number: Number,
    rate: Annotated[str, typer.Argument(metavar="RATE", help="Messages a second to each queue, or none.")],
    place: Place,
    *,
    actor: Actor = None,
) -> None:
    """Change how fast an operation sends, from now on.

    Examples:
      redrive operations set-rate 7 200
      redrive operations set-rate 7 none
    """
    try:
        wanted = None if rate.lower() == "none" else float(rate)
    except ValueError:
        problem = f"rate {rate!r}: write messages a second, such as 50, or none for as fast as it goes"
        raise screen.refusal(problem, ExitStatus.NOT_UNDERSTOOD) from None
    operation = with_recovery(context, lambda desk: desk.recovery.set_rate(number, wanted, actor=who(actor)))
    _print_changed(operation, place)


@app.command()
@spread
def run(context: typer.Context, place: Place, sources: Sources, *, allow_transform: AllowTransform = None) -> None:
    """Serve until Ctrl-C or SIGTERM: read failures as they come, and work on whatever is asked for.

    Any number of these may run on one store. Each takes what is free; what
    one that dies was doing, another goes on with. A function that changes
    messages is called only if it is named here.

    Examples:
      redrive operations run --dead
      redrive operations run --allow-transform shop.mending:to_euros
    """
    if not logging.getLogger().handlers:
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")

    async def serve(desk: Desk) -> None:
        screen.hint(f"recovery reads {wording.some(desk.sources, 10)} and works on operations; Ctrl-C stops it", "")
        dead = {queue: many for queue, many in (await desk.waiting()).items() if queue not in desk.sources}
        if dead:
            screen.hint(unread(desk, dead), "yellow")
        serving = asyncio.create_task(desk.recovery.run())
        loop = asyncio.get_running_loop()
        for each in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(each, serving.cancel)
        with suppress(asyncio.CancelledError):
            await serving

    with_recovery(context, serve, sources.unread)


@app.command()
@spread
def trail(
    context: typer.Context,
    place: Place,
    *,
    subject: Annotated[str | None, typer.Option(metavar="TEXT", help="Only about operation:7, queue:orders …")] = None,
    before: Annotated[int | None, typer.Option(metavar="N", help="Go on before this entry.")] = None,
    limit: Limit = 20,
) -> None:
    """Show who did what, why, and what came of it; refusals too, the newest first."""
    entries = with_recovery(context, lambda desk: desk.recovery.trail(subject=subject, before=before, limit=limit))
    if place.as_json:
        screen.print_json(views.records_view(entries))
    elif entries:
        for line in telling.trail_lines(entries):
            screen.out().print(line, soft_wrap=True)
    else:
        about = "" if subject is None else f" about {subject}"
        screen.say(f"nothing was done{about}" + ("" if before is None else f" before entry {before}"))
    if len(entries) == limit:
        screen.hint(f"there may be more: --before {entries[-1].number}")


def _outcomes(words: list[str] | None) -> list[Outcome]:
    stated = [word.strip() for each in words or () for word in each.split(",")]
    wrong = [word for word in stated if word not in (*OUTCOMES, "any")]
    if wrong:
        raise screen.refusal(
            f"--outcome {wrong[0]!r}: write any, or some of {', '.join(OUTCOMES)}", ExitStatus.NOT_UNDERSTOOD
        )
    return [] if "any" in stated else [each for each in Outcome if each.word in stated]


def _watched(context: typer.Context, number: int, place: Place, sources: Sources, wait: str) -> None:
    watches: list[Watch] = []

    async def work(desk: Desk) -> Operation:
        await desk.recovery.operation(number)
        watches.append(Watch(desk, seconds("wait", wait) or 0.0))
        return await watches[0].until_over(number)

    operation = with_recovery(context, work, sources.unread)
    conclude(operation, watches[0], as_json=place.as_json)


def _print_parts(parts: list[Part], reasons: dict[str, Text]) -> None:
    screen.say("")
    if parts:
        screen.print_table(telling.parts_table(parts, reasons))
    else:
        screen.say("no message has that outcome")


def _print_changed(operation: Operation, place: Place) -> None:
    if place.as_json:
        screen.print_json(views.operation_view(operation))
    else:
        tell(operation)


def _print_request(operation: Operation, notes: list[Note]) -> None:
    console = screen.out()
    asked = f"{screen.age(operation.requested_at)} ago" + (f" by {operation.actor}" if operation.actor else "")
    took = operation.ended_at and operation.started_at and operation.ended_at - operation.started_at
    facts = {
        "asked": asked + (f": {operation.reason}" if operation.reason else ""),
        "messages": telling.filter_text(operation.plan),
        "failed": wording.span(operation.plan.filter),
        "how": telling.how_text(operation.plan),
        "key": operation.key,
        "batches": f"{operation.batches:,}" + (f", {operation.batches_left:,} left" if operation.batches_left else ""),
        "took": took and screen.length(took.total_seconds()),
        "later": operation.newcomers and f"{operation.newcomers:,} that match failed since, not part of it",
        "seen by": operation.acknowledged_by,
    }
    console.print()
    for name, value in facts.items():
        if value:
            console.print(Text.assemble((f"  {name:<10}", "dim"), one_line(value, 10_000)), soft_wrap=True)
    for line in telling.note_lines(notes):
        console.print(line, soft_wrap=True)
