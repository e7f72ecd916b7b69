# SPDX-License-Identifier: MIT
"""What is SQLite's own: how durable it is, what it leaves on the disk, and reading beside the writer."""

import asyncio
import sqlite3

import pytest

from redrive.broker import Broker, Cancel, Capabilities, Complete, Message, QueueSettings, Send
from redrive.clock import utc
from redrive.engines.sqlite import SqliteEngine
from redrive.engines.sqlite.rows import SMALL_BODY_BYTES
from redrive.errors import InvalidSetting, QueueNotFound, StorageDamaged, UsageError
from redrive.testing import ManualClock
from tests.patience import PATIENCE_S


@pytest.fixture
async def engine(tmp_path):
    engine = SqliteEngine(tmp_path / "queues.db", clock=ManualClock())
    await engine.open()
    await engine.declare("orders", QueueSettings())
    yield engine
    await engine.close()


def pragma(engine, name):
    return [part.execute(f"PRAGMA {name}").fetchone()[0] for part in (engine._store.connection, engine._reader)]


@pytest.mark.parametrize(("asked", "stored"), [("full", 2), ("normal", 1)])
async def test_it_is_as_durable_as_was_asked_for(tmp_path, asked, stored):
    engine = SqliteEngine(tmp_path / "queues.db", synchronous=asked)
    await engine.open()
    assert (pragma(engine, "synchronous")[0], pragma(engine, "journal_mode")) == (stored, ["wal", "wal"])
    await engine.close()


@pytest.mark.parametrize("wrong", ["off", "FULL", "", None, 1])
def test_another_durability_is_refused(wrong):
    with pytest.raises(InvalidSetting, match="synchronous"):
        SqliteEngine(":memory:", synchronous=wrong)


@pytest.mark.parametrize("path", ["a\0b", "\ud800", None, 5, ["x.db"]], ids=repr)
def test_a_path_that_no_file_has_is_refused(path):
    with pytest.raises(InvalidSetting, match="must be the path of a file"):
        SqliteEngine(path)


def test_a_sqlite_that_is_too_old_is_named(monkeypatch):
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 34, 1))
    with pytest.raises(UsageError, match=r"3\.35"):
        SqliteEngine(":memory:")


def test_it_can_do_everything():
    assert SqliteEngine(":memory:").capabilities == Capabilities()


async def test_a_closed_file_is_one_file(tmp_path):
    engine = SqliteEngine(tmp_path / "queues.db")
    await engine.open()
    await engine.declare("orders", QueueSettings())
    await engine.close()
    assert [path.name for path in tmp_path.iterdir()] == ["queues.db"]


async def test_bodies_go_with_their_messages(engine):
    large = bytes(SMALL_BODY_BYTES + 1)
    await engine.apply([Send("orders", Message(large, id=f"{number}", ttl=10)) for number in range(20)])
    held = await engine.lock_next("orders", 5)
    await engine.apply([Complete(one.lock) for one in held])
    await engine.lock_next("orders", 5, delete=True)
    engine._clock.advance(100)
    await engine.upkeep()
    (later,) = await engine.apply([Send("orders", Message(large, id="later"), utc(engine._clock.time() + 60))])
    await engine.apply([Cancel("orders", later)])
    assert engine._reader.execute("SELECT count(*) FROM redrive_bodies").fetchone() == (0,)
    await engine.apply([Send("orders", Message(large, id="last"))])
    await engine.delete("orders")
    for table in ("messages", "bodies", "sessions", "seen_ids"):
        assert engine._reader.execute(f"SELECT count(*) FROM redrive_{table}").fetchone() == (0,), table  # noqa: S608


async def test_a_body_is_in_its_row_as_long_as_it_is_small(engine):
    sizes = [0, 1, SMALL_BODY_BYTES, SMALL_BODY_BYTES + 1, 100_000]
    await engine.apply([Send("orders", Message(bytes(size), id=f"{size}")) for size in sizes])
    apart = engine._reader.execute("SELECT length(body) FROM redrive_bodies ORDER BY 1").fetchall()
    assert apart == [(SMALL_BODY_BYTES + 1,), (100_000,)]
    assert [len(one.body) for one in await engine.peek("orders", 10)] == sizes
    assert [len(one.body) for one in await engine.lock_next("orders", 10)] == sizes


