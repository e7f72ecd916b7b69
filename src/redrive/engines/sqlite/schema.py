# SPDX-License-Identifier: MIT
"""The SQLite schema, by numbered migrations.

States are the numbers of ``redrive.broker.lifecycle.State``. A receive reads the first entries of one place in one
index, so it costs the same at a thousand and at a million messages, and with any number of them out of sight. Times are
seconds since 1970. ``due`` is when a lock ends or a scheduled message becomes available.
"""

import re
import sqlite3
from contextlib import closing
from functools import cache

from redrive.engines.sql.access.schema import ACCESS, REDACTIONS, REQUESTS, SIGN_INS, VIEWS
from redrive.engines.sql.dialects import SQLITE
from redrive.engines.sql.history.schema import HISTORY, SQLITE_TRIGGER
from redrive.engines.sql.journey.schema import JOURNEYS
from redrive.engines.sql.migrations import pending
from redrive.engines.sql.notifications.schema import WEBHOOKS
from redrive.engines.sql.pipeline.schema import ITEM_INDEX, PIPELINES
from redrive.engines.sql.recovery.counts_schema import SQLITE_COUNTS
from redrive.engines.sql.recovery.group_snooze_schema import GROUP_SNOOZE
from redrive.engines.sql.recovery.schema import KEYS, RECOVERY, TRACES
from redrive.engines.sql.recovery.settled_order_schema import SETTLED_ORDER
from redrive.engines.sql.routes.schema import ROUTES
from redrive.errors import SchemaMismatch

_TAKEN = re.compile(r"(?:^(?:table|index|trigger) (?=.* already exists)|with this name: )(\w+)")

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
    ("0003_recovery", SQLITE.migration(RECOVERY)),
    ("0004_recovery_keys", SQLITE.migration(KEYS)),
    (
        "0005_table_prefix",
        """
        DROP TRIGGER messages_removed;
        DROP INDEX messages_place;
        DROP INDEX messages_session;
        DROP INDEX messages_due;
        DROP INDEX messages_expiring;
        DROP INDEX seen_ids_until;
        ALTER TABLE queues RENAME TO redrive_queues;
        ALTER TABLE messages RENAME TO redrive_messages;
        ALTER TABLE bodies RENAME TO redrive_bodies;
        ALTER TABLE sessions RENAME TO redrive_sessions;
        ALTER TABLE seen_ids RENAME TO redrive_seen_ids;
        ALTER TABLE counters RENAME TO redrive_counters;
        CREATE INDEX redrive_messages_place ON redrive_messages (queue, state, sequence);
        CREATE INDEX redrive_messages_session ON redrive_messages (queue, session, sequence)
            WHERE session IS NOT NULL;
        CREATE INDEX redrive_messages_due ON redrive_messages (due) WHERE due IS NOT NULL;
        CREATE INDEX redrive_messages_expiring ON redrive_messages (expires) WHERE expires IS NOT NULL;
        CREATE INDEX redrive_seen_ids_until ON redrive_seen_ids (until);
        CREATE TRIGGER redrive_messages_removed AFTER DELETE ON redrive_messages WHEN old.body IS NULL BEGIN
            DELETE FROM redrive_bodies WHERE sequence = old.sequence;
        END;
        """,
    ),
    (
        "0006_queue_settings",
        """
        -- which change of the queues was the last of this one, so that others read only what has changed
        ALTER TABLE redrive_queues ADD COLUMN version INTEGER NOT NULL DEFAULT 0;
        CREATE INDEX redrive_queues_version ON redrive_queues (version);
        INSERT INTO redrive_counters VALUES ('queues_deleted', 0);
        """,
    ),
    (
        "0007_topics",
        """
        ALTER TABLE redrive_queues ADD COLUMN topic TEXT;  -- the settings of a topic
        ALTER TABLE redrive_queues ADD COLUMN subscribes INTEGER;  -- of a subscription: the topic
        ALTER TABLE redrive_queues ADD COLUMN rule TEXT;  -- and which messages it gets
        ALTER TABLE redrive_queues ADD COLUMN unmatched INTEGER NOT NULL DEFAULT 0;
        CREATE INDEX redrive_queues_subscribes ON redrive_queues (subscribes) WHERE subscribes IS NOT NULL;

        -- a body that several messages share, since they were sent to a topic together
        CREATE TABLE redrive_contents (id INTEGER PRIMARY KEY, body BLOB NOT NULL);
        ALTER TABLE redrive_messages ADD COLUMN content INTEGER;
        CREATE INDEX redrive_messages_content ON redrive_messages (content) WHERE content IS NOT NULL;
        DROP TRIGGER redrive_messages_removed;
        CREATE TRIGGER redrive_messages_removed AFTER DELETE ON redrive_messages WHEN old.body IS NULL BEGIN
            DELETE FROM redrive_bodies WHERE sequence = old.sequence;
            DELETE FROM redrive_contents WHERE id = old.content
                AND NOT EXISTS (SELECT 1 FROM redrive_messages WHERE content = old.content);
        END;
        """,
    ),
    ("0008_routes", SQLITE.migration(ROUTES)),
    ("0009_fan_out", ""),  # here it was cheap already
    ("0010_pipelines", SQLITE.migration(PIPELINES)),
    ("0011_failure_counts", SQLITE.migration(SQLITE_COUNTS)),
    ("0012_history", SQLITE.migration(HISTORY) + SQLITE_TRIGGER),
    ("0013_journeys", SQLITE.migration(JOURNEYS)),
    ("0014_access", SQLITE.migration(ACCESS)),
    ("0015_requests", SQLITE.migration(REQUESTS)),
    ("0016_item_index", SQLITE.migration(ITEM_INDEX)),
    ("0017_redactions", SQLITE.migration(REDACTIONS)),
    ("0018_sign_ins", SQLITE.migration(SIGN_INS)),
    ("0019_webhooks", SQLITE.migration(WEBHOOKS)),
    ("0020_shared_traces", SQLITE.migration(TRACES)),
    ("0021_group_snooze", SQLITE.migration(GROUP_SNOOZE)),
    ("0022_views", SQLITE.migration(VIEWS)),
    ("0023_cheaper_legs", ""),  # a number and an entry of an index cost next to nothing in a file
    ("0024_settled_order", SQLITE.migration(SETTLED_ORDER)),
)

