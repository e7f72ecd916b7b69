# SPDX-License-Identifier: MIT
"""``redrive tokens``: the tokens by which programs use the server."""

import getpass
from typing import TYPE_CHECKING, Annotated

import typer

from redrive import duration
from redrive.access import Access, NewToken, rights_of
from redrive.cli.audit import AuditedChange
from redrive.cli.commands.queues import hand_down
from redrive.cli.open import with_access
from redrive.cli.options.connection import BrokerConnection
from redrive.cli.options.groups import grouped
from redrive.cli.output import console
from redrive.cli.output.table import age, print_table, table
from redrive.errors import RedriveError

if TYPE_CHECKING:
    from collections.abc import Awaitable

app = typer.Typer()

RoleName = Annotated[str, typer.Option("--role", metavar="ROLE", help="viewer, operator or admin.")]
Queues = Annotated[
    list[str] | None,
    typer.Option("--queue", metavar="QUEUE", help="Limit it to this queue, or orders.* for several; repeatable."),
]
EvenLast = Annotated[bool, typer.Option("--even-last", help="It is meant, even if no admin is left then.")]
SeesBodies = Annotated[bool, typer.Option("--see-hidden", help="May see what redaction hides.")]


@app.callback(invoke_without_command=True)
@grouped
def list_tokens(context: typer.Context, connection: BrokerConnection) -> None:
    """List, create and revoke the tokens of programs that use the server.

    Without a command it lists them; their secrets are not kept.

    Examples:
      redrive tokens
      redrive tokens create ci --role operator --queue orders --expires 90d
      redrive tokens revoke redrive_abcdefgh
    """
    if context.invoked_subcommand is not None:
        hand_down(context, connection)
        return
    found = with_access(connection, lambda access: access.tokens())
    if connection.as_json:
        console.print_json([each.view() for each in found])
        return
    shown = table("token", "name", "role", "queues", "last use", "ends", "state")
    for each in found:
        queues = "all" if each.rights.queues is None else ", ".join(each.rights.queues)
        ends = "never" if each.expires_at is None else each.expires_at.isoformat(timespec="minutes")
        used = "never" if each.used_at is None else f"{age(each.used_at)} ago"
        state = "valid" if each.revoked_at is None else "revoked"
        shown.add_row(each.id, each.name, each.rights.role.value, queues, used, ends, state)
    if found:
        print_table(shown)
    else:
        console.say("no tokens yet; create one: redrive tokens create NAME --role viewer")


@app.command()
@grouped
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What it is for.")],
    *,
    role: RoleName = "viewer",
    queue: Queues = None,
    expires: Annotated[
        str | None, typer.Option(metavar="TIME", help="How long it lasts: 90d; otherwise until it is revoked.")
    ] = None,
    see_hidden: SeesBodies = False,
    connection: BrokerConnection,
) -> None:
    """Create a token; it is shown this once, and kept as a hash.

    A program sends it as: Authorization: Bearer TOKEN.

    Examples:
      redrive tokens create ci --role operator
      redrive tokens create dashboard --role viewer --expires 365d
    """
    try:
        rights = rights_of(role, queue, may_see_bodies=see_hidden)
        lasts = None if expires is None else duration.parse("expires", expires)
    except RedriveError as error:
        raise console.failure(error) from None

    def make(access: Access) -> "Awaitable[NewToken]":
        return access.create_token(name, rights, expires_in=lasts, actor=getpass.getuser())

    made = with_access(connection, make, may_create=True, change=AuditedChange("tokens.write", f"token:{name}"))
    if connection.as_json:
        console.print_plain_json({**made.info.view(), "token": made.secret})
    else:
        console.hint("keep it now: it cannot be shown again")
        console.say(made.secret)


@app.command()
@grouped
def revoke(
    token: Annotated[str, typer.Argument(metavar="TOKEN", help="Its id.")],
    *,
    even_last: EvenLast = False,
    connection: BrokerConnection,
) -> None:
    """Revoke a token, at once; its id is what the list shows."""
    change = AuditedChange("tokens.write", f"token:{token}")
    found = with_access(connection, lambda access: access.revoke_token(token, even_last=even_last), change=change)
    if connection.as_json:
        console.print_json(found.view())
    else:
        console.say(f"token {found.id} ({found.name}) is revoked")