async def test_a_message_whose_body_is_gone_is_damaged_and_not_passed_over(engine):
    await engine.apply([Send("orders", Message(bytes(100_000), id="large"))])
    engine._store.connection.execute("DELETE FROM redrive_bodies")
    with pytest.raises(StorageDamaged, match="message 1 in 'orders' is damaged"):
        await engine.lock_next("orders", 1)


async def test_the_disk_is_waited_for_unless_nothing_is_done_but_locking(engine):
    sync = {0: "off", 1: "normal", 2: "full"}
    seen = []

    async def note(awaited):
        found = await awaited
        seen.append(sync[pragma(engine, "synchronous")[0]])
        return found

    await note(engine.apply([Send("orders", Message(b"x", id=f"{number}")) for number in range(3)]))
    held = await note(engine.lock_next("orders", 1))
    await note(engine.apply([Complete(held[0].lock)]))
    await note(engine.lock_next("orders", 1))
    await note(engine.lock_next("orders", 1, delete=True))
    assert seen == ["full", "normal", "full", "normal", "full"]


async def test_a_lock_that_shares_a_transaction_with_a_send_waits_for_the_disk(engine):
    await engine.lock_next("orders", 1)
    await asyncio.gather(engine.lock_next("orders", 1), engine.apply([Send("orders", Message(b"x", id="one"))]))
    assert pragma(engine, "synchronous")[0] == 2


async def test_what_another_process_sends_is_not_numbered_again(engine, tmp_path):
    other = SqliteEngine(tmp_path / "queues.db", clock=engine._clock)
    await other.open()
    found = []
    for turn in range(6):
        found += await (other if turn % 2 else engine).apply([Send("orders", Message(b"x", id=f"{turn}"))])
    await other.close()
    assert found == [1, 2, 3, 4, 5, 6]


async def test_looking_while_others_work_never_shows_a_message_twice_or_not_at_all(engine):
    await engine.apply([Send("orders", Message(b"x", id=f"{number}")) for number in range(20)])
    done = False

    async def work():
        while not done:
            held = await engine.lock_next("orders", 20)
            await asyncio.gather(*(engine.apply([Send("orders", one.message), Complete(one.lock)]) for one in held))

    working = asyncio.create_task(work())
    for _ in range(150):
        seen = [each.id for each in await engine.peek("orders", 1_000)]
        assert sorted(seen, key=int) == [f"{number}" for number in range(20)]
        (info,) = await engine.inspect("orders")
        assert info.ready + info.locked == 20
    done = True
    await working


async def test_a_receive_costs_the_same_with_many_out_of_sight(engine):
    """Reads by index: neither what is scheduled nor what is locked is walked through."""
    plan = engine._reader.execute(
        "EXPLAIN QUERY PLAN SELECT * FROM redrive_messages m"
        " WHERE m.queue = 1 AND m.state = 0 ORDER BY m.sequence LIMIT 1"
    ).fetchall()
    assert ["messages_place" in row[3] and "TEMP" not in row[3] for row in plan] == [True]


async def test_many_callers_share_few_transactions(engine):
    commits = []
    engine._store.connection.set_trace_callback(lambda text: commits.append(text) if text == "COMMIT" else None)
    await asyncio.gather(*(engine.apply([Send("orders", Message(b"x", id=f"{n}"))]) for n in range(200)))
    assert len(commits) <= 3


async def test_a_send_is_on_the_disk_when_it_is_acknowledged(engine, tmp_path):
    await engine.apply([Send("orders", Message(b"x", id="1"))])
    other = sqlite3.connect(tmp_path / "queues.db")
    assert other.execute("SELECT id FROM redrive_messages").fetchall() == [("1",)]
    other.close()


