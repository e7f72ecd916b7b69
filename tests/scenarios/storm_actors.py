# SPDX-License-Identifier: MIT
"""The processes of a storm: ``python storm_actors.py NAME URL JOURNAL STOP``; a producer's NAME begins with that word.

Each does several things side by side, in three queues, and writes every call into its journal. Every message that is
sent has a body of its own, so that what arrives is known for what was sent. They stop when there is a file STOP.
"""

import asyncio
import sys
import zlib
from itertools import count
from pathlib import Path

import redrive
from redrive.broker import Broker, Complete, Message, Send
from redrive.errors import EngineUnavailable, LockLost, RedriveError, SessionLost
from redrive.retry import Fixed, retry
from tests.scenarios.storm_journal import Journal

PLAIN, SESSIONS, UNIQUE = "plain", "sessions", "unique"
QUEUES = (PLAIN, SESSIONS, UNIQUE)
LOCK_S = 1.0
"""Short: what a killed process held comes back while others still work."""

WINDOW_S = 4.0
SESSION_COUNT = 5
EXPECTED = (EngineUnavailable, LockLost, SessionLost)

SETTINGS = {
    PLAIN: {"lock_duration": LOCK_S, "max_delivery_count": 1_000},
    SESSIONS: {"lock_duration": LOCK_S, "max_delivery_count": 1_000, "requires_session": True},
    UNIQUE: {"lock_duration": LOCK_S, "max_delivery_count": 1_000, "duplicate_detection": WINDOW_S},
}


class Actor:
    """A process: its broker, its journal, and when it stops."""

    def __init__(self, broker, journal, name, should_stop):
        self.broker = broker
        self.name = name
        self.should_stop = should_stop
        self._journal = journal

    async def call(self, do, facts, doing, told):
        """Make a call between two entries; return what it returned, None if it raised what it may raise."""
        number = self._journal.begin(do, **facts)
        try:
            result = await doing
        except EXPECTED as error:
            self._journal.end(number, error=type(error).__name__)
            return None
        self._journal.end(number, **told(result))
        return result


# --- producing


async def produce(actor):
    """Send to all queues until it is time to stop."""
    await asyncio.gather(send_plain(actor), send_sessions(actor), send_unique(actor))


async def send_plain(actor):
    for turn in count():
        if actor.should_stop():
            return
        names = [f"{actor.name}.p{turn}.{place}" for place in range(4)]
        await asyncio.gather(
            send(actor, PLAIN, [message(each) for each in names[:2]]),
            *(send(actor, PLAIN, [message(each)]) for each in names[2:]),
        )
        await asyncio.sleep(0.01)


async def send_sessions(actor):
    """Send one after another: what is sent later has a higher number."""
    for turn in count():
        if actor.should_stop():
            return
        name = f"{actor.name}.s{turn}"
        await send(actor, SESSIONS, [message(name, session_id=f"session-{turn % SESSION_COUNT}")])
        await asyncio.sleep(0.01)


async def send_unique(actor):
    """Send each id three times, and some ids that all others send too; each copy has a body of its own."""
    numbers = count()
    for turn in count():
        if actor.should_stop():
            return
        own, shared = f"{actor.name}.u{turn // 3}", f"shared.{turn // 2}"
        await asyncio.gather(
            *(send(actor, UNIQUE, [message(each, f"{actor.name}.{next(numbers)}")]) for each in (own, shared))
        )
        await asyncio.sleep(0.01)


def message(name, mark="", **more):
    """Return a message whose body is like no other's."""
    return Message(f"{name}|{mark}|{'x' * (zlib.crc32(name.encode()) % 50)}".encode(), id=name, **more)


async def send(actor, queue, messages):
    facts = {"queue": queue, "messages": [[each.id, each.body.decode(), each.session_id] for each in messages]}
    doing = actor.broker.apply(*(Send(queue, each) for each in messages))
    await actor.call("send", facts, doing, lambda numbers: {"sequences": numbers})


# --- consuming


async def consume(actor):
    """Receive from all queues until it is time to stop."""
    await asyncio.gather(consume_queue(actor, PLAIN), consume_queue(actor, UNIQUE), consume_sessions(actor))


