# SPDX-License-Identifier: MIT
"""Ctrl-C in a command that does much: the first one lets it finish what it has in hand and tell how far it came."""

import signal
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import current_thread, main_thread


@dataclass(slots=True)
class Interrupt:
    """Whether somebody wants to stop."""

    is_set: bool = False

    def __call__(self, *_: object) -> None:
        """Note it; whoever asks a second time does not want to wait."""
        if self.is_set:
            raise KeyboardInterrupt
        self.is_set = True


class Interrupted(Exception):
    """Ends bulk work between two of its steps."""


@contextmanager
def first_interrupt() -> Generator[Interrupt]:
    """Note the first Ctrl-C; a second one ends everything.

    Not through the event loop: work that never waits would not let the loop tell us.
    """
    interrupt = Interrupt()
    if current_thread() is not main_thread():  # only there can signals be handled
        yield interrupt
        return
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, before)
