"""What bench/queues.py compares: Redrive, and ways to keep a queue in a SQLite file, all in one durability class.

Every one of them is told to sync with each commit (``synchronous=FULL``) and speaks the same few words, so that a
scenario is written once. The libraries are used as their documentation says; their calls block, and are made right on
the event loop, which is kinder to them than a hop to a thread for each call.
"""

# ruff: noqa: PLC0415 - imports stand where they are used, so that a library that is not installed is missed alone

import asyncio
import json
import secrets
import sqlite3
import uuid
from queue import SimpleQueue
from threading import Thread
from time import time

from redrive import connect
from redrive.broker import Complete, Message, Send
from redrive.clock import utc

QUEUE = "bench"
LOCK_S = 300.0  # nothing may come back while it is measured

SCHEMA = """
CREATE TABLE messages (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT, queue INTEGER NOT NULL, state INTEGER NOT NULL, due REAL, token INTEGER,
    deliveries INTEGER NOT NULL, id TEXT NOT NULL, body BLOB NOT NULL, headers TEXT
);
CREATE INDEX messages_place ON messages (queue, state, sequence);
CREATE INDEX messages_due ON messages (due) WHERE state IN (1, 2);
"""
INSERT = "INSERT INTO messages (queue, state, deliveries, id, body) VALUES (1, 0, 0, ?, ?)"
INSERT_HEADED = "INSERT INTO messages (queue, state, deliveries, id, body, headers) VALUES (1, 0, 0, ?, ?, ?)"
SELECT = "SELECT sequence, id, body FROM messages WHERE queue = 1 AND state = 0 ORDER BY sequence LIMIT ?"
SELECT_HEADED = SELECT.replace("body", "body, headers")
LOCK = "UPDATE messages SET state = 2, due = ?, token = ?, deliveries = deliveries + 1 WHERE sequence = ?"
DELETE = "DELETE FROM messages WHERE sequence = ? AND token = ?"


class Subject:
    """What is true of a subject unless it says otherwise. It can do in batches what it has a method for."""

    is_peer = False
    is_acknowledging = True
    shares_syncs = False
    serves_one = serves_many = True  # in which scenarios it takes part


class Redrive(Subject):
    """The broker, as it comes."""

    name = "redrive"
    shares_syncs = True

    async def open(self, url):
        """Connect."""
        self.broker = await connect(url).__aenter__()
        await self.broker.declare(QUEUE, lock_duration=LOCK_S)

    async def close(self):
        """Disconnect."""
        await self.broker.close()

    async def send(self, body):
        """Send one message."""
        await self.broker.send(QUEUE, body)

    async def receive(self):
        """Lock one message."""
        (delivery,) = await self.broker.receive(QUEUE, wait=LOCK_S)
        return delivery

    async def complete(self, delivery):
        """Remove a locked message."""
        await delivery.complete()

    async def send_many(self, bodies):
        """Send messages together."""
        await self.broker.send_many(QUEUE, bodies)

    async def receive_many(self, count):
        """Lock messages together."""
        return await self.broker.receive(QUEUE, max_messages=count)

    async def send_headed(self, bodies, headers):
        """Send messages with headers, together."""
        await self.broker.send_many(QUEUE, [Message(body, headers=headers) for body in bodies])

    async def receive_headed(self, count):
        """Lock messages with headers together."""
        return await self.receive_many(count)

    async def complete_many(self, deliveries):
        """Remove locked messages together."""
        await self.broker.apply(*(Complete(delivery.lock) for delivery in deliveries))

    async def schedule_many(self, bodies, delay):
        """Send messages that become available later, together."""
        at = utc(time() + delay)
        await self.broker.apply(*(Send(QUEUE, Message(body), at) for body in bodies))


