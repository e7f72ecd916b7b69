# SPDX-License-Identifier: MIT
"""The process that runs routes: ``python routes_actors.py runner URL DIARY NAME STOP``.

It runs whatever routes are in the database until there is a file STOP, listens at ``ACTOR_LISTEN``, and keeps a diary
as those in ``actors.py`` do. It is killed again and again. Its sender ``deadly`` kills it by itself.
"""

import asyncio
import faulthandler
import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import redrive
from redrive.errors import EngineUnavailable
from redrive.parts import TextSetting
from redrive.retry import Fixed, retry
from redrive.routes import Delivered, EventSender, RouteRunner, add_kind, setting
from tests.patience import PATIENCE_S
from tests.scenarios.actors import Diary

DEADLY = b"deadly"
PATH = "/orders"


@add_kind
@dataclass(frozen=True, slots=True)
class DeadlySender(EventSender):
    """Notes every event in a file, and ends the process at one."""

    kind: ClassVar[str] = "deadly"
    file: str = setting(TextSetting(), "the file")

    @property
    def destination(self):
        return self.file

    def open(self, environment):
        return self

    async def send(self, message, key):
        if message.body == DEADLY:
            os.kill(os.getpid(), signal.SIGKILL)
        Diary(self.file).write("sent", [key])
        return Delivered()

    async def close(self):
        pass


async def run(broker, diary, should_stop):
    """Run routes."""
    async with redrive.open_routes(broker) as routes:
        runner = RouteRunner(routes, listen=os.environ["ACTOR_LISTEN"])
        runner.http.on_listening = lambda _where: listening(diary)
        stopping = asyncio.create_task(asyncio.to_thread(wait_until, should_stop))
        await runner.run(until=stopping)
    diary.write("ended")


def listening(diary):
    """Note that it listens."""
    faulthandler.cancel_dump_traceback_later()
    diary.write("ready")


def wait_until(should_stop):
    """Wait for the sign to stop."""
    while not should_stop():
        time.sleep(0.05)


async def main(role, url, diary, _name, stop):
    """Play a role until it is told to stop."""
    faulthandler.dump_traceback_later(PATIENCE_S / 2)  # one that does not come to listening says where it is
    play = {"runner": run}[role]
    broker = redrive.connect(url)
    opening = retry(on=EngineUnavailable, policy=Fixed(0.1, max_attempts=200), deadline=None)
    await opening.call_async(broker.__aenter__)
    try:
        await play(broker, Diary(diary), Path(stop).exists)
    finally:
        await broker.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
