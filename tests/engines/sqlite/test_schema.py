# SPDX-License-Identifier: MIT
"""The schema comes about by numbered migrations, whoever is there at the same time."""

import contextlib
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from redrive.broker import Complete, Message, QueueSettings, Send
from redrive.engines.sqlite import SqliteEngine, schema
from redrive.errors import SchemaMismatch
from tests.patience import PATIENCE_S

OPEN = """
import asyncio, sys
from redrive.broker import QueueSettings
from redrive.engines.sqlite import SqliteEngine

async def main():
    engine = SqliteEngine(sys.argv[1])
    await engine.open()
    await engine.declare(sys.argv[2], QueueSettings())
    await engine.close()

sys.stdin.readline()
asyncio.run(main())
"""


def objects(path):
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT type, name, sql FROM sqlite_master ORDER BY name").fetchall()


def numbers(path):
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return [row[0] for row in connection.execute("SELECT number FROM redrive_migrations ORDER BY number")]


async def open_and_close(path):
    engine = SqliteEngine(path)
    try:
        await engine.open()
    finally:
        await engine.close()


def test_migrations_are_numbered_from_one_without_a_gap():
    found = [int(re.match(r"(\d{4})_[a-z_]+$", name).group(1)) for name, _ in schema.MIGRATIONS]
    assert found == list(range(1, len(found) + 1))


async def test_opening_twice_migrates_once(tmp_path):
    await open_and_close(tmp_path / "x.db")
    before = objects(tmp_path / "x.db")
    await open_and_close(tmp_path / "x.db")
    assert objects(tmp_path / "x.db") == before
    assert numbers(tmp_path / "x.db") == list(range(1, len(schema.MIGRATIONS) + 1))


OLD = sorted((Path(__file__).parents[2] / "contract" / "migrations" / "sqlite").glob("*.sql"))
PREFIX = next(number for number, path in enumerate(OLD) if path.stem == "0005_table_prefix")
"""How many migrations made tables without a prefix."""


