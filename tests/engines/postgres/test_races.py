# SPDX-License-Identifier: MIT
"""Two processes at the same time, callers who leave, and a program that ends: what each of them must not spoil."""

import asyncio
import contextlib
import hashlib

import asyncpg
import pytest

from redrive.broker import Message, QueueSettings, Send
from redrive.clock import utc
from redrive.engines.sql.script import Together, now
from redrive.errors import QueueNotFound, UsageError
from redrive.testing import ManualClock
from tests.engines.postgres.breaking import ORDERS, UNAVAILABLE, message, opened, outcome, until_it_answers
from tests.patience import PATIENCE_S


@pytest.fixture
async def clock():
    return ManualClock()


@pytest.fixture
async def ours(postgres_url, emptied_schema, clock):
    async with opened(postgres_url, schema=emptied_schema, clock=clock) as engine:
        yield engine


@pytest.fixture
async def theirs(postgres_url, emptied_schema, clock, ours):  # noqa: ARG001 - after ours
    async with opened(postgres_url, schema=emptied_schema, clock=clock) as engine:
        yield engine


async def test_a_send_that_was_tried_twice_is_a_use_of_its_queue_too(ours, theirs, clock):
    await ours.declare(ORDERS, QueueSettings(auto_delete_on_idle=10))
    await ours.lock_next(ORDERS, 1)
    clock.advance(10.9)
    await theirs.update(ORDERS, QueueSettings(auto_delete_on_idle=10, lock_duration=5))  # ours has to try again
    await ours.apply([Send(ORDERS, message("one"))])
    clock.advance(0.2)
    assert (await theirs.upkeep()).queues_deleted == 0
    assert (await theirs.inspect(ORDERS))[0].ready == 1


async def test_a_window_that_is_being_renewed_is_not_forgotten(ours, theirs, clock, postgres_url):
    await ours.declare(ORDERS, QueueSettings(duplicate_detection=60))
    await ours.apply([Send(ORDERS, message("one"))])
    clock.advance(61)
    connection = await asyncpg.connect(postgres_url)
    async with connection.transaction():
        (number,) = await ours.apply_within([Send(ORDERS, message("one"))], connection)
        assert number is not None
        upkeep = asyncio.create_task(theirs.upkeep())
        await asyncio.wait([upkeep], timeout=0.3)  # which may wait for us, and must not forget what we renew
    await upkeep
    await connection.close()
    assert await ours.apply([Send(ORDERS, message("one"))]) == [None]


async def test_queues_that_come_and_go_do_not_disturb_others(ours, theirs):
    await ours.declare(ORDERS, QueueSettings())
    busy = True

    async def declare():
        number = 0
        while busy:
            number += 1
            await theirs.declare(f"reply-{number}", QueueSettings())

    declaring = asyncio.create_task(declare())
    for number in range(100):
        await ours.apply([Send(ORDERS, message(f"{number}"))])
    busy = False
    await declaring
    assert len(await ours.peek(ORDERS, 1_000)) == 100


@pytest.mark.parametrize("after", range(12))
async def test_a_session_has_no_gap_when_its_receiver_is_cancelled(ours, after):
    session = await three_in_a_session(ours)
    leaving = asyncio.create_task(ours.lock_in_session(session, 1))
    for _ in range(after):
        await asyncio.wait([leaving], timeout=0.0005)
    leaving.cancel()
    await no_gap(ours, leaving, session)


async def test_a_session_has_no_gap_when_its_receiver_is_cancelled_after_the_commit(ours, monkeypatch):
    session = await three_in_a_session(ours)
    committed, release = asyncio.Event(), ours._database.release

    async def released(connection, **how):
        committed.set()
        await release(connection, **how)

    monkeypatch.setattr(ours._database, "release", released)
    leaving = asyncio.create_task(ours.lock_in_session(session, 1))
    await committed.wait()
    leaving.cancel()
    await no_gap(ours, leaving, session)


async def three_in_a_session(engine):
    await engine.declare(ORDERS, QueueSettings(requires_session=True))
    await engine.apply([Send(ORDERS, Message(b"", id=f"{number}", session_id="s")) for number in range(3)])
    return await engine.lock_session(ORDERS, "s")


async def no_gap(engine, leaving, session):
    """See that whoever receives next gets all that the one who left did not."""
    got = []
    with contextlib.suppress(asyncio.CancelledError):
        got = await leaving
    await asyncio.gather(*engine._under_way)
    await asyncio.gather(*engine._giving_back)
    found = await engine.lock_in_session(session, 3)
    assert [one.id for one in (*got, *found)] == ["0", "1", "2"]
    assert {one.delivery_count for one in found} == {1}


