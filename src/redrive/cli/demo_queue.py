# SPDX-License-Identifier: MIT
"""``redrive demo``, layer 2: a queue in a file, a consumer that dies, a handler that fails, a dead letter."""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.panel import Panel
from rich.text import Text

from redrive import connect
from redrive.broker import Broker
from redrive.worker import Context, Recoverability, Worker


def run_queue_demo(console: Console) -> None:
    """Show what redelivering a message is about."""
    console.print(Panel("Redrive, layer 2: [bold]redeliver a message[/]", expand=False, border_style="cyan"))
    with TemporaryDirectory(prefix="redrive-demo-") as folder:
        asyncio.run(_show(console, f"sqlite:///{Path(folder) / 'shop.db'}"))
    console.print("\nNext: [bold]docs/tutorial/[/], or [bold]redrive queues --help[/].")


async def _show(console: Console, url: str) -> None:
    console.print("\n[bold]5. A queue in a file.[/] What was sent outlives the program that sent it.")
    async with connect(url) as broker:
        await broker.declare("orders", lock_duration=0.5)
        number = await broker.send("orders", "a lamp to Elm Street")
        _tell(console, f"sent, number {number}; the program ends, another begins")
    async with connect(url) as broker:
        await _lose_a_consumer(console, broker)
        await _fail(console, broker)
        await _resubmit(console, broker)


async def _lose_a_consumer(console: Console, broker: Broker) -> None:
    console.print("\n[bold]6. A consumer dies.[/] Its lock runs out, and the next consumer gets the message.")
    (order,) = await broker.receive("orders")
    _tell(console, f"delivery {order.delivery_count}: {order.body.decode()}; and then nothing more is heard")
    (order,) = await broker.receive("orders", wait=5)
    console.print(f"   delivery {order.delivery_count}: {order.body.decode()}, completed", style="green")
    await order.complete()


async def _fail(console: Console, broker: Broker) -> None:
    console.print("\n[bold]7. A handler fails.[/] Again at once, again after a while, then aside for a person.")
    await broker.send("orders", "a table to nowhere")
    worker = Worker("demo")

    @worker.handler("orders", recoverability=Recoverability(immediate=1, delayed=[0.5]))
    async def ship(order: str, context: Context) -> None:  # pyright: ignore[reportUnusedFunction]  # the worker has it
        _tell(console, f"attempt {context.attempt} at {order}: no address")
        raise ValueError("no address")

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(worker.run(broker))
        (dead,) = await broker.receive("orders/$dead", wait=30)
        worker.stop()
    await dead.abandon()
    why = dead.dead_letter_info
    console.print(f"   dead letter: {dead.body.decode()} ({why.reason if why else ''})", style="yellow")


async def _resubmit(console: Console, broker: Broker) -> None:
    console.print("\n[bold]8. A person mends the cause[/] and sends the dead letter again.")
    count = await broker.resubmit("orders")
    (order,) = await broker.receive("orders")
    console.print(f"   {count} resubmitted; delivery {order.delivery_count}: {order.body.decode()}", style="green")
    await order.complete()


def _tell(console: Console, text: str) -> None:
    console.print(Text(f"   {text}", style="dim"))
