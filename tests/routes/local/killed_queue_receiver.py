# SPDX-License-Identifier: MIT
"""A process that moves messages to another queue with a queue receiver and kills itself, until there are none left.

The first one sends the messages. The last one sees that each of them has arrived once.
"""

import asyncio
import os
import sys

from redrive import connect
from redrive.broker import Message, Send
from redrive.clock import pause, system_clock
from redrive.routes.ack_tree import Ack
from redrive.routes.environment import PartEnvironment
from redrive.routes.receivers.queue import QueueReceiver

MESSAGES, KILLED_AFTER = 100, 30


class KillingIntake:
    def __init__(self):
        self.accepted = 0

    async def accept(self, message, *, settle):
        self.accepted += 1
        if self.accepted == KILLED_AFTER + 7:  # some are being stored meanwhile
            os._exit(9)
        await settle([Send("events", message)])
        return Ack()


async def main(url):
    async with connect(url) as broker:
        await broker.declare("orders", lock_duration=1)
        await broker.declare("events")
        if (await broker.inspect("events")).last_sequence == 0:
            await broker.send_many("orders", [Message(b"x", id=str(n)) for n in range(MESSAGES)])
        place = PartEnvironment(
            application="default",
            name="queue orders",
            broker=broker,
            ledger=None,
            clock=system_clock,
            chance=lambda: 0.5,
            report=print,
            http=None,
        )
        running = asyncio.create_task(QueueReceiver(queue="orders", concurrency=8).open(place).run(KillingIntake()))
        while (info := await broker.inspect("orders")).ready + info.locked + info.scheduled:
            await pause(system_clock, 0.02)
        running.cancel()
        await asyncio.wait([running])
        arrived = [each.id for each in await broker.peek("events", max_messages=1_000)]
        assert sorted(arrived, key=int) == [str(n) for n in range(MESSAGES)], arrived
        assert (await broker.inspect("orders")).dead == 0


asyncio.run(main(sys.argv[1]))
