# SPDX-License-Identifier: MIT
"""``redrive failed``: find failed messages, see why they failed, keep order among them."""

import json
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, TextIO

import typer
from rich.text import Text

from redrive.broker import QueueInfo
from redrive.cli import screen, telling
from redrive.cli.choosing import Which, found
from redrive.cli.ledgers import Actor, Desk, Place, Sources, who, with_recovery
from redrive.cli.option_groups import spread
from redrive.cli.reaching import Yes, confirm, seconds
from redrive.cli.story import print_story
from redrive.recovery import FailedMessage, GroupInfo, Note, SetAside

app = typer.Typer(no_args_is_help=True)

Failure = Annotated[str, typer.Argument(metavar="ID", help="Its number or id, or the id its sender gave it.")]
Limit = Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, max=10_000, help="How many at most.")]


@app.callback()
def _failed() -> None:
    """Find failed messages, see why they failed, and keep order among them.

    Examples:
      redrive failed groups
      redrive failed list queue:orders exception:TimeoutError 'failed>2h'
      redrive failed list --queue orders --since 2h --text 'no address'
      redrive failed show 17
      redrive failed export queue:orders --output orders.jsonl

    Without status: only unresolved ones are meant; status:any is all.
    Before they answer, list, groups, count and export read what has
    arrived in the error queue since; --no-ingest leaves it there.
    A worker without an error queue leaves its failures in dead-letter
    queues; once you have read one (redrive ingest --dead-letters orders)
    it is read along with the error queue.
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

    async def look(desk: Desk) -> tuple[list[FailedMessage], str]:
        chosen = await which.chosen(desk)
        page = await desk.recovery.failed(chosen, after=after, limit=limit, newest_first=newest)
        return page, "" if page else await _why_none(desk, chosen)

    page, nothing = with_recovery(context, look, sources, check=which.check)
    if place.as_json:
        screen.print_json(telling.plain(page))
    elif page:
        screen.out().print(telling.failed_table(page))
    else:
        screen.say(nothing)
    if len(page) == limit:
        screen.err().print(f"there may be more: --after {page[-1].number}", style="dim")


@app.command()
@spread
def show(context: typer.Context, failure: Failure, place: Place, sources: Sources) -> None:
    """Show one failed message with its whole story: attempts, stack trace, headers, body, operations, notes."""
    detail = with_recovery(context, lambda desk: found(desk, failure), sources)
    if place.as_json:
        screen.print_json(telling.described_detail(detail))
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
      redrive failed groups queue:orders 'failed>1d'
    """

    async def look(desk: Desk) -> tuple[list[GroupInfo], str]:
        chosen = await which.chosen(desk)
        found = await desk.recovery.groups(chosen, by=by, limit=limit + 1, largest_first=True)
        return found, "" if found else await _why_none(desk, chosen)

    found, nothing = with_recovery(context, look, sources, check=which.check)
    largest = found[:limit]
    if place.as_json:
        screen.print_json(telling.plain(largest))
    elif largest:
        screen.out().print(telling.groups_table(largest))
        _tell_uses(largest[0], has_more=len(found) > limit)
    else:
        screen.say(nothing)


@app.command()
@spread
def count(context: typer.Context, which: Which, place: Place, sources: Sources) -> None:
    """Count failed messages."""

    async def look(desk: Desk) -> int:
        return await desk.recovery.count(await which.chosen(desk))

    many = with_recovery(context, look, sources, check=which.check)
    if place.as_json:
        screen.print_json({"count": many})
    else:
        screen.say(f"{many:,}")


