# SPDX-License-Identifier: MIT
"""``redrive failed note`` and ``drop-note``: what people write about failures."""

from typing import Annotated

import typer

from redrive.cli.open import OpenRecovery, with_recovery
from redrive.cli.options.connection import RecoveryConnection
from redrive.cli.options.groups import grouped
from redrive.cli.options.request import Actor, actor_name
from redrive.cli.output import console
from redrive.recovery import Note, views


@grouped
def note(
    subject: Annotated[str, typer.Argument(metavar="SUBJECT", help="A failed message, group:ID or operation:N.")],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The note.")],
    *,
    actor: Actor = None,
    connection: RecoveryConnection,
) -> None:
    """Write a note about a failed message, a group or an operation.

    failed show and operations show print it, failed groups counts it.

    Examples:
      redrive failed note 17 'the customer has been called'
      redrive failed note group:3f2a9c4e5b6d7081 'bug 4711, fixed in 2.3'
    """

    async def write(opened: OpenRecovery) -> Note:
        about = subject
        if not subject.startswith(("group:", "operation:")):
            about = f"failure:{(await opened.failed_message(subject.removeprefix('failure:'))).summary.id}"
        return await opened.recovery.note(about, text, actor=actor_name(actor))

    written = with_recovery(connection, write)
    if connection.as_json:
        console.print_json(views.record_view(written))
    else:
        console.say(f"note {written.number} is about {written.subject}")


@grouped
def drop_note(
    number: Annotated[int, typer.Argument(metavar="N", help="The note's number, as show lists it.")],
    *,
    actor: Actor = None,
    connection: RecoveryConnection,
) -> None:
    """Remove a note; the audit trail keeps its text."""
    with_recovery(connection, lambda opened: opened.recovery.drop_note(number, actor=actor_name(actor)))
    if connection.as_json:
        console.print_json(views.note_removed_view(number))
    else:
        console.say(f"note {number} is removed")
