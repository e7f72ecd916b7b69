# SPDX-License-Identifier: MIT
"""Calls a function on the event loop when the process gets a signal of the operating system."""

import asyncio
import signal
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
"""The signals that stop a worker."""


@contextmanager
def handling_signals(signals: Sequence[signal.Signals], on_signal: Callable[[], None]) -> Generator[None]:
    """Call a function on the event loop for each of some signals during a ``with`` block, then restore the handlers."""
    loop = asyncio.get_running_loop()

    def call_on_loop(*_: object) -> None:
        loop.call_soon_threadsafe(on_signal)

    before = {each: signal.getsignal(each) for each in signals}
    try:
        for each in signals:
            try:
                loop.add_signal_handler(each, on_signal)
            except NotImplementedError:  # Windows
                signal.signal(each, call_on_loop)
        yield
    finally:
        with holding_back(signals):  # without that, the signal's default would end the program
            for each, handler in before.items():
                with suppress(NotImplementedError):
                    loop.remove_signal_handler(each)
                signal.signal(each, handler)


@contextmanager
def holding_back(signals: Iterable[signal.Signals]) -> Generator[None]:
    """Block signals during a ``with`` block; a process that is started in it inherits the blocked signals."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
