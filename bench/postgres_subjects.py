"""What bench/queues.py compares: ways to keep a queue in PostgreSQL, all of them with ``synchronous_commit=on``.

Each has a database of its own. The libraries are used as their documentation says, with a pool of connections that
suits 64 callers; those that carry JSON get the body as Base64, since JSON cannot carry bytes.
"""

# ruff: noqa: PLC0415 - imports stand where they are used, so that a library that is not installed is missed alone

import asyncio
import json
import secrets
import uuid
from base64 import b64encode
from datetime import timedelta

from queue_subjects import LOCK_S, QUEUE, Coalescing, Redrive, Subject

POOL = 8  # connections: of 4, 8, 16 and 32 what suited most of them best, on two cores

# "+ 0" keeps the planner from the primary key, which has the same order and everything that is locked or scheduled.
SCHEMA = """
CREATE TABLE messages (
    sequence bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, queue integer NOT NULL, state smallint NOT NULL DEFAULT 0,
    due timestamptz, token bigint, deliveries integer NOT NULL DEFAULT 0, id text NOT NULL, body bytea NOT NULL,
    headers text
);
CREATE INDEX messages_ready ON messages (queue, (sequence + 0)) WHERE state = 0;
CREATE INDEX messages_due ON messages (due) WHERE state IN (1, 2);
"""
INSERT = "INSERT INTO messages (queue, id, body) VALUES (1, $1, $2)"
INSERT_MANY = "INSERT INTO messages (queue, id, body) SELECT 1, * FROM unnest($1::text[], $2::bytea[])"
INSERT_HEADED = """
INSERT INTO messages (queue, id, body, headers) SELECT 1, * FROM unnest($1::text[], $2::bytea[], $3::text[])
"""
LOCK = f"""
UPDATE messages SET state = 2, due = now() + interval '{LOCK_S:.0f} s', token = $1, deliveries = deliveries + 1
WHERE ctid = ANY (ARRAY (
    SELECT ctid FROM messages WHERE queue = 1 AND state = 0 ORDER BY sequence + 0 LIMIT $2 FOR UPDATE SKIP LOCKED
))
RETURNING sequence, token, id, body
"""  # noqa: S608 - our own number
LOCK_HEADED = LOCK.replace("id, body", "id, body, headers")
DELETE = "DELETE FROM messages WHERE sequence = $1 AND token = $2"
DELETE_MANY = """
DELETE FROM messages USING unnest($1::bigint[], $2::bigint[]) AS done (sequence, token)
WHERE messages.sequence = done.sequence AND messages.token = done.token
"""
# All three in one trip to the server and back. Its parts do not see each other: what is sent is received with the next.
TOGETHER = f"""
WITH completed AS ({DELETE_MANY}),
    sent AS ({INSERT_MANY.replace("$2", "$4").replace("$1", "$3")}),
    locked AS ({LOCK.replace("$2", "$6").replace("$1", "$5")})
SELECT * FROM locked
"""  # noqa: S608 - our own statements


