# SPDX-License-Identifier: MIT
"""SIGTERM and SIGINT while a command runs: counted, so that none ends it half-way through its start or its end."""

import signal
from types import FrameType, TracebackType
from typing import Any, Self

from redrive.worker.signals import STOP_SIGNALS


class StopSignals:
    """The signals that have come since a command began. Use it as ``with StopSignals() as told``.

    While nobody heeds them, a second one has its usual effect, so that a program that hangs in its start can be ended.

    Args:
        is_waiting: whether signals are held back until now, and again at the end: so whoever has started this process
            can be sure that none of its signals ends it before its first line or after its last.

    Attributes:
        count: how many there were.
        is_heeded: whether somebody looks at the count.
    """

    def __init__(self, *, is_waiting: bool = False) -> None:
        self.count = 0
        self.is_heeded = False
        self._is_waiting = is_waiting and hasattr(signal, "pthread_sigmask")
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        self._before = {each: signal.signal(each, self._note) for each in STOP_SIGNALS}
        if self._is_waiting:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        if self._is_waiting:
            signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        for each, handler in self._before.items():
            signal.signal(each, handler)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self.count += 1
        if self.count > 1 and not self.is_heeded:
            signal.signal(number, self._before[signal.Signals(number)])
            signal.raise_signal(number)  # to this thread, so that it has its effect here and not a moment later
