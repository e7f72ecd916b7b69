# SPDX-License-Identifier: MIT
"""``redrive send``, ``receive`` and ``peek``."""

from collections.abc import Awaitable, Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from rich.table import Table
from rich.text import Text

from redrive.broker import Broker, Delivery, Received, State, views
from redrive.cli import screen
from redrive.cli.exit_status import ExitStatus
from redrive.cli.reaching import Queue, Url, seconds, with_broker
from redrive.cli.screen import AsJson
from redrive.cli.sending import Outgoing, Sent, header, payloads, send_all
from redrive.printable import one_line

Max = Annotated[int, typer.Option("--max", "-n", metavar="N", min=1, max=10_000, help="How many at most.")]
Start = Annotated[int, typer.Option(metavar="NUMBER", min=0, help="Where to begin.", show_default=False)]


class StateName(StrEnum):
    """The states of a message, as they are written on the command line."""

    READY = "ready"
    SCHEDULED = "scheduled"
    LOCKED = "locked"
    DEFERRED = "deferred"
    DEFERRED_LOCKED = "deferred_locked"


_STATES = f"One of {', '.join(StateName)}; all by default."


def _text(help_text: str) -> Any:  # noqa: ANN401 - what typer's own function returns
    return typer.Option(metavar="TEXT", help=help_text)


def _time(help_text: str) -> Any:  # noqa: ANN401 - same
    return typer.Option(metavar="TIME", help=help_text, show_default=False)


def send(
    context: typer.Context,
    queue: Queue,
    body: Annotated[str | None, typer.Argument(metavar="BODY", help="What to send; - for standard input.")] = None,
    *,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", metavar="FILE", help="Read it from a file, as it is.")
    ] = None,
    lines: Annotated[bool, typer.Option("--lines", "-l", help="Each line is a message of its own.")] = False,
    count: Annotated[int, typer.Option("--count", "-n", metavar="N", min=1, help="Send it that often.")] = 1,
    message_id: Annotated[str | None, typer.Option("--id", metavar="TEXT", help="Its id; random by default.")] = None,
    subject: Annotated[str | None, _text("What it is about.")] = None,
    content_type: Annotated[str | None, _text("What the body is, as a MIME type.")] = None,
    correlation_id: Annotated[str | None, _text("What it answers or belongs to.")] = None,
    reply_to: Annotated[str | None, _text("The queue for answers.")] = None,
    session: Annotated[str | None, _text("The ordered group it belongs to.")] = None,
    ttl: Annotated[str | None, _time("How long it is worth delivering, such as 5m.")] = None,
    headers: Annotated[list[str] | None, typer.Option("--header", "-H", metavar="NAME=VALUE", help="A header.")] = None,
    delay: Annotated[str | None, _time("Make it available only after that long, such as 30s.")] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Send a message, or many.

    It is on disk when this returns. Many are sent in batches of 1,000, each
    all or nothing, with a progress bar.

    Examples:
      redrive send orders 'order 42'
      redrive send orders --file order.json --content-type application/json
      redrive send orders 'order 42' --id 42 --header customer=7 --delay 30s
      seq 100000 | redrive send orders - --lines
    """
    outgoing = Outgoing(
        id=message_id,
        subject=subject,
        content_type=content_type,
        correlation_id=correlation_id,
        reply_to=reply_to,
        session_id=session,
        ttl=seconds("ttl", ttl),
        headers=dict(header(each) for each in headers or ()),
    )
    bodies = payloads(body, file, lines=lines, count=count)
    wait, sent = seconds("delay", delay), Sent(queue)
    with_broker(context, lambda broker: send_all(broker, sent, outgoing, bodies, wait))
    sent.tell(as_json=as_json)


def receive(
    context: typer.Context,
    queue: Queue,
    *,
    complete: Annotated[bool, typer.Option("--complete", help="Remove them: they are done.")] = False,
    abandon: Annotated[bool, typer.Option("--abandon", help="Give them back; the delivery counts.")] = False,
    defer: Annotated[bool, typer.Option("--defer", help="Set them aside, to be had by number.")] = False,
    dead_letter: Annotated[str | None, typer.Option(metavar="REASON", help="Move them to the dead letters.")] = None,
    delay: Annotated[str, _time("With --abandon: not before that long.")] = "0",
    session: Annotated[str | None, _text("Receive the messages of this session.")] = None,
    number: Annotated[
        list[int] | None, typer.Option("--number", metavar="N", help="Receive the deferred message with this number.")
    ] = None,
    max_messages: Max = 1,
    wait: Annotated[str, _time("How long to wait for the first, such as 10s.")] = "0",
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Receive the next messages, print them, then settle them.

    You must say how they are settled. To look without receiving: peek.

    Examples:
      redrive receive orders --complete
      redrive receive orders --complete --max 100 --wait 10s --json
      redrive receive orders --abandon --delay 5m
      redrive receive orders --number 17 --complete
      redrive receive 'orders/$dead' --complete
    """
    pause = seconds("delay", delay) or 0.0
    _check_one_way([complete, abandon, defer, dead_letter is not None], is_delayed=pause > 0 and not abandon)

    async def settle(one: Delivery) -> None:
        if dead_letter is not None:
            await one.dead_letter(dead_letter, "by redrive receive")
        elif abandon:
            await one.abandon(pause)
        else:
            await (one.complete() if complete else one.defer())

    async def work(found: list[Delivery]) -> None:
        _print_received(found, as_json=as_json)
        for one in found:  # only now: what could not be printed is not settled, and comes again
            await settle(one)

    which = _Which(queue, session, number or [], max_messages, seconds("wait", wait) or 0.0)
    with_broker(context, lambda broker: _receive(broker, which, work))


