# SPDX-License-Identifier: MIT
"""``redrive worker``: run a program's worker, in one process or several, and again when its code changes."""

import asyncio
import importlib
import logging
import os
import signal
import sys
from pathlib import Path
from threading import Thread
from typing import Annotated

import typer

from redrive import connect
from redrive.cli import reaching, screen
from redrive.cli.crew import LIFELINE, Crew
from redrive.cli.stop_signals import StopSignals
from redrive.errors import RedriveError, UsageError
from redrive.worker import Worker
from redrive.worker.signals import STOP_SIGNALS, handling_signals


def worker(
    context: typer.Context,
    target: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:WORKER", help="The worker, such as app:worker for the variable worker in app.py."
        ),
    ],
    *,
    url: reaching.Url = None,
    processes: Annotated[int, typer.Option("--processes", "-p", min=1, max=64, help="How many processes.")] = 1,
    until_idle: Annotated[
        bool, typer.Option("--until-idle", help="End when nothing is ready and no handler runs.")
    ] = False,
    reload: Annotated[bool, typer.Option("--reload", help="Start anew when a .py file changes (development).")] = False,
) -> None:
    """Handle messages until Ctrl-C or SIGTERM: running handlers finish, the rest goes back. A second signal: at once.

    Example: redrive worker app:worker --url sqlite:///orders.db
    """
    where = reaching.url_of(context)
    is_in_crew = os.environ.pop(LIFELINE, None) is not None  # not for the processes that a handler starts
    with StopSignals(is_waiting=is_in_crew) as told:
        reaching.check_there(where)
        try:
            if processes > 1 or reload:
                status = Crew(target, where, processes, reload=reload, until_idle=until_idle).run(told)
            else:
                _run(target, where, told, is_in_crew=is_in_crew, until_idle=until_idle)
                status = 0
        except RedriveError as error:
            raise screen.failure(error) from None
    if status:
        raise typer.Exit(status)


def _run(target: str, where: str, told: StopSignals, *, is_in_crew: bool, until_idle: bool) -> None:
    found = load(target)
    if not logging.getLogger().handlers:  # the program has not said where its logs go
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    if is_in_crew:
        Thread(target=_end_with_the_crew, name="redrive-lifeline", daemon=True).start()
    else:
        screen.err().print(f"worker {found.name!r} handles {', '.join(found.queues)}; Ctrl-C stops it")
    asyncio.run(_handle_messages(found, where, told, until_idle=until_idle))


async def _handle_messages(found: Worker, where: str, told: StopSignals, *, until_idle: bool) -> None:
    def stop() -> None:
        told.count += 1
        found.stop(now=told.count > 1)

    told.is_heeded = True
    with handling_signals(STOP_SIGNALS, stop):
        async with connect(where) as broker:
            if not told.count:  # the event loop hands signals on, so none can come between this line and the next
                await found.run(broker, until_idle=until_idle)


def _end_with_the_crew() -> None:
    """Stop as by SIGTERM when the process that started this one is gone, however it went: its pipe closes.

    It reads the descriptor itself: a thread that waits in ``sys.stdin`` keeps it locked, and the interpreter, which
    wants to close it in the end, aborts.
    """
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def load(target: str) -> Worker:
    """Return the worker that ``module:name`` stands for; modules are looked for in the current directory first."""
    module_name, separator, name = target.partition(":")
    if not separator or not module_name or not name:
        raise UsageError(f"{target!r} does not name a worker; write module:variable, such as app:worker")
    sys.path.insert(0, str(Path.cwd()))
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not module_name.startswith(error.name):
            raise  # something that the module itself imports
        raise UsageError(f"there is no module {module_name!r} in {Path.cwd()}") from None
    found = getattr(module, name, None)
    if not isinstance(found, Worker):
        there = [each for each, value in vars(module).items() if isinstance(value, Worker)]
        raise UsageError(f"{module_name!r} has no Worker called {name!r}; it has: {', '.join(there) or 'none'}")
    return found
