# SPDX-License-Identifier: MIT
"""``redrive demo``, layer 5: a thousand failures, grouped by cause, tried with a canary, recovered and confirmed."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

from redrive import connect, open_recovery
from redrive.broker import Broker
from redrive.recovery import MessageFailed, Operation, OperationState, Recovery
from redrive.telemetry import Event
from redrive.worker import Recoverability, Worker

_ORDERS = 1_000
_CANARY = 10


@dataclass
class _Shop:
    """What the orders' handler calls: both calls fail until their cause is mended."""

    is_mended: bool = False

    def price(self, number: int) -> None:
        """Look up a price; some articles have none."""
        if number % 8 == 0 and not self.is_mended:
            raise LookupError("the price list has no entry for the article")

    def reserve(self) -> None:
        """Ask the warehouse, which does not answer."""
        if not self.is_mended:
            raise ConnectionError("the warehouse does not answer")


class _Arrivals:
    """Counts the failures that recovery has read."""

    def __init__(self) -> None:
        self.are_all_here = asyncio.Event()
        self._count = 0

    def __call__(self, event: Event) -> None:
        self._count += isinstance(event, MessageFailed)
        if self._count == _ORDERS:
            self.are_all_here.set()


def show_recovery(console: Console) -> None:
    """Show a thousand failures that are recovered in bulk."""
    console.print("\n[bold cyan]Layer 5: recover the failures[/]")
    with TemporaryDirectory(prefix="redrive-demo-") as folder:
        asyncio.run(_show(console, f"sqlite:///{Path(folder) / 'shop.db'}"))


async def _show(console: Console, url: str) -> None:
    shop, arrivals = _Shop(), _Arrivals()
    worker = _worker(shop)
    async with (
        connect(url) as broker,
        open_recovery(broker, on_event=arrivals) as recovery,
        asyncio.TaskGroup() as tasks,
    ):
        await broker.declare("orders")
        await broker.declare("error")
        tasks.create_task(worker.run(broker))
        tasks.create_task(recovery.run())
        await _break(console, broker, arrivals)
        await _print_groups(console, recovery)
        await _try_canary(console, recovery)
        shop.is_mended = True
        await _recover_all(console, recovery)
        worker.stop()
        recovery.stop()


def _worker(shop: _Shop) -> Worker:
    """Return a worker that moves each failed order to the error queue at once, so that the demo need not wait."""
    worker = Worker("demo")
    at_once = Recoverability(immediate=0, delayed=None, error_queue="error")

    @worker.handler("orders", concurrency=100, recoverability=at_once, slow_down=None)
    async def ship(number: int) -> None:  # pyright: ignore[reportUnusedFunction]  # the worker has it
        shop.price(number)
        shop.reserve()

    return worker


async def _break(console: Console, broker: Broker, arrivals: _Arrivals) -> None:
    console.print(f"  {_ORDERS:,} orders arrive. Every one fails and moves to the error queue.")
    await broker.send_many("orders", [str(number) for number in range(_ORDERS)])
    await arrivals.are_all_here.wait()


async def _print_groups(console: Console, recovery: Recovery) -> None:
    _print_command(console, "redrive failed groups")
    for group in await recovery.groups(largest_first=True):
        console.print(Text(f"    {group.count:>5,} x {group.title}", style="yellow"))


async def _try_canary(console: Console, recovery: Recovery) -> None:
    console.print(f"  Are they mended? Send {_CANARY} of them first, and the rest only if those succeed.")
    _print_command(console, f"redrive recover --all --canary {_CANARY}")
    number = (await recovery.recover("status:unresolved", canary=_CANARY)).number
    async for operation in recovery.follow(number, every=0.05):
        if operation.state is OperationState.PAUSED:
            left = operation.progress.remaining
            console.print(f"    stopped: {operation.state_reason}; the other {left:,} were not sent", style="yellow")
            break
    await recovery.cancel(number, reason="the causes are not mended yet")


async def _recover_all(console: Console, recovery: Recovery) -> None:
    console.print("  The warehouse answers again, and the price list is complete. Once more:")
    _print_command(console, f"redrive recover --all --canary {_CANARY}")
    asked = await recovery.recover("status:unresolved", canary=_CANARY, reason="both causes are mended")
    columns = (TextColumn("   "), BarColumn(40), MofNCompleteColumn(), TextColumn("confirmed by the worker"))
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("", total=asked.progress.total)
        async for operation in recovery.follow(asked.number, every=0.05, until_heard=60):
            bar.update(task, completed=operation.progress.succeeded)
    _print_outcome(console, await recovery.operation(asked.number), left=await recovery.count())


def _print_outcome(console: Console, operation: Operation, *, left: int) -> None:
    done = operation.progress
    line = (
        f"    {operation.state.word}: {done.succeeded:,} of {done.total:,} succeeded, {left} unresolved failures left"
    )
    console.print(line, style="green")


def _print_command(console: Console, command: str) -> None:
    console.print(Text(f"    $ {command}", style="bold"))
