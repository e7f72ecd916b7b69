# SPDX-License-Identifier: MIT
"""Whoever waits for a message hears of it at once, and costs next to nothing until then."""

import asyncio
import gc

import pytest

import redrive
from redrive.engines.postgres import engine as engine_module
from redrive.errors import EngineUnavailable
from tests.engines.postgres.breaking import ORDERS
from tests.http.site import until
from tests.patience import PATIENCE_S


@pytest.fixture
async def broker(postgres_url, emptied_schema):
    url = f"{postgres_url}{'&' if '?' in postgres_url else '?'}schema={emptied_schema}"
    async with redrive.connect(url) as broker:
        await broker.declare(ORDERS)
        yield broker


@pytest.fixture
def asked(broker, monkeypatch):
    """Counts how often the database is asked for messages."""
    calls = []
    lock_next = broker.engine.lock_next

    async def counted(*arguments, **settings):
        calls.append(1)
        return await lock_next(*arguments, **settings)

    monkeypatch.setattr(broker.engine, "lock_next", counted)
    return calls


@pytest.mark.parametrize("receivers", [1, 3])
async def test_an_idle_receiver_looks_once_a_second(broker, asked, receivers):
    await asyncio.gather(*(broker.receive(ORDERS, wait=1.5) for _ in range(receivers)))
    assert len(asked) <= 5 * receivers


async def test_a_receiver_is_told_by_another_process(broker, postgres_url, emptied_schema, monkeypatch):
    monkeypatch.setattr(engine_module, "_LOOK_EVERY_S", 3_600.0)  # so that nothing but the hint can wake it
    url = f"{postgres_url}{'&' if '?' in postgres_url else '?'}schema={emptied_schema}"
    async with redrive.connect(url) as other:
        receiving = asyncio.create_task(other.receive(ORDERS, wait=2 * PATIENCE_S))
        await asyncio.wait_for(other.engine._listener._heard.wait(), PATIENCE_S)
        await broker.send(ORDERS, b"wake up")
        (delivery,) = await asyncio.wait_for(receiving, PATIENCE_S)
        assert delivery.body == b"wake up"


async def test_listening_goes_on_after_an_unexpected_error(broker, monkeypatch, caplog):
    listener, errors = broker.engine._listener, [TypeError("a fault of ours")]
    listen = listener._listen_on

    async def failing(connection):
        if errors:
            raise errors.pop()
        await listen(connection)

    monkeypatch.setattr(listener, "_listen_on", failing)
    receiving = asyncio.create_task(broker.receive(ORDERS, wait=2 * PATIENCE_S))
    await asyncio.wait_for(listener._heard.wait(), PATIENCE_S)
    await broker.send(ORDERS, b"the end")
    await receiving
    assert "a fault of ours" in caplog.text


async def test_a_look_that_fails_when_its_receiver_has_left_is_no_traceback(broker, monkeypatch):
    """It is logged by asyncio if no one asks the task for its error, while a database is away."""
    began, fails, heard = asyncio.Event(), asyncio.Event(), []
    asyncio.get_running_loop().set_exception_handler(lambda _, told: heard.append(told))

    async def failing(*_):
        began.set()
        await fails.wait()
        raise EngineUnavailable("the database is away")

    monkeypatch.setattr(broker.engine._database, "read", failing)
    looking = asyncio.create_task(broker.engine._look([ORDERS]))
    await began.wait()
    looking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await looking
    monkeypatch.undo()
    fails.set()
    await until(lambda: not broker.engine._under_way)
    gc.collect()
    assert heard == []
