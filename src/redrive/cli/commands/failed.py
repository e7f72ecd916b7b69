# SPDX-License-Identifier: MIT
"""``redrive failed``: find failed messages, see why they failed, annotate and delete them."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, NamedTuple, TextIO

import typer

from redrive.cli.exit_status import ExitStatus
from redrive.cli.open import OpenRecovery, with_recovery
from redrive.cli.options.connection import RecoveryConnection, Yes
from redrive.cli.options.filter import Failure, FilterOptions
from redrive.cli.options.groups import grouped
from redrive.cli.options.page import Limit
from redrive.cli.options.request import Actor, actor_name
from redrive.cli.options.sources import Sources
from redrive.cli.options.time import seconds
from redrive.cli.output import console, sentences
from redrive.cli.output.message_detail import print_failed
from redrive.cli.output.progress import progress_bar
from redrive.cli.output.prompt import confirm
from redrive.cli.output.table import print_table
from redrive.cli.output.tables import failed_table, groups_table, set_asides_table
from redrive.printable import one_line
from redrive.recovery import FailedMessage, Filter, GroupInfo, Note, Status, views

app = typer.Typer(no_args_is_help=True)


@app.callback()
def _failed() -> None:
    """Find failed messages and see why they failed.

    Examples:
      redrive failed groups
      redrive failed list queue:orders exception:TimeoutError 'age<2h'
      redrive failed list --queue orders --since 2h --text 'no address'
      redrive failed show 17
      redrive failed export queue:orders --output orders.jsonl

    A filter without status: means unresolved messages; status:any means all.
    These commands first move new failures from the error queue into the
    store; --no-ingest leaves them there. A worker without an error queue
    leaves its failures in dead-letter queues: --dead moves those, too. A
    queue that was read once is read from then on.
    """


@app.command("list")
@grouped
def list_failed(
    which: FilterOptions,
    sources: Sources,
    *,
    newest: Annotated[bool, typer.Option("--newest", help="The newest first.")] = False,
    limit: Limit = 20,
    after: Annotated[
        int, typer.Option(metavar="NUMBER", min=0, help="Continue after this one.", show_default=False)
    ] = 0,
    connection: RecoveryConnection,
) -> None:
    """List failed messages.

    They are listed as they were first seen. Without status: in the filter
    only unresolved ones are.

    Examples:
      redrive failed list
      redrive failed list queue:orders 'attempts>=3'
      redrive failed list --group 3f2a9c4e5b6d7081 --newest --limit 5
      redrive failed list status:any operation:7 outcome:failed,skipped
    """

    async def look(opened: OpenRecovery) -> tuple[list[FailedMessage], _Beside]:
        chosen = await which.chosen(opened)
        page = await opened.recovery.failed(chosen, after=after, limit=limit, newest_first=newest)
        return page, await _beside(opened, chosen, is_any=bool(page))

    page, beside = with_recovery(connection, look, sources, check=which.check)
    if connection.as_json:
        console.print_json(views.records_view(page))
    elif page:
        print_table(failed_table(page))
    else:
        console.say(beside.nothing)
    if len(page) == limit:
        console.hint(f"there may be more: --after {page[-1].number}")
    console.warn(beside.hint)


@app.command()
@grouped
def show(failure: Failure, sources: Sources, connection: RecoveryConnection) -> None:
    """Show one failed message: attempts, stack trace, headers, body, operations, notes."""
    detail = with_recovery(connection, lambda opened: opened.failed_message(failure), sources)
    if connection.as_json:
        console.print_json(views.detail_view(detail))
    else:
        print_failed(detail)


@app.command()
@grouped
def groups(
    which: FilterOptions,
    sources: Sources,
    *,
    by: Annotated[
        str, typer.Option(metavar="WHAT", help="exception, queue, type, or a classifier of your own.")
    ] = "exception",
    limit: Limit = 20,
    connection: RecoveryConnection,
) -> None:
    """Show what failed messages have in common, the largest group first.

    A group has the same exception from the same place in the code; ids and
    numbers in the texts may differ.

    Examples:
      redrive failed groups
      redrive failed groups --by queue
      redrive failed groups queue:orders 'age<1d'
    """

    async def look(opened: OpenRecovery) -> tuple[list[GroupInfo], _Beside]:
        chosen = await which.chosen(opened)
        found = await opened.recovery.groups(chosen, by=by, limit=limit + 1, largest_first=True)
        return found, await _beside(opened, chosen, is_any=bool(found))

    found, beside = with_recovery(connection, look, sources, check=which.check)
    largest = found[:limit]
    if connection.as_json:
        console.print_json(views.records_view(largest))
    elif largest:
        print_table(groups_table(largest))
        _print_next(largest[0], has_more=len(found) > limit)
    else:
        console.say(beside.nothing)
    console.warn(beside.hint)


@app.command()
@grouped
def count(which: FilterOptions, sources: Sources, connection: RecoveryConnection) -> None:
    """Count failed messages."""

    async def look(opened: OpenRecovery) -> tuple[int, _Beside]:
        chosen = await which.chosen(opened)
        number = await opened.recovery.count(chosen)
        return number, await _beside(opened, chosen, is_any=bool(number))

    number, beside = with_recovery(connection, look, sources, check=which.check)
    if connection.as_json:
        console.print_json(views.count_view(number))
    else:
        console.say(f"{number:,}")
    console.warn(beside.hint)


@app.command()
@grouped
def export(
    which: FilterOptions,
    sources: Sources,
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Write to this file instead of standard output.")
    ] = Path("-"),
    connection: RecoveryConnection,
) -> None:
    """Write failed messages as lines of JSON, each with all details.

    A line has the same as show --json: headers and body, attempts with stack
    traces, operations, notes. A body that is not text is in base64. The file,
    or some lines of it, can be given to --ids-from.

    Examples:
      redrive failed export --output failed.jsonl
      redrive failed export queue:orders | jq -r .message.body
    """
    is_stdout = str(output) == "-"

    async def write(opened: OpenRecovery) -> int:
        chosen = await which.chosen(opened)
        total = await opened.recovery.count(chosen)
        with progress_bar() as bar, _output_file(output) as file:
            task = bar.add_task("writing", total=total)
            async for each in opened.recovery.export(chosen):
                file.write(console.json_line(views.detail_view(each)) + "\n")
                bar.advance(task)
            return int(bar.tasks[task].completed)

    try:
        written = with_recovery(connection, write, sources, check=which.check)
    except OSError as error:
        raise console.refusal(one_line(f"{output} cannot be written: {error.strerror}")) from None
    if connection.as_json and not is_stdout:
        console.print_json({"exported": written, "output": str(output)})
    elif not is_stdout:
        console.say(f"wrote {sentences.count(written, 'failed message')} to {output}")


@contextmanager
def _output_file(output: Path) -> Generator[TextIO]:
    """Open a file for writing; it appears when it is complete, or not at all."""
    if str(output) == "-":
        yield sys.stdout
        return
    part = output.with_name(f"{output.name}.part")
    try:
        with part.open("w", encoding="utf-8", errors="backslashreplace") as file:
            yield file
        part.replace(output)
    finally:
        part.unlink(missing_ok=True)


# --- notes


@app.command()
@grouped
def note(
    subject: Annotated[str, typer.Argument(metavar="SUBJECT", help="A failed message, group:ID or operation:N.")],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The note.")],
    *,
    actor: Actor = None,
    connection: RecoveryConnection,
) -> None:
    """Write a note about a failed message, a group or an operation.

    failed show and operations show print it, failed groups counts it.

    Examples:
      redrive failed note 17 'the customer has been called'
      redrive failed note group:3f2a9c4e5b6d7081 'bug 4711, fixed in 2.3'
    """

    async def write(opened: OpenRecovery) -> Note:
        about = subject
        if not subject.startswith(("group:", "operation:")):
            about = f"failure:{(await opened.failed_message(subject.removeprefix('failure:'))).summary.id}"
        return await opened.recovery.note(about, text, actor=actor_name(actor))

    written = with_recovery(connection, write)
    if connection.as_json:
        console.print_json(views.record_view(written))
    else:
        console.say(f"note {written.number} is about {written.subject}")


@app.command("drop-note")
@grouped
def drop_note(
    number: Annotated[int, typer.Argument(metavar="N", help="The note's number, as show lists it.")],
    *,
    actor: Actor = None,
    connection: RecoveryConnection,
) -> None:
    """Remove a note; the audit trail keeps its text."""
    with_recovery(connection, lambda opened: opened.recovery.drop_note(number, actor=actor_name(actor)))
    if connection.as_json:
        console.print_json(views.note_removed_view(number))
    else:
        console.say(f"note {number} is removed")


# --- what could not be read


@app.command()
@grouped
def aside(sources: Sources, *, limit: Limit = 20, connection: RecoveryConnection) -> None:
    """List messages that could not be read as failures, and why."""
    asides = with_recovery(connection, lambda opened: opened.recovery.aside(limit=limit), sources)
    if connection.as_json:
        console.print_json([views.set_aside_view(each) for each in asides])
        return
    if not asides:
        console.say("no messages are set aside")
        return
    print_table(set_asides_table(asides))
    console.hint("read them again: redrive failed reimport --failed-in QUEUE")


@app.command()
@grouped
def reimport(
    *,
    failed_in: Annotated[
        str | None,
        typer.Option(
            "--failed-in", "--queue", metavar="QUEUE", help="The queue they failed in, for those that do not name it."
        ),
    ] = None,
    actor: Actor = None,
    connection: RecoveryConnection,
) -> None:
    """Read again the messages that were set aside."""
    name = actor_name(actor)
    read, left = with_recovery(connection, lambda opened: opened.recovery.reimport(queue=failed_in, actor=name))
    if connection.as_json:
        console.print_json(views.reimport_view(read, left))
    else:
        console.say(f"{read:,} could be read" + (f", {left:,} could not: redrive failed aside" if left else ""))


@app.command()
@grouped
def sweep(
    *,
    older_than: Annotated[str, typer.Option(metavar="TIME", help="Such as 30d.")],
    actor: Actor = None,
    yes: Yes = False,
    connection: RecoveryConnection,
) -> None:
    """Delete old messages that were resolved or archived, and old operations that ended.

    Example: redrive failed sweep --older-than 30d
    """
    keep = seconds("older-than", older_than)
    if keep is None:
        raise console.refusal("--older-than none would keep nothing; say how long: 30d", ExitStatus.NOT_UNDERSTOOD)
    confirm(f"Delete for good what was resolved, archived or ended more than {older_than} ago?", yes=yes)
    swept = with_recovery(connection, lambda opened: opened.recovery.sweep(keep, actor=actor_name(actor)))
    if connection.as_json:
        console.print_json(views.sweep_view(swept))
    else:
        console.say(f"deleted {swept:,} that {sentences.verb(swept, 'was')} settled more than {older_than} ago")


# --- beside an answer


def _print_next(group: GroupInfo, *, has_more: bool) -> None:
    term = f"--group {group.id}" if group.classifier not in ("queue", "type") else f"{group.classifier}:{group.id}"
    rest = "there are more: --limit; " if has_more else ""
    console.hint(f"{rest}see one: redrive failed list {term}")


class _Beside(NamedTuple):
    """What a person has to know beside an answer.

    Attributes:
        nothing: that nothing matches, if that is so.
        hint: where failures are that have not been read.
    """

    nothing: str
    hint: str


async def _beside(opened: OpenRecovery, chosen: Filter, *, is_any: bool) -> _Beside:
    hint = opened.unread_hint(await opened.unread())
    if is_any:
        return _Beside("", hint)
    settled = 0
    if chosen.status == frozenset({Status.UNRESOLVED}):
        settled = await opened.recovery.count(replace(chosen, status=frozenset(Status)))
    what = f"failed message matches {chosen.written}" if chosen.written else "failed messages"
    if not settled:
        return _Beside(f"no {what}", hint)
    others = f"{settled:,} with another status {sentences.verb(settled, 'matches')}: add status:any"
    return _Beside(f"no unresolved {what}; {others}", hint)
