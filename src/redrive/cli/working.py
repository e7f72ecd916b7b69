# SPDX-License-Identifier: MIT
"""``redrive worker``: run a program's worker, in one process or several, and again when its code changes."""

import importlib
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Annotated

import typer

from redrive import connect
from redrive.cli import reaching, screen
from redrive.clock import system_clock
from redrive.errors import RedriveError, UsageError
from redrive.worker import Worker

_LOOK_EVERY_S = 0.3
_PAUSE_BEFORE_RESTART_S = 1.0
_LIFELINE = "REDRIVE_LIFELINE"
"""Set for a process of a crew: its standard input ends with the crew."""

_NOT_OURS = {"node_modules", "site-packages", "__pycache__"}


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
    reload: Annotated[bool, typer.Option("--reload", help="Start anew when a .py file changes (development).")] = False,
) -> None:
    """Handle messages until Ctrl-C or SIGTERM: running handlers finish, the rest goes back. A second signal: at once.

    Example: redrive worker app:worker --url sqlite:///orders.db
    """
    where = reaching.url_of(context)
    try:
        if processes == 1 and not reload:
            _run(load(target), where)
        else:
            Crew(target, where, processes, reload=reload).run()
    except RedriveError as error:
        raise screen.failure(error) from None


def _run(found: Worker, where: str) -> None:
    if not logging.getLogger().handlers:  # the program has not said where its logs go
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    screen.err().print(f"worker {found.name!r} handles {', '.join(found.queues)}; Ctrl-C stops it")
    if os.environ.get(_LIFELINE):
        Thread(target=_end_with_the_crew, name="redrive-lifeline", daemon=True).start()
    found.run_forever(connect(where))


def _end_with_the_crew() -> None:
    """Stop as by SIGTERM when the process that started this one is gone, however it went: its pipe closes."""
    sys.stdin.buffer.read()
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


class Crew:
    """Worker processes, kept running until they are told to stop.

    Args:
        target: the worker, as it was named.
        url: where its queues are.
        size: how many there are.
        reload: whether they start anew when code changes; then one that fails waits for a change, otherwise it is
            started again after a moment.
    """

    def __init__(self, target: str, url: str, size: int, *, reload: bool) -> None:
        self._command = [sys.executable, "-m", "redrive.cli", "worker", target]
        # not as an argument: there may be a password in it, and arguments are for everybody to see
        self._environment = {**os.environ, reaching.VARIABLE: url, _LIFELINE: "1"}
        self._size = size
        self._reload = reload
        self._running: list[subprocess.Popen[bytes]] = []
        self._is_stopping = False

    def run(self) -> None:
        """Run until a signal, or until every process has ended by itself."""
        before = [signal.signal(each, self._on_signal) for each in (signal.SIGTERM, signal.SIGINT)]
        try:
            self._start(self._size)
            seen = fingerprint(Path.cwd()) if self._reload else ()
            while self._running or (self._reload and not self._is_stopping):
                system_clock.sleep(_LOOK_EVERY_S)
                self._replace_the_fallen()
                if self._reload and not self._is_stopping and (now := fingerprint(Path.cwd())) != seen:
                    seen = now
                    self._restart()
        finally:
            for each, handler in zip((signal.SIGTERM, signal.SIGINT), before, strict=True):
                signal.signal(each, handler)

    def _start(self, count: int) -> None:
        # a session of its own: Ctrl-C comes to us alone, and we pass it on
        self._running += [
            subprocess.Popen(self._command, start_new_session=True, stdin=subprocess.PIPE, env=self._environment)  # noqa: S603
            for _ in range(count)
        ]

    def _replace_the_fallen(self) -> None:
        fallen = [process for process in self._running if process.poll() not in (None, 0)]
        self._running = [process for process in self._running if process.poll() is None]
        if not fallen or self._is_stopping:
            return
        for process in fallen:
            then = "waiting for a change" if self._reload else "starting another"
            screen.err().print(f"worker process {process.pid} ended with status {process.returncode}; {then}")
        if not self._reload:
            system_clock.sleep(_PAUSE_BEFORE_RESTART_S)
            self._start(len(fallen))

    def _restart(self) -> None:
        screen.err().print("code has changed; starting anew")
        self._signal_all()
        for process in self._running:
            process.wait()
        self._running = []
        self._start(self._size)

    def _on_signal(self, *_: object) -> None:
        self._is_stopping = True
        self._signal_all()

    def _signal_all(self) -> None:
        for process in self._running:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)


def fingerprint(folder: Path) -> tuple[tuple[str, int], ...]:
    """Return what changes when a Python file below a folder does."""
    return tuple(sorted((str(file), file.stat().st_mtime_ns) for file in _sources(folder)))


def _sources(folder: Path) -> Iterator[Path]:
    for entry in folder.iterdir():
        if entry.name.startswith(".") or entry.name in _NOT_OURS:
            continue
        if entry.is_dir() and not (entry / "pyvenv.cfg").exists():
            yield from _sources(entry)
        elif entry.suffix == ".py" and entry.is_file():
            yield entry
