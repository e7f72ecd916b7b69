# SPDX-License-Identifier: MIT
"""``redrive pipeline tasks``, ``stuck``, ``slots`` and ``history``."""

from datetime import datetime, timedelta
from typing import Annotated

import typer

from redrive.cli.commands.pipeline.connection import check_destination, with_pipelines
from redrive.cli.options.connection import BrokerConnection
from redrive.cli.options.groups import grouped
from redrive.cli.options.page import Limit
from redrive.cli.options.pipeline import (
    AnyPipeline,
    DestinationName,
    OfDestination,
    OfState,
    PipelineName,
    instant_in,
    states_of,
)
from redrive.cli.options.time import seconds
from redrive.cli.output import console
from redrive.cli.output.pipeline_tables import (
    history_lines,
    next_slots_table,
    slots_table,
    stuck_table,
    tasks_table,
)
from redrive.cli.output.sentences import length
from redrive.cli.output.table import print_table
from redrive.clock import utc
from redrive.pipeline import ActionInfo, Pipelines, SlotInfo, StoredDestination, TaskInfo, Timing, views

_NEXT_SLOTS = 10
_MOST_SLOTS = 3_000


@grouped
def tasks(
    name: PipelineName,
    *,
    destination: OfDestination = None,
    state: OfState = None,
    limit: Limit = 20,
    before: Annotated[
        str | None, typer.Option(metavar="TASK", help="Only older ones than this: the next page.", show_default=False)
    ] = None,
    connection: BrokerConnection,
) -> None:
    """List the tasks of a pipeline, the newest first.

    A submission is a process task; what it makes for a destination is a
    batch task if that has slots, and then a send task.

    Examples:
      redrive pipeline tasks reports
      redrive pipeline tasks reports --destination lab --state failed,unknown
    """
    states = states_of(state)

    async def look(pipelines: Pipelines) -> list[TaskInfo]:
        await check_destination(pipelines, name, destination)
        return await pipelines.tasks(name, destination=destination, states=states, limit=limit, before=before)

    found = with_pipelines(connection, look)
    if connection.as_json:
        console.print_json([views.record_view(each) for each in found])
    elif found:
        print_table(tasks_table(found))
        if len(found) == limit:
            console.hint(f"there may be more: --before {found[-1].id}")
    else:
        console.say(f"pipeline {name} has no such tasks")


@grouped
def stuck(
    name: AnyPipeline = None,
    *,
    older: Annotated[str, typer.Option("--older", metavar="TIME", help="How long work must be overdue.")] = "15m",
    limit: Limit = 100,
    connection: BrokerConnection,
) -> None:
    """List what should have been done by now, and what needs a person.

    That is work of any stage that is overdue, and tasks that failed, have
    expired or have an unknown outcome; the oldest first.

    Examples:
      redrive pipeline stuck
      redrive pipeline stuck reports --older 1h --json
    """
    overdue = seconds("older", older) or 0.0

    async def look(pipelines: Pipelines) -> list[TaskInfo]:
        if name is not None:
            await check_destination(pipelines, name, None)
        return await pipelines.stuck(name, overdue=overdue, limit=limit)

    found = with_pipelines(connection, look)
    if connection.as_json:
        console.print_json([views.record_view(each) for each in found])
    elif found:
        print_table(stuck_table(found))
        if len(found) == limit:
            console.hint(f"there may be more: --limit {limit * 10}")
        console.hint("why, and what to do: redrive pipeline show TASK")
    else:
        console.say(f"nothing is stuck: nothing is overdue by {length(overdue)}, and nothing failed")


@grouped
def history(name: AnyPipeline = None, *, limit: Limit = 50, connection: BrokerConnection) -> None:
    """Show what was done last, by whom and why; the newest first.

    The history of one task is part of redrive pipeline show TASK.

    Examples:
      redrive pipeline history
      redrive pipeline history reports --limit 200 --json
    """

    async def look(pipelines: Pipelines) -> list[ActionInfo]:
        if name is not None:
            await check_destination(pipelines, name, None)
        return await pipelines.history(name, limit=limit)

    found = with_pipelines(connection, look)
    if connection.as_json:
        console.print_json([views.record_view(each) for each in found])
        return
    for line in history_lines(found):
        console.out().print(line, soft_wrap=True)
    if not found:
        console.say("nothing was done yet")


# --- slots


@grouped
def slots(
    name: PipelineName,
    destination: DestinationName,
    *,
    from_: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="DATE", help="Preview slots from then on, on the destination's clocks; now by default."
        ),
    ] = None,
    days: Annotated[
        int | None,
        typer.Option(
            "--days", metavar="N", min=1, max=3_660, help=f"Of so many days; the next {_NEXT_SLOTS} otherwise."
        ),
    ] = None,
    limit: Limit = 10,
    connection: BrokerConnection,
) -> None:
    """Show the last slots of a destination, and preview those to come.

    The preview shows what a change of clocks does to them.

    Examples:
      redrive pipeline slots reports lab
      redrive pipeline slots reports lab --from 2026-10-24 --days 2
    """

    async def look(pipelines: Pipelines) -> tuple[StoredDestination | None, list[SlotInfo], float]:
        await check_destination(pipelines, name, destination)
        plan = await pipelines.plan_of(name)
        served = await pipelines.slots(name, destination, limit=limit)
        return plan.destinations.get(destination), served, await pipelines.ledger.now()

    stored, served, now = with_pipelines(connection, look)
    timing = None if stored is None else stored.timing
    zone = str(getattr(timing, "zone", "UTC"))
    start = utc(now) if from_ is None else instant_in(zone, from_)
    coming = [] if timing is None else _preview(timing, start, days)
    if connection.as_json:
        view = {"timing": None if stored is None else stored.rule or None, "zone": zone}
        next_slots = [each.isoformat() for each in coming]
        console.print_json({**view, "slots": [views.record_view(each) for each in served], "next": next_slots})
        return
    _print_slots(name, destination, stored, served, coming=coming, zone=zone)


def _preview(timing: Timing, start: datetime, days: int | None) -> list[datetime]:
    """Return the slots after an instant, of so many days on the wall, or the next few."""
    first, found = start.timestamp() - 1e-3, list[datetime]()
    until = None if days is None else (start + timedelta(days=days)).timestamp()
    at = timing.next_after(first)
    while len(found) < (_NEXT_SLOTS if until is None else _MOST_SLOTS) and (until is None or at < until):
        found.append(utc(at))
        at = timing.next_after(at)
    if until is not None and at < until:
        console.warn(f"only the first {_MOST_SLOTS:,} are shown; say fewer --days")
    return found


def _print_slots(
    name: str,
    destination: str,
    stored: StoredDestination | None,
    served: list[SlotInfo],
    *,
    coming: list[datetime],
    zone: str,
) -> None:
    if served:
        print_table(slots_table(served, zone))
    else:
        console.say(f"no slot of {destination} has come yet")
    console.say("")
    if coming:
        console.say(f"{destination} is sent to {stored.rule if stored else ''}")
        print_table(next_slots_table(coming, zone))
    elif stored is None:
        console.say(f"{destination} is no longer part of pipeline {name}")
    elif stored.rule:
        console.say(f"no slots to preview: {stored.rule}")
    else:
        console.say(f"{destination} has no slots: everything is sent to it at once")