class Raw(Subject):
    """What one writes by hand: one transaction per call on one connection, with peek-lock, tokens and counts."""

    name = "raw sqlite3"
    serves_many = False  # it blocks, so many callers are one after another

    async def open(self, url):
        """Open the file."""
        self.connection = raw_connection(path_of(url))

    async def close(self):
        """Close the file."""
        self.connection.close()

    async def send(self, body):
        """Send one message."""
        self.connection.execute(INSERT, (uuid.uuid4().hex, body))

    async def receive(self):
        """Lock one message."""
        execute = self.connection.execute
        execute("BEGIN IMMEDIATE")
        sequence, message_id, body = execute(SELECT, (1,)).fetchone()
        token = secrets.randbits(63)
        execute(LOCK, (time() + LOCK_S, token, sequence))
        execute("COMMIT")
        return sequence, token, message_id, body

    async def complete(self, held):
        """Remove a locked message."""
        assert self.connection.execute(DELETE, held[:2]).rowcount == 1

    async def send_many(self, bodies):
        """Send messages together."""
        self.connection.execute("BEGIN IMMEDIATE")
        self.connection.executemany(INSERT, [(uuid.uuid4().hex, body) for body in bodies])
        self.connection.execute("COMMIT")

    async def receive_many(self, count):
        """Lock messages together."""
        self.connection.execute("BEGIN IMMEDIATE")
        found = lock_next(self.connection, count)
        self.connection.execute("COMMIT")
        return found

    async def send_headed(self, bodies, headers):
        """Send messages with headers, together."""
        self.connection.execute("BEGIN IMMEDIATE")
        rows = [(uuid.uuid4().hex, body, json.dumps(headers)) for body in bodies]
        self.connection.executemany(INSERT_HEADED, rows)
        self.connection.execute("COMMIT")

    async def receive_headed(self, count):
        """Lock messages with headers together."""
        self.connection.execute("BEGIN IMMEDIATE")
        until, token = time() + LOCK_S, secrets.randbits(63)
        found = self.connection.execute(SELECT_HEADED, (count,)).fetchall()
        self.connection.executemany(LOCK, [(until, token, row[0]) for row in found])
        self.connection.execute("COMMIT")
        return [(sequence, token, name, body, json.loads(headers)) for sequence, name, body, headers in found]

    async def complete_many(self, held):
        """Remove locked messages together."""
        self.connection.execute("BEGIN IMMEDIATE")
        assert self.connection.executemany(DELETE, [one[:2] for one in held]).rowcount == len(held)
        self.connection.execute("COMMIT")


class Coalescing(Subject):
    """Gathers whoever waits into groups; the next group gathers while one is done."""

    shares_syncs = True
    serves_one = False

    def prepare_groups(self):
        """Begin with an empty group."""
        self.loop = asyncio.get_running_loop()
        self.pending, self.is_busy = [], False

    def submit(self, kind, value):
        """Have something done with the next group."""
        future = self.loop.create_future()
        self.pending.append((kind, value, future))
        if not self.is_busy:
            self.is_busy = True
            self.loop.call_soon(self.flush)
        return future

    async def send(self, body):
        """Send one message."""
        await self.submit("send", body)

    async def receive(self):
        """Lock one message."""
        return await self.submit("receive", None)

    async def complete(self, held):
        """Remove a locked message."""
        await self.submit("complete", held)

    def flush(self):
        """Have everybody who waits served."""
        group, self.pending = self.pending, []
        self.hand_over(group)

    def deliver(self, group, found):
        """Tell everybody, and start the next group if somebody came meanwhile."""
        rest = iter(found)
        for kind, _, future in group:
            future.set_result(next(rest) if kind == "receive" else None)
        self.is_busy = bool(self.pending)
        if self.is_busy:
            self.flush()


