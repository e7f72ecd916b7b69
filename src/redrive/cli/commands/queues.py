# SPDX-License-Identifier: MIT
"""``redrive queues``: list the queues, add, change, empty and delete them."""

from dataclasses import fields
from typing import Annotated

import typer

from redrive.broker import QueueSettings, is_own_queue, views
from redrive.cli import bulk
from redrive.cli.audit import AuditedChange
from redrive.cli.open import with_broker
from redrive.cli.options.connection import BrokerConnection, Queue, Yes
from redrive.cli.options.groups import grouped
from redrive.cli.options.queue_settings import StatedSettings, setting_text
from redrive.cli.output import console
from redrive.cli.output.prompt import confirm
from redrive.cli.output.sentences import count
from redrive.cli.output.table import print_table, table
from redrive.cli.output.tables import COUNTS, queues_table
from redrive.errors import NotAQueue

app = typer.Typer()

NewQueue = Annotated[str, typer.Argument(metavar="QUEUE", help="Its name.")]


@app.callback(invoke_without_command=True)
@grouped
def list_queues(
    context: typer.Context,
    *,
    show_all: Annotated[bool, typer.Option("--all", help="Also the queues that Redrive keeps for itself.")] = False,
    connection: BrokerConnection,
) -> None:
    """List, add, change, empty and delete queues.

    Without a command it shows what is in each queue; dead letters in red.

    Examples:
      redrive queues
      redrive queues declare orders --max-delivery-count 5
      redrive queues update orders --lock-duration 2m --default-ttl none
      redrive queues show orders
      redrive queues delete orders

    A TIME is seconds, or 100ms, 30s, 2m, 1h, 1d; none switches it off.
    """
    if context.invoked_subcommand is not None:
        hand_down(context, connection)
        return
    found = with_broker(connection, lambda broker: broker.queues())
    shown = [queue for queue in found if show_all or queue.dead or not is_own_queue(queue.name)]
    if connection.as_json:
        console.print_json([views.queue_view(queue) for queue in shown])
    elif shown:
        print_table(queues_table(shown))
    else:
        own = f" except {len(found):,} that Redrive keeps for itself (--all);" if found else ";"
        console.say(f"no queues yet{own} add one: redrive queues declare NAME")


def hand_down(context: typer.Context, connection: BrokerConnection, **more: object) -> None:
    """Make the options that stand before the name of a command the defaults of that command."""
    given = {"url": connection.url, "as_json": connection.as_json or None, **more}
    stated = {name: value for name, value in given.items() if value is not None}
    context.default_map = {str(context.invoked_subcommand): stated}


@app.command()
@grouped
def declare(queue: NewQueue, settings: StatedSettings, connection: BrokerConnection) -> None:
    """Add a queue; create the database if it does not exist.

    If the queue exists already, it must have the settings that you state.

    Examples:
      redrive queues declare orders
      redrive queues declare readings --default-ttl 5m
      redrive queues declare orders --url sqlite:////var/lib/shop/orders.db
    """
    change = AuditedChange("queues.declare", f"queue:{queue}")
    with_broker(connection, lambda broker: broker.declare(queue, **settings.stated), may_create=True, change=change)
    _print_changed(connection, queue, f"queue {queue} is declared")


@app.command()
@grouped
def update(queue: Queue, settings: StatedSettings, connection: BrokerConnection) -> None:
    """Change settings of a queue.

    Messages that are in it already keep their expiry.

    Examples:
      redrive queues update orders --max-delivery-count 20
      redrive queues update orders --default-ttl none
    """
    change = AuditedChange("queues.update", f"queue:{queue}")
    with_broker(connection, lambda broker: broker.update(queue, **settings.stated), change=change)
    _print_changed(connection, queue, f"queue {queue} is changed")


def _print_changed(connection: BrokerConnection, queue: str, sentence: str) -> None:
    if connection.as_json:
        console.print_json(views.queue_view(with_broker(connection, lambda broker: broker.inspect(queue))))
    else:
        console.say(sentence)


@app.command()
@grouped
def show(queue: Queue, connection: BrokerConnection) -> None:
    """Show a queue: what is in it, and its settings."""
    found = with_broker(connection, lambda broker: broker.inspect(queue))
    if connection.as_json:
        console.print_json(views.queue_view(found))
        return
    print_table(queues_table([found]))
    settings = table("setting", "is")
    for each in fields(QueueSettings):
        settings.add_row(each.name, setting_text(each, getattr(found.settings, each.name)))
    console.say("")
    print_table(settings)


@app.command()
@grouped
def delete(queue: Queue, *, yes: Yes = False, connection: BrokerConnection) -> None:
    """Delete a queue, its dead-letter queue, and all messages in them."""
    found = with_broker(connection, lambda broker: broker.inspect(queue))
    if found.is_topic:  # its subscriptions would be deleted unseen
        raise console.failure(NotAQueue(queue))
    held = sum(getattr(found, name) for name in COUNTS)
    confirm(f"Delete queue {queue} and {count(held, 'message')}?", yes=yes)
    with_broker(
        connection, lambda broker: broker.delete(queue), change=AuditedChange("queues.delete", f"queue:{queue}")
    )
    if connection.as_json:
        console.print_json(views.deleted_view(queue, held))
    else:
        console.say(f"queue {queue} is deleted, with {count(held, 'message')}")


@app.command()
@grouped
def purge(queue: Queue, *, yes: Yes = False, connection: BrokerConnection) -> None:
    """Remove every message that can be received now.

    Locked, scheduled and deferred messages stay.
    """
    bulk.purge(connection, queue, yes=yes, noun="message")
