# SPDX-License-Identifier: MIT
"""Broken files, full disks, locked databases: a named error that says what to do, and nothing acknowledged is lost."""

import asyncio
import contextlib
import shutil
import sqlite3
import subprocess
from random import Random

import pytest

from redrive.broker import Abandon, Complete, Defer, Message, QueueSettings, Send
from redrive.engines.sqlite import SqliteEngine, errors
from redrive.errors import (
    EngineBusy,
    EngineUnavailable,
    RedriveError,
    StorageDamaged,
    StorageFull,
    StorageReadOnly,
)
from redrive.testing import ManualClock
from tests.patience import PATIENCE_S


def message(number=0, size=10):
    return Message(b"x" * size, id=f"{number}")


@contextlib.asynccontextmanager
async def opened(path, **settings):
    engine = SqliteEngine(path, **settings)
    await engine.open()
    try:
        yield engine
    finally:
        await engine.close()


@contextlib.asynccontextmanager
async def queue_in(path, **settings):
    async with opened(path, **settings) as engine:
        await engine.declare("orders", QueueSettings())
        yield engine


async def ids(engine):
    return [seen.id for seen in await engine.peek("orders", 100_000)]


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (sqlite3.SQLITE_BUSY, EngineBusy),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, EngineBusy),
        (sqlite3.SQLITE_LOCKED, EngineBusy),
        (sqlite3.SQLITE_FULL, StorageFull),
        (sqlite3.SQLITE_CORRUPT, StorageDamaged),
        (sqlite3.SQLITE_CORRUPT_INDEX, StorageDamaged),
        (sqlite3.SQLITE_NOTADB, StorageDamaged),
        (sqlite3.SQLITE_READONLY, StorageReadOnly),
        (sqlite3.SQLITE_READONLY_DBMOVED, StorageReadOnly),
        (sqlite3.SQLITE_CANTOPEN, StorageReadOnly),
        (sqlite3.SQLITE_PERM, StorageReadOnly),
        (sqlite3.SQLITE_IOERR, EngineUnavailable),
        (sqlite3.SQLITE_NOMEM, EngineUnavailable),
        (None, EngineUnavailable),
    ],
)
def test_every_error_of_sqlite_has_a_name_of_ours(code, kind):
    error = sqlite3.OperationalError("what sqlite says")
    if code is not None:
        error.sqlite_errorcode = code
    ours = errors.translated(error, "queues.db")
    assert type(ours) is kind
    assert "queues.db" in str(ours)
    assert "what sqlite says" in str(ours)


# --- files that are not what they should be


@pytest.mark.parametrize(
    "content",
    [
        b"this is a letter to my mother, and no database\n" * 100,
        b"\x00" * 8_192,
        b"SQLite format 3\x00" + b"\xab" * 9_000,
    ],
    ids=["a letter", "zeros", "a header and noise"],
)
async def test_a_file_that_is_no_database_is_named_and_left_alone(tmp_path, content):
    path = tmp_path / "queues.db"
    path.write_bytes(content)
    with pytest.raises(StorageDamaged, match=r"queues\.db"):
        await SqliteEngine(path).open()
    assert path.read_bytes() == content


async def test_an_empty_file_is_a_new_database(tmp_path):
    (tmp_path / "queues.db").touch()
    async with queue_in(tmp_path / "queues.db") as engine:
        await engine.apply([Send("orders", message())])


@pytest.mark.parametrize("place", ["missing folder", "a folder"])
async def test_a_place_where_no_file_can_be_is_named(tmp_path, place):
    path = tmp_path if place == "a folder" else tmp_path / "missing" / "queues.db"
    with pytest.raises(StorageReadOnly, match="folder"):
        await SqliteEngine(path).open()


async def test_an_engine_that_could_not_open_can_be_closed_and_opened_later(tmp_path):
    engine = SqliteEngine(tmp_path / "later" / "queues.db")
    with pytest.raises(StorageReadOnly):
        await engine.open()
    await engine.close()
    (tmp_path / "later").mkdir()
    await engine.open()
    await engine.declare("orders", QueueSettings())
    await engine.close()


async def damaged_file(path, seed):
    """Fill a database, close it, and damage it in a way that depends on the seed."""
    async with queue_in(path, synchronous="normal", clock=ManualClock()) as engine:
        await engine.apply([Send("orders", message(number, 300)) for number in range(200)])
    content, random = bytearray(path.read_bytes()), Random(seed)
    if seed % 3 == 0:
        del content[random.randrange(512, len(content)) :]
    else:
        for _ in range(random.choice([1, 20, 2_000])):
            content[random.randrange(100 if seed % 3 == 1 else 0, len(content))] = random.randrange(256)
    path.write_bytes(content)