async def test_one_look_sees_one_moment(engine, tmp_path):
    def read(reader):
        counts = []
        for _ in range(2):
            counts += reader.execute("SELECT count(*) FROM redrive_queues").fetchone()
            other = sqlite3.connect(tmp_path / "queues.db", isolation_level=None)
            other.execute("DELETE FROM redrive_queues")
            other.close()
        return counts

    assert await engine._read(read) == [2, 2]


# --- time


async def test_a_receive_notices_that_the_clock_was_set_back(engine):
    """And whatever begins a transaction: nobody waits for upkeep."""
    await engine.apply([Send("orders", Message(b"x", id="1"))])
    await engine.lock_next("orders", 1)
    engine._clock.jump(-3_600)
    assert await engine.lock_next("orders", 1) == []
    engine._clock.advance(60)
    assert [one.id for one in await engine.lock_next("orders", 1)] == ["1"]


async def test_locks_are_shortened_once_and_not_with_every_transaction(engine):
    seen = []
    engine._clock.jump(-3_600)
    engine._store.connection.set_trace_callback(lambda text: seen.append(text) if "SET due" in text else None)
    for number in range(5):
        await engine.apply([Send("orders", Message(b"x", id=f"{number}"))])
        with pytest.raises(QueueNotFound):  # a transaction that is undone
            await engine.apply([Send("nowhere", Message(b"x", id=f"{number}"))])
    assert len(seen) == 4, "two kinds of locks in two queues"


async def test_locks_are_shortened_again_if_the_transaction_that_did_it_was_undone(engine):
    await engine.apply([Send("orders", Message(b"x", id="1"))])
    await engine.lock_next("orders", 1)
    engine._clock.jump(-3_600)
    with pytest.raises(QueueNotFound):
        await engine.apply([Send("nowhere", Message(b"x", id="2"))])
    assert await engine.lock_next("orders", 1) == []
    engine._clock.advance(60)
    assert [one.id for one in await engine.lock_next("orders", 1)] == ["1"]


# --- waiting


async def test_nobody_waits_so_long_that_an_idle_queue_could_be_deleted(engine):
    await engine.declare("idle", QueueSettings(auto_delete_on_idle=60))
    waiting = asyncio.create_task(engine.wait("idle", 3_600))
    while not engine._clock.sleepers:
        await ManualClock(auto_advance=True).sleep_async(0)
    assert (engine._clock.slept, engine._hints.queues) == ([30], ["idle"])
    await engine.update("idle", QueueSettings(auto_delete_on_idle=10))
    async with asyncio.timeout(PATIENCE_S):
        await waiting  # it asks again, and waits by what holds now


@pytest.mark.parametrize("seed", range(0, 20, 2))
async def test_closing_under_receivers_that_wait_is_safe(tmp_path, seed):
    """What was open is not used while another thread closes it."""
    engine = SqliteEngine(tmp_path / "queues.db", clock=ManualClock())
    broker = Broker(engine, clock=engine._clock)
    await broker.open()
    await broker.declare("orders")
    waiting = [asyncio.create_task(broker.receive("orders", wait=60)) for _ in range(1 + seed % 4)]
    for _ in range(seed):
        await ManualClock(auto_advance=True).sleep_async(0)
    async with asyncio.timeout(PATIENCE_S):
        await broker.close()
        for left in await asyncio.gather(*waiting, return_exceptions=True):
            assert left == [] or isinstance(left, UsageError), left


async def steps(engine, call):
    """Return how many steps of its machine, in hundreds, SQLite takes for a call."""
    taken = []
    engine._store.connection.set_progress_handler(lambda: taken.append(1), 100)
    await call
    engine._store.connection.set_progress_handler(None, 0)
    return len(taken)


async def test_declaring_and_describing_a_queue_costs_the_same_among_thousands():
    async def costs(queues):
        engine = SqliteEngine(":memory:")
        await engine.open()
        for number in range(queues):
            await engine.declare(f"{number}", QueueSettings())
        declared = await steps(engine, engine.declare("new", QueueSettings()))
        described = await steps(engine, engine.inspect("7"))
        await engine.close()
        return declared + described

    assert await costs(3_000) <= 2 * max(1, await costs(30))