class RawCoalescer(Coalescing):
    """The fastest thing one can write by hand: whoever waits shares a transaction, and each kind is one statement.

    A failure would fail everybody in the group; that is not for production, it is what there is to be reached.
    """

    name = "raw coalescer"

    async def open(self, url):
        """Open the file and start the writer."""
        self.prepare_groups()
        self.connection = raw_connection(path_of(url))
        self.groups = SimpleQueue()
        self.thread = Thread(target=self.work, daemon=True)
        self.thread.start()

    async def close(self):
        """Stop the writer and close the file."""
        self.groups.put(None)
        self.thread.join()
        self.connection.close()

    def hand_over(self, group):
        """Hand a group to the writer."""
        self.groups.put(group)

    def work(self):
        """Commit group after group."""
        while (group := self.groups.get()) is not None:
            found = self.commit(group)
            self.loop.call_soon_threadsafe(self.deliver, group, found)

    def commit(self, group):
        """Do a group in one transaction; return what was received."""
        bodies = [(uuid.uuid4().hex, value) for kind, value, _ in group if kind == "send"]
        done = [value[:2] for kind, value, _ in group if kind == "complete"]
        wanted = len(group) - len(bodies) - len(done)
        self.connection.execute("BEGIN IMMEDIATE")
        if done:
            assert self.connection.executemany(DELETE, done).rowcount == len(done)
        if bodies:
            self.connection.executemany(INSERT, bodies)
        found = lock_next(self.connection, wanted) if wanted else []
        self.connection.execute("COMMIT")
        return found


class Litequeue(Subject):
    """https://github.com/litements/litequeue. It syncs at checkpoints only, unless it is told otherwise."""

    name = "litequeue"
    is_peer = True

    async def open(self, url):
        """Open the file."""
        from litequeue import LiteQueue

        self.queue = LiteQueue(path_of(url))
        self.queue.conn.execute("PRAGMA synchronous = FULL")

    async def close(self):
        """Close the file."""
        self.queue.conn.close()

    async def send(self, body):
        """Send one message; it takes texts."""
        self.queue.put(body.decode("latin-1"))

    async def receive(self):
        """Lock one message."""
        return self.queue.pop()

    async def complete(self, message):
        """Mark a message as done."""
        self.queue.done(message.message_id)


class PersistQueue(Subject):
    """https://github.com/peter-wangxu/persist-queue: SQLiteAckQueue. What is acknowledged stays until it is cleared."""

    name = "persist-queue"
    is_peer = True

    async def open(self, url):
        """Open the folder."""
        from persistqueue import SQLiteAckQueue

        self.queue = SQLiteAckQueue(f"{path_of(url)}.d")
        self.acknowledged = 0
        for connection in (self.queue._getter, self.queue._putter):
            connection.execute("PRAGMA synchronous = FULL")

    async def close(self):
        """Close the folder."""
        self.queue.close()

    async def send(self, body):
        """Send one message."""
        self.queue.put(body)

    async def receive(self):
        """Lock one message."""
        return self.queue.get(block=False, raw=True)

    async def complete(self, message):
        """Acknowledge a message; clear now and then, without which it slows down."""
        self.queue.ack(id=message["pqid"])
        self.acknowledged += 1
        if self.acknowledged % 1_000 == 0:
            self.queue.clear_acked_data()


class Huey(Subject):
    """https://huey.readthedocs.io/: SqliteStorage. It takes a task out for good; there is nothing to acknowledge."""

    name = "huey (no acknowledgement)"
    is_peer = True
    is_acknowledging = False

    async def open(self, url):
        """Open the file."""
        from huey.storage import SqliteStorage

        self.storage = SqliteStorage(QUEUE, filename=path_of(url), fsync=True)

    async def close(self):
        """Close the file."""
        self.storage.close()

    async def send(self, body):
        """Send one message."""
        self.storage.enqueue(body)

    async def receive(self):
        """Take one message."""
        body = self.storage.dequeue()
        assert body is not None
        return body

    async def complete(self, body):
        """Do nothing."""


def path_of(url):
    """Return the path of the file that a URL names."""
    return url.removeprefix("sqlite:///")


def raw_connection(path):
    """Return a connection with the settings of the engine, and the layout of its tables as far as it is needed."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA cache_size = -65536")
    connection.executescript(SCHEMA)
    return connection


def lock_next(connection, count):
    """Lock the next messages, in the transaction that is open."""
    until, token = time() + LOCK_S, secrets.randbits(63)
    found = connection.execute(SELECT, (count,)).fetchall()
    connection.executemany(LOCK, [(until, token, row[0]) for row in found])
    return [(sequence, token, message_id, body) for sequence, message_id, body in found]


PEERS = [Litequeue, PersistQueue, Huey]
EVERYBODY = [Redrive, Raw, RawCoalescer, *PEERS]