@pytest.mark.parametrize("seed", range(40))
async def test_a_damaged_file_raises_our_errors_only(tmp_path, seed):
    path = tmp_path / "queues.db"
    await damaged_file(path, seed)
    engine = SqliteEngine(path, clock=ManualClock())
    with contextlib.suppress(RedriveError):
        await engine.open()
    for _ in range(3):
        for call in (
            lambda: engine.apply([Send("orders", message())]),
            lambda: engine.lock_next("orders", 50),
            lambda: engine.peek("orders", 500),
            engine.inspect,
            engine.upkeep,
            lambda: engine.lock_next("orders", 50, delete=True),
        ):
            with contextlib.suppress(RedriveError):
                await call()
    await engine.close()


async def test_damage_in_the_middle_is_named(tmp_path):
    path = tmp_path / "queues.db"
    async with queue_in(path) as engine:
        await engine.apply([Send("orders", message(number, 3_000)) for number in range(100)])
    content = bytearray(path.read_bytes())
    content[8_192:] = b"\xab" * (len(content) - 8_192)
    path.write_bytes(content)
    with pytest.raises(StorageDamaged, match="backup"):
        async with opened(path) as engine:
            await engine.peek("orders", 1_000)


# --- what cannot be written


class ReadOnly(SqliteEngine):
    """An engine whose connections refuse to write, as those to a read-only file do."""

    def _new_connection(self):
        connection = super()._new_connection()
        connection.execute("PRAGMA query_only = ON")
        return connection


async def test_what_cannot_be_written_can_still_be_read(tmp_path):
    async with queue_in(tmp_path / "queues.db") as engine:
        await engine.apply([Send("orders", message(7))])
        reader = ReadOnly(tmp_path / "queues.db")
        with pytest.raises(StorageReadOnly, match="permissions"):
            await reader.open()
        await reader.close()
        engine._store.connection.execute("PRAGMA query_only = ON")
        with pytest.raises(StorageReadOnly):
            await engine.apply([Send("orders", message(8))])
        assert await ids(engine) == ["7"]


def mount(*arguments):
    """Mount something, or skip: this needs root, and a system that lets root do it."""
    mounting = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)  # noqa: S607
    if mounting.returncode:
        pytest.skip(f"cannot mount here: {mounting.stderr.strip()}")


def unmount(folder):
    subprocess.run(["umount", "--lazy", str(folder)], check=True)  # noqa: S607