def make_old(path, count):
    """Make a file as an older Redrive has made it, by the texts of its migrations; with a message and a session."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE redrive_migrations (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE)")
        for number, script in enumerate(OLD[:count], 1):
            connection.executescript(script.read_text())
            connection.execute("INSERT INTO redrive_migrations VALUES (?, ?)", (number, script.stem))
        connection.executescript("""
            INSERT INTO queues VALUES (1, 'orders', NULL, '{"lock_duration": 7.0, "duplicate_detection": 60.0}', 0, 0);
            INSERT INTO queues VALUES (2, 'orders/$dead', 1, '{"lock_duration": 7.0}', 0, 0);
            INSERT INTO messages (sequence, queue, state, delivery_count, enqueued_at, id)
                VALUES (5, 1, 0, 0, 0, 'old');
            INSERT INTO bodies VALUES (5, x'0102');
            INSERT INTO sessions VALUES (1, 'ann', NULL, NULL, x'03');
            INSERT INTO seen_ids VALUES (1, 'old', 1e12);
        """)
        connection.commit()


def plain_objects(path):
    """Return the tables, indexes and triggers, however their statements are written."""
    spelled = ((kind, name, re.sub(r'--[^\n]*|["\s]', "", sql or "")) for kind, name, sql in objects(path))
    return [each for each in spelled if not each[1].startswith("sqlite_")]


@pytest.mark.parametrize("count", range(1, PREFIX + 1))
async def test_everything_of_every_older_schema_is_still_there(tmp_path, count):
    path = tmp_path / "old.db"
    make_old(path, count)
    engine = SqliteEngine(path)
    await engine.open()
    assert (await engine.inspect("orders"))[0].settings == QueueSettings(lock_duration=7.0, duplicate_detection=60.0)
    (old,) = await engine.lock_next("orders", 1)
    assert (old.id, old.body) == ("old", b"\x01\x02")
    await engine.apply([Complete(old.lock)])
    assert engine._reader.execute("SELECT count(*) FROM redrive_bodies").fetchone() == (0,)
    assert engine._reader.execute("SELECT state FROM redrive_sessions").fetchall() == [(b"\x03",)]
    seen, new = (Send("orders", Message(b"", id=name)) for name in ("old", "new"))
    assert await engine.apply([seen, new]) == [None, 6]
    await engine.close()


async def test_a_migrated_file_has_the_schema_of_a_new_one(tmp_path):
    await open_and_close(tmp_path / "new.db")
    make_old(tmp_path / "old.db", PREFIX)
    await open_and_close(tmp_path / "old.db")
    assert plain_objects(tmp_path / "old.db") == plain_objects(tmp_path / "new.db")


async def test_a_file_whose_first_migrations_were_interrupted_is_finished(tmp_path, monkeypatch):
    await open_and_close(tmp_path / "new.db")
    everything = schema.MIGRATIONS
    for count in range(1, len(everything) + 1):
        monkeypatch.setattr(schema, "MIGRATIONS", everything[:count])
        with contextlib.closing(sqlite3.connect(tmp_path / "steps.db", isolation_level=None)) as connection:
            schema.migrate(connection)
    assert objects(tmp_path / "steps.db") == objects(tmp_path / "new.db")


async def test_processes_that_open_an_old_file_at_once_migrate_it_once(tmp_path):
    make_old(tmp_path / "x.db", PREFIX)
    assert open_in_processes(tmp_path / "x.db") == [("", 0)] * 4
    assert numbers(tmp_path / "x.db") == list(range(1, len(schema.MIGRATIONS) + 1))


async def test_a_schema_from_the_future_is_refused_and_left_alone(tmp_path):
    await open_and_close(tmp_path / "x.db")
    with contextlib.closing(sqlite3.connect(tmp_path / "x.db")) as connection:
        next_number = len(schema.MIGRATIONS) + 1
        connection.execute("INSERT INTO redrive_migrations VALUES (?, 'the_future')", (next_number,))
        connection.commit()
    before = objects(tmp_path / "x.db")
    with pytest.raises(SchemaMismatch, match="newer Redrive") as caught:
        await open_and_close(tmp_path / "x.db")
    assert (caught.value.found, caught.value.known) == (next_number, len(schema.MIGRATIONS))
    assert objects(tmp_path / "x.db") == before


async def test_a_migration_that_fails_is_undone_as_a_whole(tmp_path, monkeypatch):
    await open_and_close(tmp_path / "x.db")
    before = objects(tmp_path / "x.db")
    broken = ("0002_broken", "CREATE TABLE more (a);\nCREATE TABLE more (b);\n")
    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, broken))
        with contextlib.closing(sqlite3.connect(tmp_path / "x.db", isolation_level=None)) as connection:
            with pytest.raises(SchemaMismatch, match="'more' is there already"):
                schema.migrate(connection)
            assert not connection.in_transaction
    assert objects(tmp_path / "x.db") == before
    await open_and_close(tmp_path / "x.db")


def open_in_processes(path):
    """Open a file in four processes at the same moment; return how they ended and what they said."""
    starting = [
        subprocess.Popen(
            [sys.executable, "-c", OPEN, str(path), f"queue-{number}"], stdin=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for number in range(4)
    ]
    for process in starting:
        process.stdin.write(b"go\n")
        process.stdin.flush()
    return [(process.communicate(timeout=PATIENCE_S)[1].decode(), process.returncode) for process in starting]


async def test_processes_that_open_a_new_file_at_once_all_succeed(tmp_path):
    path = tmp_path / "x.db"
    assert open_in_processes(path) == [("", 0)] * 4
    engine = SqliteEngine(path)
    await engine.open()
    assert [info.name for info in await engine.inspect()] == [f"queue-{number}" for number in range(4)]
    await engine.close()


async def test_redrives_tables_live_beside_the_users_whatever_they_are_called(tmp_path):
    theirs = ["queues", "messages", "bodies", "sessions", "seen_ids", "counters", "messages_place"]
    with contextlib.closing(sqlite3.connect(tmp_path / "app.db")) as connection:
        for name in theirs:
            connection.execute(f"CREATE TABLE {name} (mine)")
        connection.commit()
    engine = SqliteEngine(tmp_path / "app.db")
    await engine.open()
    await engine.declare("orders", QueueSettings())
    await engine.apply([Send("orders", Message(b"1", id="1"))])
    await engine.close()
    found = [name for _, name, _ in objects(tmp_path / "app.db")]
    ours = {name for name in found if not name.startswith(("redrive_", "sqlite_"))}
    assert ours == set(theirs)


def test_no_statement_names_a_table_without_its_prefix():
    """Such a statement would read a table of the user's."""
    word = re.compile(r"\b(FROM|INTO|UPDATE|JOIN|TABLE) (?!redrive_|sqlite_|pragma_|json_)([a-z]\w*)")
    files = [path for path in Path(schema.__file__).parent.glob("*.py") if path.name != "schema.py"]
    assert [(path.name, *found) for path in files for found in word.findall(path.read_text())] == []


