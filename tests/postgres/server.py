# SPDX-License-Identifier: MIT
"""A PostgreSQL server of the tests' own: in a folder that goes away with them, on a socket that nobody else reaches."""

import asyncio
import os
import signal
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote, urlencode, urlsplit

import asyncpg

from redrive.clock import system_clock
from tests import in_memory
from tests.patience import PATIENCE_S
from tests.postgres.binaries import identity, programs, run_as

SUPERUSER = "postgres"
NEEDS_PASSWORD = "guarded"  # noqa: S105 - a user's name
"""A user who is let in with a password only, once it is created; everybody else is let in without."""

DURABLE = {
    "listen_addresses": "",
    "shared_buffers": "16MB",
    "max_connections": "60",
    "max_locks_per_transaction": "512",  # tests make many schemas, and drop them together
    "max_wal_senders": "4",
    "wal_level": "replica",
}
"""What a crash must not be able to hurt: fsync is on, as it is unless somebody says otherwise."""

FAST = DURABLE | {"fsync": "off", "full_page_writes": "off", "autovacuum_naptime": "5min"}
"""For tests in which only processes die, never the machine."""

ACCESS = f"""\
local all {NEEDS_PASSWORD} scram-sha-256
local all all trust
local replication all trust
"""

STOP_SIGNALS = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT}

# Reads until the tests' process has gone, however it went; then ends the server and removes everything.
WATCH = """\
read -r _
for pid in "$1"/*/postmaster.pid; do [ -f "$pid" ] && kill -QUIT "$(head -n 1 "$pid")"; done
while [ -n "$(ls "$1"/*/postmaster.pid 2>/dev/null)" ] && [ "${tries:=0}" -lt 600 ]; do
  tries=$((tries + 1)); sleep 0.1
done
rm -rf "$1"
"""


class PostgresServer:
    """A server and its folder. Use it in a ``with`` block, or call ``remove`` at the end.

    Args:
        settings: as in ``postgresql.conf``.
    """

    def __init__(self, settings=FAST):
        self.settings = dict(settings)
        # A socket's path may have 107 characters, so the folder's is as short as can be.
        self.folder = Path(tempfile.mkdtemp(prefix="rd", dir=in_memory.place() or "/tmp"))  # noqa: S108 - a new folder in it
        self.data = self.folder / "data"
        self._log = self.folder / "log"
        self._process = None
        self._watch = subprocess.Popen(
            ["/bin/sh", "-c", WATCH, "sh", self.folder], stdin=subprocess.PIPE, start_new_session=True
        )
        if identity() is not None:
            os.chown(self.folder, *identity())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()

    # --- its life

    def create(self):
        """Make an empty database cluster."""
        self._run("initdb", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C", "--username", SUPERUSER)
        (self.data / "pg_hba.conf").write_text(ACCESS)
        return self

    def start(self):
        """Start it, and wait until it lets people in."""
        assert not self.is_running, "the server is running already"
        command = [programs() / "postgres", "-D", self.data, "-k", self.folder]
        for name, value in self.settings.items():
            command += ["-c", f"{name}={value}"]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, cwd=self.folder, stdout=log, stderr=log, start_new_session=True, **run_as()
            )
        wait_until(self._is_ready, "a server that lets people in", self.log)
        return self

    def stop(self, mode="fast"):
        """Stop it: ``fast`` ends transactions first; ``immediate`` is a crash, mended at the next start."""
        self._process.send_signal(STOP_SIGNALS[mode])
        self._process.wait(timeout=PATIENCE_S)
        self._process = None

    def restart(self, mode="fast"):
        """Stop and start it."""
        self.stop(mode)
        self.start()

    def remove(self):
        """Stop it if it runs, and remove its folder."""
        if self.is_running:
            self.stop("immediate")
        self._watch.communicate(timeout=PATIENCE_S)

    @property
    def is_running(self):
        """Whether there is a process."""
        return self._process is not None and self._process.poll() is None

    def log(self):
        """Return the last of what the server has said."""
        return self._log.read_text(errors="replace")[-4_000:] if self._log.exists() else ""

    def _is_ready(self):
        """Ask the file in which a server says how far it is; pg_ctl does the same."""
        assert self.is_running, f"the server has ended:\n{self.log()}"
        told = self.data / "postmaster.pid"
        lines = told.read_text().splitlines() if told.exists() else []
        return len(lines) > 7 and lines[0] == str(self._process.pid) and lines[7].strip() in {"ready", "standby"}

    def _run(self, program, *arguments):
        done = subprocess.run(
            [programs() / program, "-D", self.data, *arguments],
            check=False, capture_output=True, text=True, cwd=self.folder, **run_as(),
        )  # fmt: skip
        assert done.returncode == 0, f"{program}: {done.stderr}"

    # --- reaching it

    def url(self, database="postgres", **options):
        """Return the URL of one of its databases."""
        return url_of(database, host=self.folder, user=SUPERUSER, **options)

    def sql(self, *statements, database="postgres"):
        """Run statements; return the rows of the last one."""
        return run_sql(self.url(database), *statements)

    def create_database(self, name):
        """Make an empty database, and return its URL."""
        self.sql(f'CREATE DATABASE "{name}"')
        return self.url(name)

    def drop_database(self, name):
        """Leave it: it goes away with the server."""

    # --- a second one

    @contextmanager
    def standby(self, name="standby"):
        """Give it a streaming standby without which it acknowledges nothing, for a ``with`` block."""
        conninfo = f"host={self.folder} user={SUPERUSER} application_name={name}"
        with PostgresServer(self.settings | {"primary_conninfo": conninfo}) as standby:
            standby._run("pg_basebackup", "--no-sync", "--checkpoint=fast", "--dbname", conninfo)
            (standby.data / "standby.signal").touch()
            standby.start()
            # Only now: the copy must not wait for a standby of its own when it is promoted.
            self._wait_for_standby(name)
            wait_until(lambda: self._has_synchronous(name), "a standby that streams", standby.log)
            try:
                yield standby
            finally:
                self._wait_for_standby("")

    def _wait_for_standby(self, name):
        """Name the standby that has to confirm every commit, none for nobody; also of a server that is down."""
        (self.data / "postgresql.auto.conf").write_text(f"synchronous_standby_names = '{name}'\n")
        if self.is_running:
            self._process.send_signal(signal.SIGHUP)

    def _has_synchronous(self, name):
        asked = f"SELECT sync_state FROM pg_stat_replication WHERE application_name = '{name}' AND state = 'streaming'"  # noqa: S608 - a name of ours
        return [row["sync_state"] for row in self.sql(asked)] == ["sync"]

    def promote(self):
        """Make a standby a server of its own."""
        assert self.sql("SELECT pg_promote() AS done")[0]["done"]


