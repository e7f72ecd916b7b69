# SPDX-License-Identifier: MIT
"""``redrive dead``: see why messages were dead-lettered, send them again, or remove them."""

from typing import Annotated

import typer

from redrive.broker import dead_letter_queue, views
from redrive.cli import bulk
from redrive.cli.exit_status import ExitStatus
from redrive.cli.open import with_broker
from redrive.cli.options.connection import BrokerConnection, Queue, Yes
from redrive.cli.options.groups import grouped
from redrive.cli.options.page import Max, Start
from redrive.cli.output import console
from redrive.cli.output.message_detail import print_dead_letter
from redrive.cli.output.table import print_table
from redrive.cli.output.tables import dead_letters_table
from redrive.printable import one_line

app = typer.Typer(no_args_is_help=True)

Numbers = Annotated[
    list[int] | None,
    typer.Argument(metavar="NUMBER", min=1, show_default=False, help="Which, as list shows them; all by default."),
]


@app.callback()
def _dead() -> None:
    """See why messages were dead-lettered, and send them again.

    Examples:
      redrive dead list orders
      redrive dead show orders 42
      redrive dead resubmit orders
      redrive dead resubmit orders --max 1 --yes
      redrive dead purge orders --yes

    Dead letters are a queue like any other: redrive peek 'orders/$dead'
    """


@app.command("list")
@grouped
def list_dead(queue: Queue, *, max_messages: Max = 20, start: Start = 0, connection: BrokerConnection) -> None:
    """List the dead letters of a queue, oldest first, and why each is one."""
    print_dead_letters(connection, queue, max_messages=max_messages, start=start, none=f"{queue} has no dead letters")


def print_dead_letters(connection: BrokerConnection, queue: str, *, max_messages: int, start: int, none: str) -> None:
    """Print dead letters of a queue.

    Args:
        connection: where the queue is.
        queue: its name.
        max_messages: how many at most.
        start: the number to begin with.
        none: what to say if there are none.
    """
    dead = dead_letter_queue(queue)
    found = with_broker(connection, lambda broker: broker.peek(dead, max_messages=max_messages, start=start))
    if connection.as_json:
        console.print_json([views.received_view(each) for each in found])
        return
    if not found:
        console.say(none + (f" from {start} on" if start else ""))
        return
    print_table(dead_letters_table(found))
    if len(found) == max_messages:
        console.hint(f"there may be more: --start {found[-1].sequence + 1}")


@app.command()
@grouped
def show(
    queue: Queue,
    number: Annotated[int, typer.Argument(metavar="NUMBER", min=1, help="Its number, as list shows it.")],
    connection: BrokerConnection,
) -> None:
    """Show one dead letter: why it is one, headers, stack trace and body."""
    dead = dead_letter_queue(queue)
    found = with_broker(connection, lambda broker: broker.peek(dead, max_messages=1, start=number))
    if not found or found[0].sequence != number:
        problem = f"{queue} has no dead letter {number}; see them: redrive dead list {queue}"
        raise console.refusal(one_line(problem), ExitStatus.NOT_FOUND)
    if connection.as_json:
        console.print_json(views.received_view(found[0]))
    else:
        print_dead_letter(found[0])


@app.command()
@grouped
def resubmit(
    queue: Queue,
    numbers: Numbers = None,
    *,
    max_messages: Annotated[
        int | None,
        typer.Option("--max", "-n", metavar="N", min=1, help="How many at most, oldest first; all by default."),
    ] = None,
    yes: Yes = False,
    connection: BrokerConnection,
) -> None:
    """Send dead letters to their queue again: all, or those with these numbers.

    They keep their ids, headers and bodies. Each is sent and removed in one
    transaction, so none is lost and none is sent twice. If one of the numbers
    is not there, or another receiver has it, none is sent.

    Examples:
      redrive dead resubmit orders --max 10
      redrive dead resubmit orders 42 43 --yes
    """
    if numbers and max_messages is not None:
        raise console.refusal("say either numbers or --max", ExitStatus.NOT_UNDERSTOOD)
    bulk.resubmit(connection, queue, max_messages=max_messages, yes=yes, numbers=numbers)


@app.command()
@grouped
def purge(queue: Queue, numbers: Numbers = None, *, yes: Yes = False, connection: BrokerConnection) -> None:
    """Remove dead letters of a queue for good: all, or those with these numbers.

    If one of the numbers is not there, or another receiver has it, none is
    removed.

    Examples:
      redrive dead purge orders
      redrive dead purge orders 42 --yes
    """
    bulk.purge(connection, dead_letter_queue(queue), yes=yes, noun="dead letter", numbers=numbers)
