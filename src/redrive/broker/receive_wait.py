# SPDX-License-Identifier: MIT
"""Waiting for something to arrive in a queue."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from redrive import duration
from redrive.broker.port import Engine
from redrive.clock import Clock

T = TypeVar("T")


async def waited(
    engine: Engine, clock: Clock, queue: str, wait: duration.Duration, ask: Callable[[], Awaitable[T]]
) -> T:
    """Ask again and again until there is something, or the time is over.

    Args:
        engine: where the queue is.
        clock: what waiting goes by.
        queue: where something may arrive.
        wait: how long to wait.
        ask: asks for it.
    """
    patience = duration.seconds("wait", wait, zero=True)
    found = await ask()
    if found or not patience:
        return found
    ends_at = clock.monotonic() + patience
    while not found and (left := ends_at - clock.monotonic()) > 0:
        await engine.wait(queue, left)
        found = await ask()
    return found
