# SPDX-License-Identifier: MIT
"""The program of the work process: it does the work of a server until that tells it to stop, or has ended.

When the server has ended without a word, this ends at once, as it would in one process: whatever was begun, another
process finishes. It answers no requests, and loads nothing that does.
"""

import asyncio
import base64
import json
import logging
import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from typing import Any, Final

from redrive.broker.views import View
from redrive.clock import Clock, pause, system_clock
from redrive.error_codes import statuses_of
from redrive.errors import RedriveError
from redrive.server.desk_opener import DeskOpener
from redrive.server.event_tally import EventTally, event_kinds
from redrive.server.settings import ServerSettings
from redrive.server.work import WORK_PROCESS, OwnFiles, WorkHere, limits
from redrive.telemetry import log_to_stderr

_TELL_EVERY_S: Final = 0.2
_ENDED_WITH_SERVER: Final = 1


class Reports:
    """What this process tells the server, a line at a time.

    Args:
        descriptor: the pipe to the server.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._parts: View = {}
        self._events = EventTally(event_kinds())
        self.note_event = self._events.note

    def note_part(self, name: str, *, runs: bool) -> None:
        """Note that a part runs, or does not any more."""
        self._parts[name] = runs

    def tell(self, **more: object) -> None:
        """Tell what has happened since the last time, if anything has; it waits until the server reads."""
        self._write(self._line(more))

    async def keep_telling(self, clock: Clock) -> None:
        """Tell a few times a second, until cancelled; a server that does not read holds up nothing."""
        while True:
            await pause(clock, _TELL_EVERY_S)
            if line := self._line({}):
                await asyncio.to_thread(self._write, line)

    def _line(self, more: View) -> bytes:
        report: dict[str, Any] = dict(more)
        if self._parts:
            report["parts"], self._parts = self._parts, {}
        if (events := self._events.take()) is not None:
            report["events"] = events
        return json.dumps(report).encode() + b"\n" if report else b""

    def _write(self, line: bytes) -> None:
        while line:
            line = line[os.write(self._descriptor, line) :]


async def work(settings: ServerSettings, reports: Reports, hear_stop: Callable[[Callable[[], object]], object]) -> None:
    """Do the work until it is stopped; an error of a part ends it.

    Args:
        settings: which parts are switched on.
        reports: tells the server.
        hear_stop: is given what stops it.
    """
    stopping, loop = asyncio.Event(), asyncio.get_running_loop()
    hear_stop(lambda: loop.call_soon_threadsafe(stopping.set))
    files = OwnFiles(settings)
    here = WorkHere(settings, files, system_clock, reports.note_part, reports.note_event)
    opener = DeskOpener(settings, system_clock, reports.note_event, lambda _: None, does_upkeep=settings.upkeep)
    telling = asyncio.create_task(reports.keep_telling(system_clock))
    try:
        with limits(settings):
            async with AsyncExitStack() as stack:
                desk = await opener.open(stack, stopping)
                if desk is None:
                    return
                parts = await stack.enter_async_context(here.running(desk))
                reports.note_part(WORK_PROCESS, runs=True)
                stopped = asyncio.create_task(stopping.wait())
                done, _ = await asyncio.wait([stopped, *parts], return_when=asyncio.FIRST_COMPLETED)
                stopped.cancel()
            for task in done - {stopped}:
                task.result()
    finally:
        telling.cancel()
        with suppress(asyncio.CancelledError):
            await telling


def main() -> None:
    """Run the program."""
    reports = Reports(os.dup(1))
    os.dup2(2, 1)  # what functions of users print must not look like a report
    head = json.loads(_first_line())
    if head["logs"]:
        log_to_stderr()
    for name, level in head["levels"].items():
        logging.getLogger(name).setLevel(level)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server gets it, and passes it on
    settings = pickle.loads(base64.b64decode(head["settings"]))  # noqa: S301 - the server wrote it, into this pipe
    status = 0
    try:
        asyncio.run(work(settings, reports, _listen))
    except RedriveError as error:
        http_status = statuses_of(error.code).http_status
        reports.tell(failed={"code": error.code, "detail": str(error), "fix": None, "status": http_status})
        status = 1
    else:
        reports.tell()
    sys.exit(status)


def _first_line() -> bytes:
    """Read the first line, and not a byte more: the thread that listens reads the descriptor itself."""
    read = bytearray()
    while (byte := os.read(0, 1)) != b"\n":
        if not byte:
            os._exit(_ENDED_WITH_SERVER)
        read += byte
    return bytes(read)


def _listen(stop: Callable[[], object]) -> None:
    """Listen, in a thread, whether to stop; end at once when the server has ended.

    It reads the descriptor itself: a thread that waits in ``sys.stdin`` keeps it locked, and the interpreter, which
    wants to close it in the end, aborts.
    """

    def listen() -> None:
        while os.read(0, 1):
            with suppress(RuntimeError):  # the loop has ended by itself
                stop()
        os._exit(_ENDED_WITH_SERVER)

    threading.Thread(target=listen, name="redrive server: stop", daemon=True).start()
