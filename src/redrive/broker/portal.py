# SPDX-License-Identifier: MIT
"""An event loop in a thread, for programs that have none."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import CancelledError
from threading import Thread
from typing import Any, TypeVar

from redrive.errors import UsageError

T = TypeVar("T")


class Portal:
    """Runs coroutines on an event loop of its own and waits for them; safe to use from any thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="redrive-portal", daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and return its result. An interrupt while waiting cancels it."""
        if self._loop.is_closed():
            coroutine.close()
            raise UsageError("this broker is closed; open it again: with connect_blocking(...) as broker")
        running = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return running.result()
        except CancelledError:
            raise
        except BaseException:
            running.cancel()
            raise

    def close(self) -> None:
        """End the loop and its thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
