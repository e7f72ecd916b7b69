# SPDX-License-Identifier: MIT
"""``redrive send``, ``receive``, ``peek`` and ``cancel``: the messages of a queue."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

import typer

from redrive.broker import Broker, Delivery, State, views
from redrive.cli import bulk
from redrive.cli.exit_status import ExitStatus
from redrive.cli.open import with_broker
from redrive.cli.options.connection import BrokerConnection, Queue
from redrive.cli.options.groups import grouped
from redrive.cli.options.message import BodyOptions, MessageOptions
from redrive.cli.options.page import Max, Start
from redrive.cli.options.time import seconds
from redrive.cli.output import console
from redrive.cli.output.message_detail import print_delivery
from redrive.cli.output.table import print_table
from redrive.cli.output.tables import messages_table
from redrive.printable import one_line


class StateName(StrEnum):
    """The states of a message, as they are written on the command line."""

    READY = "ready"
    SCHEDULED = "scheduled"
    LOCKED = "locked"
    DEFERRED = "deferred"
    DEFERRED_LOCKED = "deferred_locked"


def _time(help_text: str) -> Any:  # noqa: ANN401 - what typer's own function returns
    return typer.Option(metavar="TIME", help=help_text, show_default=False)


@grouped
def send(
    queue: Queue,
    body: BodyOptions,
    properties: MessageOptions,
    *,
    delay: Annotated[str | None, _time("Make it available only after that long, such as 30s.")] = None,
    connection: BrokerConnection,
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
    message = properties.template()
    bulk.send(connection, queue, body.bodies(), message, seconds("delay", delay))


@dataclass(frozen=True, slots=True)
class Settlement:
    """How received messages are settled; exactly one way must be stated."""

    complete: Annotated[bool, typer.Option("--complete", help="Remove them: they are done.")] = False
    abandon: Annotated[bool, typer.Option("--abandon", help="Give them back; the delivery counts.")] = False
    defer: Annotated[bool, typer.Option("--defer", help="Set them aside, to be received by number.")] = False
    dead_letter: Annotated[str | None, typer.Option(metavar="REASON", help="Move them to the dead letters.")] = None
    delay: Annotated[str, _time("With --abandon: not before that long.")] = "0"

    def check(self) -> None:
        """Refuse none, and more than one."""
        if sum([self.complete, self.abandon, self.defer, self.dead_letter is not None]) != 1:
            problem = "say how the messages are settled: --complete, --abandon, --defer or --dead-letter REASON"
            raise console.refusal(problem, ExitStatus.NOT_UNDERSTOOD)
        if self._delay_s > 0 and not self.abandon:
            raise console.refusal("--delay needs --abandon", ExitStatus.NOT_UNDERSTOOD)

    @property
    def _delay_s(self) -> float:
        return seconds("delay", self.delay) or 0.0

    async def settle(self, delivery: Delivery) -> None:
        """Settle a message."""
        if self.dead_letter is not None:
            await delivery.dead_letter(self.dead_letter, "by redrive receive")
        elif self.abandon:
            await delivery.abandon(self._delay_s)
        else:
            await (delivery.complete() if self.complete else delivery.defer())


@dataclass(frozen=True, slots=True)
class Reception:
    """Which messages are received."""

    session: Annotated[str | None, typer.Option(metavar="TEXT", help="Receive the messages of this session.")] = None
    number: Annotated[
        list[int] | None, typer.Option("--number", metavar="N", help="Receive the deferred message with this number.")
    ] = None
    max_messages: Max = 1
    wait: Annotated[str, _time("How long to wait for the first, such as 10s.")] = "0"

    async def receive(self, broker: Broker, queue: str, work: Callable[[list[Delivery]], Awaitable[None]]) -> None:
        """Receive messages, and have them worked on while they are locked."""
        wait = seconds("wait", self.wait) or 0.0
        if self.number:
            await work(await broker.receive_deferred(queue, self.number))
        elif self.session is None:
            await work(await broker.receive(queue, max_messages=self.max_messages, wait=wait))
        else:
            session = await broker.accept_session(queue, self.session, wait=wait)
            if session is None:
                problem = f"session {self.session!r} of {queue} is locked by another consumer; wait: --wait 1m"
                raise console.refusal(one_line(problem), ExitStatus.CONFLICT)
            async with session:
                await work(await session.receive(max_messages=self.max_messages, wait=wait))


@grouped
def receive(queue: Queue, settlement: Settlement, which: Reception, connection: BrokerConnection) -> None:
    """Receive the next messages, print them, then settle them.

    You must say how they are settled. To look without receiving: peek.

    Examples:
      redrive receive orders --complete
      redrive receive orders --complete --max 100 --wait 10s --json
      redrive receive orders --abandon --delay 5m
      redrive receive orders --number 17 --complete
      redrive receive 'orders/$dead' --complete
    """
    settlement.check()

    async def work(found: list[Delivery]) -> None:
        _print_received(found, as_json=connection.as_json)
        for one in found:  # only now: a message that could not be printed is not settled, and is delivered again
            await settlement.settle(one)

    with_broker(connection, lambda broker: which.receive(broker, queue, work))


def _print_received(found: list[Delivery], *, as_json: bool) -> None:
    if as_json:
        console.print_json([views.received_view(one) for one in found])
        return
    if not found:
        console.hint("nothing to receive")
    for one in found:
        print_delivery(one)


@grouped
def cancel(
    queue: Queue,
    number: Annotated[int, typer.Argument(metavar="NUMBER", help="Of the scheduled message; peek shows it.")],
    connection: BrokerConnection,
) -> None:
    """Remove a scheduled message before its time.

    Example: redrive cancel orders 17
    """
    with_broker(connection, lambda broker: broker.cancel(queue, number))
    if connection.as_json:
        console.print_json(views.cancelled_view(queue, number))
    else:
        console.say(f"number {number} is no longer scheduled in {queue}")


@grouped
def peek(
    queue: Queue,
    *,
    max_messages: Max = 20,
    start: Start = 0,
    state: Annotated[
        list[StateName] | None,
        typer.Option(metavar="STATE", help=f"One of {', '.join(StateName)}; all by default."),
    ] = None,
    connection: BrokerConnection,
) -> None:
    """Look at messages without receiving them.

    They are not locked, and their delivery count does not change.

    Examples:
      redrive peek orders
      redrive peek orders --state scheduled --state deferred
      redrive peek orders --start 1200 --max 100 --json
    """
    states = [State[each.name.upper()] for each in state] if state else None
    found = with_broker(
        connection, lambda broker: broker.peek(queue, max_messages=max_messages, start=start, states=states)
    )
    if connection.as_json:
        console.print_json([views.received_view(each) for each in found])
        return
    if not found:
        console.say(f"no messages in {queue}" + (f" from {start} on" if start else ""))
        return
    print_table(messages_table(found))
    if len(found) == max_messages:
        console.hint(f"there may be more: --start {found[-1].sequence + 1}")
