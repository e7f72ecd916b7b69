# SPDX-License-Identifier: MIT
"""Signals of the operating system, handed to the event loop."""

import asyncio
import signal
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
"""What ends a worker."""


@contextmanager
def handling_signals(signals: Sequence[signal.Signals], on_signal: Callable[[], None]) -> Generator[None]:
    """Call a function on the event loop for each of some signals, for a ``with`` block; then all is as before."""
    loop = asyncio.get_running_loop()

    def tell(*_: object) -> None:
        loop.call_soon_threadsafe(on_signal)

    before = {each: signal.getsignal(each) for each in signals}
    try:
        for each in signals:
            try:
                loop.add_signal_handler(each, on_signal)
            except NotImplementedError:  # Windows
                signal.signal(each, tell)
        yield
    finally:
        with holding_back(signals):  # in between, the signal's default would end the program
            for each, handler in before.items():
                with suppress(NotImplementedError):
                    loop.remove_signal_handler(each)
                signal.signal(each, handler)


@contextmanager
def holding_back(signals: Iterable[signal.Signals]) -> Generator[None]:
    """Let signals wait for a ``with`` block; a process that is started in it begins its life with them waiting too."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