@app.command()
@spread
def export(
    context: typer.Context,
    which: Which,
    place: Place,
    sources: Sources,
    *,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Where to; - for standard output.")],
) -> None:
    """Write failed messages with everything there is about them, each as a line of JSON.

    A line has what show --json has: headers and body, attempts with stack
    traces, operations, notes. A body that is no text is in base64. The file
    is good for --ids-from, whatever you take out of it.

    Examples:
      redrive failed export --output failed.jsonl
      redrive failed export queue:orders -o - | jq -r .message.body
    """
    is_stdout = str(output) == "-"

    async def write(desk: Desk) -> int:
        chosen = await which.chosen(desk)
        total = await desk.recovery.count(chosen)
        with screen.progress() as bar, _opened(output) as file:
            task = bar.add_task("writing", total=total)
            async for each in desk.recovery.export(chosen):
                file.write(json.dumps(telling.described_detail(each), ensure_ascii=False) + "\n")
                bar.advance(task)
            return int(bar.tasks[task].completed)

    try:
        written = with_recovery(context, write, sources, check=which.check)
    except OSError as error:
        raise screen.refusal(f"{output} cannot be written: {error.strerror}") from None
    if place.as_json and not is_stdout:
        screen.print_json({"exported": written, "output": str(output)})
    elif not is_stdout:
        screen.say(f"wrote {written:,} failed messages to {output}")


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
        screen.print_json(telling.plain(written))
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
        screen.print_json({"note": number, "removed": True})
    else:
        screen.say(f"note {number} is gone")


# --- what could not be read


@app.command()
@spread
def aside(context: typer.Context, place: Place, sources: Sources, *, limit: Limit = 20) -> None:
    """List messages from error queues that could not be read, and why."""
    asides = with_recovery(context, lambda desk: desk.recovery.aside(limit=limit), sources)
    if place.as_json:
        screen.print_json([telling.described_aside(each) for each in asides])
        return
    if not asides:
        screen.say("everything could be read")
        return
    table = screen.table("number", "found in", "why", "id", "body", right=("number",))
    for each in asides:
        table.add_row(*_aside_row(each))
    screen.out().print(table)
    screen.err().print("read them again: redrive failed reimport --failed-in QUEUE", style="dim")


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
        screen.print_json({"read": read, "left": left})
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
    keep = seconds("older-than", older_than) or 0.0
    confirm(f"Delete what was settled more than {older_than} ago, for good?", yes=yes)
    swept = with_recovery(context, lambda desk: desk.recovery.sweep(keep, actor=who(actor)))
    if place.as_json:
        screen.print_json({"deleted": swept})
    else:
        screen.say(f"deleted {swept:,} that were settled more than {older_than} ago")


# --- inside


def _tell_uses(group: GroupInfo, *, has_more: bool) -> None:
    term = f"--group {group.id}" if group.classifier not in ("queue", "type") else f"{group.classifier}:{group.id}"
    rest = "there are more: --limit; " if has_more else ""
    screen.err().print(f"{rest}see one: redrive failed list {term}", style="dim", soft_wrap=True)


async def _why_none(desk: Desk, chosen: str) -> str:
    """Say that nothing matches, and where failures may be that nobody has read."""
    told = f"no failed message matches {chosen}" if chosen else "no failed messages"
    unread = [queue for queue in await desk.broker.queues() if queue.dead and not _is_read(desk, queue)]
    if unread:
        dead, options = sum(each.dead for each in unread), " ".join(f"--dead-letters {each.name}" for each in unread)
        return f"{told}; but there are {dead:,} dead letters, read them: redrive ingest {options}"
    if "status:" not in chosen and (settled := await desk.recovery.count(f"{chosen} status:any")):
        return f"{told} and is unresolved; {settled:,} with status:any"
    return told


def _is_read(desk: Desk, queue: QueueInfo) -> bool:
    return queue.name.startswith("redrive.") or f"{queue.name}/$dead" in desk.sources


def _aside_row(each: SetAside) -> tuple[Text | str, ...]:
    return (
        str(each.number),
        Text(screen.printable(each.received.queue)),
        Text(screen.printable(each.reason)),
        Text(screen.printable(each.received.id)),
        screen.one_line(each.received.body),
    )
