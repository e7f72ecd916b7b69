# SPDX-License-Identifier: MIT
"""``redrive failed``: find failed messages, see why they failed, keep order among them."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, NamedTuple, TextIO

import typer
from rich.text import Text

from redrive.cli import screen, telling, wording
from redrive.cli.choosing import Which, found
from redrive.cli.exit_status import ExitStatus
from redrive.cli.ledgers import Actor, Desk, Place, Sources, unread, who, with_recovery
from redrive.cli.option_groups import spread
from redrive.cli.reaching import Yes, confirm, seconds
from redrive.cli.story import print_story
from redrive.printable import one_line
from redrive.recovery import FailedMessage, Filter, GroupInfo, Note, SetAside, Status, views

app = typer.Typer(no_args_is_help=True)

Failure = Annotated[str, typer.Argument(metavar="ID", help="Its number or id, or the id its sender gave it.")]
Limit = Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, max=10_000, help="How many at most.")]


@app.callback()
def _failed() -> None:
    """Find failed messages, see why they failed, and keep order among them.

    Examples:
      redrive failed groups
      redrive failed list queue:orders exception:TimeoutError 'age<2h'
      redrive failed list --queue orders --since 2h --text 'no address'
      redrive failed show 17
      redrive failed export queue:orders --output orders.jsonl

    Without status: only unresolved ones are meant; status:any is all.
    Before they answer, these commands move what has arrived in the
    error queue into the store; --no-ingest leaves it there. A worker
    without an error queue leaves its failures in dead-letter queues:
    --dead moves those, too. A queue that was read once is read along.
    """


@app.command("list")
@spread
def list_failed(
    context: typer.Context,
    which: Which,
    place: Place,
    sources: Sources,
    *,
    newest: Annotated[bool, typer.Option("--newest", help="The newest first; else as they were first seen.")] = False,
    limit: Limit = 20,
    after: Annotated[int, typer.Option(metavar="NUMBER", min=0, help="Go on after this one.", show_default=False)] = 0,
) -> None:
    """List failed messages; unresolved ones unless the filter says otherwise.

    Examples:
      redrive failed list
      redrive failed list queue:orders 'attempts>=3'
      redrive failed list --group 3f2a9c4e5b6d7081 --newest --limit 5
      redrive failed list status:any operation:7 outcome:failed,skipped
    """

    async def look(desk: Desk) -> tuple[list[FailedMessage], _Beside]:
        chosen = await which.chosen(desk)
        page = await desk.recovery.failed(chosen, after=after, limit=limit, newest_first=newest)
        return page, await _beside(desk, chosen, is_any=bool(page))

    page, beside = with_recovery(context, look, sources, check=which.check)
    if place.as_json:
        screen.print_json(views.records_view(page))
    elif page:
        screen.print_table(telling.failed_table(page))
    else:
        screen.say(beside.nothing)
    if len(page) == limit:
        screen.hint(f"there may be more: --after {page[-1].number}")
    beside.tell()


@app.command()
@spread
def show(context: typer.Context, failure: Failure, place: Place, sources: Sources) -> None:
    """Show one failed message with its whole story: attempts, stack trace, headers, body, operations, notes."""
    detail = with_recovery(context, lambda desk: found(desk, failure), sources)
    if place.as_json:
        screen.print_json(views.detail_view(detail))
    else:
        print_story(detail)


@app.command()
@spread
def groups(
    context: typer.Context,
    which: Which,
    place: Place,
    sources: Sources,
    *,
    by: Annotated[
        str, typer.Option(metavar="WHAT", help="exception, queue, type, or a classifier of yours.")
    ] = "exception",
    limit: Limit = 20,
) -> None:
    """Show what failed messages have in common, the largest group first.

    Those of one exception from one place in the code are a group, whatever
    ids and numbers are in their texts.

    Examples:
      redrive failed groups
      redrive failed groups --by queue
      redrive failed groups queue:orders 'age<1d'
    """

    async def look(desk: Desk) -> tuple[list[GroupInfo], _Beside]:
        chosen = await which.chosen(desk)
        found = await desk.recovery.groups(chosen, by=by, limit=limit + 1, largest_first=True)
        return found, await _beside(desk, chosen, is_any=bool(found))

    found, beside = with_recovery(context, look, sources, check=which.check)
    largest = found[:limit]
    if place.as_json:
        screen.print_json(views.records_view(largest))
    elif largest:
        screen.print_table(telling.groups_table(largest))
        _tell_uses(largest[0], has_more=len(found) > limit)
    else:
        screen.say(beside.nothing)
    beside.tell()


@app.command()
@spread
def count(context: typer.Context, which: Which, place: Place, sources: Sources) -> None:
    """Count failed messages."""

    async def look(desk: Desk) -> tuple[int, _Beside]:
        chosen = await which.chosen(desk)
        many = await desk.recovery.count(chosen)
        return many, await _beside(desk, chosen, is_any=bool(many))

    many, beside = with_recovery(context, look, sources, check=which.check)
    if place.as_json:
        screen.print_json(views.count_view(many))
    else:
        screen.say(f"{many:,}")
    beside.tell()


@app.command()
@spread
def export(
    context: typer.Context,
    which: Which,
    place: Place,
    sources: Sources,
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Where to, if not to standard output.")
    ] = Path("-"),
) -> None:
    """Write failed messages with everything there is about them, each as a line of JSON.

    A line has what show --json has: headers and body, attempts with stack
    traces, operations, notes. A body that is no text is in base64. The file
    is good for --ids-from, whatever you take out of it.

    Examples:
      redrive failed export --output failed.jsonl
      redrive failed export queue:orders | jq -r .message.body
    """
    is_stdout = str(output) == "-"

    async def write(desk: Desk) -> int:
        chosen = await which.chosen(desk)
        total = await desk.recovery.count(chosen)
        with screen.progress() as bar, _opened(output) as file:
            task = bar.add_task("writing", total=total)
            async for each in desk.recovery.export(chosen):
                file.write(screen.json_line(views.detail_view(each)) + "\n")
                bar.advance(task)
            return int(bar.tasks[task].completed)

    try:
        written = with_recovery(context, write, sources, check=which.check)
    except OSError as error:
        raise screen.refusal(one_line(f"{output} cannot be written: {error.strerror}")) from None
    if place.as_json and not is_stdout:
        screen.print_json({"exported": written, "output": str(output)})
    elif not is_stdout:
        screen.say(f"wrote {wording.count(written, 'failed message')} to {output}")


@contextmanager
def _opened(output: Path) -> Generator[TextIO]:
    """Open a file to be written; it is there, whole, or not at all."""
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
@spread
def note(
    context: typer.Context,
    subject: Annotated[str, typer.Argument(metavar="SUBJECT", help="A failed message, group:ID or operation:N.")],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to remember.")],
    place: Place,
    *,
    actor: Actor = None,
) -> None:
    """Write a note about a failed message, a group or an operation, for whoever comes next.

    Examples:
      redrive failed note 17 'the customer has been called'
      redrive failed note group:3f2a9c4e5b6d7081 'bug 4711, mended in 2.3'
    """

    async def write(desk: Desk) -> Note:
        about = subject
        if not subject.startswith(("group:", "operation:")):
            about = f"failure:{(await found(desk, subject.removeprefix('failure:'))).summary.id}"
        return await desk.recovery.note(about, text, actor=who(actor))

    written = with_recovery(context, write)
    if place.as_json:
        screen.print_json(views.record_view(written))
    else:
        screen.say(f"note {written.number} is about {written.subject}")


@app.command("drop-note")
@spread
def drop_note(
    context: typer.Context,
    number: Annotated[int, typer.Argument(metavar="N", help="The note's number, as show lists it.")],
    place: Place,
    *,
    actor: Actor = None,
) -> None:
    """Remove a note; the audit trail keeps what it said."""
    with_recovery(context, lambda desk: desk.recovery.drop_note(number, actor=who(actor)))
    if place.as_json:
        screen.print_json(views.note_removed_view(number))
    else:
        screen.say(f"note {number} is gone")


# --- what could not be read


@app.command()
@spread
def aside(context: typer.Context, place: Place, sources: Sources, *, limit: Limit = 20) -> None:
    """List messages from error queues that could not be read, and why."""
    asides = with_recovery(context, lambda desk: desk.recovery.aside(limit=limit), sources)
    if place.as_json:
        screen.print_json([views.set_aside_view(each) for each in asides])
        return
    if not asides:
        screen.say("everything could be read")
        return
    table = screen.table("number", "found in", "why", "id", "body", right=("number",), long=("why", "body"))
    for each in asides:
        table.add_row(*_aside_row(each))
    screen.print_table(table)
    screen.hint("read them again: redrive failed reimport --failed-in QUEUE")


@app.command()
@spread
def reimport(
    context: typer.Context,
    place: Place,
    *,
    failed_in: Annotated[
        str | None,
        typer.Option("--failed-in", "--queue", metavar="QUEUE", help="Where they failed, if they do not say."),
    ] = None,
    actor: Actor = None,
) -> None:
    """Read again what was set aside."""
    read, left = with_recovery(context, lambda desk: desk.recovery.reimport(queue=failed_in, actor=who(actor)))
    if place.as_json:
        screen.print_json(views.reimport_view(read, left))
    else:
        screen.say(f"{read:,} could be read" + (f", {left:,} still not: redrive failed aside" if left else ""))


@app.command()
@spread
def sweep(
    context: typer.Context,
    place: Place,
    *,
    older_than: Annotated[str, typer.Option(metavar="TIME", help="Such as 30d.")],
    actor: Actor = None,
    yes: Yes = False,
) -> None:
    """Delete what was resolved or archived longer ago than that, and operations that ended.

    Example: redrive failed sweep --older-than 30d
    """
    keep = seconds("older-than", older_than)
    if keep is None:
        raise screen.refusal("--older-than none would keep nothing; say how long: 30d", ExitStatus.NOT_UNDERSTOOD)
    confirm(f"Delete what was settled more than {older_than} ago, for good?", yes=yes)
    swept = with_recovery(context, lambda desk: desk.recovery.sweep(keep, actor=who(actor)))
    if place.as_json:
        screen.print_json(views.sweep_view(swept))
    else:
        screen.say(f"deleted {swept:,} that {wording.verb(swept, 'was')} settled more than {older_than} ago")


# --- inside


def _tell_uses(group: GroupInfo, *, has_more: bool) -> None:
    term = f"--group {group.id}" if group.classifier not in ("queue", "type") else f"{group.classifier}:{group.id}"
    rest = "there are more: --limit; " if has_more else ""
    screen.hint(f"{rest}see one: redrive failed list {term}")


class _Beside(NamedTuple):
    """What a person has to know beside an answer.

    Attributes:
        nothing: that nothing matches, if that is so.
        hint: where failures are that nobody has read.
    """

    nothing: str
    hint: str

    def tell(self) -> None:
        """Print the hint."""
        if self.hint:
            screen.hint(self.hint, "yellow")


async def _beside(desk: Desk, chosen: Filter, *, is_any: bool) -> _Beside:
    hint = unread(desk, await desk.waiting())
    if is_any:
        return _Beside("", hint)
    settled = 0
    if chosen.status == frozenset({Status.UNRESOLVED}):
        settled = await desk.recovery.count(replace(chosen, status=frozenset(Status)))
    what = f"failed message matches {chosen.written}" if chosen.written else "failed messages"
    if not settled:
        return _Beside(f"no {what}", hint)
    rest = f"{settled:,} {wording.verb(settled, 'is')} not: add status:any"
    return _Beside(f"no unresolved {what}; {rest}", hint)


def _aside_row(each: SetAside) -> tuple[Text | str, ...]:
    return (
        str(each.number),
        Text(one_line(each.received.queue)),
        Text(one_line(each.reason)),
        Text(one_line(each.received.id)),
        screen.body_line(each.received.body),
    )
