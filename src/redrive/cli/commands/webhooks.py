# SPDX-License-Identifier: MIT
"""``redrive webhooks``: what the server calls when something needs a person."""

import getpass
from typing import Annotated

import typer

from redrive.cli.commands.queues import hand_down
from redrive.cli.exit_status import ExitStatus
from redrive.cli.open import with_webhooks
from redrive.cli.options.connection import BrokerConnection
from redrive.cli.options.groups import grouped
from redrive.cli.output import console
from redrive.cli.output.table import print_table, table
from redrive.notifications import EVENTS
from redrive.printable import one_line

app = typer.Typer()

WebhookName = Annotated[str, typer.Argument(metavar="NAME", help="Its name.")]


@app.callback(invoke_without_command=True)
@grouped
def list_webhooks(context: typer.Context, connection: BrokerConnection) -> None:
    """List, add, try and remove the webhooks that are called when something needs a person.

    The server calls them; what it could not send is in the dead letters of
    the queue redrive.notifications.

    Examples:
      redrive webhooks
      redrive webhooks add chat https://chat.example.com/hooks/1 --event new-group
      redrive webhooks test chat
      redrive webhooks remove chat
    """
    if context.invoked_subcommand is not None:
        hand_down(context, connection)
        return
    found = with_webhooks(connection, lambda notifications: notifications.webhooks())
    if connection.as_json:
        console.print_plain_json([each.view() for each in found])
        return
    shown = table("webhook", "url", "called for", "added by")
    for each in found:
        shown.add_row(one_line(each.name), one_line(each.url), ", ".join(each.events), one_line(each.created_by))
    if found:
        print_table(shown)
    else:
        console.say("no webhooks yet; add one: redrive webhooks add NAME URL")


@app.command()
@grouped
def add(
    name: WebhookName,
    address: Annotated[str, typer.Argument(metavar="URL", help="Where it is called.")],
    *,
    event: Annotated[
        list[str] | None,
        typer.Option("--event", metavar="EVENT", help=f"What for: {', '.join(EVENTS)}; repeatable, else all."),
    ] = None,
    connection: BrokerConnection,
) -> None:
    """Add a webhook; the secret that signs its requests is shown this once."""
    made = with_webhooks(
        connection,
        lambda notifications: notifications.add(name, address, event or EVENTS, actor=getpass.getuser()),
        may_create=True,
    )
    if connection.as_json:
        console.print_plain_json({**made.info.view(), "secret": made.secret})
    else:
        console.hint("keep it now: it cannot be shown again")
        console.say(made.secret)


@app.command()
@grouped
def test(name: WebhookName, connection: BrokerConnection) -> None:
    """Call a webhook once, now, and say what came of it."""
    tried = with_webhooks(connection, lambda notifications: notifications.test(name))
    if connection.as_json:
        console.print_plain_json(tried.view())
    elif tried.delivered:
        console.say(f"webhook {name} has answered")
    else:
        raise console.refusal(f"webhook {name} could not be called: {tried.problem}", ExitStatus.ERROR)


@app.command()
@grouped
def remove(name: WebhookName, connection: BrokerConnection) -> None:
    """Remove a webhook."""
    removed = with_webhooks(connection, lambda notifications: notifications.remove(name))
    if connection.as_json:
        console.print_plain_json(removed.view())
    else:
        console.say(f"webhook {name} is removed")
