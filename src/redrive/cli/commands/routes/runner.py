# SPDX-License-Identifier: MIT
"""``redrive routes run``: run the routes of a database until a signal."""

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from redrive.cli.commands.routes.connection import find_functions, routes_in, with_routes
from redrive.cli.options.connection import BrokerConnection, Url
from redrive.cli.options.groups import grouped
from redrive.cli.output import console
from redrive.cli.output.sentences import count, some
from redrive.cli.stop_signals import StopSignals
from redrive.routes import RouteInfo, RouteRunner, Routes
from redrive.telemetry import log_to_stderr

_CHATTY = ("httpx", "httpcore", "uvicorn")


@grouped
def run(
    *,
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="Add the routes of this file first.", show_default=False)
    ] = None,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where HTTP receivers listen; port 0 is any that is free.")
    ] = "127.0.0.1:8080",
    url: Url = None,
) -> None:
    """Run the routes until Ctrl-C or SIGTERM, and follow every change of them.

    Several processes may run the same routes. Events that are on their way
    are finished at the end; a second signal ends it at once, and what is
    stored then is delivered by the next process.

    Examples:
      redrive routes run
      redrive routes run routes.toml --listen 127.0.0.1:8080
    """
    wanted = [] if file is None else routes_in(file)
    _log_to_stderr()
    find_functions()

    async def serve(routes: Routes) -> None:
        await routes.apply(*wanted)
        await _run(routes, listen, signals)

    with StopSignals() as signals:
        with_routes(BrokerConnection(url), serve, file=file, may_create=file is not None)


def _log_to_stderr() -> None:
    log_to_stderr()
    for name in _CHATTY:  # a line for each request says nothing that events do not
        logging.getLogger(name).setLevel(logging.WARNING)


async def _run(routes: Routes, listen: str, signals: StopSignals) -> None:
    runner, loop = RouteRunner(routes, listen=listen), asyncio.get_running_loop()
    # not at once: a signal that arrives before it runs must stop it after it has begun to
    signals.on_signal = lambda: loop.call_soon_threadsafe(runner.stop)
    runner.http.on_listening = lambda address: console.hint(f"HTTP receivers listen at http://{address}", "")
    try:
        if not signals.count:
            console.hint(_beginning(await routes.find()), "")
            await runner.run()
    finally:
        signals.on_signal = None  # the loop is about to close


def _beginning(found: Sequence[RouteInfo]) -> str:
    if not found:
        return "no routes yet, add some meanwhile: redrive routes add FILE; Ctrl-C stops it"
    names = [each.route.name if each.state == "running" else f"{each.route.name} ({each.state})" for each in found]
    return f"runs {count(len(found), 'route')}: {some(names, 20)}; Ctrl-C stops it"