class RawPostgres(Subject):
    """What one writes by hand: one prepared statement per call, which is one round trip and one commit."""

    name = "raw asyncpg"

    async def open(self, url):
        """Connect, and make the table."""
        texts = (INSERT, INSERT_MANY, LOCK, DELETE, DELETE_MANY, INSERT_HEADED, LOCK_HEADED)
        self.connections = [await raw_connection(url, with_schema=not number) for number in range(POOL)]
        self.idle = [[await connection.prepare(text) for text in texts] for connection in self.connections]
        self.turns = asyncio.Semaphore(POOL)  # it is fair: no caller is passed by all the others

    async def close(self):
        """Disconnect."""
        for connection in self.connections:
            await connection.close()

    async def call(self, which, *values):
        """Run one of the statements on a connection that nobody uses; return its rows and its status."""
        async with self.turns:
            statements = self.idle.pop()
            try:
                statement = statements[which]
                return await statement.fetch(*values), statement.get_statusmsg()
            finally:
                self.idle.append(statements)

    async def send(self, body):
        """Send one message."""
        await self.call(0, uuid.uuid4().hex, body)

    async def receive(self):
        """Lock one message."""
        while True:  # somebody else may have been quicker
            rows, _ = await self.call(2, secrets.randbits(63), 1)
            if rows:
                return rows[0]

    async def complete(self, held):
        """Remove a locked message."""
        assert (await self.call(3, held[0], held[1]))[1] == "DELETE 1"

    async def send_many(self, bodies):
        """Send messages together."""
        await self.call(1, [uuid.uuid4().hex for _ in bodies], bodies)

    async def receive_many(self, count):
        """Lock messages together."""
        return (await self.call(2, secrets.randbits(63), count))[0]

    async def send_headed(self, bodies, headers):
        """Send messages with headers, together."""
        await self.call(5, [uuid.uuid4().hex for _ in bodies], bodies, [json.dumps(headers) for _ in bodies])

    async def receive_headed(self, count):
        """Lock messages with headers together."""
        rows = (await self.call(6, secrets.randbits(63), count))[0]
        return [(*row[:4], json.loads(row[4])) for row in rows]

    async def complete_many(self, held):
        """Remove locked messages together."""
        _, status = await self.call(4, [one[0] for one in held], [one[1] for one in held])
        assert status == f"DELETE {len(held)}"


class RawCoalescedConnection(Coalescing):
    """The fastest thing one can write by hand: whoever waits shares one statement on one connection.

    A failure would fail everybody in the group; that is not for production, it is what there is to be reached.
    """

    name = "raw coalesced connection"

    async def open(self, url):
        """Connect, and make the table."""
        self.prepare_groups()
        self.connection = await raw_connection(url, with_schema=True)
        self.statement = await self.connection.prepare(TOGETHER)
        self.task = None

    async def close(self):
        """Disconnect."""
        await self.connection.close()

    def hand_over(self, group):
        """Do a group while the next one gathers."""
        self.task = asyncio.create_task(self.work(group))

    async def work(self, group):
        """Do a group in one statement."""
        bodies = [value for kind, value, _ in group if kind == "send"]
        done = [value for kind, value, _ in group if kind == "complete"]
        wanted = len(group) - len(bodies) - len(done)
        found = await self.statement.fetch(
            [held[0] for held in done],
            [held[1] for held in done],
            [uuid.uuid4().hex for _ in bodies],
            bodies,
            secrets.randbits(63),
            wanted,
        )
        assert len(found) == wanted
        self.deliver(group, found)


class Procrastinate(Subject):
    """https://procrastinate.readthedocs.io/: its job manager, as its worker calls it; a finished job is deleted."""

    name = "procrastinate"
    is_peer = True

    async def open(self, url):
        """Connect, and make the tables."""
        from procrastinate import App, PsycopgConnector
        from procrastinate.jobs import Status

        self.app = App(connector=PsycopgConnector(conninfo=url, min_size=POOL, max_size=POOL))
        await self.app.open_async()
        await self.app.schema_manager.apply_schema_async()
        self.jobs, self.succeeded = self.app.job_manager, Status.SUCCEEDED
        self.task = self.app.configure_task("handle", queue=QUEUE)
        self.worker = await self.jobs.register_worker()

    async def close(self):
        """Disconnect."""
        await self.app.close_async()

    async def send(self, body):
        """Send one message."""
        await self.task.defer_async(body=text(body))

    async def receive(self):
        """Lock one message."""
        while True:  # somebody else may have been quicker
            job = await self.jobs.fetch_job([QUEUE], self.worker)
            if job:
                return job

    async def complete(self, job):
        """Remove a locked message."""
        await self.jobs.finish_job(job, self.succeeded, delete_job=True)

    async def send_many(self, bodies):
        """Send messages together. It receives one by one only."""
        await self.task.batch_defer_async(*({"body": text(body)} for body in bodies))