async def test_a_read_only_folder_is_named(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    async with queue_in(folder / "queues.db"):
        pass
    mount("-t", "tmpfs", "-o", "size=4m", "none", str(folder))
    try:
        async with queue_in(folder / "queues.db"):
            pass
        mount("-o", "remount,ro", str(folder))
        with pytest.raises(StorageReadOnly, match=r"permissions|writable"):
            await SqliteEngine(folder / "queues.db").open()
    finally:
        unmount(folder)


# --- a full disk


async def test_a_full_disk_is_named_loses_nothing_and_works_again_after(tmp_path):
    async with queue_in(tmp_path / "queues.db") as engine:
        pages = engine._store.connection.execute("PRAGMA page_count").fetchone()[0]
        engine._store.connection.execute(f"PRAGMA max_page_count = {pages + 30}")
        sent = []

        async def fill():
            for number in range(1_000):
                await engine.apply([Send("orders", message(number, 1_000))])
                sent.append(f"{number}")

        with pytest.raises(StorageFull, match="free some space"):
            await fill()
        assert sent
        assert await ids(engine) == sent
        taken = await engine.lock_next("orders", 10, delete=True)
        await engine.apply([Send("orders", message(5_000))])
        assert await ids(engine) == [*sent[len(taken) :], "5000"]
        engine._store.connection.execute("PRAGMA max_page_count = 1000000")
        await engine.apply([Send("orders", message(number, 1_000)) for number in range(6_000, 6_100)])
    async with opened(tmp_path / "queues.db") as again:
        assert (await ids(again))[: len(sent)] == [*sent[len(taken) :], "5000", *map(str, range(6_000, 6_009))]


async def test_on_a_full_disk_each_of_a_group_hears_of_it(tmp_path):
    async with queue_in(tmp_path / "queues.db") as engine:
        pages = engine._store.connection.execute("PRAGMA page_count").fetchone()[0]
        engine._store.connection.execute(f"PRAGMA max_page_count = {pages + 5}")
        calls = [engine.apply([Send("orders", message(number, 5_000))]) for number in range(20)]
        results = await asyncio.gather(*calls, return_exceptions=True)
        kept = [f"{number}" for number, result in enumerate(results) if not isinstance(result, Exception)]
        assert {type(result) for result in results if isinstance(result, Exception)} == {StorageFull}
        assert await ids(engine) == kept


# --- others who hold the lock


@pytest.fixture
def holder(tmp_path):
    connection = sqlite3.connect(tmp_path / "queues.db", isolation_level=None, check_same_thread=False)
    yield connection
    connection.close()


async def test_a_lock_that_is_never_given_back_is_named_after_the_wait(tmp_path, holder):
    clock = ManualClock()
    async with queue_in(tmp_path / "queues.db", clock=clock, chance=lambda: 1.0) as engine:
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(EngineBusy, match="another process"):
            await engine.apply([Send("orders", message(1))])
        assert 30 < clock.monotonic() < 31
        holder.execute("ROLLBACK")
        await engine.apply([Send("orders", message(2))])
        assert await ids(engine) == ["2"]


async def test_a_lock_that_is_given_back_in_time_is_waited_for(tmp_path, holder):
    clock, asked = ManualClock(), []

    def chance():
        asked.append(1)
        if len(asked) == 100:
            holder.execute("ROLLBACK")
        return 0.5

    async with queue_in(tmp_path / "queues.db", clock=clock, chance=chance) as engine:
        holder.execute("BEGIN IMMEDIATE")
        await engine.apply([Send("orders", message(1))])
        assert await ids(engine) == ["1"]
    assert clock.slept == [pytest.approx(0.00105)] * 100


async def test_reading_does_not_wait_for_whoever_writes(tmp_path, holder):
    clock = ManualClock()
    async with queue_in(tmp_path / "queues.db", clock=clock) as engine:
        await engine.apply([Send("orders", message(1))])
        holder.execute("BEGIN IMMEDIATE")
        assert await ids(engine) == ["1"]
        assert (await engine.inspect())[0].ready == 1
        assert clock.slept == []
        holder.execute("ROLLBACK")


# --- faults at every statement


class Faulty:
    """A connection that fails at its n-th statement, and at every one of those that match after it."""

    def __init__(self, connection, at, code, also=()):
        self.connection, self.left, self.code, self.also = connection, at, code, also
        self.has_failed = False

    def __getattr__(self, name):
        return getattr(self.connection, name)

    def _count(self, statement):
        self.left -= 1
        if self.left == 0 or (self.has_failed and statement in self.also):
            self.has_failed = True
            error = sqlite3.OperationalError(f"a fault at: {statement[:30]}")
            error.sqlite_errorcode = self.code
            raise error

    def execute(self, statement, *arguments):
        self._count(statement)
        return self.connection.execute(statement, *arguments)

    def executemany(self, statement, *arguments):
        self._count(statement)
        return self.connection.executemany(statement, *arguments)


async def one_fault(engine, faulty):
    """Let three callers run into a fault; see that each was done as a whole or not at all."""
    await engine.apply([Send("orders", message(number)) for number in range(4)])
    one, two, three = await engine.lock_next("orders", 3)
    whole, engine._store.connection = engine._store.connection, faulty
    results = await asyncio.wait_for(
        asyncio.gather(
            engine.apply([Complete(one.lock), Abandon(two.lock), Defer(three.lock), Send("orders", message(9))]),
            engine.apply([Send("orders", message(8))]),
            engine.upkeep(),
            return_exceptions=True,
        ),
        PATIENCE_S,
    )
    engine._store.connection = whole
    failures = [result for result in results if isinstance(result, Exception)]
    assert [error for error in failures if not isinstance(error, EngineUnavailable)] == []
    seen = {each.id: each.state.name for each in await engine.peek("orders", 100)}
    before = {"0": "LOCKED", "1": "LOCKED", "2": "LOCKED", "3": "READY"}
    after = {"1": "READY", "2": "DEFERRED", "3": "READY", "9": "READY"}
    expected = before if isinstance(results[0], Exception) else after
    assert seen == expected | ({} if isinstance(results[1], Exception) else {"8": "READY"})


@pytest.mark.parametrize("also", [(), ("ROLLBACK",), ("ROLLBACK TO alone", "ROLLBACK TO together")])
@pytest.mark.parametrize("code", [sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_ERROR])
async def test_a_fault_at_any_statement_undoes_everything_or_nothing(tmp_path, code, also):
    async with opened(tmp_path / "queues.db", synchronous="normal", clock=ManualClock()) as engine:
        at, has_failed = 0, True
        while has_failed:
            at += 1
            await engine.declare("orders", QueueSettings())
            faulty = Faulty(engine._store.connection, at, code, also)
            await one_fault(engine, faulty)
            has_failed = faulty.has_failed
            await engine.delete("orders")
        assert at > 10


async def test_a_fault_while_opening_leaves_nothing_open(tmp_path, monkeypatch):
    opened_connections = []
    connect = sqlite3.connect

    def remember(*arguments, **settings):
        opened_connections.append(connect(*arguments, **settings))
        return opened_connections[-1]

    monkeypatch.setattr(sqlite3, "connect", remember)
    (tmp_path / "queues.db").write_bytes(b"no database" * 1_000)
    with pytest.raises(StorageDamaged):
        await SqliteEngine(tmp_path / "queues.db").open()
    assert opened_connections
    for connection in opened_connections:
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            connection.execute("SELECT 1")


async def test_a_file_taken_away_under_the_engine_is_no_driver_error(tmp_path):
    (tmp_path / "in").mkdir()
    async with queue_in(tmp_path / "in" / "queues.db") as engine:
        await engine.apply([Send("orders", message(1))])
        shutil.rmtree(tmp_path / "in")
        for call in (
            engine.apply([Send("orders", message(2))]),
            engine.peek("orders", 1),
            engine.lock_next("orders", 1),
        ):
            with contextlib.suppress(RedriveError):
                await call
