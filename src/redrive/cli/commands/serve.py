# SPDX-License-Identifier: MIT
"""``redrive serve``: the server, until a signal."""

import asyncio
import logging
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from redrive.cli.commands.routes.connection import find_functions
from redrive.cli.options.connection import URL_VARIABLE
from redrive.cli.output import console
from redrive.cli.stop_signals import StopSignals
from redrive.errors import MissingExtra, RedriveError
from redrive.telemetry import log_to_stderr

if TYPE_CHECKING:
    from redrive.server import ServerProcess

_CHATTY = ("httpx", "httpcore", "uvicorn")
_FILE = "redrive.toml"

Database = Annotated[
    str | None,
    typer.Option("--database", "--url", metavar="URL", help=f"Where everything is; ${URL_VARIABLE}, or the file's."),
]


def serve(  # noqa: PLR0917 - typer's options
    database: Database = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help=f"The file with the settings; {_FILE}, if there is one.")
    ] = None,
    listen: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="Where it listens; port 0: any.")] = None,
    ingest: Annotated[bool | None, typer.Option("--ingest/--no-ingest", help="Read failures.")] = None,
    operations: Annotated[bool | None, typer.Option("--operations/--no-operations", help="Work on operations.")] = None,
    routes: Annotated[bool | None, typer.Option("--routes/--no-routes", help="Run the routes.")] = None,
    pipelines: Annotated[bool | None, typer.Option("--pipelines/--no-pipelines", help="Run the pipelines.")] = None,
    upkeep: Annotated[bool | None, typer.Option("--upkeep/--no-upkeep", help="Expire messages.")] = None,
    notifications: Annotated[
        bool | None, typer.Option("--notifications/--no-notifications", help="Call webhooks.")
    ] = None,
    work_process: Annotated[
        bool | None, typer.Option("--work-process/--no-work-process", help="Do all of this in a process of its own.")
    ] = None,
) -> None:
    """Serve the HTTP API, and do all the work, until Ctrl-C or SIGTERM.

    It answers requests, and a process of its own reads failures, works on
    operations, and runs routes and pipelines. Several servers may share one
    PostgreSQL database. What has begun is finished at the end; a second
    signal ends it at once.

    Examples:
      redrive serve
      redrive serve --database postgresql://redrive@db/redrive --no-routes
      redrive serve --config /etc/redrive.toml --listen 127.0.0.1:8484
    """
    given = {
        "database": database if database is not None else os.environ.get(URL_VARIABLE) or None,
        "listen": listen,
        "ingest": ingest,
        "operations": operations,
        "routes": routes,
        "pipelines": pipelines,
        "upkeep": upkeep,
        "notifications": notifications,
        "work_process": work_process,
    }
    _log()
    find_functions()
    with StopSignals() as signals:
        try:
            server = _server({name: value for name, value in given.items() if value is not None}, config)
            asyncio.run(_serve(server, signals))
        except RedriveError as error:
            raise console.failure(error) from None


def _log() -> None:
    log_to_stderr()
    for name in _CHATTY:  # a line for each request says nothing that events do not
        logging.getLogger(name).setLevel(logging.CRITICAL)


def _server(given: dict[str, Any], config: Path | None) -> "ServerProcess":
    """Return the server with the settings of the file, and instead of them those that were stated."""
    try:
        from redrive.server import ServerProcess, ServerSettings, read_server_settings
    except ModuleNotFoundError as error:
        raise MissingExtra("redrive serve", "server") from error
    file = config or (Path(_FILE) if Path(_FILE).exists() else None)
    return ServerProcess(replace(ServerSettings() if file is None else read_server_settings(file), **given))


async def _serve(server: "ServerProcess", signals: StopSignals) -> None:
    loop = asyncio.get_running_loop()
    server.on_listening = lambda address: console.say(f"serves at http://{address}; Ctrl-C stops it")
    signals.on_signal = lambda: loop.call_soon_threadsafe(server.stop)
    try:
        if not signals.count:
            await server.run()
    finally:
        signals.on_signal = None  # the loop is about to close
