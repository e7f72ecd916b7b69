# SPDX-License-Identifier: MIT
"""Sessions: each customer's events in order, by one worker at a time; different customers at the same time."""

import asyncio
from collections import defaultdict

from redrive import connect
from redrive.broker import Message
from redrive.worker import Context, Worker

STEPS = ("ordered", "paid", "shipped")
CUSTOMERS = ("ada", "bob", "eve", "joe")

seen: dict[str, list[str]] = defaultdict(list)


def new_worker(name: str) -> Worker:
    """Return a worker that counts each customer's events in the session's state; the first payment fails once."""
    worker = Worker(name)

    @worker.handler("events", concurrency=2, declare={"requires_session": True})
    async def handle(event: str, context: Context) -> None:
        session = context.session
        if session.id == "ada" and event == "paid" and context.attempt == 1:
            raise ConnectionError("the bank does not answer")
        session.set_state(b"%d" % (int(session.state or b"0") + 1))
        seen[session.id].append(event)

    return worker


async def main() -> None:
    """Send the events of all customers mixed up, and let two workers handle them."""
    first, second = new_worker("first"), new_worker("second")
    async with connect("sqlite:///events.db") as broker:
        await first.run(broker, until_idle=True)  # declares the queue
        events = [Message.of(step, session_id=customer) for step in STEPS for customer in CUSTOMERS]
        await broker.send_many("events", events)
        await asyncio.gather(first.run(broker, until_idle=True), second.run(broker, until_idle=True))
    assert all(tuple(seen[customer]) == STEPS for customer in CUSTOMERS)
    print("the events of each customer came in order, also after a failure")


asyncio.run(main())
