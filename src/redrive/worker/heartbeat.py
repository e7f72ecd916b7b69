# SPDX-License-Identifier: MIT
"""Lets a store know that a worker is there, every few seconds, and that it has ended."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress

from redrive.background import KeepGoing
from redrive.broker import Broker
from redrive.broker.port import Attendance, WorkerReport, find_ability
from redrive.clock import Clock, pause
from redrive.errors import RedriveError

FIRST_S = 1.0
"""A worker that ends sooner need not be known."""
EVERY_S = 5.0
LASTS_S = 20.0
"""How long a worker is known that is not heard of again."""

_logger = logging.getLogger("redrive.worker")


@asynccontextmanager
async def heartbeat(broker: Broker, look: Callable[[], WorkerReport]) -> AsyncGenerator[None]:
    """Report a worker during a ``with`` block, if the store can know of it.

    Args:
        broker: where.
        look: returns what the worker says about itself now.
    """
    store = find_ability(broker.engine, Attendance)
    if store is None:
        yield
        return
    beating = asyncio.create_task(_beat(store, look, broker.clock), name="redrive-heartbeat")
    try:
        yield
    finally:
        beating.cancel()
        with suppress(asyncio.CancelledError):
            await beating


async def _beat(store: Attendance, look: Callable[[], WorkerReport], clock: Clock) -> None:
    await pause(clock, FIRST_S)
    session = look().session
    keep_going = KeepGoing(_logger, "reporting that the worker is there failed", level=logging.INFO)
    try:
        while True:
            with keep_going:
                await store.worker_present(look(), LASTS_S)
            await pause(clock, EVERY_S)
    finally:
        with suppress(RedriveError):  # then it is forgotten by itself
            await store.worker_absent(session)
