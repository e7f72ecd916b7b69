# SPDX-License-Identifier: MIT
"""Nothing is said not to be there because another transaction has its hand on it for a moment."""

import asyncio
from contextlib import asynccontextmanager

import asyncpg
import pytest

from redrive.broker import Broker, Complete, Message, QueueSettings, Send
from redrive.clock import utc
from redrive.testing import ManualClock
from tests.engines.postgres.breaking import ORDERS, message, opened
from tests.patience import PATIENCE_S

WAITS = "SELECT count(*) FROM pg_locks l WHERE NOT l.granted AND l.locktype IN ('transactionid', 'tuple')"


@pytest.fixture
async def clock():
    return ManualClock()


@pytest.fixture
async def engine(postgres_url, postgres_schema, clock):
    async with opened(postgres_url, schema=postgres_schema, clock=clock) as engine:
        await engine.declare(ORDERS, QueueSettings(lock_duration=10))
        await engine.declare("sessions", QueueSettings(lock_duration=10, requires_session=True))
        yield engine


@pytest.fixture
def broker(engine, clock):
    return Broker(engine, clock=clock)


@pytest.fixture
def held(postgres_url, postgres_schema):
    """Has its hand on all messages for a block, as upkeep has while it brings in what is due."""

    @asynccontextmanager
    async def hold(condition="true"):
        connection = await asyncpg.connect(postgres_url)
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute(f"SET search_path = {postgres_schema}")
        assert await connection.fetch(f"SELECT FROM messages WHERE {condition} FOR UPDATE")
        try:
            yield Holding(connection, transaction)
        finally:
            await connection.close()

    return hold


class Holding:
    """A transaction that has rows in its hands."""

    def __init__(self, connection, transaction):
        self.run = connection.execute
        self._fetch = connection.fetchval
        self._transaction = transaction

    async def waited_for(self, call):
        """Wait until somebody waits for it."""
        while not await self._fetch(WAITS):
            assert not call.done(), f"nobody waited: {call.result()}"

    async def let_go(self):
        await self._transaction.commit()


async def taken(call, holding):
    """Return what a call brings that comes while others have their hands on everything, and then let go."""
    calling = asyncio.create_task(call)
    await holding.waited_for(calling)
    await holding.let_go()
    return await calling


@pytest.mark.parametrize("delete", [False, True])
async def test_a_message_that_is_ready_is_received_when_its_holder_lets_go(engine, held, delete):
    await engine.apply([Send(ORDERS, message("one"))])
    async with held() as holding:
        found = await taken(engine.lock_next(ORDERS, 1, delete=delete), holding)
    assert [one.id for one in found] == ["one"]


async def test_a_message_whose_lock_has_ended_is_received_when_its_holder_lets_go(engine, held, clock):
    await engine.apply([Send(ORDERS, message("one"))])
    await engine.lock_next(ORDERS, 1)
    clock.advance(11)
    async with held() as holding:
        await holding.run("UPDATE messages SET state = 0, due = NULL, token = NULL")  # that is what upkeep does
        found = await taken(engine.lock_next(ORDERS, 1), holding)
    assert [(one.id, one.delivery_count) for one in found] == [("one", 2)]


async def test_a_message_that_has_come_due_is_received_when_its_holder_lets_go(engine, held, clock):
    await engine.apply([Send(ORDERS, message("one"), utc(clock.time() + 5))])
    clock.advance(6)
    async with held() as holding:
        found = await taken(engine.lock_next(ORDERS, 1), holding)
    assert [one.id for one in found] == ["one"]


async def test_a_message_that_its_holder_takes_is_not_there(engine, held):
    await engine.apply([Send(ORDERS, message("one"))])
    async with held() as holding:
        await holding.run("DELETE FROM messages")
        assert await taken(engine.lock_next(ORDERS, 1), holding) == []


async def test_a_session_is_found_when_the_holder_of_its_message_lets_go(engine, held, clock):
    await engine.apply([Send("sessions", Message(b"", id="one", session_id="a"), utc(clock.time() + 5))])
    clock.advance(6)
    async with held() as holding:
        session = await taken(engine.lock_session("sessions", None), holding)
    assert session.session_id == "a"


async def test_a_message_of_a_session_is_received_when_its_holder_lets_go(engine, held):
    await engine.apply([Send("sessions", Message(b"", id="one", session_id="a"))])
    session = await engine.lock_session("sessions", "a")
    async with held() as holding:
        found = await taken(engine.lock_in_session(session, 1), holding)
    assert [one.id for one in found] == ["one"]


async def test_a_session_keeps_its_order_while_others_have_a_message_of_it_in_hand(engine, held):
    await engine.apply([Send("sessions", Message(b"", id=f"{number}", session_id="a")) for number in range(3)])
    session = await engine.lock_session("sessions", "a")
    async with held("id = '0'") as holding:
        found = await taken(engine.lock_in_session(session, 2), holding)
    assert [one.id for one in found] == ["0", "1"]