_OLD_NAMES = re.compile(
    r"\b(queues|messages|bodies|sessions|seen_ids|counters)(?=\b|_(?:place|session|due|expiring|until|removed)\b)"
)


def _prefixed(script: str) -> str:
    """Return a script of the time before 0005 with the names that its tables and indexes have since."""
    return _OLD_NAMES.sub(r"redrive_\1", re.sub(r"--[^\n]*", "", script))


def _in_new_file(name: str, script: str) -> str:
    """Return what a migration does in a file that has never had tables without the prefix.

    Tables of the user may have these names there, so that not even for a moment can ours have them.
    """
    if name in ("0001_messages", "0002_small_bodies"):
        return _prefixed(script)
    return "" if name == "0005_table_prefix" else script


def migrate(connection: sqlite3.Connection) -> None:
    """Bring the schema up to date, one transaction per migration; safe when two processes do it at once."""
    connection.execute(
        "CREATE TABLE IF NOT EXISTS redrive_migrations (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE)"
    )
    while _migrate_one(connection):
        pass
    _check_shape(connection)


def _migrate_one(connection: sqlite3.Connection) -> bool:
    """Do the next migration; False if there is none left."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        done = connection.execute("SELECT name FROM redrive_migrations ORDER BY number").fetchall()
        due = pending(MIGRATIONS, [name for (name,) in done])
        if due:
            is_old = bool(done) and "redrive_messages" not in _objects(connection)
            script = due[0].script if is_old else _in_new_file(due[0].name, due[0].script)
            _run(connection, script, len(done))
            connection.execute("INSERT INTO redrive_migrations VALUES (?, ?)", (due[0].number, due[0].name))
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return bool(due)


def _run(connection: sqlite3.Connection, script: str, done: int) -> None:
    try:
        for statement in _statements(script):
            connection.execute(statement)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
            raise
        problem = str(error)  # what is there is not what the migrations before made
        if (taken := _TAKEN.search(problem)) is not None:
            problem = f"{taken[1]!r} is there already; if it is yours, rename it: names with redrive_ are Redrive's"
        raise SchemaMismatch(done, len(MIGRATIONS), problem) from error


def _check_shape(connection: sqlite3.Connection) -> None:
    """See that the tables are those that the migrations make; they have their numbers, whatever they made then."""
    there = _objects(connection)
    for name, text in _expected(MIGRATIONS).items():
        if name not in there:
            raise SchemaMismatch(len(MIGRATIONS), len(MIGRATIONS), f"there is no {name!r}")
        if there[name] != text:
            _check_columns(connection, name, text)


def _check_columns(connection: sqlite3.Connection, table: str, text: str) -> None:
    """See that a table that was made by another statement has the columns all the same."""
    with closing(sqlite3.connect(":memory:")) as made:
        if not text.upper().startswith("CREATE TABLE"):
            return  # an index or a trigger that was written in another way
        made.execute(text)
        lacking = _columns(made, table) - _columns(connection, table)
    if lacking:
        problem = f"table {table!r} has no column {min(lacking)!r}"
        raise SchemaMismatch(len(MIGRATIONS), len(MIGRATIONS), problem)


def _columns(connection: sqlite3.Connection, table: str) -> set[str]:
    return {row[0] for row in connection.execute("SELECT name FROM pragma_table_info(?)", (table,))}


def _objects(connection: sqlite3.Connection) -> dict[str, str]:
    """Return the statements that made the tables, indexes and triggers, by their names."""
    return dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall())


@cache
def _expected(migrations: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """Return what a database has in which all migrations were done."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.execute("BEGIN")
        for name, script in migrations:
            for statement in _statements(_in_new_file(name, script)):
                connection.execute(statement)
        return {name: text for name, text in _objects(connection).items() if not name.startswith("sqlite_")}


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