class Pgqueuer(Subject):
    """https://github.com/janbjorge/pgqueuer: its queries, as its queue manager calls them. It logs what was done."""

    name = "pgqueuer"
    is_peer = True

    async def open(self, url):
        """Connect, and make the tables."""
        import asyncpg
        from pgqueuer.ports.repository import EntrypointExecutionParameter
        from pgqueuer.queries import Queries

        self.pool = await asyncpg.create_pool(url, min_size=POOL, max_size=POOL)
        self.queries = Queries.from_asyncpg_pool(self.pool)
        await self.queries.install()
        self.wanted = {
            "entrypoints": {QUEUE: EntrypointExecutionParameter(concurrency_limit=0)},
            "queue_manager_id": uuid.uuid4(),
            "global_concurrency_limit": None,
            "heartbeat_timeout": timedelta(seconds=LOCK_S),
        }

    async def close(self):
        """Disconnect."""
        await self.pool.close()

    async def send(self, body):
        """Send one message."""
        await self.queries.enqueue(QUEUE, body)

    async def receive(self):
        """Lock one message."""
        while True:  # somebody else may have been quicker
            found = await self.receive_many(1)
            if found:
                return found[0]

    async def complete(self, job):
        """Move a locked message to the log."""
        await self.complete_many([job])

    async def send_many(self, bodies):
        """Send messages together."""
        await self.queries.enqueue([QUEUE] * len(bodies), bodies, [0] * len(bodies))

    async def receive_many(self, count):
        """Lock messages together."""
        return await self.queries.dequeue(count, **self.wanted)

    async def complete_many(self, jobs):
        """Move locked messages to the log."""
        await self.queries.log_jobs([(job, "successful", None) for job in jobs])


class Pgmq(Subject):
    """https://github.com/pgmq/pgmq: its Python client, on the functions that its package carries as SQL."""

    name = "pgmq"
    is_peer = True

    async def open(self, url):
        """Connect, and make the functions and the queue."""
        import asyncpg
        from pgmq.async_queue import PGMQueue
        from pgmq.install import get_embedded_install_sql

        self.pool = await asyncpg.create_pool(url, min_size=POOL, max_size=POOL)
        await self.pool.execute(get_embedded_install_sql())
        self.queue = PGMQueue(pool=self.pool, init_extension=False, vt=int(LOCK_S))
        await self.queue.init()
        await self.queue.create_queue(QUEUE)

    async def close(self):
        """Disconnect."""
        await self.pool.close()

    async def send(self, body):
        """Send one message."""
        await self.queue.send(QUEUE, {"body": text(body)})

    async def receive(self):
        """Lock one message."""
        while True:  # somebody else may have been quicker
            message = await self.queue.read(QUEUE)
            if message:
                return message

    async def complete(self, message):
        """Remove a locked message."""
        assert await self.queue.delete(QUEUE, message.msg_id)

    async def send_many(self, bodies):
        """Send messages together."""
        await self.queue.send_batch(QUEUE, [{"body": text(body)} for body in bodies])

    async def receive_many(self, count):
        """Lock messages together."""
        return await self.queue.read(QUEUE, qty=count)

    async def complete_many(self, messages):
        """Remove locked messages together."""
        await self.queue.delete_batch(QUEUE, [message.msg_id for message in messages])

    async def schedule_many(self, bodies, delay):
        """Send messages that become available later."""
        await self.queue.send_batch(QUEUE, [{"body": text(body)} for body in bodies], delay=delay)


def text(body):
    """Return bytes as a text that fits into JSON."""
    return b64encode(body).decode("ascii")


async def raw_connection(url, *, with_schema):
    """Return a connection, after making the table if that is wished."""
    import asyncpg

    connection = await asyncpg.connect(url)
    if with_schema:
        await connection.execute(SCHEMA)
    return connection


PEERS = [Procrastinate, Pgqueuer, Pgmq]
EVERYBODY = [Redrive, RawPostgres, RawCoalescedConnection, *PEERS]
