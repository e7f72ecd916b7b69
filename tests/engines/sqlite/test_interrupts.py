# SPDX-License-Identifier: MIT
"""Whatever is raised while a group is written, everybody gets an answer, and the engine goes on."""

import asyncio
import sqlite3

import pytest

from redrive.broker import Message, QueueSettings, Send
from redrive.engines.sqlite import SqliteEngine
from redrive.errors import EngineUnavailable
from redrive.testing import ManualClock
from tests.patience import PATIENCE_S


class Interrupt(BaseException):
    """What no ``except Exception`` catches."""


KINDS = [
    Interrupt,
    KeyboardInterrupt,
    SystemExit,
    GeneratorExit,
    MemoryError,
    asyncio.CancelledError,
    asyncio.InvalidStateError,
    StopIteration,
    ZeroDivisionError,
]
every_kind = pytest.mark.parametrize("kind", KINDS)
places = pytest.mark.parametrize("company", [0, 5], ids=["alone", "in company"])


@pytest.fixture
async def engine(tmp_path):
    engine = SqliteEngine(tmp_path / "queues.db", clock=ManualClock())
    await engine.open()
    await engine.declare("orders", QueueSettings())
    yield engine
    async with asyncio.timeout(PATIENCE_S):
        await engine.close()


def raising(kind):
    def inside(connection):
        connection.execute("CREATE TABLE IF NOT EXISTS theirs (x)")
        raise kind("on purpose")

    return inside


async def outcome(awaited):
    """Return what became of a call; tasks do not keep ``SystemExit`` to themselves."""
    try:
        return await awaited
    except BaseException as error:  # noqa: BLE001 - that is what is looked at
        return error


async def send(engine, name):
    return await engine.apply([Send("orders", Message(b"x", id=name))])


async def ids(engine):
    return [seen.id for seen in await engine.peek("orders", 100)]


def is_that(error, kind):
    # a coroutine cannot raise StopIteration: Python makes it a RuntimeError
    return isinstance(error, RuntimeError) if kind is StopIteration else type(error) is kind


@every_kind
@places
async def test_what_a_users_part_raises_is_its_callers_alone(engine, kind, company):
    async with asyncio.timeout(PATIENCE_S):
        theirs = outcome(engine.apply_inside([Send("orders", Message(b"x", id="undone"))], raising(kind)))
        others = [outcome(send(engine, f"{number}")) for number in range(company)]
        error, *sent = await asyncio.gather(theirs, *others)
        assert is_that(error, kind), error
        assert sent == [[number + 1] for number in range(company)]
        assert isinstance(await send(engine, "after"), list)
        assert await ids(engine) == [*(f"{number}" for number in range(company)), "after"]
        assert engine._reader.execute("SELECT count(*) FROM sqlite_master WHERE name = 'theirs'").fetchone() == (0,)


@every_kind
async def test_a_caller_who_has_been_alone_before_gets_it_too(engine, kind):
    async with asyncio.timeout(PATIENCE_S):
        await send(engine, "before")
        assert is_that(
            await outcome(engine.apply_inside([Send("orders", Message(b"x", id="undone"))], raising(kind))), kind
        )
        await send(engine, "after")
        assert await ids(engine) == ["before", "after"]


@every_kind
@places
@pytest.mark.parametrize("verb", ["run", "look"])
async def test_what_a_script_raises_is_its_callers_alone(engine, kind, verb, company):
    def script():
        yield from ()
        raise kind("on purpose")

    async with asyncio.timeout(PATIENCE_S):
        theirs = outcome(getattr(engine, verb)(script))
        error, *sent = await asyncio.gather(theirs, *(outcome(send(engine, f"{n}")) for n in range(company)))
        assert is_that(error, kind), error
        assert sent == [[number + 1] for number in range(company)]
        await send(engine, "after")
        assert len(await ids(engine)) == company + 1


@places
async def test_a_users_part_that_ends_the_transaction_ends_nobody_elses_program(engine, company):
    """It must not commit. If it does, others are told that it is unknown what became of theirs."""

    def commit_and_leave(connection):
        connection.execute("COMMIT")
        raise SystemExit(1)

    async with asyncio.timeout(PATIENCE_S):
        theirs = outcome(engine.apply_inside([], commit_and_leave))
        error, *sent = await asyncio.gather(theirs, *(outcome(send(engine, f"{n}")) for n in range(company)))
        assert isinstance(error, SystemExit)
        assert all(isinstance(each, EngineUnavailable | list) for each in sent), sent
        await send(engine, "after")


@pytest.mark.parametrize("kind", [Interrupt, SystemExit, ZeroDivisionError])
@places
async def test_an_interrupt_in_the_engine_itself_is_told_to_everybody(engine, monkeypatch, kind, company):
    def fail(*_):
        raise kind("on purpose")

    async with asyncio.timeout(PATIENCE_S):
        with monkeypatch.context() as patch:
            patch.setattr(engine._store, "begin", fail)
            errors = await asyncio.gather(*(outcome(send(engine, f"{number}")) for number in range(company + 1)))
        assert [type(error) for error in errors] == [kind] * (company + 1)
        assert await send(engine, "after") == [1]
        assert not engine._store.connection.in_transaction


async def test_a_thread_that_cannot_be_started_is_told_to_everybody(engine, monkeypatch):
    def fail(_thread):
        raise RuntimeError("can't start new thread")

    async with asyncio.timeout(PATIENCE_S):
        with monkeypatch.context() as patch:
            patch.setattr("redrive.engines.sqlite.group_commit.Thread.start", fail)
            errors = await asyncio.gather(*(outcome(send(engine, f"{number}")) for number in range(3)))
        assert [type(error) for error in errors] == [EngineUnavailable] * 3
        assert await asyncio.gather(*(send(engine, f"{number}") for number in range(3))) == [[1], [2], [3]]


async def test_a_part_that_raises_leaves_no_numbers_behind(engine, tmp_path):
    for kind in KINDS:
        await outcome(engine.apply_inside([Send("orders", Message(b"x", id="undone"))], raising(kind)))
    await send(engine, "kept")
    with sqlite3.connect(tmp_path / "queues.db") as other:
        assert other.execute("SELECT id FROM redrive_messages").fetchall() == [("kept",)]