class ForeignServer:
    """A server that somebody else runs; there is no stopping it."""

    def __init__(self, url):
        self._url = url

    def create_database(self, name):
        """Make an empty database, and return its URL."""
        run_sql(self._url, f'DROP DATABASE IF EXISTS "{name}"', f'CREATE DATABASE "{name}"')
        return urlsplit(self._url)._replace(path=f"/{quote(name)}").geturl()

    def drop_database(self, name):
        """Remove a database, whoever is still connected to it."""
        run_sql(self._url, f'DROP DATABASE "{name}" WITH (FORCE)')


def url_of(database, **options):
    """Return a URL; a socket's folder is an option like any other."""
    texts = {name: str(value) for name, value in options.items()}
    return f"postgresql:///{quote(database)}?{urlencode(texts, safe='/,')}"


def database_of(url):
    """Return the name of the database that a URL leads to."""
    return urlsplit(url).path[1:]


def run_sql(url, *statements):
    """Run statements, each in a transaction of its own; return the rows of the last one."""
    with ThreadPoolExecutor(1) as thread:  # in this one an event loop may be running
        return thread.submit(asyncio.run, _run_sql(url, statements)).result()


async def _run_sql(url, statements):
    connection = await asyncpg.connect(url)
    try:
        return [await connection.fetch(statement) for statement in statements][-1]
    finally:
        await connection.close()


def terminate_backends(url, share=1.0):
    """End other connections to a database, as an administrator may, all or a random share; return how many."""
    others = f"datname = current_database() AND pid <> pg_backend_pid() AND random() < {share}"
    ended = run_sql(url, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}")  # noqa: S608 - ours
    return len(ended)


def wait_until(holds, what, log=lambda: ""):
    """Wait for something that another process will do."""
    ends_at = system_clock.monotonic() + PATIENCE_S
    while not holds():
        assert system_clock.monotonic() < ends_at, f"no sign of {what} after {PATIENCE_S:g} s\n{log()}"
        system_clock.sleep(0.01)
