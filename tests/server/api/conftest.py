# SPDX-License-Identifier: MIT
"""Failures for the API to show."""

import pytest

from redrive.worker import Recoverability, Worker

AT_ONCE = Recoverability(immediate=0, delayed=None, error_queue="error")
"""One try, then the error queue."""


async def make_failures(desk, queue="orders", bodies=("one", "two", "three"), error=ConnectionError):
    """Let messages fail in a queue, and read them into the store; return them as lists show them."""
    worker = Worker()

    @worker.handler(queue, recoverability=AT_ONCE, slow_down=None)
    async def ship(order: str) -> None:
        raise error(f"the warehouse does not take {order}")

    await desk.broker.declare(queue)
    await desk.broker.declare("error")
    await desk.broker.send_many(queue, list(bodies))
    await worker.run(desk.broker, until_idle=True)
    await desk.recovery.ingest()
    return await desk.recovery.failed(f"queue:{queue}")


@pytest.fixture
def fail(desk):
    """Let messages fail."""
    return lambda *given, **more: make_failures(desk, *given, **more)
