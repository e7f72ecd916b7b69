# SPDX-License-Identifier: MIT
"""The processes that recover: ``python recovery_actors.py service|consumer|relay|end URL DIARY NAME STOP``.

They keep diaries as those in ``actors.py`` do. A service does the work of recovery and is killed again and again; a
consumer is what it sends to.
"""

import asyncio
import sys
import time
from dataclasses import replace
from pathlib import Path

import redrive
from redrive.broker import Complete, Send
from redrive.clock import system_clock, utc
from redrive.errors import EngineUnavailable, LockLost
from redrive.recovery import LaneSettings, ServiceSettings
from redrive.retry import Fixed, retry
from redrive.worker.confirmation import confirmation_of
from tests.scenarios.actors import Diary

DESTINATIONS = ("torture-0", "torture-1", "torture-2")
NEXT = "torture-next"
"""Where relays pass messages on to, with all their headers."""

PAGE = 50
"""Few at a time: a process is killed in the middle of many pages."""

SETTINGS = ServiceSettings(lease=1.0, poll=0.5, lanes=LaneSettings(lock_duration=1.0, page=PAGE))


async def serve(broker, diary, _name, should_stop):
    """Read failures and recover them."""
    async with redrive.open_recovery(broker, settings=SETTINGS) as recovery:
        diary.write("ready")
        running = asyncio.create_task(recovery.run())
        stopping = asyncio.create_task(asyncio.to_thread(wait_until, should_stop))
        await asyncio.wait((running, stopping), return_when=asyncio.FIRST_COMPLETED)
        recovery.stop()
        await running


def wait_until(should_stop):
    """Wait for the sign to stop."""
    while not should_stop():
        time.sleep(0.05)


async def consume(broker, diary, _name, should_stop):
    """Note what arrives, which place it has in which queue, and say that it was handled."""
    while True:
        is_last = should_stop()
        found = 0
        for queue in DESTINATIONS:
            page = await broker.engine.lock_next(queue, 500)
            found += len(page)
            if page:
                diary.write("arrived", [f"{each.id}/{queue}/{each.sequence}" for each in page])
                now = utc(system_clock.time())
                words = [word for each in page for word in confirmation_of(each.message, queue, now)]
                await broker.apply(*words, *(Complete(each.lock) for each in page))
        if is_last and not found:
            return
        if not found:
            await asyncio.sleep(0.02)


def is_to_fail(id_):
    """Say whether a message fails where it is passed on to."""
    return int(id_.rpartition("-")[2]) % 3 == 0


async def relay(broker, diary, _name, should_stop):
    """Pass on what arrives, headers and all, in the transaction that completes and confirms it."""

    async def settle(page, queue):
        diary.write("arrived", [f"{each.id}/{queue}/{each.sequence}" for each in page])
        for each in page:
            words = confirmation_of(each.message, queue, utc(system_clock.time()))
            await broker.apply(*words, Send(NEXT, each.message), Complete(each.lock))

    await until_empty(broker, DESTINATIONS, settle, should_stop)


async def end(broker, _diary, _name, should_stop):
    """Handle what was passed on; a third of it fails, as with a worker."""

    async def settle(page, queue):
        for each in page:
            now = utc(system_clock.time())
            if is_to_fail(each.id):
                told = {"redrive-failed-queue": queue, "redrive-failed-at": now.isoformat()}
                done = [Send("error", replace(each.message, headers={**each.headers, **told}))]
            else:
                done = confirmation_of(each.message, queue, now)
            await broker.apply(*done, Complete(each.lock))

    await until_empty(broker, (NEXT,), settle, should_stop)


async def until_empty(broker, queues, settle, should_stop):
    """Settle what is in some queues, until told to stop and nothing is left."""
    while True:
        is_last = should_stop()
        found = 0
        for queue in queues:
            page = await broker.engine.lock_next(queue, PAGE)
            found += len(page)
            if page:
                try:
                    await settle(page, queue)
                except LockLost:  # the machine was slow: it comes again
                    continue
        if is_last and not found:
            return
        if not found:
            await asyncio.sleep(0.02)


async def main(role, url, diary, name, stop):
    """Play a role until it is told to stop."""
    play = {"service": serve, "consumer": consume, "relay": relay, "end": end}[role]
    broker = redrive.connect(url)
    opening = retry(on=EngineUnavailable, policy=Fixed(0.1, max_attempts=200), deadline=None)
    await opening.call_async(broker.__aenter__)
    try:
        await play(broker, Diary(diary), name, Path(stop).exists)
    finally:
        await broker.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
