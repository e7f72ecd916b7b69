# SPDX-License-Identifier: MIT
"""The SQLite schema, by numbered migrations.

States are the numbers of ``redrive.broker.lifecycle.State``. A receive reads the first entries of one place in one
index, so it costs the same at a thousand and at a million messages, and with any number of them out of sight. Times are
seconds since 1970. ``due`` is when a lock ends or a scheduled message becomes available.
"""

import sqlite3

from redrive.engines.ledger.schema import KEYS, sqlite_script
from redrive.errors import SchemaMismatch

MIGRATIONS: tuple[tuple[str, str], ...] = (
    (
        "0001_messages",
        """
        CREATE TABLE queues (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            name TEXT NOT NULL UNIQUE,
            source INTEGER REFERENCES queues (id),  -- of a dead-letter queue: whose
            settings TEXT NOT NULL,
            created_at REAL NOT NULL,
            used_at REAL NOT NULL
        );

        CREATE TABLE messages (
            sequence INTEGER PRIMARY KEY AUTOINCREMENT,  -- a number is never used twice
            queue INTEGER NOT NULL,
            state INTEGER NOT NULL,
            due REAL,
            token INTEGER,
            delivery_count INTEGER NOT NULL,
            enqueued_at REAL NOT NULL,
            expires REAL,
            id TEXT NOT NULL,
            session TEXT,  -- only in queues that are received by session
            properties TEXT,
            dead_letter TEXT
        );
        CREATE INDEX messages_place ON messages (queue, state, sequence);
        CREATE INDEX messages_session ON messages (queue, session, sequence) WHERE session IS NOT NULL;
        CREATE INDEX messages_due ON messages (due) WHERE due IS NOT NULL;
        CREATE INDEX messages_expiring ON messages (expires) WHERE expires IS NOT NULL;

        -- apart, so that locking a message does not rewrite what it carries
        CREATE TABLE bodies (sequence INTEGER PRIMARY KEY, body BLOB NOT NULL);

        CREATE TABLE sessions (
            queue INTEGER NOT NULL,
            session TEXT NOT NULL,
            token INTEGER,
            locked_until REAL,
            state BLOB,
            PRIMARY KEY (queue, session)
        ) WITHOUT ROWID;

        CREATE TABLE seen_ids (
            queue INTEGER NOT NULL,
            id TEXT NOT NULL,
            until REAL NOT NULL,
            PRIMARY KEY (queue, id)
        ) WITHOUT ROWID;
        CREATE INDEX seen_ids_until ON seen_ids (until);

        CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
        INSERT INTO counters VALUES ('queues_version', 0);
        """,
    ),
    (
        "0002_small_bodies",
        """
        ALTER TABLE messages ADD COLUMN body BLOB;  -- of a small message; NULL: it is in bodies

        CREATE TRIGGER messages_removed AFTER DELETE ON messages WHEN old.body IS NULL BEGIN
            DELETE FROM bodies WHERE sequence = old.sequence;
        END;
        """,
    ),
    ("0003_recovery", sqlite_script()),
    ("0004_recovery_keys", sqlite_script(KEYS)),
)


def migrate(connection: sqlite3.Connection) -> None:
    """Bring the schema up to date, one transaction per migration; safe when two processes do it at once."""
    connection.execute(
        "CREATE TABLE IF NOT EXISTS redrive_migrations (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE)"
    )
    while _migrate_one(connection):
        pass


def _migrate_one(connection: sqlite3.Connection) -> bool:
    """Do the next migration; False if there is none left."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        done = connection.execute("SELECT coalesce(max(number), 0) FROM redrive_migrations").fetchone()[0]
        _check_known(done)
        if done < len(MIGRATIONS):
            name, script = MIGRATIONS[done]
            for statement in _statements(script):
                connection.execute(statement)
            connection.execute("INSERT INTO redrive_migrations VALUES (?, ?)", (done + 1, name))
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return bool(done < len(MIGRATIONS))


def _check_known(version: int) -> None:
    if version > len(MIGRATIONS):
        raise SchemaMismatch(version, len(MIGRATIONS))


def _statements(script: str) -> list[str]:
    """Split a script; ``executescript`` would commit on its own."""
    found: list[str] = []
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            found.append(statement)
            statement = ""
    return found
