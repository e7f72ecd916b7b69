# SPDX-License-Identifier: MIT
"""``redrive failed aside``, ``reimport``, ``sweep`` and ``check``: keep the store of failures in order."""

from typing import Annotated

import typer

from redrive.cli.exit_status import ExitStatus
from redrive.cli.open import with_recovery
from redrive.cli.options.connection import RecoveryConnection, Yes
from redrive.cli.options.groups import grouped
from redrive.cli.options.page import Limit
from redrive.cli.options.request import Actor, actor_name
from redrive.cli.options.sources import Sources
from redrive.cli.options.time import seconds
from redrive.cli.output import console, sentences
from redrive.cli.output.prompt import confirm
from redrive.cli.output.table import print_table
from redrive.cli.output.tables import differences_table, set_asides_table
from redrive.recovery import views


@grouped
def aside(sources: Sources, *, limit: Limit = 20, connection: RecoveryConnection) -> None:
    """List messages that could not be read as failures, and why."""
    asides = with_recovery(connection, lambda opened: opened.recovery.aside(limit=limit), sources)
    if connection.as_json:
        console.print_json([views.set_aside_view(each) for each in asides])
        return
    if not asides:
        console.say("no messages are set aside")
        return
    print_table(set_asides_table(asides))
    console.hint("read them again: redrive failed reimport --failed-in QUEUE")


@grouped
def reimport(
    *,
    failed_in: Annotated[
        str | None,
        typer.Option(
            "--failed-in", "--queue", metavar="QUEUE", help="The queue they failed in, for those that do not name it."
        ),
    ] = None,
    actor: Actor = None,
    connection: RecoveryConnection,
) -> None:
    """Read again the messages that were set aside."""
    name = actor_name(actor)
    read, left = with_recovery(connection, lambda opened: opened.recovery.reimport(queue=failed_in, actor=name))
    if connection.as_json:
        console.print_json(views.reimport_view(read, left))
    else:
        console.say(f"{read:,} could be read" + (f", {left:,} could not: redrive failed aside" if left else ""))


@grouped
def sweep(
    *,
    older_than: Annotated[str, typer.Option(metavar="TIME", help="Such as 30d.")],
    actor: Actor = None,
    yes: Yes = False,
    connection: RecoveryConnection,
) -> None:
    """Delete old messages that were resolved or archived, and old operations that ended.

    Example: redrive failed sweep --older-than 30d
    """
    keep = seconds("older-than", older_than)
    if keep is None:
        raise console.refusal("--older-than none would keep nothing; say how long: 30d", ExitStatus.NOT_UNDERSTOOD)
    confirm(f"Delete for good what was resolved, archived or ended more than {older_than} ago?", yes=yes)
    swept = with_recovery(connection, lambda opened: opened.recovery.sweep(keep, actor=actor_name(actor)))
    if connection.as_json:
        console.print_json(views.sweep_view(swept))
    else:
        console.say(f"deleted {swept:,} that {sentences.verb(swept, 'was')} settled more than {older_than} ago")


@grouped
def check(
    *,
    repair: Annotated[bool, typer.Option("--repair", help="Count anew if a count is wrong.")] = False,
    actor: Actor = None,
    connection: RecoveryConnection,
) -> None:
    """Compare the stored counts of failed messages with the messages.

    Groups and counts are read from a table that changes with every failure.
    This reads all failures, which takes long when there are many, and exits
    with 1 if a count is wrong and was not repaired.
    """
    name = actor_name(actor)
    found = with_recovery(connection, lambda opened: opened.recovery.check_counts(repair=repair, actor=name))
    if connection.as_json:
        console.print_json(views.count_check_view(found, is_repaired=repair))
    elif not found:
        console.say("all counts are right")
    else:
        print_table(differences_table(found))
        console.hint("they are right again" if repair else "count anew: redrive failed check --repair")
    if found and not repair:
        raise typer.Exit(int(ExitStatus.ERROR))
