# SPDX-License-Identifier: MIT
"""``redrive queues``: see the queues, add, change, empty and delete them."""

from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from redrive.broker import QueueInfo, views
from redrive.cli import bulk, screen, wording
from redrive.cli.exit_status import ExitStatus
from redrive.cli.reaching import Queue, Url, Yes, confirm, seconds, wants_json, with_broker
from redrive.cli.screen import AsJson
from redrive.printable import one_line

app = typer.Typer()

COUNTS = ("ready", "scheduled", "locked", "deferred", "dead")
DURATIONS = ("lock_duration", "default_ttl", "auto_delete_on_idle", "duplicate_detection")


def _option(metavar: str, help_text: str) -> Any:  # noqa: ANN401 - what typer's own function returns
    return typer.Option(metavar=metavar, help=help_text, show_default=False)


LockDuration = Annotated[str | None, _option("TIME", "How long a received message is locked; 1m, at most 5m.")]
MaxDeliveryCount = Annotated[int | None, _option("N", "Deliveries before a message is dead-lettered; 10.")]
DefaultTtl = Annotated[str | None, _option("TIME", "How long messages are worth delivering; none.")]
DeadLetterOnExpiration = Annotated[str | None, _option("yes|no", "Dead-letter expired messages, not drop them; no.")]
AutoDeleteOnIdle = Annotated[str | None, _option("TIME", "Delete the queue after that long without use; none.")]
DuplicateDetection = Annotated[str | None, _option("TIME", "Drop an id that was seen within that long; none.")]
RequiresSession = Annotated[str | None, _option("yes|no", "Receive by session only; no.")]
MaxMessageBytes = Annotated[int | None, _option("N", "How large a message may be; 1048576.")]


_OWN = "redrive."
"""Queues whose names begin so belong to Redrive: recovery stages copies in them, and wakes its processes."""


