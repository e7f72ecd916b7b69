# SPDX-License-Identifier: MIT
"""``redrive demo``, layer 2: a queue in a file, a consumer that dies, a handler that fails, a dead letter."""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.text import Text

from redrive import connect
from redrive.broker import Broker, dead_letter_queue
from redrive.worker import Context, Recoverability, Worker


def show_redelivery(console: Console) -> None:
    """Show messages that are delivered again."""
    console.print("\n[bold cyan]Layer 2: redeliver the message[/]")
    with TemporaryDirectory(prefix="redrive-demo-") as folder:
        asyncio.run(_show(console, f"sqlite:///{Path(folder) / 'shop.db'}"))


async def _show(console: Console, url: str) -> None:
    async with connect(url) as broker:
        await broker.declare("orders", lock_duration=0.5)
        await _lose_a_consumer(console, broker)
        await _fail(console, broker)


async def _lose_a_consumer(console: Console, broker: Broker) -> None:
    console.print("  A consumer dies. When its lock ends, the next one gets the message.")
    await broker.send("orders", "a lamp to Elm Street")
    (order,) = await broker.receive("orders")
    _print_dim(console, f"delivery {order.delivery_count}: {order.body.decode()}; the consumer dies")
    (order,) = await broker.receive("orders", wait=5)
    console.print(f"    delivery {order.delivery_count}: {order.body.decode()}, completed", style="green")
    await order.complete()


async def _fail(console: Console, broker: Broker) -> None:
    console.print("  A handler fails: two attempts at once, two after a delay, then a dead letter.")
    await broker.send("orders", "a table to nowhere")
    worker = Worker("demo")

    @worker.handler("orders", recoverability=Recoverability(immediate=1, delayed=[0.3]))
    async def ship(order: str, context: Context) -> None:  # pyright: ignore[reportUnusedFunction]  # the worker has it
        _print_dim(console, f"attempt {context.attempt}: {order}: no address")
        raise ValueError("no address")

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(worker.run(broker))
        (dead,) = await broker.receive(dead_letter_queue("orders"), wait=30)
        worker.stop()
    info = dead.dead_letter_info
    console.print(f"    dead letter: {dead.body.decode()} ({info.reason if info else ''})", style="yellow")
    await dead.complete()


def _print_dim(console: Console, text: str) -> None:
    console.print(Text(f"    {text}", style="dim"))
