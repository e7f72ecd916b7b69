# SPDX-License-Identifier: MIT
"""``redrive redirects``: where failed messages go instead of the queue they failed in."""

from typing import Annotated

import typer

from redrive.cli import screen
from redrive.cli.ledgers import Actor, Place, who, with_recovery
from redrive.cli.option_groups import spread
from redrive.cli.reaching import complete_queue
from redrive.printable import one_line
from redrive.recovery import views

app = typer.Typer(no_args_is_help=True)

From = Annotated[str, typer.Argument(metavar="FROM", help="The queue they failed in.", autocompletion=complete_queue)]
To = Annotated[str, typer.Argument(metavar="TO", help="The queue they go to.", autocompletion=complete_queue)]


@app.callback()
def _redirects() -> None:
    """See and change where failed messages go instead of the queue they failed in.

    A redirect counts for every recovery from then on, whoever asks for it.
    For one recovery only: redrive recover --to QUEUE

    Examples:
      redrive redirects list
      redrive redirects add orders orders-v2
      redrive redirects remove orders
    """


@app.command("list")
@spread
def list_redirects(context: typer.Context, place: Place) -> None:
    """List the redirects."""
    ways = with_recovery(context, lambda desk: desk.recovery.redirects())
    if place.as_json:
        screen.print_json(views.redirects_view(ways))
    elif ways:
        table = screen.table("failed in", "goes to")
        for queue, to in ways.items():
            table.add_row(one_line(queue), one_line(to))
        screen.print_table(table)
    else:
        screen.say("no redirects: failed messages go to where they failed")


@app.command()
@spread
def add(context: typer.Context, queue: From, to: To, place: Place, *, actor: Actor = None) -> None:
    """Send failed messages of a queue to another from now on."""
    with_recovery(context, lambda desk: desk.recovery.redirect(queue, to, actor=who(actor)))
    if place.as_json:
        screen.print_json(views.redirect_view(queue, to))
    else:
        screen.say(f"failed messages of {queue} go to {to} from now on")


@app.command()
@spread
def remove(context: typer.Context, queue: From, place: Place, *, actor: Actor = None) -> None:
    """Let failed messages of a queue go to where they failed again."""
    with_recovery(context, lambda desk: desk.recovery.redirect(queue, None, actor=who(actor)))
    if place.as_json:
        screen.print_json(views.redirect_view(queue, None))
    else:
        screen.say(f"failed messages of {queue} go to {queue} again")