async def test_a_session_that_had_to_be_waited_for_is_held_for_a_whole_duration(postgres_url, postgres_schema, engine):
    """Counted from before the wait, its lock would seem to have begun while the one before it was still good."""
    session = await engine.lock_session("sessions", "a")
    async with opened(postgres_url, schema=postgres_schema) as other:  # by the database's clock, which is far ahead
        connection = await asyncpg.connect(postgres_url)
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute(f"SELECT FROM {postgres_schema}.sessions WHERE session = 'a' FOR UPDATE")
        accepting = asyncio.create_task(other.lock_session("sessions", "a"))
        await Holding(connection, transaction).waited_for(accepting)
        freed_at = await connection.fetchval("SELECT extract(epoch FROM clock_timestamp())::float8")
        await transaction.commit()
        await connection.close()
        accepted = await accepting
    assert accepted.token != session.token
    assert accepted.locked_until.timestamp() > freed_at + 10 - 1e-5


@pytest.mark.parametrize("verb", ["purge", "resubmit", "messages"])
async def test_verbs_for_many_do_not_end_before_all_is_done(broker, engine, held, verb):
    source = f"{ORDERS}/$dead" if verb == "resubmit" else ORDERS
    await engine.apply([Send(source, message(f"{number}")) for number in range(7)])

    async def count_all():
        return len([one async for one in broker.messages(ORDERS)])

    async with held("id IN ('3', '6')") as holding:
        done = await taken(count_all() if verb == "messages" else getattr(broker, verb)(ORDERS), holding)
    assert done == 7


async def test_nobody_waits_long_for_a_transaction_that_has_a_message_for_good_reason(engine, postgres_url, clock):
    """Somebody's own transaction completes it, and takes so long that the lock ends meanwhile."""
    await engine.apply([Send(ORDERS, message("one")), Send(ORDERS, message("two"))])
    (one, two) = await engine.lock_next(ORDERS, 2)
    connection = await asyncpg.connect(postgres_url)
    async with connection.transaction():
        await engine.apply_within([Complete(one.lock)], connection)
        await engine.apply([Complete(two.lock)])
        clock.advance(11)
        async with asyncio.timeout(PATIENCE_S):
            assert await engine.lock_next(ORDERS, 1) == []
        assert (await engine.apply([Send(ORDERS, message("three"))]))[0] is not None
        (found,) = await engine.lock_next(ORDERS, 1)
        assert found.id == "three"
    await connection.close()


async def test_one_who_waits_for_a_holder_does_not_hold_up_the_others(engine, held):
    await engine.apply([Send(ORDERS, message("held"))])
    async with held() as holding:
        waiting = [asyncio.create_task(engine.lock_next(ORDERS, 1)) for _ in range(20)]
        await holding.waited_for(waiting[0])
        (number,) = await engine.apply([Send("sessions", Message(b"", id="other", session_id="a"))])
        assert number is not None
        await holding.let_go()
        assert sorted(len(each) for each in await asyncio.gather(*waiting)) == [0] * 19 + [1]


async def test_what_others_release_while_vacuum_is_held_back_is_found_though_its_number_is_lower(engine, clock):
    await engine.apply([Send(ORDERS, message("old"))])
    (old,) = await engine.lock_next(ORDERS, 1)
    engine._tidying.is_held_back = True
    assert await engine.lock_next(ORDERS, 1) == []  # a look from the beginning, which is not due again for a second
    engine._tidying.note_heads({await engine._number(ORDERS): old.sequence + 5_000}, clock.monotonic())
    release = "UPDATE @.messages SET state = 0, due = NULL, token = NULL WHERE sequence = $1"
    await engine._database.read(release, old.sequence)
    assert [one.id for one in await engine.lock_next(ORDERS, 1)] == ["old"]


# --- what comes due while it is being looked for


async def test_a_message_that_comes_due_while_it_is_looked_for_is_not_found_later_by_as_much(
    engine, broker, clock, monkeypatch
):
    await engine.apply([Send(ORDERS, message("one"), utc(clock.time() + 0.5))])
    engine._looked_at = clock.monotonic()  # it is not yet time to look whether others have done something
    read, looks = engine._database.read, []

    async def slowly(statement, *values):
        found = await read(statement, *values)
        if "min(w.left)" in statement and not looks:
            looks.append(1)
            clock.advance(0.5)
        return found

    monkeypatch.setattr(engine._database, "read", slowly)
    receiving = asyncio.create_task(broker.receive(ORDERS, wait=60))
    done, _ = await asyncio.wait([receiving], timeout=PATIENCE_S)
    assert done, "it waits as if the time that looking took were still to come"
    assert [one.id for one in await receiving] == ["one"]
