# SPDX-License-Identifier: MIT
"""``redrive operations``: list operations, watch them, control them, and run the service that works on them."""

import asyncio
from typing import Annotated, Any, NamedTuple

import typer
from rich.text import Text

from redrive import connect
from redrive.cli.exit_status import ExitStatus
from redrive.cli.open import OpenRecovery, opened_recovery, with_recovery
from redrive.cli.options.connection import RecoveryConnection, Yes, missing_file, typed_store, typed_url
from redrive.cli.options.filter import OUTCOMES, complete_outcome
from redrive.cli.options.groups import grouped
from redrive.cli.options.page import Limit
from redrive.cli.options.request import Actor, Detach, Reason, Wait, actor_name
from redrive.cli.options.sources import Sources
from redrive.cli.options.time import moment, seconds
from redrive.cli.options.transform import AllowTransform
from redrive.cli.output import console
from redrive.cli.output.message_text import exception_line
from redrive.cli.output.operation_detail import print_operation, print_request
from redrive.cli.output.prompt import confirm
from redrive.cli.output.sentences import some
from redrive.cli.output.table import age, print_table
from redrive.cli.output.tables import lanes_table, operations_table, parts_table, trail_lines
from redrive.cli.stop_signals import StopSignals, run_until_stopped
from redrive.cli.watch import run_operation
from redrive.errors import RedriveError
from redrive.printable import one_line
from redrive.recovery import Note, Operation, OperationState, Outcome, Part, views
from redrive.telemetry import log_to_stderr

app = typer.Typer(no_args_is_help=True)


def complete_operation(context: typer.Context) -> list[tuple[str, str]]:
    """Return the newest operations, for a shell; none if they cannot be found out quickly."""
    url, store = typed_url(context), typed_store(context)
    try:
        return [] if missing_file(url) or missing_file(store or url) else asyncio.run(_numbers(url, store))
    except RedriveError:
        return []


async def _numbers(url: str, store: str | None) -> list[tuple[str, str]]:
    async with connect(url) as broker, opened_recovery(broker, store) as opened:
        found = await opened.recovery.operations(limit=20)
    return [(str(each.number), f"{each.plan.kind.value}, {each.state.word}") for each in found]


Number = Annotated[int, typer.Argument(metavar="N", min=1, help="Its number.", autocompletion=complete_operation)]


@app.callback()
def _operations() -> None:
    """List operations, watch and control them, and run the service.

    An operation is one request to recover, archive, restore or resolve failed
    messages. The service reads failures and works on operations.

    Examples:
      redrive operations list --open
      redrive operations show 7 --outcome failed,skipped
      redrive operations watch 7
      redrive operations pause 7 --reason 'the warehouse is down again'
      redrive operations run
    """


# --- looking


@app.command("list")
@grouped
def list_operations(
    *,
    is_open: Annotated[bool, typer.Option("--open", help="Only operations that are not over.")] = False,
    before: Annotated[int | None, typer.Option(metavar="N", help="Continue before this one.")] = None,
    limit: Limit = 20,
    connection: RecoveryConnection,
) -> None:
    """List operations, the newest first."""

    async def look(opened: OpenRecovery) -> tuple[list[Operation], bool]:
        found = await opened.recovery.operations(is_open=True if is_open else None, before=before, limit=limit)
        return found, await _is_idle(opened, found)

    found, is_idle = with_recovery(connection, look)
    if connection.as_json:
        console.print_json([views.operation_view(each) for each in found])
    elif found:
        print_table(operations_table(found))
    else:
        none = "no open operations" if is_open else "no operations yet; request one: redrive recover"
        console.say(none if before is None else f"no operations before {before}")
    if len(found) == limit:
        console.hint(f"there may be more: --before {found[-1].number}")
    _warn(is_idle=is_idle)


async def _is_idle(opened: OpenRecovery, operations: list[Operation]) -> bool:
    """Return whether there is work on some of these, and no process that does it."""
    is_work = any(not each.is_over and each.state is not OperationState.PAUSED for each in operations)
    return is_work and not await opened.recovery.services()


def _warn(*, is_idle: bool) -> None:
    if is_idle:
        console.warn("no process works on operations; start one: redrive operations run, or redrive operations watch N")


class _Seen(NamedTuple):
    """An operation, some of its messages with why they failed, and notes."""

    operation: Operation
    parts: list[Part]
    reasons: dict[str, Text]
    notes: list[Note]
    is_idle: bool


