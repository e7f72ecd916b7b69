# SPDX-License-Identifier: MIT
"""``redrive failed assign``, ``snooze`` and ``wake``: who takes care of a group, and until when it needs no person."""

from datetime import datetime, timedelta
from typing import Annotated, Any

import typer

from redrive.cli.exit_status import ExitStatus
from redrive.cli.open import with_recovery
from redrive.cli.options.connection import RecoveryConnection
from redrive.cli.options.groups import grouped
from redrive.cli.options.request import Actor, Reason, actor_name
from redrive.cli.options.time import instant, seconds
from redrive.cli.output import console
from redrive.cli.output.sentences import instant as shown
from redrive.printable import one_line
from redrive.recovery import GroupState, views

GroupId = Annotated[str, typer.Argument(metavar="GROUP", help="The group's id, as redrive failed groups shows it.")]


@grouped
def assign(
    group: GroupId,
    owner: Annotated[
        str | None, typer.Argument(metavar="OWNER", help="Who takes care of it.", show_default=False)
    ] = None,
    *,
    remove: Annotated[bool, typer.Option("--remove", help="It has no owner any more.")] = False,
    reason: Reason = "",
    actor: Actor = None,
    connection: RecoveryConnection,
) -> None:
    """Say who takes care of a group of failures.

    failed groups shows it, and the audit trail has who said so.

    Examples:
      redrive failed assign 3f2a9c4e5b6d7081 ann
      redrive failed assign 3f2a9c4e5b6d7081 --remove
    """
    if (owner is None) != remove:
        raise console.refusal("say who takes care of it, or --remove", ExitStatus.NOT_UNDERSTOOD)
    state = _decide(connection, group, {"owner": owner or "", "reason": reason}, actor)
    _print(connection, group, state, f"belongs to {one_line(state.owner)}" if state.owner else "has no owner")


@grouped
def snooze(
    group: GroupId,
    until: Annotated[str, typer.Argument(metavar="TIME", help="How long: 4h, 7d; or until when: 2026-12-01.")],
    *,
    above: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Wake before that if more than N are unresolved.")
    ] = None,
    reason: Reason = "",
    actor: Actor = None,
    connection: RecoveryConnection,
) -> None:
    """Leave a group of failures out of what needs a person, for a while.

    It is counted and listed as before. It wakes by itself: when the time is
    over, or when there are more failures than you allow.

    Examples:
      redrive failed snooze 3f2a9c4e5b6d7081 4h --reason 'the fix is on its way'
      redrive failed snooze 3f2a9c4e5b6d7081 2026-12-01 --above 500
    """
    change = {"snoozed_until": _until(until), "wake_above": above, "reason": reason}
    state = _decide(connection, group, change, actor)
    less = "" if above is None else f", or until more than {above:,} are unresolved"
    end = "" if state.snoozed_until is None else shown(state.snoozed_until)
    _print(connection, group, state, f"is snoozed until {end}{less}")


@grouped
def wake(group: GroupId, *, reason: Reason = "", actor: Actor = None, connection: RecoveryConnection) -> None:
    """End the snooze of a group of failures."""
    state = _decide(connection, group, {"snoozed_until": None, "reason": reason}, actor)
    _print(connection, group, state, "is awake")


def _until(text: str) -> datetime | timedelta:
    """Return the end of a snooze: a date, or a length of time from now."""
    try:
        datetime.fromisoformat(text)
    except ValueError:
        if (length := seconds("time", text)) is None:
            problem = "say how long, such as 4h, or until when, such as 2026-12-01"
            raise console.refusal(problem, ExitStatus.NOT_UNDERSTOOD) from None
        return timedelta(seconds=length)
    return instant("time", text)


def _decide(connection: RecoveryConnection, group: str, change: dict[str, Any], actor: str | None) -> GroupState:
    who = actor_name(actor)
    return with_recovery(connection, lambda opened: opened.recovery.set_group_state(group, actor=who, **change))


def _print(connection: RecoveryConnection, group: str, state: GroupState, sentence: str) -> None:
    if connection.as_json:
        console.print_json(views.group_state_view(group, state))
    else:
        console.say(f"group {one_line(group)} {sentence}")
