# SPDX-License-Identifier: MIT
"""A process that bills orders one by one, until it is killed: ``python -m tests.scenarios.nats_worker``."""

import asyncio
import sys

from redrive.broker import Complete, Message, Send
from redrive.engines.nats import NatsEngine
from redrive.errors import EngineUnavailable, LockLost
from tests.nats.hand_over import BILLS, ORDERS


async def work(namespace, urls):
    """Receive an order, say so, and bill it; say when that is done."""
    engine = NatsEngine(urls, namespace=namespace)
    await engine.open()
    while True:
        try:
            for one in await engine.lock_next(ORDERS, 1):
                print(one.id, flush=True)
                await engine.apply([Complete(one.lock), Send(BILLS, Message(b"bill", id=one.id))])
        except (EngineUnavailable, LockLost) as error:
            print(f"! {type(error).__name__}", flush=True)
        else:
            print(".", flush=True)
            await engine.wait(ORDERS, 0.05)


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1], sys.argv[2:]))
