# SPDX-License-Identifier: MIT
"""What only some engines can do is asked of them before any work is done."""

import pytest

from redrive import open_recovery
from redrive.broker import Broker, Cancel, Defer, Lock, Message, Send, SessionLock, SetSessionState
from redrive.broker.port import (
    Browsing,
    Choosing,
    Database,
    Deferral,
    Engine,
    Maintenance,
    OpenTransactions,
    Sessions,
    StoredMessages,
    find_ability,
)
from redrive.broker.retry_engine import retrying
from redrive.clock import utc
from redrive.engines.sqlite import SqliteEngine
from redrive.errors import InvalidSetting, NotSupported
from redrive.retry import Fixed
from redrive.testing import ManualClock
from tests.conformance.core_engine import VERBS, CoreEngine

ABILITIES = (Sessions, Deferral, Choosing, Browsing, StoredMessages, Maintenance, Database, OpenTransactions)
LOCK = Lock("orders", 1, 1)
SESSION = SessionLock("orders", "a", 1, utc(0.0))


@pytest.fixture
async def engine():
    return CoreEngine(SqliteEngine(":memory:", clock=ManualClock()))


@pytest.fixture
async def broker(engine):
    async with Broker(engine, clock=ManualClock()) as broker:
        await broker.declare("orders")
        engine.calls.clear()
        yield broker


def abilities(engine):
    return {each for each in ABILITIES if find_ability(engine, each) is not None}


def test_the_core_is_small():
    assert len(VERBS) == 12, "ten verbs, its name and its capabilities"


def test_an_engine_has_an_ability_by_having_its_verbs():
    sqlite = SqliteEngine(":memory:")
    assert abilities(sqlite) == set(ABILITIES) - {OpenTransactions}
    assert abilities(CoreEngine(sqlite)) == set()


def test_retries_around_an_engine_add_no_ability():
    sqlite = SqliteEngine(":memory:")
    for engine in (sqlite, CoreEngine(sqlite)):
        wrapped = retrying(engine, Fixed(1), ManualClock())
        assert abilities(wrapped) == abilities(engine)
        assert (wrapped.name, wrapped.capabilities) == (engine.name, engine.capabilities)
        assert all(hasattr(wrapped, verb) for verb in vars(Engine) if not verb.startswith("_"))


CALLS = {
    "sessions": lambda broker: broker.accept_session("orders"),
    "sessions of a queue": lambda broker: broker.declare("talks", requires_session=True),
    "session state": lambda broker: broker.apply(SetSessionState(SESSION, b"")),
    "deferred": lambda broker: broker.receive_deferred("orders", [1]),
    "deferring": lambda broker: broker.apply(Send("orders", Message(b"")), Defer(LOCK)),
    "peek": lambda broker: broker.peek("orders"),
    "cancel": lambda broker: broker.cancel("orders", 1),
    "duplicates": lambda broker: broker.declare("once", duplicate_detection=60),
    "inside": lambda broker: broker.apply(Send("orders", Message(b"")), inside=print),
    "within": lambda broker: broker.apply(Send("orders", Message(b"")), within=object()),
}


@pytest.mark.parametrize("what", CALLS)
async def test_what_an_engine_cannot_do_is_refused_before_any_of_it_is_done(broker, engine, what):
    with pytest.raises(NotSupported, match=r"^Core does not support .*docs/reference/engines.md") as caught:
        await CALLS[what](broker)
    assert (caught.value.engine, caught.value.code) == ("Core", "not-supported")
    assert engine.calls == []


async def test_a_delivery_says_what_its_engine_cannot_do_and_stays_yours(broker):
    await broker.send("orders", b"1")
    (delivery,) = await broker.receive("orders")
    for call in (delivery.defer, lambda: delivery.complete(Cancel("orders", 7))):
        with pytest.raises(NotSupported):
            await call()
    await delivery.complete()
    assert (await broker.inspect("orders")).ready == 0


async def test_the_core_is_enough_to_send_receive_purge_and_resubmit(broker):
    await broker.send_many("orders", ["1", "2"])
    for delivery in await broker.receive("orders", max_messages=2):
        await delivery.dead_letter("broken")
    (held,) = await broker.receive("orders/$dead")
    resubmitted = await broker.resubmit("orders")
    assert (resubmitted, resubmitted.locked, resubmitted.locked_until) == (1, 1, None)
    await held.complete()
    assert await broker.purge("orders") == 1


async def test_recovery_needs_a_store_where_the_queues_are_in_no_database(broker, tmp_path):
    with pytest.raises(InvalidSetting, match="store="):
        open_recovery(broker)
    open_recovery(broker, f"sqlite:///{tmp_path / 'store.db'}")