@app.command()
@grouped
def show(
    number: Number,
    sources: Sources,
    *,
    outcome: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WORD", autocompletion=complete_outcome, help="List its messages with this outcome; any is all."
        ),
    ] = None,
    after: Annotated[
        int, typer.Option(metavar="MESSAGE", min=0, help="Continue after this one.", show_default=False)
    ] = 0,
    limit: Limit = 20,
    connection: RecoveryConnection,
) -> None:
    """Show an operation: its figures, and the outcomes of its messages.

    A message is pending, forwarded, succeeded, failed-again, failed, skipped,
    cancelled, closed, superseded or done.

    Examples:
      redrive operations show 7
      redrive operations show 7 --outcome failed,failed-again
    """
    wanted = _outcomes(outcome)

    async def look(opened: OpenRecovery) -> _Seen:
        recovery = opened.recovery
        operation = await recovery.operation(number)
        parts = await recovery.outcomes(number, wanted, after=after, limit=limit) if outcome else []
        failed = await recovery.failed([each.id for each in parts], limit=limit) if parts else []
        reasons = {each.id: exception_line(each.exception_type, each.exception_message) for each in failed}
        notes = await recovery.notes(f"operation:{number}")
        return _Seen(operation, parts, reasons, notes, await _is_idle(opened, [operation]))

    seen = with_recovery(connection, look, sources)
    if connection.as_json:
        console.print_json(views.operation_detail_view(seen.operation, seen.notes, seen.parts if outcome else None))
        return
    print_operation(seen.operation)
    print_request(seen.operation, seen.notes)
    if outcome:
        _print_parts(seen)
    if len(seen.parts) == limit:
        console.hint(f"there may be more: --after {seen.parts[-1].failure}")
    _warn(is_idle=seen.is_idle)


def _outcomes(words: list[str] | None) -> list[Outcome]:
    stated = [word.strip() for each in words or () for word in each.split(",")]
    wrong = [word for word in stated if word not in (*OUTCOMES, "any")]
    if wrong:
        problem = f"--outcome {wrong[0]!r}: write any, or some of {', '.join(OUTCOMES)}"
        raise console.refusal(problem, ExitStatus.NOT_UNDERSTOOD)
    return [] if "any" in stated else [each for each in Outcome if each.word in stated]


def _print_parts(seen: _Seen) -> None:
    console.say("")
    if seen.parts:
        print_table(parts_table(seen.parts, seen.reasons))
    else:
        console.say("no message has that outcome")


@app.command()
@grouped
def services(connection: RecoveryConnection) -> None:
    """List the processes that serve: they read failures and work on operations."""
    found = with_recovery(connection, lambda opened: opened.recovery.services())
    if connection.as_json:
        console.print_json(views.records_view(found))
        return
    for each in found:
        console.say(f"{each.host}, for {age(each.since)}, as {each.session}")
    if not found:
        console.say("no process serves; start one: redrive operations run")


@app.command()
@grouped
def lanes(connection: RecoveryConnection) -> None:
    """List the lanes: each destination, the batch that is sent to it, and the process that sends it."""
    found = with_recovery(connection, lambda opened: opened.recovery.lanes())
    if connection.as_json:
        console.print_json(views.records_view(found))
    elif found:
        print_table(lanes_table(found))
    else:
        console.say("no lanes: nothing has been sent yet")


@app.command()
@grouped
def trail(
    *,
    subject: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Only entries about operation:7, queue:orders …")
    ] = None,
    by: Annotated[str | None, typer.Option(metavar="ACTOR", help="Only what this one did.")] = None,
    action: Annotated[str | None, typer.Option(metavar="WORD", help="Only recover, queues.delete …")] = None,
    since: Annotated[str | None, typer.Option(metavar="WHEN", help="Not before: 2026-11-01T10:00Z, or 2h.")] = None,
    until: Annotated[str | None, typer.Option(metavar="WHEN", help="Only before then.")] = None,
    before: Annotated[int | None, typer.Option(metavar="N", help="Continue before this entry.")] = None,
    limit: Limit = 20,
    connection: RecoveryConnection,
) -> None:
    """Show the audit trail, the newest entry first: who did what, why, and with what result.

    Requests that were refused are in it, too; and changes of queues, topics,
    routes, pipelines, tokens and users by commands and through the server.

    Examples:
      redrive operations trail --subject queue:orders
      redrive operations trail --by ann --since 1d
    """
    asked: dict[str, Any] = {"subject": subject, "actor": by, "action": action, "before": before, "limit": limit}
    asked |= {"since": moment("since", since), "until": moment("until", until)}
    entries = with_recovery(connection, lambda opened: opened.recovery.trail(**asked))
    if connection.as_json:
        console.print_json(views.records_view(entries))
    elif entries:
        for line in trail_lines(entries):
            console.out().print(line, soft_wrap=True)
    else:
        about = "" if subject is None else f" about {one_line(subject)}"
        console.say(f"no entries{about}" + ("" if before is None else f" before entry {before}"))
    if len(entries) == limit:
        console.hint(f"there may be more: --before {entries[-1].number}")


