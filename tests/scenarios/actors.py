# SPDX-License-Identifier: MIT
"""The processes of the scenarios: ``python actors.py producer|consumer|competitor URL DIARY NAME STOP``.

Each keeps a diary, a line for what it is about to do and a line for what it has done. A line is one write to a file
opened for appending: it outlives the process, however that ends. Lines are ``time word id``; the clock is the machine's
own and the same for all processes.

They stop when there is a file STOP. A store that does not answer is no reason to: they note it and go on.
"""

import asyncio
import os
import sys
import time
import zlib
from pathlib import Path

import redrive
from redrive.errors import EngineUnavailable, LockLost, StorageFull
from redrive.retry import Fixed, retry

QUEUE, TOPIC = "torture", "news"
SUBSCRIPTIONS = (f"{TOPIC}/one", f"{TOPIC}/two")
TOGETHER = 10
"""How many messages a process has in flight."""


class Diary:
    """What a process wants to do and has done."""

    def __init__(self, path):
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(self, word, ids=("-",), at=None):
        when = time.monotonic() if at is None else at
        os.write(self._file, "".join(f"{when:.6f} {word} {one}\n" for one in ids).encode())


def is_on_topic():
    """Say whether messages are sent to a topic, and received from its subscriptions."""
    return "ACTOR_TOPIC" in os.environ


def leg(queue, message_id):
    """Return what a message is called in a diary: with the queue it is in, if it is in several."""
    return f"{message_id}@{queue}" if queue in SUBSCRIPTIONS else message_id


async def produce(broker, diary, name, should_stop):
    """Send messages, some together and some side by side; size says how large they are."""
    size = int(os.environ.get("ACTOR_BODY_BYTES", "64"))
    turn = 0
    while not should_stop():
        ids = [f"{name}.{turn}.{place}" for place in range(TOGETHER)]
        turn += 1
        diary.write("sending", ids)
        batch, alone = ids[:5], ids[5:]
        await asyncio.gather(
            send(broker, diary, batch, size), *(send(broker, diary, [message_id], size) for message_id in alone)
        )


async def send(broker, diary, ids, size):
    """Send messages together, and note it when the broker has said that they are stored."""
    try:
        queue = TOPIC if is_on_topic() else QUEUE
        await broker.send_many(queue, [redrive.broker.Message(bytes(size), id=message_id) for message_id in ids])
    except EngineUnavailable as error:
        await endure(diary, error)
    else:
        diary.write("sent", ids)


async def endure(diary, error):
    """Note that the store did not answer as it should, and leave it alone for a moment."""
    diary.write("full" if isinstance(error, StorageFull) else "unavailable")
    await asyncio.sleep(0.02)


async def consume(broker, diary, name, should_stop):
    """Receive messages and settle each as its id says."""
    queue = SUBSCRIPTIONS[int(name.partition(".")[0][-1]) % 2] if is_on_topic() else QUEUE
    while not should_stop():
        asked_at = time.monotonic()
        try:
            found = await broker.receive(queue, max_messages=TOGETHER, wait=0.2)
        except EngineUnavailable as error:
            await endure(diary, error)
            continue
        diary.write("received", [leg(queue, one.id) for one in found], at=asked_at)
        await asyncio.gather(*(settle(diary, one) for one in found))


async def settle(diary, delivery):
    """Complete most messages, dead-letter some, give some back once."""
    name = leg(delivery.queue, delivery.id)
    fate = zlib.crc32(name.encode()) % 10
    try:
        if fate == 0:
            diary.write("burying", [name])
            await delivery.dead_letter("Torture")
            diary.write("buried", [name])
        elif fate == 1 and delivery.delivery_count == 1:
            await delivery.abandon()
        else:
            diary.write("completing", [name])
            await delivery.complete()
            diary.write("completed", [name])
    except LockLost:
        diary.write("lost", [name])
    except EngineUnavailable as error:
        await endure(diary, error)


async def compete(broker, diary, name, should_stop):
    """Send, receive and complete in a queue of one's own; note how long the longest wait was."""
    queue, worst, done = f"own-{name}", 0.0, 0
    await broker.declare(queue)
    diary.write("ready")
    while not should_stop():
        began = time.monotonic()
        await broker.send(queue, b"mine")
        worst = max(worst, time.monotonic() - began)
        (delivery,) = await broker.receive(queue)
        await delivery.complete()
        done += 1
        if done == 1:
            diary.write("begun")
    diary.write("done", [done])
    diary.write("worst", [f"{worst:.6f}"])


async def main(role, url, diary, name, stop):
    """Play a role until it is told to stop."""
    play = {"producer": produce, "consumer": consume, "competitor": compete}[role]
    broker = redrive.connect(url)
    opening = retry(on=EngineUnavailable, policy=Fixed(0.1, max_attempts=200), deadline=None)
    await opening.call_async(broker.__aenter__)
    try:
        await play(broker, Diary(diary), name, Path(stop).exists)
    finally:
        await broker.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