async def consume_queue(actor, queue):
    while not actor.should_stop():
        doing = actor.broker.receive(queue, max_messages=5, wait=0.2)
        found = await actor.call("receive", {"queue": queue}, doing, received)
        await asyncio.gather(*(settle(actor, each) for each in found or ()))


def received(deliveries):
    return {"messages": [told(each) for each in deliveries]}


def told(delivery):
    """Return what is written down of a message that was received."""
    return {
        "sequence": delivery.sequence,
        "id": delivery.id,
        "body": delivery.body.decode(),
        "count": delivery.delivery_count,
        "token": delivery.lock.token,
        "until": delivery.locked_until.timestamp(),
    }


async def settle(actor, delivery):
    """Settle a message as its body and the count of its deliveries say."""
    fate = zlib.crc32(delivery.body) % 20
    is_first = delivery.delivery_count == 1
    if fate == 0 and is_first:
        await asyncio.sleep(1.2 * LOCK_S)  # so long that the lock has ended
    if fate in (1, 2):
        await settled(actor, delivery, "renew", delivery.renew(), lambda until: {"until": until.timestamp()})
    if fate in (3, 4) and is_first:
        await settled(actor, delivery, "abandon", delivery.abandon())
    elif fate == 5:
        await settled(actor, delivery, "bury", delivery.dead_letter("Storm"))
    else:
        await settled(actor, delivery, "complete", actor.broker.apply(Complete(delivery.lock)))


async def settled(actor, delivery, do, doing, told=lambda _: {}):
    facts = {"queue": delivery.queue, "sequence": delivery.sequence, "token": delivery.lock.token}
    await actor.call(do, facts, doing, told)


async def consume_sessions(actor):
    turn = 0
    while not actor.should_stop():
        turn += 1
        doing = actor.broker.accept_session(SESSIONS, wait=0.2)
        session = await actor.call("accept", {"queue": SESSIONS}, doing, accepted)
        if session is None:
            continue
        for page in range(3):
            if not await consume_page(actor, session):
                break
            if page == 1 and turn % 3 == 0:
                renewed = await actor.call("renew session", facts_of(session), session.renew(), renewal)
                if renewed is None:
                    break
        if turn % 4:  # sometimes it is left as it is, and its lock has to end
            await actor.call("release", facts_of(session), session.release(), lambda _: {})


def facts_of(session):
    return {"queue": SESSIONS, "session": session.session_id, "session_token": session.lock.token}


def accepted(session):
    if session is None:
        return {"session": None}
    token, until = session.lock.token, session.locked_until.timestamp()
    return {"session": session.session_id, "session_token": token, "until": until}


def renewal(until):
    return {"until": until.timestamp()}


async def consume_page(actor, session):
    """Receive some messages of a session and settle them in order; False if there are none or it is lost."""
    doing = session.receive(max_messages=3)
    found = await actor.call("receive", facts_of(session), doing, received)
    for each in found or ():
        await settle_in_order(actor, each)
    return bool(found)


async def settle_in_order(actor, delivery):
    """Complete a message; the first delivery of some is given back."""
    if zlib.crc32(delivery.body) % 10 == 0 and delivery.delivery_count == 1:
        await settled(actor, delivery, "abandon", delivery.abandon())
    else:
        await settled(actor, delivery, "complete", delivery.complete())


async def opened(url):
    """Return a broker that is open, however long its database takes."""
    broker = redrive.connect(url, upkeep_every=0.5)
    opening = retry(on=EngineUnavailable, policy=Fixed(0.1, max_attempts=200), deadline=None)
    await opening.call_async(broker.__aenter__)
    return broker


async def play(name, url, entries, should_stop, sabotage=None):
    """Play the role that a name begins with until it is told to stop; on an engine that is broken, if there is one."""
    broker = await opened(url)
    try:
        broken = broker if sabotage is None else Broker(sabotage(broker.engine, url), clock=broker.clock)
        actor = Actor(broken, entries, name, should_stop)
        await (produce if name.startswith("producer") else consume)(actor)
    finally:
        await broker.close()
        entries.close()


if __name__ == "__main__":
    NAME, URL, JOURNAL, STOP = sys.argv[1:]
    try:
        asyncio.run(play(NAME, URL, Journal(JOURNAL), Path(STOP).exists))
    except RedriveError as error:
        sys.exit(f"{NAME} gave up: {error!r}")
