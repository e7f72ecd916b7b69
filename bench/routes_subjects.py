"""What bench/routes.py compares: a topic, a send to a queue for each subscription, and both tables written by hand."""

# ruff: noqa: PLC0415 - imports stand where they are used, so that a library that is not installed is missed alone

import secrets
import time
import uuid

from queue_subjects import LOCK_S, path_of, raw_connection

from redrive import connect
from redrive.broker import Complete, Message, Send

TOPIC = "events"


class Topic:
    """A topic with a subscription for each route."""

    name = "redrive, a topic"

    async def open(self, url, routes):
        """Open the broker, and subscribe."""
        self.broker = connect(url, upkeep_every=3_600)
        await self.broker.open()
        await self.broker.declare_topic(TOPIC)
        self.queues = [
            await self.broker.subscribe(TOPIC, f"route-{route}", lock_duration=LOCK_S) for route in range(routes)
        ]

    async def close(self):
        """Close the broker."""
        await self.broker.close()

    async def accept(self, bodies):
        """Store events, together."""
        await self.broker.send_many(TOPIC, bodies)

    async def settle(self, route, count):
        """Receive and complete messages of a route; return how many."""
        found = await self.broker.receive(self.queues[route], max_messages=count)
        await self.broker.apply(*(Complete(one.lock) for one in found))
        return len(found)

    async def is_empty(self):
        """Say whether nothing is left."""
        return all(queue.ready + queue.locked == 0 for queue in await self.broker.queues())


class Queues(Topic):
    """A queue for each route, and a send to each of them, all in one transaction."""

    name = "redrive, a send for each"

    async def open(self, url, routes):
        """Open the broker, and declare the queues."""
        self.broker = connect(url, upkeep_every=3_600)
        await self.broker.open()
        self.queues = [f"route-{route}" for route in range(routes)]
        for queue in self.queues:
            await self.broker.declare(queue, lock_duration=LOCK_S)

    async def accept(self, bodies):
        """Store events, together."""
        await self.broker.apply(*(Send(queue, Message(body)) for body in bodies for queue in self.queues))


class RawSqlite:
    """What one writes by hand: the body once, a row for each route, peek-lock with tokens and counts."""

    name = "raw sqlite3"

    async def open(self, url, routes):
        """Make the tables."""
        self.connection = raw_connection(path_of(url))
        self.routes = routes
        for statement in (
            "CREATE TABLE events (id INTEGER PRIMARY KEY, name TEXT NOT NULL, body BLOB NOT NULL)",
            (
                "CREATE TABLE legs (sequence INTEGER PRIMARY KEY, route INTEGER NOT NULL, event INTEGER NOT NULL,"
                " state INTEGER NOT NULL, due REAL, token INTEGER, deliveries INTEGER NOT NULL)"
            ),
            "CREATE INDEX legs_place ON legs (route, state, sequence)",
            "CREATE INDEX legs_event ON legs (event)",
        ):
            self.connection.execute(statement)
        self.last = 0

    async def close(self):
        """Close the file."""
        self.connection.close()

    async def accept(self, bodies):
        """Store events, together."""
        events = [(self.last + place, uuid.uuid4().hex, body) for place, body in enumerate(bodies, 1)]
        self.last = events[-1][0]
        legs = [(route, event) for event, _, _ in events for route in range(self.routes)]
        self.connection.execute("BEGIN IMMEDIATE")
        self.connection.executemany("INSERT INTO events VALUES (?, ?, ?)", events)
        self.connection.executemany("INSERT INTO legs (route, event, state, deliveries) VALUES (?, ?, 0, 0)", legs)
        self.connection.execute("COMMIT")

    async def settle(self, route, count):
        """Receive and complete messages of a route; return how many."""
        execute, token = self.connection.execute, secrets.randbits(63)
        execute("BEGIN IMMEDIATE")
        found = execute(
            "SELECT l.sequence, l.event, e.name, e.body FROM legs l JOIN events e ON e.id = l.event"
            " WHERE l.route = ? AND l.state = 0 ORDER BY l.sequence LIMIT ?",
            (route, count),
        ).fetchall()
        lock = "UPDATE legs SET state = 2, due = ?, token = ?, deliveries = deliveries + 1 WHERE sequence = ?"
        self.connection.executemany(lock, [(time.time() + LOCK_S, token, row[0]) for row in found])
        execute("COMMIT")
        execute("BEGIN IMMEDIATE")
        done = [(row[0], token) for row in found]
        self.connection.executemany("DELETE FROM legs WHERE sequence = ? AND token = ?", done)
        unused = "DELETE FROM events WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM legs WHERE event = ?1)"
        self.connection.executemany(unused, [(row[1],) for row in found])
        execute("COMMIT")
        return len(found)

    async def is_empty(self):
        """Say whether nothing is left."""
        return self.connection.execute("SELECT count(*) FROM events").fetchone() == (0,)