@pytest.mark.parametrize("is_old", [False, True])
async def test_a_table_of_the_users_with_a_name_of_ours_is_an_error_that_says_what_to_do(tmp_path, is_old):
    path = tmp_path / "app.db"
    if is_old:
        make_old(path, PREFIX)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE redrive_sessions (mine)")
        connection.commit()
    before = plain_objects(path)
    with pytest.raises(SchemaMismatch, match="'redrive_sessions' is there already; if it is yours, rename it"):
        await open_and_close(path)
    assert [each for each in plain_objects(path) if each[1] != "redrive_migrations"] == [
        each for each in before if each[1] != "redrive_migrations"
    ]


# --- databases whose tables are not those that this Redrive makes


async def mismatch(path, *statements):
    await open_and_close(path)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)
    with pytest.raises(SchemaMismatch) as caught:
        await open_and_close(path)
    assert "unreleased version of Redrive" in str(caught.value)
    return caught.value.problem


async def test_a_column_that_is_missing_is_named_when_it_is_opened(tmp_path):
    problem = await mismatch(tmp_path / "x.db", "ALTER TABLE redrive_failures DROP COLUMN edited_as")
    assert problem == "table 'redrive_failures' has no column 'edited_as'"


async def test_a_table_that_is_missing_is_named_when_it_is_opened(tmp_path):
    assert await mismatch(tmp_path / "x.db", "DROP TABLE redrive_seen_ids") == "there is no 'redrive_seen_ids'"


async def test_an_index_that_is_missing_is_named_when_it_is_opened(tmp_path):
    assert await mismatch(tmp_path / "x.db", "DROP INDEX redrive_messages_due") == "there is no 'redrive_messages_due'"


async def test_migrations_with_other_names_are_told(tmp_path):
    renamed = "UPDATE redrive_migrations SET name = '0002_other' WHERE number = 2"
    assert "0001_messages, 0002_other" in await mismatch(tmp_path / "x.db", renamed)


async def test_a_migration_that_finds_its_tables_there_already_is_told(tmp_path):
    last = max(number for number, (_, script) in enumerate(schema.MIGRATIONS, 1) if script)
    forgotten = f"DELETE FROM redrive_migrations WHERE number >= {last}"  # noqa: S608 - a number
    assert re.search("'redrive_[a-z_]+' is there already", await mismatch(tmp_path / "x.db", forgotten))


async def test_a_table_that_was_written_in_another_way_is_fine(tmp_path):
    await open_and_close(tmp_path / "x.db")
    with contextlib.closing(sqlite3.connect(tmp_path / "x.db", isolation_level=None)) as connection:
        connection.execute("ALTER TABLE redrive_queues ADD COLUMN colour TEXT")
    await open_and_close(tmp_path / "x.db")
