# SPDX-License-Identifier: MIT
"""Ctrl-C in a command that does much: the first one lets it finish what it has in hand and tell how far it came."""

import asyncio
import signal
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass


@dataclass(slots=True)
class Interrupt:
    """Whether somebody wants to stop."""

    is_set: bool = False

    def __call__(self) -> None:
        """Note it; whoever asks a second time does not want to wait."""
        if self.is_set:
            raise KeyboardInterrupt
        self.is_set = True


class Interrupted(Exception):
    """Ends bulk work between two of its steps."""


@contextmanager
def first_interrupt() -> Generator[Interrupt]:
    """Note the first Ctrl-C; a second one ends everything."""
    loop, interrupt = asyncio.get_running_loop(), Interrupt()
    with suppress(NotImplementedError, RuntimeError, ValueError):  # not on Windows, not in a thread
        loop.add_signal_handler(signal.SIGINT, interrupt)
    try:
        yield interrupt
    finally:
        with suppress(NotImplementedError, RuntimeError, ValueError):
            loop.remove_signal_handler(signal.SIGINT)