async def test_what_a_cancelled_receiver_locked_is_given_back_before_the_engine_is_closed(
    postgres_url, emptied_schema, ours, clock
):
    await ours.declare(ORDERS, QueueSettings())
    await ours.apply([Send(ORDERS, message(f"{number}")) for number in range(10)])
    for turns in range(6):
        async with opened(postgres_url, schema=emptied_schema, clock=clock) as leaving:
            receiving = asyncio.create_task(leaving.lock_next(ORDERS, 10))
            for _ in range(turns):
                await clock.sleep_async(0)
            receiving.cancel()
    assert [(one.delivery_count, one.state) for one in await ours.peek(ORDERS, 20)] == [(0, 0)] * 10


async def test_closing_waits_for_what_is_under_way_and_no_longer(postgres_url, emptied_schema, ours):
    await ours.declare(ORDERS, QueueSettings())
    async with opened(postgres_url, schema=emptied_schema) as leaving:
        sending = asyncio.create_task(
            leaving.apply_inside([Send(ORDERS, message("last"))], lambda mine: mine.execute("SELECT pg_sleep(0.2)"))
        )
        await asyncio.wait([sending], timeout=0.05)
    await sending
    assert [one.id for one in await ours.peek(ORDERS, 9)] == ["last"]


async def test_an_engine_is_opened_once(ours):
    with pytest.raises(UsageError, match="open already"):
        await ours.open()


async def test_one_who_waits_for_a_foreign_transaction_does_not_hold_up_the_others(postgres_url, ours):
    await ours.declare(ORDERS, QueueSettings(duplicate_detection=60))
    await ours.declare("others", QueueSettings())
    foreign = await asyncpg.connect(postgres_url)
    async with foreign.transaction():
        await ours.apply_within([Send(ORDERS, message("held"))], foreign)
        waiting = asyncio.create_task(ours.apply([Send(ORDERS, message("held"))]))
        going = [asyncio.create_task(ours.apply([Send("others", message(f"{number}"))])) for number in range(5)]
        done, _ = await asyncio.wait(going, timeout=PATIENCE_S)
        assert len(done) == 5
        assert all([(await each)[0] is not None for each in going])
    await foreign.close()
    assert await outcome(waiting) in ([None], UNAVAILABLE)


async def test_a_long_id_is_as_good_as_a_short_one(ours):
    await ours.declare(ORDERS, QueueSettings(duplicate_detection=60))
    digest = hashlib.shake_256(b"an index entry would be compressed, if it could be").digest(3 * 1_024)
    long = "".join(chr(0x10000 + int.from_bytes(digest[at : at + 3]) % 2**20) for at in range(0, len(digest), 3))
    ((first,), (again,)) = [await ours.apply([Send(ORDERS, message(long))]) for _ in range(2)]
    assert (first is not None, again) == (True, None)


async def test_a_queue_that_is_deleted_while_it_is_sent_to_is_not_there(ours, theirs, clock):
    await ours.declare(ORDERS, QueueSettings())
    await ours.apply([Send(ORDERS, message("one"), utc(clock.time() + 60))])
    await theirs.delete(ORDERS)
    with pytest.raises(QueueNotFound):
        await ours.apply([Send(ORDERS, message("two"))])


async def test_a_queue_that_goes_away_while_it_is_sent_to_takes_nothing(postgres_url, ours, theirs):
    await ours.declare(ORDERS, QueueSettings(duplicate_detection=60))
    foreign = await asyncpg.connect(postgres_url)
    transaction = foreign.transaction()
    await transaction.start()
    await theirs.apply_within([Send(ORDERS, message("held"))], foreign)
    send = until_it_answers(ours.apply)  # who waits for longer than a second for a foreign transaction is told so
    sending = asyncio.create_task(send([Send(ORDERS, message("held"))]))
    await asyncio.wait([sending], timeout=0.2)  # until it waits for what becomes of that id
    await theirs.delete(ORDERS)
    await transaction.rollback()
    await foreign.close()
    with pytest.raises(QueueNotFound):
        await sending


async def test_a_script_that_waits_for_a_row_does_not_hold_up_other_scripts(postgres_url, ours):
    await ours.declare(ORDERS, QueueSettings(duplicate_detection=60))
    await ours.declare("others", QueueSettings())
    inside = ours.scripted(Together(now))
    foreign = await asyncpg.connect(postgres_url)
    async with foreign.transaction():
        await ours.apply_within([Send(ORDERS, message("held"))], foreign)
        send = until_it_answers(ours.apply_inside)  # after a second of waiting it is refused, and tried again
        waiting = asyncio.create_task(send([Send(ORDERS, message("held"))], inside))
        await asyncio.wait([waiting], timeout=0.2)  # until it waits for what becomes of that id
        (number,) = await ours.apply_inside([Send("others", message("other"))], inside)
        assert number is not None
        assert not waiting.done()
    await foreign.close()
    assert await waiting == [None]
