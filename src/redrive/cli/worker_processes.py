# SPDX-License-Identifier: MIT
"""Several worker processes, kept running: started again when they fail, or when their code changes."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from math import inf
from pathlib import Path

from redrive.cli.options.connection import URL_VARIABLE
from redrive.cli.output import console
from redrive.cli.output.sentences import count, them
from redrive.cli.stop_signals import StopSignals
from redrive.clock import Clock, system_clock
from redrive.retry import AttemptFailure, Backoff, Exponential, GiveUp
from redrive.worker.signals import STOP_SIGNALS, holding_back

LIFELINE = "REDRIVE_LIFELINE"
"""Set for a worker process: its standard input ends with the process that started it."""

RESTARTS = Exponential(min=1.0, max=30.0, jitter="none", max_attempts=5)
"""The waits before a process that failed at once is started again; after the last one the command ends."""

_LONG_ENOUGH_S = 30.0
"""A process that has run for this long had started well; if it fails then, counting begins again."""

_LOOK_EVERY_S = 0.1
_NOT_OURS = {"node_modules", "site-packages", "__pycache__"}


class _Slot:
    """One of the processes: the one that runs now, and when the next one is to be started.

    Attributes:
        process: the process; None while there is none.
        started_at: when it was started, on the monotonic clock.
        due_at: when the next one is to be started; never, if it is infinite.
        failures: how often in a row one has failed at once.
        is_outdated: whether the process is being stopped to make room for one with newer code.
    """

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.started_at = 0.0
        self.due_at = -inf
        self.failures = 0
        self.is_outdated = False

    def end(self) -> None:
        """Tell the process to stop, if there is one."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)


class WorkerProcesses:
    """Worker processes, kept running until a signal.

    Args:
        target: the worker, as ``module:variable``.
        url: where its queues are.
        size: how many there are.
        until_idle: whether each ends when its queues have nothing to do.
        reload: whether they are restarted when code changes; then one that fails waits for a change, otherwise another
            is started.
        restarts: how long to wait before that, and how often one may fail at once until the command ends.
        clock: the source of time.
    """

    def __init__(
        self,
        target: str,
        url: str,
        size: int,
        *,
        reload: bool,
        until_idle: bool = False,
        restarts: Backoff = RESTARTS,
        clock: Clock = system_clock,
    ) -> None:
        self._target = target
        self._command = [
            sys.executable,
            "-m",
            "redrive.cli",
            "worker",
            target,
            *(["--until-idle"] if until_idle else ()),
        ]
        # not as an argument: there may be a password in it, and arguments are visible to every user
        self._environment = {**os.environ, URL_VARIABLE: url, LIFELINE: "1"}
        self._reload = reload
        self._restarts = restarts
        self._clock = clock
        self._slots = [_Slot() for _ in range(size)]
        self._seen = fingerprint(Path.cwd()) if reload else ()
        self._passed_on = 0
        self._is_stopping = False
        self._status = 0

    def run(self, signals: StopSignals) -> int:
        """Run until a signal, or until every process has ended by itself; return the status to end with."""
        signals.is_heeded = True
        size = len(self._slots)
        runs = "runs" if size == 1 else "run"
        _say(f"{count(size, 'process')} {runs} {self._target}; Ctrl-C stops {them(size)}")
        while self._look(signals.count):
            self._clock.sleep(_LOOK_EVERY_S)
        return self._status

    def _look(self, signals: int) -> bool:
        """Do what is to be done now; return whether there may be more later."""
        if signals > self._passed_on:  # one at a time: two at once would arrive as one
            self._passed_on += 1
            self._stop()
        for slot in self._slots:
            if slot.process is not None and slot.process.poll() is not None:
                self._note_end(slot, slot.process)
        if self._reload and not self._is_stopping:
            self._look_for_changes()
        for slot in self._slots:
            if slot.process is None and not self._is_stopping and slot.due_at <= self._clock.monotonic():
                self._start(slot)
        is_more_to_come = not self._is_stopping and (self._reload or any(each.due_at < inf for each in self._slots))
        return is_more_to_come or any(each.process is not None for each in self._slots)

    def _start(self, slot: _Slot) -> None:
        slot.started_at, slot.due_at, slot.is_outdated = self._clock.monotonic(), inf, False
        # a session of its own: Ctrl-C arrives here alone and is passed on. Signals wait until it can count them.
        with holding_back(STOP_SIGNALS):
            slot.process = subprocess.Popen(  # noqa: S603 - our own command line
                self._command, start_new_session=True, stdin=subprocess.PIPE, env=self._environment
            )

    def _stop(self) -> None:
        self._is_stopping = True
        for slot in self._slots:
            slot.end()

    def _note_end(self, slot: _Slot, process: subprocess.Popen[bytes]) -> None:
        slot.process = None
        if process.stdin is not None:
            process.stdin.close()
        if slot.is_outdated:
            slot.due_at = -inf
        if process.returncode == 0:
            return
        ended = f"worker process {process.pid} ended with status {process.returncode}"
        if self._is_stopping:
            self._status = self._status or _status_for(process)
            _say(ended)
        elif self._reload:
            _say(f"{ended}; waiting for a change")
        else:
            self._start_another(slot, process, ended)

    def _start_another(self, slot: _Slot, process: subprocess.Popen[bytes], ended: str) -> None:
        now = self._clock.monotonic()
        ran_s = now - slot.started_at
        slot.failures = 1 if ran_s >= _LONG_ENOUGH_S else slot.failures + 1
        answer = self._restarts.decide(AttemptFailure(slot.failures))
        if isinstance(answer, GiveUp):
            _say(f"{ended}, {slot.failures} times in a row within {_LONG_ENOUGH_S:g} s of its start; giving up")
            self._status = self._status or _status_for(process)
            self._stop()
        else:
            _say(f"{ended}; starting another in {answer.delay:g} s")
            slot.due_at = now + answer.delay

    def _look_for_changes(self) -> None:
        if (now := fingerprint(Path.cwd())) == self._seen:
            return
        self._seen = now
        _say("code has changed; restarting")
        for slot in self._slots:
            slot.is_outdated, slot.due_at = True, -inf
            slot.end()


def _status_for(process: subprocess.Popen[bytes]) -> int:
    """Return the exit status for a process that failed: its own, or 1 if a signal ended it."""
    return process.returncode if process.returncode > 0 else 1


def _say(text: str) -> None:
    console.err().print(text, soft_wrap=True, markup=False)


def fingerprint(folder: Path) -> tuple[tuple[str, int], ...]:
    """Return what changes when a Python file below a folder does."""
    return tuple(sorted(_changes(folder)))


def _changes(folder: Path) -> Iterator[tuple[str, int]]:
    for file in _sources(folder):
        with suppress(FileNotFoundError):  # an editor has just replaced it
            yield str(file), file.stat().st_mtime_ns


def _sources(folder: Path) -> Iterator[Path]:
    for entry in folder.iterdir():
        if entry.name.startswith(".") or entry.name in _NOT_OURS:
            continue
        if entry.is_dir() and not (entry / "pyvenv.cfg").exists():
            yield from _sources(entry)
        elif entry.suffix == ".py" and entry.is_file():
            yield entry
