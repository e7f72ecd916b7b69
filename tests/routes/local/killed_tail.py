# SPDX-License-Identifier: MIT
"""A process that follows a file, writes down what it sees, and kills itself after some lines, until none are left."""

import asyncio
import os
import sys
from pathlib import Path

from redrive.clock import system_clock
from redrive.routes.ack_tree import Ack
from redrive.routes.environment import PartEnvironment
from redrive.routes.receivers.tail import FileTailReceiver

KILLED_AFTER = 130


class KillingIntake:
    def __init__(self, seen):
        self._seen = seen
        self._accepted = 0
        self.is_done = asyncio.Event()

    async def accept(self, message, *, settle=None):
        self._accepted += 1
        if self._accepted > KILLED_AFTER:
            os._exit(9)
        self._seen.write(f"{message.id} {message.body.decode()}\n".encode())
        if message.body == b"499":
            self.is_done.set()
        return Ack()


async def main(log, seen):
    place = PartEnvironment(
        application="default",
        name="tail",
        broker=None,
        ledger=None,
        clock=system_clock,
        chance=lambda: 0.5,
        report=print,
        http=None,
    )
    intake = KillingIntake(seen)
    receiver = FileTailReceiver(path=log, start="beginning", interval=0.01)
    running = asyncio.create_task(receiver.open(place).run(intake))
    await intake.is_done.wait()
    running.cancel()
    await asyncio.wait([running])


with Path(sys.argv[2]).open("ab", buffering=0) as file:
    asyncio.run(main(sys.argv[1], file))
