# SPDX-License-Identifier: MIT
"""``redrive pipeline trace``: where an item has come from and gone to."""

from dataclasses import dataclass
from typing import Annotated

import typer

from redrive.cli.commands.pipeline.connection import with_pipelines
from redrive.cli.exit_status import ExitStatus
from redrive.cli.options.connection import BrokerConnection
from redrive.cli.options.groups import grouped
from redrive.cli.output import console
from redrive.cli.output.pipeline_tree import TraceTree
from redrive.errors import TaskNotFound
from redrive.pipeline import Pipelines, ShipmentInfo, Trace, views
from redrive.printable import one_line


@dataclass(frozen=True, slots=True)
class TraceFound:
    """The steps of items, with the shipments that they are in.

    Attributes:
        asked: the item or task that was asked for.
        trace: the steps.
        shipments: the shipments of each task that has some.
    """

    asked: str
    trace: Trace
    shipments: dict[str, list[ShipmentInfo]]


async def traced(pipelines: Pipelines, item: str) -> TraceFound:
    """Return the steps of an item, or of all items of a task."""
    trace = await pipelines.trace(item)
    sends = [task.id for task in trace.tasks if task.stage == "send"]
    return TraceFound(item, trace, {id_: await pipelines.ledger.shipments(id_) for id_ in sends})


def print_trace(found: TraceFound) -> None:
    """Print the steps as a tree."""
    for line in TraceTree(found.trace, found.shipments, found.asked).lines():
        console.out().print(line, soft_wrap=True)


@grouped
def trace(
    item: Annotated[str, typer.Argument(metavar="ITEM|TASK", help="An item, or all items of a task.")],
    connection: BrokerConnection,
) -> None:
    """Show where an item has come from and gone to, as a tree of tasks.

    A task stands above those that its items have gone to. An item is called
    TASK.N after the task that received it; JSON has all of them.

    Examples:
      redrive pipeline trace TASK
      redrive pipeline trace TASK.3 --json
    """

    async def look(pipelines: Pipelines) -> TraceFound:
        try:
            return await traced(pipelines, item)
        except TaskNotFound:
            problem = f"there is no item or task {item!r}; it may have ended and been removed"
            way_on = "redrive pipeline tasks PIPELINE lists tasks"
            raise console.refusal(one_line(f"{problem}: {way_on}", 500), ExitStatus.NOT_FOUND) from None

    found = with_pipelines(connection, look)
    if connection.as_json:
        shipments = [views.record_view(each) for some in found.shipments.values() for each in some]
        console.print_json({**views.trace_view(found.trace), "shipments": shipments})
        return
    print_trace(found)
