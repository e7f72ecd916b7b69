# SPDX-License-Identifier: MIT
"""``redrive worker``: run a program's worker, in one process or several, and again when its code changes."""

import asyncio
import importlib
import os
import signal
import sys
from pathlib import Path
from threading import Thread
from typing import Annotated

import typer

from redrive import connect
from redrive.cli.open import check_exists
from redrive.cli.options.connection import BrokerConnection, Url
from redrive.cli.options.groups import grouped
from redrive.cli.output import console
from redrive.cli.stop_signals import StopSignals
from redrive.cli.worker_processes import LIFELINE, WorkerProcesses
from redrive.errors import RedriveError, UsageError
from redrive.telemetry import log_to_stderr
from redrive.worker import Worker


@grouped
def worker(
    target: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:WORKER", help="The worker, such as app:worker for the variable worker in app.py."
        ),
    ],
    *,
    processes: Annotated[
        int, typer.Option("--processes", "-p", metavar="N", min=1, max=64, help="How many processes.")
    ] = 1,
    until_idle: Annotated[
        bool, typer.Option("--until-idle", help="End when nothing is ready and no handler runs.")
    ] = False,
    reload: Annotated[bool, typer.Option("--reload", help="Restart when a .py file changes, for development.")] = False,
    url: Url = None,
) -> None:
    """Run a worker until Ctrl-C or SIGTERM.

    Running handlers finish, and messages that wait in the worker are
    given back to their queues. A second signal ends it at once.

    Example: redrive worker app:worker --url sqlite:///orders.db
    """
    where = BrokerConnection(url).broker_url
    is_child = os.environ.pop(LIFELINE, None) is not None  # not for the processes that a handler starts
    with StopSignals(is_waiting=is_child) as signals:
        check_exists(where)
        try:
            if processes > 1 or reload:
                several = WorkerProcesses(target, where, processes, reload=reload, until_idle=until_idle)
                status = several.run(signals)
            else:
                _run(target, where, signals, is_child=is_child, until_idle=until_idle)
                status = 0
        except RedriveError as error:
            raise console.failure(error) from None
    if status:
        raise typer.Exit(status)


def _run(target: str, where: str, signals: StopSignals, *, is_child: bool, until_idle: bool) -> None:
    found = load(target)
    log_to_stderr()
    if is_child:
        Thread(target=_end_with_parent, name="redrive-lifeline", daemon=True).start()
    else:
        console.err().print(f"worker {found.name!r} handles {', '.join(found.queues)}; Ctrl-C stops it")
    asyncio.run(_handle_messages(found, where, signals, until_idle=until_idle))


async def _handle_messages(found: Worker, where: str, signals: StopSignals, *, until_idle: bool) -> None:
    loop = asyncio.get_running_loop()
    signals.on_signal = lambda: loop.call_soon_threadsafe(lambda: found.stop(now=signals.count > 1))
    signals.is_heeded = True
    try:
        async with connect(where) as broker:
            if not signals.count:  # one that arrives from here on stops the worker after it has begun to run
                await found.run(broker, until_idle=until_idle)
    finally:
        signals.on_signal = None  # the loop is about to close


def _end_with_parent() -> None:
    """Stop as by SIGTERM when the process that started this one has ended, whatever ended it: its pipe closes.

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
        names = [each for each, value in vars(module).items() if isinstance(value, Worker)]
        raise UsageError(f"{module_name!r} has no Worker called {name!r}; it has: {', '.join(names) or 'none'}")
    return found