class RawPostgres:
    """The same in PostgreSQL, one statement for each step."""

    name = "raw asyncpg"

    async def open(self, url, routes):
        """Make the tables."""
        import asyncpg

        self.connection = await asyncpg.connect(url)
        self.routes = routes
        await self.connection.execute(
            "CREATE TABLE events (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL,"
            " body bytea NOT NULL);"
            "CREATE TABLE uses (event bigint PRIMARY KEY, count integer NOT NULL) WITH (fillfactor = 50);"
            "CREATE TABLE legs (sequence bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, route integer NOT NULL,"
            " event bigint NOT NULL, state smallint NOT NULL DEFAULT 0, due timestamptz, token bigint,"
            " deliveries integer NOT NULL DEFAULT 0);"
            "CREATE INDEX legs_ready ON legs (route, (sequence + 0)) WHERE state = 0"
        )

    async def close(self):
        """Disconnect."""
        await self.connection.close()

    async def accept(self, bodies):
        """Store events, together."""
        await self.connection.fetch(
            "WITH stored AS (INSERT INTO events (name, body)"
            " SELECT * FROM unnest($1::text[], $2::bytea[]) RETURNING id),"
            " counted AS (INSERT INTO uses SELECT id, $3::integer FROM stored)"
            " INSERT INTO legs (route, event) SELECT r, id FROM stored, generate_series(0, $3::integer - 1) r",
            [uuid.uuid4().hex for _ in bodies],
            bodies,
            self.routes,
        )

    async def settle(self, route, count):
        """Receive and complete messages of a route; return how many."""
        found = await self.connection.fetch(
            f"WITH locked AS (UPDATE legs SET state = 2, due = now() + interval '{LOCK_S:.0f} s', token = $1,"  # noqa: S608 - our own number
            " deliveries = deliveries + 1 WHERE ctid = ANY (ARRAY (SELECT ctid FROM legs WHERE route = $2 AND state = 0"
            " ORDER BY sequence + 0 LIMIT $3 FOR UPDATE SKIP LOCKED)) RETURNING sequence, event, token)"
            " SELECT l.sequence, l.token, e.name, e.body FROM locked l JOIN events e ON e.id = l.event",
            secrets.randbits(63),
            route,
            count,
        )
        await self.connection.fetch(
            "WITH gone AS (DELETE FROM legs USING unnest($1::bigint[], $2::bigint[]) AS d (sequence, token)"
            " WHERE legs.sequence = d.sequence AND legs.token = d.token RETURNING event),"
            " counted AS (UPDATE uses SET count = count - 1 FROM gone WHERE uses.event = gone.event"
            " RETURNING uses.event, uses.count)"
            " DELETE FROM events USING counted WHERE id = counted.event AND counted.count = 0",
            [row[0] for row in found],
            [row[1] for row in found],
        )
        return len(found)

    async def is_empty(self):
        """Say whether nothing is left."""
        return await self.connection.fetchval("SELECT count(*) FROM events") == 0


SUBJECTS = {"sqlite": (RawSqlite, Topic, Queues), "postgres": (RawPostgres, Topic, Queues)}
