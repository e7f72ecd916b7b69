# SPDX-License-Identifier: MIT
"""``redrive history``: what happened, over time."""

from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from redrive.broker import Broker
from redrive.cli.facades import open_history
from redrive.cli.open import with_broker
from redrive.cli.options.connection import BrokerConnection
from redrive.cli.options.groups import grouped
from redrive.cli.options.time import seconds
from redrive.cli.output import console
from redrive.cli.output.sentences import length
from redrive.cli.output.sparkline import sparkline
from redrive.cli.output.table import print_table, table
from redrive.history import Series, metrics, views
from redrive.printable import one_line

Metric = Annotated[str, typer.Argument(metavar="METRIC", help=f"One of {', '.join(sorted(metrics.NAMES))}.")]
Topic = Annotated[str, typer.Option("--topic", metavar="TOPIC", help=f"Of what: {', '.join(metrics.TOPICS)}.")]
Name = Annotated[list[str] | None, typer.Option("--name", metavar="NAME", help="Of which; repeatable.")]
Span = Annotated[str, typer.Option("--span", metavar="TIME", help="How long back from now.")]
Step = Annotated[str | None, typer.Option("--step", metavar="TIME", help="How long a step is, in whole minutes.")]


@grouped
def history(
    metric: Metric = "sent",
    *,
    topic: Topic = "queue",
    name: Name = None,
    span: Span = "24h",
    step: Step = None,
    connection: BrokerConnection,
) -> None:
    """Show what happened, over time: a line for each queue.

    The history is kept in the database: by the minute for two days, then by
    the hour, then by the day.

    Examples:
      redrive history
      redrive history completed --name orders --span 1h
      redrive history ready --span 7d --step 1h
      redrive history failed --topic group --json

    A TIME is seconds, or 30s, 2m, 1h, 1d.
    """
    length_s, step_s = seconds("span", span) or 0.0, seconds("step", step)

    async def look(broker: Broker) -> dict[str, Series]:
        async with open_history(broker) as opened:
            return await opened.series_by_name(metric, topic=topic, names=name, span=length_s, step=step_s)

    found = with_broker(connection, look)
    if connection.as_json:
        console.print_json([views.series_view(series) for series in found.values()])
    elif found:
        print_table(_lines(list(found.values())))
        first = next(iter(found.values()))
        console.hint(f"{metric} in the last {length(length_s)}; a step is {length(first.step_s)}")
    else:
        console.say(f"no {topic} has any {metric} in the last {length(length_s)}")


def _lines(found: list[Series]) -> Table:
    is_level = metrics.metric(found[0].metric).is_gauge
    columns = (found[0].topic, "line", "highest", "last" if is_level else "total")
    made = table(*columns, right=("highest", "total", "last"))
    for series in found:
        values = [point.value for point in series.points]
        last = next((value for value in reversed(values) if value is not None), 0)
        made.add_row(
            Text(one_line(series.name or "")),
            sparkline(values),
            f"{series.highest:,}",
            f"{last if is_level else series.total:,}",
        )
    return made