# --- changing


@app.command()
@grouped
def watch(number: Number, sources: Sources, *, wait: Wait = "5s", connection: RecoveryConnection) -> None:
    """Work on operations until this one is over, and watch it.

    After Ctrl-C other processes that serve continue with it.
    """
    _watch(number, connection, sources, wait)


def _watch(number: int, connection: RecoveryConnection, sources: Sources, wait: str) -> None:
    wait_s = seconds("wait", wait) or 0.0
    run_operation(connection, sources, wait_s, lambda opened: opened.recovery.operation(number))


@app.command()
@grouped
def pause(number: Number, *, reason: Reason = "", actor: Actor = None, connection: RecoveryConnection) -> None:
    """Stop sending until the operation is resumed."""
    name = actor_name(actor)
    operation = with_recovery(connection, lambda opened: opened.recovery.pause(number, actor=name, reason=reason))
    _print_changed(operation, connection)


@app.command()
@grouped
def resume(
    number: Number,
    sources: Sources,
    *,
    reason: Reason = "",
    actor: Actor = None,
    wait: Wait = "5s",
    detach: Detach = False,
    connection: RecoveryConnection,
) -> None:
    """Continue an operation that was paused, by a person or by its canaries, and watch it."""
    name = actor_name(actor)
    operation = with_recovery(connection, lambda opened: opened.recovery.resume(number, actor=name, reason=reason))
    if detach:
        _print_changed(operation, connection)
    else:
        _watch(number, connection, sources, wait)


@app.command()
@grouped
def cancel(
    number: Number, *, reason: Reason = "", actor: Actor = None, yes: Yes = False, connection: RecoveryConnection
) -> None:
    """Stop sending for good, and release the messages that were not sent.

    When this returns, nothing more will be sent.
    """
    confirm(f"Cancel operation {number}? What was sent stays sent.", yes=yes)
    name = actor_name(actor)
    operation = with_recovery(connection, lambda opened: opened.recovery.cancel(number, actor=name, reason=reason))
    _print_changed(operation, connection)


@app.command("set-rate")
@grouped
def set_rate(
    number: Number,
    rate: Annotated[str, typer.Argument(metavar="RATE", help="Messages a second to each queue, or none.")],
    *,
    actor: Actor = None,
    connection: RecoveryConnection,
) -> None:
    """Change how fast an operation sends, from now on.

    The rate is for each destination; none is as fast as possible.

    Examples:
      redrive operations set-rate 7 200
      redrive operations set-rate 7 none
    """
    try:
        wanted = None if rate.lower() == "none" else float(rate)
    except ValueError:
        problem = f"rate {rate!r}: write messages a second, such as 50, or none for no limit"
        raise console.refusal(problem, ExitStatus.NOT_UNDERSTOOD) from None
    name = actor_name(actor)
    operation = with_recovery(connection, lambda opened: opened.recovery.set_rate(number, wanted, actor=name))
    _print_changed(operation, connection)


@app.command()
@grouped
def acknowledge(number: Number, *, actor: Actor = None, connection: RecoveryConnection) -> None:
    """Record that you have seen how an operation ended; show displays it as seen."""

    async def change(opened: OpenRecovery) -> Operation:
        await opened.recovery.acknowledge(number, actor=actor_name(actor))
        return await opened.recovery.operation(number)

    operation = with_recovery(connection, change)
    if connection.as_json:
        console.print_json(views.operation_view(operation))
    else:
        console.say(f"operation {number} is seen by {operation.acknowledged_by}")


def _print_changed(operation: Operation, connection: RecoveryConnection) -> None:
    if connection.as_json:
        console.print_json(views.operation_view(operation))
    else:
        print_operation(operation)


# --- the service


@app.command()
@grouped
def run(sources: Sources, *, allow_transform: AllowTransform = None, connection: RecoveryConnection) -> None:
    """Serve until Ctrl-C or SIGTERM: read failures as they arrive, and work on operations.

    Any number of these may run on one store. Each takes what is free, and
    takes over the work of one that dies. A function that changes messages
    is called only if it is allowed here.

    Examples:
      redrive operations run --dead
      redrive operations run --allow-transform shop.fixes:to_euros
    """
    log_to_stderr()

    async def serve(opened: OpenRecovery) -> None:
        read = some(opened.sources, 10)
        console.hint(f"recovery reads {read} and works on operations; Ctrl-C stops it", "")
        dead = {queue: number for queue, number in (await opened.unread()).items() if queue not in opened.sources}
        console.warn(opened.unread_hint(dead))
        signals.is_heeded = True
        await run_until_stopped(signals, opened.recovery.run())

    with StopSignals() as signals:
        with_recovery(connection, serve, sources.without_ingest, functions=allow_transform or ())
