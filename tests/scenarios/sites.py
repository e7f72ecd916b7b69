# SPDX-License-Identifier: MIT
"""The databases that scenarios play on: how to look into them without the engine, and what else can befall them."""

import sqlite3
from collections import Counter
from contextlib import closing

from tests.conformance.homes import strays
from tests.postgres.server import run_sql, terminate_backends

STORED = "SELECT m.id FROM @.messages m JOIN @.queues q ON q.id = m.queue WHERE q.name = "
ROWS = """
SELECT q.name, m.sequence, m.id, m.body FROM @.messages m JOIN @.queues q ON q.id = m.queue ORDER BY m.sequence
"""
BROKEN = """
SELECT * FROM @.messages m LEFT JOIN @.queues q ON q.id = m.queue
WHERE q.id IS NULL OR (m.state IN (2, 4)) <> (m.token IS NOT NULL) OR (m.state IN (0, 3)) <> (m.due IS NULL)
"""


class SqliteSite:
    """A file."""

    mishaps = ()

    def __init__(self, path):
        self._path = path
        self.url = f"sqlite:///{path}"

    def stored(self, queue):
        """Return how often each message id is in a queue."""
        return Counter(row[0] for row in self._rows(f"{STORED}?", queue))

    def rows(self):
        """Return all messages: their queues, numbers, ids and bodies."""
        return [(*row, bytes(body).decode()) for *row, body in self._rows(ROWS)]

    def strays(self):
        """Return shared bodies without a message, and messages without their body."""
        return strays(self._rows)

    def check_integrity(self):
        """Fail if SQLite finds anything wrong with the file."""
        assert self._rows("PRAGMA integrity_check") == [("ok",)]

    def _rows(self, read, *values):
        with closing(sqlite3.connect(self._path, timeout=30)) as connection:
            return connection.execute(read.replace("@.", "redrive_"), values).fetchall()


class PostgresSite:
    """A database in a server that may be stopped."""

    mishaps = ("backends", "server")

    def __init__(self, server, url, schema="torture"):
        self._server = server
        self._database = url
        self._schema = schema
        self.url = f"{url}&schema={schema}"

    def befall(self, mishap):
        """Let something happen that is no process's fault."""
        if mishap == "backends":
            terminate_backends(self._database, share=0.7)
        else:
            self._server.restart("immediate")

    def stored(self, queue):
        """Return how often each message id is in a queue."""
        return Counter(row["id"] for row in self._rows(f"{STORED}'{queue}'"))

    def rows(self):
        """Return all messages: their queues, numbers, ids and bodies."""
        return [(*row, bytes(body).decode()) for *row, body in self._rows(ROWS)]

    def strays(self):
        """Return shared bodies without a message, and messages without their body."""
        return strays(self._rows)

    def check_integrity(self):
        """Fail if a message has no queue, or if its state does not go with its lock and its time."""
        assert self._rows(BROKEN) == []

    def _rows(self, read):
        return run_sql(self._database, f"SET search_path = {self._schema}", read.replace("@.", ""))
