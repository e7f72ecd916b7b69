# SPDX-License-Identifier: MIT
"""``redrive dead``: see why messages died, send them again, or remove them."""

from typing import Annotated

import typer
from rich.text import Text

from redrive.broker import Received, dead_letter_queue, views
from redrive.cli import bulk, screen
from redrive.cli.exit_status import ExitStatus
from redrive.cli.messages import Max, Start
from redrive.cli.reaching import Queue, Url, Yes, with_broker
from redrive.cli.screen import AsJson
from redrive.printable import one_line

app = typer.Typer(no_args_is_help=True)


@app.callback()
def _dead() -> None:
    """See why messages died, send them again, or remove them.

    Examples:
      redrive dead list orders
      redrive dead show orders 42
      redrive dead resubmit orders
      redrive dead resubmit orders --max 1 --yes
      redrive dead purge orders --yes

    Dead letters are a queue like any other: redrive peek 'orders/$dead'
    """


@app.command("list")
def list_dead(
    context: typer.Context,
    queue: Queue,
    *,
    max_messages: Max = 20,
    start: Start = 0,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List the dead letters of a queue, oldest first, and why each died."""
    dead = dead_letter_queue(queue)
    found = with_broker(context, lambda broker: broker.peek(dead, max_messages=max_messages, start=start))
    if as_json:
        screen.print_json([views.received_view(each) for each in found])
        return
    if not found:
        screen.say(f"{queue} has no dead letters" + (f" from {start} on" if start else ""))
        return
    table = screen.table("number", "sent", "why", "id", "body", right=("number", "sent"), long=("why", "body"))
    for each in found:
        table.add_row(*_row(each))
    screen.print_table(table)
    if len(found) == max_messages:
        screen.hint(f"there may be more: --start {found[-1].sequence + 1}")


@app.command()
def show(
    context: typer.Context,
    queue: Queue,
    number: Annotated[int, typer.Argument(metavar="NUMBER", min=1, help="Its number, as list shows it.")],
    *,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Show one dead letter with its whole story: headers, stack trace and body."""
    dead = dead_letter_queue(queue)
    found = with_broker(context, lambda broker: broker.peek(dead, max_messages=1, start=number))
    if not found or found[0].sequence != number:
        problem = f"{queue} has no dead letter {number}; see them: redrive dead list {queue}"
        raise screen.refusal(one_line(problem), ExitStatus.NOT_FOUND)
    if as_json:
        screen.print_json(views.received_view(found[0]))
    else:
        _print_story(found[0])


@app.command()
def resubmit(
    context: typer.Context,
    queue: Queue,
    *,
    max_messages: Annotated[
        int | None, typer.Option("--max", "-n", metavar="N", min=1, help="How many at most, oldest first; all.")
    ] = None,
    yes: Yes = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Send dead letters to their queue again.

    They keep their ids, headers and bodies. Each is sent and removed in one
    transaction: none is lost, none is doubled.
    """
    bulk.resubmit(context, queue, max_messages=max_messages, yes=yes)


@app.command()
def purge(context: typer.Context, queue: Queue, *, yes: Yes = False, url: Url = None, as_json: AsJson = False) -> None:
    """Remove the dead letters of a queue for good."""
    bulk.purge(context, dead_letter_queue(queue), yes=yes, of="dead letter")


def _print_story(received: Received) -> None:
    console = screen.out()
    why = received.dead_letter_info
    facts = {"id": received.id, "sent": f"{screen.age(received.enqueued_at)} ago"}
    if why is not None:
        facts |= {"queue": why.source, "reason": why.reason, "description": why.description}
    for name, value in facts.items():
        console.print(screen.told_header(name, value), soft_wrap=True)
    for name, header in received.headers.items():
        console.print(screen.told_header(name, header, whole=True), soft_wrap=True)
    console.print(Text("body:", style="dim"))
    console.print(screen.shown(received.body), soft_wrap=True)


def _row(received: Received) -> tuple[Text | str, ...]:
    why = received.dead_letter_info
    told = Text() if why is None else Text(one_line(why.reason))
    if why is not None and why.description:
        told.append(f"\n{one_line(why.description)}", style="dim")
    return (
        str(received.sequence),
        screen.age(received.enqueued_at),
        told,
        Text(one_line(received.id)),
        screen.body_line(received.body),
    )
