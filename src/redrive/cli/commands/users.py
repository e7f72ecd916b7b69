# SPDX-License-Identifier: MIT
"""``redrive users``: the people who sign in to the server."""

import getpass
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from redrive.access import Access, UserInfo, rights_of
from redrive.cli.audit import AuditedChange
from redrive.cli.commands.queues import hand_down
from redrive.cli.commands.tokens import EvenLast, Queues, RoleName, SeesBodies
from redrive.cli.open import with_access
from redrive.cli.options.connection import BrokerConnection, Yes
from redrive.cli.options.groups import grouped
from redrive.cli.output import console
from redrive.cli.output.prompt import confirm
from redrive.cli.output.table import print_table, table
from redrive.errors import RedriveError

if TYPE_CHECKING:
    from collections.abc import Awaitable

app = typer.Typer()

UserName = Annotated[str, typer.Argument(metavar="NAME", help="Their name.")]


@app.callback(invoke_without_command=True)
@grouped
def list_users(context: typer.Context, connection: BrokerConnection) -> None:
    """List, add and remove the people who sign in to the server with a password.

    The password is asked for, or read from standard input.

    Examples:
      redrive users
      redrive users add ann --role admin
      redrive users password ann
      redrive users rights ann --role operator
      redrive users remove ann
    """
    if context.invoked_subcommand is not None:
        hand_down(context, connection)
        return
    found = with_access(connection, lambda access: access.users())
    if connection.as_json:
        console.print_json([each.view() for each in found])
        return
    shown = table("user", "role", "queues", "added by")
    for each in found:
        queues = "all" if each.rights.queues is None else ", ".join(each.rights.queues)
        shown.add_row(each.name, each.rights.role.value, queues, each.created_by)
    if found:
        print_table(shown)
    else:
        console.say("no users yet; add one: redrive users add NAME --role admin")


@app.command()
@grouped
def add(
    name: UserName,
    *,
    role: RoleName = "viewer",
    queue: Queues = None,
    see_hidden: SeesBodies = False,
    connection: BrokerConnection,
) -> None:
    """Add a person; the password is asked for, or read from standard input."""
    try:
        rights = rights_of(role, queue, may_see_bodies=see_hidden)
    except RedriveError as error:
        raise console.failure(error) from None
    password = _password()

    def make(access: Access) -> "Awaitable[UserInfo]":
        return access.add_user(name, password, rights, actor=getpass.getuser())

    added = with_access(connection, make, may_create=True, change=_change(name))
    if connection.as_json:
        console.print_json(added.view())
    else:
        console.say(f"user {added.name} is added, as {added.rights.role.value}")


@app.command()
@grouped
def password(name: UserName, connection: BrokerConnection) -> None:
    """Change the password of a person; their sessions end."""
    new = _password()
    with_access(connection, lambda access: access.set_password(name, new), change=_change(name))
    if connection.as_json:
        console.print_json({"name": name, "changed": True})
    else:
        console.say(f"user {name} has another password, and must sign in again")


@app.command()
@grouped
def rights(
    name: UserName,
    *,
    role: RoleName = "viewer",
    queue: Queues = None,
    see_hidden: SeesBodies = False,
    even_last: EvenLast = False,
    connection: BrokerConnection,
) -> None:
    """Change what a person may do: their role, their queues, and whether they see what is hidden.

    What is not said is as for a person who is added. It counts for their sessions at once.

    Examples:
      redrive users rights ann --role operator
      redrive users rights ann --role operator --queue orders
    """
    try:
        new = rights_of(role, queue, may_see_bodies=see_hidden)
    except RedriveError as error:
        raise console.failure(error) from None

    def change(access: Access) -> "Awaitable[UserInfo]":
        return access.set_rights(name, new, even_last=even_last)

    changed = with_access(connection, change, change=_change(name))
    if connection.as_json:
        console.print_json(changed.view())
    else:
        console.say(f"user {changed.name} is {changed.rights.role.value} now")


@app.command()
@grouped
def remove(name: UserName, *, yes: Yes = False, even_last: EvenLast = False, connection: BrokerConnection) -> None:
    """Remove a person; their sessions end."""
    confirm(f"Remove user {name}?", yes=yes)
    with_access(connection, lambda access: access.remove_user(name, even_last=even_last), change=_change(name))
    if connection.as_json:
        console.print_json({"name": name, "removed": True})
    else:
        console.say(f"user {name} is removed")


def _change(name: str) -> AuditedChange:
    return AuditedChange("users.write", f"user:{name}")


def _password() -> str:
    """Return a password: typed twice without being shown, or the first line of standard input."""
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\n")
    typed: str = typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    return typed
