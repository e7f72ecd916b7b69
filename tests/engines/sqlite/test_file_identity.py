# SPDX-License-Identifier: MIT
"""A file that is deleted or replaced while it is open: nothing is acknowledged that nobody could find again."""

import asyncio
import os
import shutil

import pytest

from redrive.broker import Broker, Complete, Message, QueueSettings, Send
from redrive.engines.sqlite import SqliteEngine
from redrive.errors import StorageReplaced
from redrive.testing import ManualClock


@pytest.fixture
async def engine(tmp_path):
    engine = SqliteEngine(tmp_path / "queues.db", clock=ManualClock())
    await engine.open()
    await engine.declare("orders", QueueSettings())
    await engine.apply([Send("orders", Message(b"x", id="before"))])
    yield engine
    await engine.close()


def deleted(path):
    path.unlink()


def renamed(path):
    path.rename(path.with_name("old.db"))


def replaced(path):
    shutil.copy(path, path.with_name("copy.db"))
    path.with_name("copy.db").replace(path)


def folder_renamed(path):
    path.parent.rename(path.parent.with_name(f"{path.parent.name} before"))


every_way = pytest.mark.parametrize("change", [deleted, renamed, replaced, folder_renamed])


async def send(engine, name="after"):
    return await engine.apply([Send("orders", Message(b"x", id=name))])


@every_way
@pytest.mark.parametrize("company", [1, 5], ids=["alone", "in company"])
async def test_nothing_is_acknowledged_into_a_file_that_is_gone(engine, tmp_path, change, company):
    (held,) = await engine.lock_next("orders", 1)
    change(tmp_path / "queues.db")
    told = r"queues\.db was (deleted|replaced) while it was open.*put the right one in its place"
    for error in await asyncio.gather(*(send(engine, f"{n}") for n in range(company)), return_exceptions=True):
        assert isinstance(error, StorageReplaced)
    with pytest.raises(StorageReplaced, match=told):
        await engine.apply([Complete(held.lock)])
    with pytest.raises(StorageReplaced, match=told):
        await engine.lock_next("orders", 1, delete=True)
    with pytest.raises(StorageReplaced, match=told):
        await engine.upkeep()


async def test_a_log_that_is_deleted_is_noticed_by_upkeep(engine, tmp_path):
    (tmp_path / "queues.db-wal").unlink()
    with pytest.raises(StorageReplaced, match=r"queues\.db-wal was deleted"):
        await engine.upkeep()


async def test_opened_again_it_works_with_what_is_there(engine, tmp_path):
    deleted(tmp_path / "queues.db")
    with pytest.raises(StorageReplaced):
        await send(engine)
    await engine.close()
    for suffix in ("-wal", "-shm"):
        (tmp_path / f"queues.db{suffix}").unlink(missing_ok=True)
    await engine.open()
    await engine.declare("orders", QueueSettings())
    assert await send(engine) == [1]


async def test_ordinary_use_is_no_replacement(engine, tmp_path, monkeypatch):
    """Checkpoints, other processes that come and go, another working folder, and a folder that may not be seen."""
    other = SqliteEngine(tmp_path / "queues.db", clock=ManualClock())
    await other.open()
    await send(other)
    await other.close()
    engine._store.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    monkeypatch.chdir("/")
    await send(engine)
    await engine.upkeep()

    def forbidden(_path):
        raise PermissionError

    monkeypatch.setattr("redrive.engines.sqlite.file_identity.os.stat", forbidden)
    await send(engine)  # a file that may not be looked at may be the right one


async def test_a_relative_path_is_that_of_when_it_was_opened(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    engine = SqliteEngine("queues.db")
    await engine.open()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    await engine.declare("orders", QueueSettings())
    assert await send(engine) == [1]
    await engine.close()


async def test_a_link_is_followed(tmp_path):
    (tmp_path / "link.db").symlink_to(tmp_path / "real.db")
    async with Broker(SqliteEngine(tmp_path / "link.db")) as broker:
        await broker.declare("orders")
        await broker.send("orders", "one")
        (tmp_path / "link.db").unlink()
        (tmp_path / "link.db").symlink_to(tmp_path / "other.db")
        with pytest.raises(StorageReplaced):
            await broker.send("orders", "two")


async def test_memory_is_in_no_place():
    async with Broker(SqliteEngine(":memory:")) as broker:
        await broker.declare("orders")
        assert await broker.send("orders", "one") == 1


async def test_one_look_for_a_whole_group(engine, monkeypatch):
    looks = []
    stat = os.stat
    monkeypatch.setattr("redrive.engines.sqlite.file_identity.os.stat", lambda path: looks.append(path) or stat(path))
    await asyncio.gather(*(send(engine, f"{number}") for number in range(100)))
    assert len(looks) <= 2