def _check_one_way(ways: list[bool], *, is_delayed: bool) -> None:
    if sum(ways) != 1:
        problem = "say what becomes of the messages: --complete, --abandon, --defer or --dead-letter REASON"
        raise screen.refusal(problem, ExitStatus.NOT_UNDERSTOOD)
    if is_delayed:
        raise screen.refusal("--delay is about --abandon", ExitStatus.NOT_UNDERSTOOD)


class _Which(NamedTuple):
    """Which messages are to be received."""

    queue: str
    session: str | None
    deferred: list[int]
    limit: int
    wait: float


async def _receive(broker: Broker, which: _Which, work: Callable[[list[Delivery]], Awaitable[None]]) -> None:
    """Receive messages, and have them worked on while they are locked."""
    queue, name, deferred, limit, wait = which
    if deferred:
        await work(await broker.receive_deferred(queue, deferred))
        return
    if name is None:
        await work(await broker.receive(queue, max_messages=limit, wait=wait))
        return
    session = await broker.accept_session(queue, name, wait=wait)
    if session is None:
        problem = f"session {name!r} of {queue} is somebody else's now; wait for it with --wait 1m"
        raise screen.refusal(one_line(problem), ExitStatus.IN_THE_WAY)
    async with session:
        await work(await session.receive(max_messages=limit, wait=wait))


def cancel(
    context: typer.Context,
    queue: Queue,
    number: Annotated[int, typer.Argument(metavar="NUMBER", help="Of the scheduled message; peek shows it.")],
    *,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Remove a scheduled message before its time.

    Example: redrive cancel orders 17
    """
    with_broker(context, lambda broker: broker.cancel(queue, number))
    if as_json:
        screen.print_json(views.cancelled_view(queue, number))
    else:
        screen.say(f"number {number} is no longer scheduled in {queue}")


def peek(
    context: typer.Context,
    queue: Queue,
    *,
    max_messages: Max = 20,
    start: Start = 0,
    state: Annotated[
        list[StateName] | None,
        typer.Option(metavar="STATE", help=_STATES),
    ] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Look at messages without receiving them.

    Examples:
      redrive peek orders
      redrive peek orders --state scheduled --state deferred
      redrive peek orders --start 1200 --max 100 --json
    """
    states = [State[each.name.upper()] for each in state] if state else None
    found = with_broker(
        context, lambda broker: broker.peek(queue, max_messages=max_messages, start=start, states=states)
    )
    if as_json:
        screen.print_json([views.received_view(each) for each in found])
        return
    if not found:
        screen.say(f"nothing to see in {queue}" + (f" from {start} on" if start else ""))
        return
    screen.print_table(_table(found))
    if len(found) == max_messages:
        screen.hint(f"there may be more: --start {found[-1].sequence + 1}")


def _print_received(found: list[Delivery], *, as_json: bool) -> None:
    if as_json:
        screen.print_json([views.received_view(one) for one in found])
        return
    if not found:
        screen.hint("nothing to receive")
    console = screen.out()
    for one in found:
        head = f"number {one.sequence} · delivery {one.delivery_count} · {screen.age(one.enqueued_at)} old · {one.id}"
        console.print(Text(one_line(head), style="dim"), soft_wrap=True)
        for name, value in one.headers.items():
            console.print(screen.told_header(name, value), soft_wrap=True)
        console.print(screen.shown(one.body), soft_wrap=True)


def _table(found: list[Received]) -> Table:
    right = ("number", "deliveries", "sent")
    table = screen.table("number", "state", "deliveries", "sent", "id", "body", right=right, long=("body",))
    for each in found:
        table.add_row(
            str(each.sequence),
            each.state.name.lower(),
            str(each.delivery_count),
            screen.age(each.enqueued_at),
            Text(one_line(each.id)),
            screen.body_line(each.body),
        )
    return table
