# SPDX-License-Identifier: MIT
"""A process that recovers an order and handles it, until it is killed: ``python -m tests.journey.doomed_process``."""

import asyncio
import sys

from redrive import connect, open_recovery
from redrive.testing import ManualClock
from redrive.worker import Worker

CHARGES = "charges the order"


async def main(url, now):
    """Send what a recovery is to send, and handle it; the handler says so, and never ends."""
    worker = Worker()

    @worker.handler("billing")
    async def charge(_: bytes) -> None:
        print(CHARGES, flush=True)  # noqa: T201 - for the process that kills this one
        await asyncio.get_running_loop().create_future()

    async with connect(url, clock=ManualClock(now)) as broker, open_recovery(broker) as recovery:
        await recovery.step()
        await worker.run(broker)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[2])))
