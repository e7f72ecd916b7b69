# SPDX-License-Identifier: MIT
"""Where an engine lives: how it is opened there, how it crashes, and how everything is taken away in the end."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from redrive.engines.nats import NatsEngine
from redrive.engines.postgres import PostgresEngine
from redrive.engines.sqlite import SqliteEngine
from tests import in_memory
from tests.nats.server import remove_stream
from tests.patience import PATIENCE_S
from tests.postgres.server import run_sql, terminate_backends


class SqliteHome:
    """A folder. After a crash the files go on as they are on the disk, as if the process had been killed."""

    def __init__(self):
        self._folder = TemporaryDirectory(dir=in_memory.place())
        self._file = Path(self._folder.name) / "0.db"

    def engine(self, clock):
        """Return an engine that is not open yet."""
        return SqliteEngine(self._file, synchronous="normal", clock=clock)

    def crash(self):
        """Let the next engine see what a killed one would leave."""
        after = self._file.with_stem(f"{int(self._file.stem) + 1}")
        for suffix in ("", "-wal"):
            if (left := Path(f"{self._file}{suffix}")).exists():
                shutil.copy(left, f"{after}{suffix}")
        self._file = after

    def strays(self):
        """Return shared bodies without a message, and messages without their body."""
        with closing(sqlite3.connect(self._file)) as connection:
            return strays(lambda text: connection.execute(text.replace("@.", "redrive_")).fetchall())

    def remove(self):
        """Take everything away."""
        self._folder.cleanup()


class PostgresHome:
    """A schema. A crash cuts every connection."""

    def __init__(self, url, schema):
        self._url = url
        self._schema = schema

    def engine(self, clock):
        """Return an engine that is not open yet."""
        return PostgresEngine(self._url, schema=self._schema, clock=clock, acquire_timeout=PATIENCE_S)

    def crash(self):
        """Cut the engine off."""
        terminate_backends(self._url)

    def strays(self):
        """Return shared bodies without a message, and messages without their body."""
        return strays(lambda text: run_sql(self._url, text.replace("@.", f'"{self._schema}".')))

    def remove(self):
        """Take everything away."""
        run_sql(self._url, f'DROP SCHEMA "{self._schema}" CASCADE')


class NatsHome:
    """A namespace. After a crash nothing is left of what the engine kept in its memory."""

    def __init__(self, url, namespace, pace):
        self._url = url
        self._namespace = namespace
        self._pace = pace

    def engine(self, clock):
        """Return an engine that is not open yet."""
        return NatsEngine([self._url], namespace=self._namespace, replicas=1, clock=clock, pace=self._pace)

    def crash(self):
        """Do nothing: the next engine knows nothing of this one."""

    def strays(self):
        """Return nothing: no message shares its body."""
        return [], []

    def remove(self):
        """Take everything away."""
        remove_stream(self._url, self._namespace)


def strays(read):
    """Return the numbers of shared bodies without a message, and of messages whose shared body is not there.

    Args:
        read: runs a statement, in which the tables have the prefix ``@.``, and returns its rows.
    """
    unused = "SELECT c.id FROM @.contents c WHERE NOT EXISTS (SELECT 1 FROM @.messages m WHERE m.content = c.id)"
    empty = (
        "SELECT m.sequence FROM @.messages m WHERE m.content IS NOT NULL"
        " AND NOT EXISTS (SELECT 1 FROM @.contents c WHERE c.id = m.content)"
    )
    return [row[0] for row in read(unused)], [row[0] for row in read(empty)]
