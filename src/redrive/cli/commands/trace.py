# SPDX-License-Identifier: MIT
"""``redrive trace``: what happened to a message, in all layers."""

from typing import Annotated

import typer

from redrive.broker import Broker
from redrive.cli.facades import open_journeys
from redrive.cli.open import with_broker
from redrive.cli.options.connection import BrokerConnection
from redrive.cli.options.groups import grouped
from redrive.cli.output import console
from redrive.cli.output.journey_drawing import JourneyDrawing
from redrive.journey import Journey, views


@grouped
def trace(
    id_: Annotated[str, typer.Argument(metavar="ID", help="The id of a message, or of a task of a pipeline.")],
    connection: BrokerConnection,
) -> None:
    """Show what happened to a message: its queues, failures, recoveries, pipelines, parents and children.

    The drawing begins with where the time went, and ends with what is not
    known: a message that is handled without trouble leaves no record, unless
    its queue is declared with --journey all.

    Examples:
      redrive trace order-42
      redrive trace order-42 --json
    """

    async def look(broker: Broker) -> Journey:
        async with open_journeys(broker) as journeys:
            return await journeys.find(id_)

    found = with_broker(connection, look)
    if connection.as_json:
        console.print_json(views.journey(found))
        return
    for line in JourneyDrawing(found).lines():
        console.out().print(line, soft_wrap=True)
