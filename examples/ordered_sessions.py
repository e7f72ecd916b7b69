# SPDX-License-Identifier: MIT
"""Sessions: each customer's events in order, by one consumer at a time; different customers at the same time."""

import asyncio
from collections import defaultdict

from redrive import connect
from redrive.broker import Broker, Complete, Message, SetSessionState

STEPS = ("ordered", "paid", "shipped")
CUSTOMERS = ("ada", "bob", "eve", "joe")


async def handle(broker: Broker, name: str, seen: dict[str, list[str]]) -> None:
    """Accept one session after another until none is left; count each customer's events in its state."""
    while session := await broker.accept_session("events"):
        async with session:
            while found := await session.receive():
                (event,) = found
                count = int(session.state or b"0") + 1
                await asyncio.gather()  # the work itself, which others may overtake
                seen[session.session_id].append(event.body.decode())
                await broker.apply(Complete(event.lock), SetSessionState(session.lock, b"%d" % count))
        print(f"{name} is done with {session.session_id}")


async def main() -> None:
    """Send the events of all customers mixed up, and let two consumers handle them."""
    seen: dict[str, list[str]] = defaultdict(list)
    async with connect("sqlite:///events.db") as broker:
        await broker.declare("events", requires_session=True)
        await broker.send_many(
            "events", [Message(step.encode(), session_id=customer) for step in STEPS for customer in CUSTOMERS]
        )
        await asyncio.gather(handle(broker, "first", seen), handle(broker, "second", seen))
    assert all(tuple(seen[customer]) == STEPS for customer in CUSTOMERS)
    print("the events of each customer came in order")


asyncio.run(main())
