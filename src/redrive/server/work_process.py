# SPDX-License-Identifier: MIT
"""The work of a server in a process of its own, so that however many people look, the work is not slowed down.

Python runs one thread at a time: what a process does for those who look, it does not do for operations. The two
processes meet in the database, as several servers do. What else one has to tell the other goes through two pipes: the
settings and the word to stop there, what runs and which events there were back.
"""

import asyncio
import base64
import json
import logging
import pickle
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from redrive.broker.views import View
from redrive.clock import Clock
from redrive.errors import ProblemReported
from redrive.retry import AttemptFailure, Exponential, RetryAfter
from redrive.server.app import Observed
from redrive.server.desk import Desk
from redrive.server.settings import ServerSettings
from redrive.server.work import WORK_PROCESS

_logger = logging.getLogger("redrive.server")

STOP: Final = b"s"
"""What the process reads when it is to stop."""

_CHILD: Final = (
    "'the work process of redrive serve'; "  # for people who read lists of processes
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from redrive.server.work_program import main; main()"
)
_LONGEST_LINE: Final = 16 * 1_048_576
_RESTARTS: Final = Exponential(min=1.0, max=30.0, jitter="none", max_attempts=None)
_LONG_ENOUGH_S: Final = 30.0


class WorkProcess:
    """The work of a server in another process, which is kept running.

    A process that was ended from outside, or by a fault of a program, is started again after a while. An error of
    Redrive's own ends the server, as it does when the work is done in one process.

    Args:
        settings: how the server runs.
        clock: measures how long a process ran.
        observed: what is known about the server; the reports of the process go there.
    """

    def __init__(self, settings: ServerSettings, clock: Clock, observed: Observed) -> None:
        self._settings = settings
        self._clock = clock
        self._observed = observed
        self._stopping = asyncio.Event()
        self._child: asyncio.subprocess.Process | None = None
        self._parts: set[str] = set()
        self._failure: ProblemReported | None = None

    @asynccontextmanager
    async def running(self, desk: Desk) -> AsyncGenerator[list["asyncio.Task[None]"]]:
        """Run the process for as long as the block lasts; it opens a desk of its own."""
        self._observed.health.note_part(WORK_PROCESS, runs=False)
        keeping = asyncio.create_task(self._keep_running(), name="redrive server: work process")
        try:
            yield [keeping]
        finally:
            self._stop()
            await asyncio.wait([keeping])

    def _stop(self) -> None:
        self._stopping.set()
        if self._child is not None and self._child.stdin is not None and not self._child.stdin.is_closing():
            self._child.stdin.write(STOP)

    async def _keep_running(self) -> None:
        failures = 0
        while not self._stopping.is_set():
            began = self._clock.monotonic()
            ended = await self._run()
            if self._failure is not None:
                raise self._failure
            if self._stopping.is_set():
                if ended != "exit status 0":
                    _logger.error("the work process has ended with %s", ended)
                return
            failures = 1 if self._clock.monotonic() - began >= _LONG_ENOUGH_S else failures + 1
            answer = _RESTARTS.decide(AttemptFailure(failures))
            delay = answer.delay if isinstance(answer, RetryAfter) else _LONG_ENOUGH_S
            _logger.error("the work process has ended with %s; another is started in %g s", ended, delay)
            with suppress(TimeoutError):
                async with self._clock.timeout(delay):
                    await self._stopping.wait()

    async def _run(self) -> str:
        """Start the process, and listen to it until it has ended; return how."""
        self._child = child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-c", _CHILD, json.dumps(sys.path)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=_LONGEST_LINE,
            start_new_session=True,  # Ctrl-C arrives here alone, and is passed on
        )
        if child.stdin is None or child.stdout is None:
            raise OSError("the work process has no pipes")
        child.stdin.write(_head(self._settings))
        if self._stopping.is_set():
            child.stdin.write(STOP)
        try:
            while line := await child.stdout.readline():
                self._hear(json.loads(line))
            return _how(await child.wait())
        finally:
            self._child = None
            child.stdin.close()
            for name in (*self._parts, WORK_PROCESS):
                self._observed.health.note_part(name, runs=False)
            self._parts.clear()

    def _hear(self, report: View) -> None:
        if (failed := report.get("failed")) is not None:
            self._failure = ProblemReported(**failed)
        for name, runs in report.get("parts", {}).items():
            self._parts.add(name)
            self._observed.health.note_part(name, runs=runs)
        if (events := report.get("events")) is not None:
            self._observed.metrics.add(events)
            self._observed.topics.tell(*events["topics"])


def _head(settings: ServerSettings) -> bytes:
    """Return the line that the process reads first: the settings, and how it logs."""
    root = logging.getLogger()
    loggers = {"": root, **root.manager.loggerDict}
    head: dict[str, Any] = {
        "settings": base64.b64encode(pickle.dumps(settings)).decode(),
        "logs": bool(root.handlers),
        "levels": {
            name: each.level for name, each in loggers.items() if isinstance(each, logging.Logger) and each.level
        },
    }
    return json.dumps(head).encode() + b"\n"


def _how(status: int) -> str:
    return f"exit status {status}" if status >= 0 else f"signal {signal.Signals(-status).name}"