@app.callback(invoke_without_command=True)
def list_queues(
    context: typer.Context,
    *,
    show_all: Annotated[bool, typer.Option("--all", help="Also those that Redrive keeps for itself.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """See the queues, add, change, empty and delete them.

    Alone it shows what is in each queue; dead letters in red.

    Examples:
      redrive queues
      redrive queues declare orders --max-delivery-count 5
      redrive queues update orders --lock-duration 2m --default-ttl none
      redrive queues show orders
      redrive queues delete orders

    A TIME is seconds, or 100ms, 30s, 2m, 1h, 1d; none switches it off.
    """
    if context.invoked_subcommand is not None:
        return
    there = with_broker(context, lambda broker: broker.queues())
    found = [queue for queue in there if show_all or queue.dead or not queue.name.startswith(_OWN)]
    if as_json:
        screen.print_json([views.queue_view(queue) for queue in found])
    elif found:
        screen.print_table(_counts_table(found))
    else:
        own = f" but {len(there):,} that Redrive keeps for itself (--all);" if there else ";"
        screen.say(f"no queues yet{own} add one: redrive queues declare NAME")


@app.command()
def declare(
    context: typer.Context,
    queue: Annotated[str, typer.Argument(metavar="QUEUE", help="Its name.")],
    *,
    lock_duration: LockDuration = None,
    max_delivery_count: MaxDeliveryCount = None,
    default_ttl: DefaultTtl = None,
    dead_letter_on_expiration: DeadLetterOnExpiration = None,
    auto_delete_on_idle: AutoDeleteOnIdle = None,
    duplicate_detection: DuplicateDetection = None,
    requires_session: RequiresSession = None,
    max_message_bytes: MaxMessageBytes = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Add a queue, and the database if there is none.

    A queue that is there already must have the settings you state.

    Examples:
      redrive queues declare orders
      redrive queues declare readings --default-ttl 5m
      redrive queues declare orders --url sqlite:////var/lib/shop/orders.db
    """
    with_broker(context, lambda broker: broker.declare(queue, **_stated(context)), may_create=True)
    _done(context, queue, f"queue {queue} is there")


@app.command()
def update(
    context: typer.Context,
    queue: Queue,
    *,
    lock_duration: LockDuration = None,
    max_delivery_count: MaxDeliveryCount = None,
    default_ttl: DefaultTtl = None,
    dead_letter_on_expiration: DeadLetterOnExpiration = None,
    auto_delete_on_idle: AutoDeleteOnIdle = None,
    duplicate_detection: DuplicateDetection = None,
    requires_session: RequiresSession = None,
    max_message_bytes: MaxMessageBytes = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Change settings of a queue.

    Messages that are there already keep the expiry they were given.

    Examples:
      redrive queues update orders --max-delivery-count 20
      redrive queues update orders --default-ttl none
    """
    with_broker(context, lambda broker: broker.update(queue, **_stated(context)))
    _done(context, queue, f"queue {queue} is changed")


@app.command()
def show(context: typer.Context, queue: Queue, *, url: Url = None, as_json: AsJson = False) -> None:
    """Show a queue: its settings, and what is in it."""
    found = with_broker(context, lambda broker: broker.inspect(queue))
    if wants_json(context):
        screen.print_json(views.queue_view(found))
        return
    screen.print_table(_counts_table([found]))
    settings = screen.table("setting", "is")
    for name, value in asdict(found.settings).items():
        settings.add_row(name, _setting(name, value))
    screen.say("")
    screen.print_table(settings)


@app.command()
def delete(context: typer.Context, queue: Queue, *, yes: Yes = False, url: Url = None, as_json: AsJson = False) -> None:
    """Delete a queue, its dead-letter queue, and all that is in them."""
    found = with_broker(context, lambda broker: broker.inspect(queue))
    held = sum(getattr(found, name) for name in COUNTS)
    confirm(f"Delete queue {queue} and {wording.count(held, 'message')}?", yes=yes)
    with_broker(context, lambda broker: broker.delete(queue))
    if wants_json(context):
        screen.print_json(views.deleted_view(queue, held))
    else:
        screen.say(f"queue {queue} is deleted, with {wording.count(held, 'message')}")


@app.command()
def purge(context: typer.Context, queue: Queue, *, yes: Yes = False, url: Url = None, as_json: AsJson = False) -> None:
    """Remove every message that can be received now.

    Locked, scheduled and deferred messages stay.
    """
    bulk.purge(context, queue, yes=yes, of="message")


def _stated(context: typer.Context) -> dict[str, Any]:
    """Return the settings that were stated on the command line."""
    return {name: read(name, context.params[name]) for name, read in _READ.items() if context.params[name] is not None}


def _yes_or_no(setting: str, text: str) -> bool:
    try:
        return {"yes": True, "no": False}[text.lower()]
    except KeyError:
        raise screen.refusal(f"{setting}={text!r}: write yes or no", ExitStatus.NOT_UNDERSTOOD) from None


def _whole(_setting: str, number: int) -> int:
    return number


_READ: dict[str, Callable[[str, Any], Any]] = {
    **dict.fromkeys(DURATIONS, seconds),
    "max_delivery_count": _whole,
    "dead_letter_on_expiration": _yes_or_no,
    "requires_session": _yes_or_no,
    "max_message_bytes": _whole,
}


def _done(context: typer.Context, queue: str, sentence: str) -> None:
    if wants_json(context):
        screen.print_json(views.queue_view(with_broker(context, lambda broker: broker.inspect(queue))))
    else:
        screen.say(sentence)


def _counts_table(queues: Iterable[QueueInfo]) -> Table:
    table = screen.table("queue", *COUNTS, "oldest", right=(*COUNTS, "oldest"))
    for queue in queues:
        counts = [Text(f"{count:,}" if count else "-") for count in (getattr(queue, name) for name in COUNTS)]
        if queue.dead:
            counts[-1].stylize("red")
        table.add_row(Text(one_line(queue.name)), *counts, screen.age(queue.oldest_at))
    return table


def _setting(name: str, value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,g} s" if name in DURATIONS else f"{value:,}"
