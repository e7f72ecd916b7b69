# SPDX-License-Identifier: MIT
"""SIGINT and SIGTERM while a command runs: counted, so that the first lets it finish what it has in hand."""

import asyncio
import signal
from collections.abc import Callable, Coroutine, Sequence
from threading import current_thread, main_thread
from types import FrameType, TracebackType
from typing import Any, Self

from redrive.worker.signals import STOP_SIGNALS


class StopSignals:
    """The signals that have arrived since a command began. Use it as ``with StopSignals() as signals``.

    The first one is only counted; the command looks at the count between its steps. The second one has its usual
    effect, unless the command heeds them all, so that a command that hangs can be ended.

    Handlers are not left to the event loop: work that never waits would not let the loop run them.

    Args:
        signals: which signals.
        is_waiting: whether signals are held back until the block begins, and again at its end. The process that
            started this one can be sure then that none of its signals arrives too early or too late to be counted.

    Attributes:
        count: how many there were.
        is_heeded: whether the command deals with every signal itself.
        on_signal: is called for each; it runs between any two steps of the program.
    """

    def __init__(self, signals: Sequence[signal.Signals] = STOP_SIGNALS, *, is_waiting: bool = False) -> None:
        self.count = 0
        self.is_heeded = False
        self.on_signal: Callable[[], object] | None = None
        self._signals = signals
        self._is_waiting = is_waiting and hasattr(signal, "pthread_sigmask")
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if current_thread() is main_thread():  # only there can signals be handled
            self._before = {each: signal.signal(each, self._note) for each in self._signals}
        if self._is_waiting:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, self._signals)
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        if self._is_waiting:
            signal.pthread_sigmask(signal.SIG_BLOCK, self._signals)
        for each, handler in self._before.items():
            signal.signal(each, handler)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self.count += 1
        if self.count > 1 and not self.is_heeded:
            signal.signal(number, self._before[signal.Signals(number)])
            signal.raise_signal(number)
        elif self.on_signal is not None:
            self.on_signal()


def interrupts() -> StopSignals:
    """Return what counts Ctrl-C only."""
    return StopSignals([signal.SIGINT])


async def run_until_stopped(signals: StopSignals, work: Coroutine[Any, Any, object]) -> bool:
    """Run something until it ends, or until a signal arrives, which cancels it; return whether one did."""
    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)
    signals.on_signal = lambda: loop.call_soon_threadsafe(task.cancel)
    if signals.count:
        task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        return True
    finally:
        signals.on_signal = None  # the loop may close
    return False
