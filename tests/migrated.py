# SPDX-License-Identifier: MIT
"""New SQLite databases begin as a copy of one that has its tables: to make them takes longer than most tests.

What opens a database still compares what is there with its migrations. Tests of the engine itself make their tables
step by step, and so does every process that a test starts.
"""

import sqlite3
from functools import cache
from threading import Lock

from redrive.engines.sqlite import engine, schema

_lock = Lock()
"""Two engines that open one new file must not both copy: the later one would undo what was stored meanwhile."""


def use_copies():
    """Let engines of this process begin with a copy."""
    engine.migrate = _migrate


def use_migrations(monkeypatch):
    """Let engines make their tables step by step, until the end of a test."""
    monkeypatch.setattr(engine, "migrate", schema.migrate)


def _migrate(connection):
    with _lock:
        if connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,):
            _original(schema.MIGRATIONS).backup(connection)
    schema.migrate(connection)


@cache
def _original(_migrations):
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    schema.migrate(connection)
    return connection
