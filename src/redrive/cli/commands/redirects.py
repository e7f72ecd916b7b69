# SPDX-License-Identifier: MIT
"""``redrive redirects``: where failed messages go instead of the queue they failed in."""

from typing import Annotated

import typer

from redrive.cli.open import with_recovery
from redrive.cli.options.connection import RecoveryConnection, complete_queue
from redrive.cli.options.groups import grouped
from redrive.cli.options.request import Actor, actor_name
from redrive.cli.output import console
from redrive.cli.output.table import print_table, table
from redrive.printable import one_line
from redrive.recovery import views

app = typer.Typer(no_args_is_help=True)

From = Annotated[str, typer.Argument(metavar="FROM", help="The queue they failed in.", autocompletion=complete_queue)]
To = Annotated[str, typer.Argument(metavar="TO", help="The queue they go to.", autocompletion=complete_queue)]


@app.callback()
def _redirects() -> None:
    """Send failed messages to another queue than the one they failed in.

    A redirect applies to every recovery that is requested from then on.
    For one recovery only: redrive recover --to QUEUE

    Examples:
      redrive redirects list
      redrive redirects add orders orders-v2
      redrive redirects remove orders
    """


@app.command("list")
@grouped
def list_redirects(connection: RecoveryConnection) -> None:
    """List the redirects."""
    redirects = with_recovery(connection, lambda opened: opened.recovery.redirects())
    if connection.as_json:
        console.print_json(views.redirects_view(redirects))
    elif redirects:
        made = table("failed in", "goes to")
        for queue, to in redirects.items():
            made.add_row(one_line(queue), one_line(to))
        print_table(made)
    else:
        console.say("no redirects: failed messages go to the queue they failed in")


@app.command()
@grouped
def add(queue: From, to: To, *, actor: Actor = None, connection: RecoveryConnection) -> None:
    """Send failed messages of a queue to another from now on."""
    with_recovery(connection, lambda opened: opened.recovery.redirect(queue, to, actor=actor_name(actor)))
    if connection.as_json:
        console.print_json(views.redirect_view(queue, to))
    else:
        console.say(f"failed messages of {queue} go to {to} from now on")


@app.command()
@grouped
def remove(queue: From, *, actor: Actor = None, connection: RecoveryConnection) -> None:
    """Remove the redirect of a queue."""
    with_recovery(connection, lambda opened: opened.recovery.redirect(queue, None, actor=actor_name(actor)))
    if connection.as_json:
        console.print_json(views.redirect_view(queue, None))
    else:
        console.say(f"failed messages of {queue} go to {queue} again")
