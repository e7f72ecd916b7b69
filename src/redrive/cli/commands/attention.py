# SPDX-License-Identifier: MIT
"""``redrive attention``: what needs a person."""

from typing import Annotated

import typer
from rich.text import Text

from redrive.attention import AttentionItem, Figures, views
from redrive.broker import Broker
from redrive.cli.facades import open_attention
from redrive.cli.open import with_broker
from redrive.cli.options.connection import BrokerConnection, RecoveryConnection
from redrive.cli.options.groups import grouped
from redrive.cli.output import console
from redrive.cli.output.table import age, print_table, table
from redrive.printable import one_line

_COMMANDS = {
    "group": "redrive failed list group:{}",
    "operation": "redrive operations show {}",
    "queue": "redrive queues show {}",
    "route": "redrive routes show {}",
    "pipeline": "redrive pipeline stuck {}",
    "asides": "redrive failed aside",
    "services": "redrive ingest --follow",
}


@grouped
def attention(
    *,
    figures: Annotated[bool, typer.Option("--figures", help="Also how things stand, in a few numbers.")] = False,
    connection: RecoveryConnection,
) -> None:
    """Say what needs a person, the most urgent first.

    Groups that rise or are new, operations that stopped or ended with
    failures, messages without a confirmation, queues that none reads, routes
    and pipelines that do not get on.

    Examples:
      redrive attention
      redrive attention --figures
      redrive attention --json
    """

    async def look(broker: Broker) -> tuple[list[AttentionItem], Figures]:
        async with open_attention(broker, connection.store_url) as opened:
            return await opened.items(), await opened.figures()

    items, found = with_broker(BrokerConnection(connection.url, connection.as_json), look)
    if connection.as_json:
        more = {"figures": views.figures_view(found)} if figures else {}
        console.print_json({"attention": [views.item_view(item) for item in items], **more})
        return
    if figures:
        _say_figures(found)
    if not items:
        console.say("nothing needs a person")
        return
    made = table("what", "since", "look at it with", right=("since",), long=("what",))
    for item in items:
        made.add_row(Text(item.sentence), age(item.since), Text(one_line(command_for(item.subject), 200)))
    print_table(made)


def _say_figures(found: Figures) -> None:
    for name, value in views.figures_view(found).items():
        if isinstance(value, int):
            console.say(f"{name.replace('_', ' ')}: {value:,}")
    console.say(f"the oldest waits for: {age(found.oldest_at)}")
    for layer, many in found.caught.items():
        console.say(f"caught by {layer}: {many:,}")


def command_for(subject: str) -> str:
    """Return the command that shows what something is about."""
    kind, _, name = subject.partition(":")
    return _COMMANDS[kind].format(name)
