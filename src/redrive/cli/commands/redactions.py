# SPDX-License-Identifier: MIT
"""``redrive redactions``: what is hidden in messages, beside what a file says."""

import getpass
from typing import Annotated

import typer

from redrive.access.redactions import infos_of_rules
from redrive.cli.commands.queues import hand_down
from redrive.cli.open import with_access
from redrive.cli.options.connection import BrokerConnection
from redrive.cli.options.groups import grouped
from redrive.cli.output import console
from redrive.cli.output.redaction import file_redaction
from redrive.cli.output.table import print_table, table
from redrive.printable import one_line
from redrive.remote import is_server

app = typer.Typer()


@app.callback(invoke_without_command=True)
@grouped
def list_redactions(context: typer.Context, connection: BrokerConnection) -> None:
    """List, add and remove the rules for what is hidden in messages.

    They are stored, and count beside those of redrive.toml, for the server
    and for the command line. What is stored of messages is not changed.

    Examples:
      redrive redactions
      redrive redactions add header authorization
      redrive redactions add pointer /card/number
      redrive redactions remove 1
    """
    if context.invoked_subcommand is not None:
        hand_down(context, connection)
        return
    found = with_access(connection, lambda access: access.redactions.rules())
    if not is_server(connection.broker_url):  # which says what its own file has
        found = [*infos_of_rules(file_redaction().rules), *found]
    if connection.as_json:
        console.print_plain_json([each.view() for each in found])
        return
    shown = table("number", "by", "value", "added by")
    for each in found:
        number = "-" if each.number is None else str(each.number)
        shown.add_row(number, each.kind.value, one_line(each.value), one_line(each.created_by))
    if found:
        print_table(shown)
    else:
        console.say("nothing is hidden; add a rule: redrive redactions add header authorization")


@app.command()
@grouped
def add(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="header, pointer or pattern.")],
    value: Annotated[str, typer.Argument(metavar="VALUE", help="A header's name, a place in a body, or a pattern.")],
    connection: BrokerConnection,
) -> None:
    """Hide something from now on."""
    made = with_access(
        connection, lambda access: access.redactions.add(kind, value, actor=getpass.getuser()), may_create=True
    )
    if connection.as_json:
        console.print_plain_json(made.view())
    else:
        console.say(f"rule {made.number} hides: {made.kind.value} {made.value}")


@app.command()
@grouped
def remove(
    number: Annotated[int, typer.Argument(metavar="NUMBER", help="Its number.")], connection: BrokerConnection
) -> None:
    """Hide something no longer."""
    removed = with_access(connection, lambda access: access.redactions.remove(number))
    if connection.as_json:
        console.print_plain_json(removed.view())
    else:
        console.say(f"rule {number} is removed: {removed.kind.value} {removed.value}")
