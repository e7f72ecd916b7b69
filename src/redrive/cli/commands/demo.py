# SPDX-License-Identifier: MIT
"""``redrive demo``: a living shop behind the server and its console, until Ctrl-C."""

import asyncio
import logging
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from redrive.cli.demo.live_shop import demo_settings, open_shop
from redrive.cli.demo.shop_history import MISSED
from redrive.cli.demo.story import play_story, print_ways_on
from redrive.cli.output import console
from redrive.cli.stop_signals import StopSignals
from redrive.errors import RedriveError

_CHATTY = ("httpx", "httpcore", "uvicorn", "redrive")


def demo(
    *,
    once: Annotated[bool, typer.Option("--once", help="Play the story in the terminal, and end.")] = False,
    listen: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Where the server listens; port 0: any.")
    ] = None,
    orders: Annotated[
        int, typer.Option(min=1, metavar="N", help="How many orders failed in the outage of the morning.")
    ] = MISSED,
    folder: Annotated[
        Path | None, typer.Option("--keep", metavar="FOLDER", help="Keep the database there; else it is removed.")
    ] = None,
) -> None:
    """Open a small shop whose messages fail, and look at it in the browser.

    It starts the server on a SQLite file, with routes, workers and a pipeline
    that fail as real ones do. All five layers have something to do. Nothing
    outside this machine is called.

    Examples:
      redrive demo
      redrive demo --once
      redrive demo --keep ./shop --listen 127.0.0.1:9000
    """
    for name in _CHATTY:  # the demo says itself what happens
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with StopSignals() as signals, ExitStack() as stack:
        place = folder or Path(stack.enter_context(TemporaryDirectory(prefix="redrive-demo-")))
        try:
            place.mkdir(parents=True, exist_ok=True)
            asyncio.run(_run(place, listen, signals, orders, once=once))
        except RedriveError as error:
            raise console.failure(error) from None


async def _run(folder: Path, listen: str | None, signals: StopSignals, orders: int, *, once: bool) -> None:
    loop, stopped = asyncio.get_running_loop(), asyncio.Event()
    signals.on_signal = lambda: loop.call_soon_threadsafe(stopped.set)
    out = console.out(markup=True)
    try:
        async with open_shop(demo_settings(folder, listen), folder, out.print, orders) as shop:
            if not once:
                print_ways_on(out, shop)
            ending = asyncio.ensure_future(play_story(out, shop) if once else stopped.wait())
            stop = asyncio.ensure_future(stopped.wait())
            await asyncio.wait([ending, stop, *shop.parts], return_when=asyncio.FIRST_COMPLETED)
            for task in (ending, stop):
                task.cancel()
            await asyncio.wait([ending, stop])
            if not ending.cancelled():
                ending.result()
            out.print("closing the shop …")
    finally:
        signals.on_signal = None  # the loop is about to close
