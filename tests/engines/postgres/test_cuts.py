# SPDX-License-Identifier: MIT
"""Connections that are cut at every moment there is: no doubt remains about what is stored."""

import asyncio
from itertools import count

import asyncpg
import pytest

from redrive.broker import Abandon, Complete, DeadLetter, Defer, QueueSettings, Send, State
from redrive.clock import system_clock
from redrive.engines.postgres import PostgresEngine
from redrive.errors import EngineBusy, EngineUnavailable
from tests.engines.postgres.breaking import (
    DEAD,
    ORDERS,
    UNAVAILABLE,
    message,
    opened,
    outcome,
    stored,
    until_it_answers,
)
from tests.patience import PATIENCE_S
from tests.postgres.proxy import ABANDONED, LOST, UNANSWERED, Proxy
from tests.postgres.server import run_sql, terminate_backends

MOST_FLIGHTS = 80

each_cut = pytest.mark.parametrize("how", [LOST, UNANSWERED, ABANDONED])


@pytest.fixture
async def proxy(breakable_postgres):
    async with Proxy(breakable_postgres) as proxy:
        yield proxy


@pytest.fixture
async def witness(breakable_url):
    """An engine whose connections nobody cuts."""
    async with opened(breakable_url) as engine:
        await engine.declare(ORDERS, QueueSettings())
        yield engine


@pytest.fixture
async def engine(witness, proxy, breakable_url):
    """An engine behind the proxy that has done everything once."""
    async with opened(proxy.through(breakable_url)) as engine:
        await witness.apply([Send(ORDERS, message("first"))])
        (found,) = await engine.lock_next(ORDERS, 1)
        await engine.apply([Complete(found.lock), Send(ORDERS, message("second"))])
        await engine.lock_next(ORDERS, 1, delete=True)
        yield engine


async def cut_everywhere(proxy, how, attempt, *, after=(), stride=1):
    """Do something and cut at its first flight, again and cut at its second, until it is over before the cut.

    With ``after``, cuts and counts begin where those have been made; with a stride, some flights are left out.
    """
    for flight in count(1, stride):
        assert flight < MOST_FLIGHTS
        proxy.cut_at(*after, (flight, how))
        await attempt(f"cut {flight}")
        if not proxy.has_cut:
            assert flight > 1, "nothing was cut"
            return


@each_cut
async def test_a_send_that_is_cut_off_is_stored_once_and_numbered_or_not_stored_at_all(engine, proxy, witness, how):
    async def attempt(name):
        told = await outcome(engine.apply([Send(ORDERS, message(name))]))
        await proxy.settled()
        there = [one.sequence for one in await stored(witness, name)]
        assert there == ([] if told == UNAVAILABLE else told)

    await cut_everywhere(proxy, how, attempt)


@each_cut
async def test_of_many_sends_that_are_cut_off_together_each_knows_what_became_of_it(engine, proxy, witness, how):
    proxy.cut_at((1, how))
    told = await asyncio.gather(*(outcome(engine.apply([Send(ORDERS, message(f"{n}"))])) for n in range(60)))
    await proxy.settled()
    assert proxy.has_cut
    there = [[one.sequence for one in await stored(witness, f"{n}")] for n in range(60)]
    assert there == [[] if one == UNAVAILABLE else one for one in told]


@each_cut
@pytest.mark.parametrize("first", [LOST, UNANSWERED, ABANDONED])
async def test_a_caller_who_is_cut_off_while_asking_what_became_of_it_asks_again(engine, proxy, witness, first, how):
    async def attempt(name):
        await witness.apply([Send(ORDERS, message(f"{name}, done"))])
        (done,) = [one for one in await witness.lock_next(ORDERS, 1_000) if one.id == f"{name}, done"]
        told = await asyncio.gather(
            outcome(engine.apply([Send(ORDERS, message(name))])), outcome(engine.apply([Complete(done.lock)]))
        )
        await proxy.settled()
        there = [one.sequence for one in await stored(witness, name)]
        assert there == ([] if told[0] == UNAVAILABLE else told[0])
        assert len(await stored(witness, done.id)) == (told[1] == UNAVAILABLE)

    await cut_everywhere(proxy, how, attempt, after=[(1, first)])


@each_cut
async def test_a_receive_that_is_cut_off_leaves_no_lock_behind_and_counts_no_delivery(engine, proxy, witness, how):
    async def attempt(name):
        await witness.apply([Send(ORDERS, message(name))])
        found = await outcome(engine.lock_next(ORDERS, 10))
        await proxy.settled()
        if found == UNAVAILABLE or not found:
            assert await until_it_answers.call_async(is_back, witness, name)
            found = await engine.lock_next(ORDERS, 10)
        assert [(one.id, one.delivery_count) for one in found] == [(name, 1)]
        await engine.apply([Complete(found[0].lock)])

    await cut_everywhere(proxy, how, attempt)


async def is_back(witness, name):
    """Say that a message is as if nobody had received it; whoever gives it back may do so after the caller was told."""
    (there,) = await stored(witness, name)
    if there.state is not State.READY or there.delivery_count:
        raise EngineUnavailable(f"{name} is {there.state}, delivered {there.delivery_count} times")
    return True


SETTLEMENTS = {
    "complete": (lambda lock: [Complete(lock)], []),
    "abandon": (lambda lock: [Abandon(lock)], [(ORDERS, State.READY)]),
    "postpone": (lambda lock: [Abandon(lock, 60.0)], [(ORDERS, State.SCHEDULED)]),
    "defer": (lambda lock: [Defer(lock)], [(ORDERS, State.DEFERRED)]),
    "dead-letter": (lambda lock: [DeadLetter(lock, "broken")], [(DEAD, State.READY)]),
    "complete and send": (
        lambda lock: [Complete(lock), Send(ORDERS, message("from " + str(lock.sequence)))],
        [],
    ),
}


@each_cut
@pytest.mark.parametrize("settlement", SETTLEMENTS)
async def test_a_settlement_that_is_cut_off_is_done_or_can_be_done_again(engine, proxy, witness, how, settlement):
    effects_of, after = SETTLEMENTS[settlement]

    async def attempt(name):
        await witness.apply([Send(ORDERS, message(name))])
        (found,) = [one for one in await witness.lock_next(ORDERS, 1_000) if one.id == name]
        if await outcome(engine.apply(effects_of(found.lock))) == UNAVAILABLE:
            await proxy.settled()
            await engine.apply(effects_of(found.lock))
        await proxy.settled()
        there = [(one.queue, one.state) for queue in (ORDERS, DEAD) for one in await stored(witness, name, queue)]
        assert there == after
        if settlement == "complete and send":
            assert len(await stored(witness, f"from {found.sequence}")) == 1

    await cut_everywhere(proxy, how, attempt)


@each_cut
async def test_a_lock_can_be_renewed_again_after_a_cut(engine, proxy, witness, how):
    async def attempt(name):
        await witness.apply([Send(ORDERS, message(name))])
        (found,) = await witness.lock_next(ORDERS, 1)
        renewed = await outcome(engine.renew([found.lock]))
        await proxy.settled()
        if renewed == UNAVAILABLE:
            renewed = await engine.renew([found.lock])
        assert renewed[0] >= found.locked_until
        await witness.apply([Complete(found.lock)])

    await cut_everywhere(proxy, how, attempt)


@pytest.mark.parametrize(
    ("how", "stride"),
    [(LOST, 10), *(pytest.param(each, 1, marks=pytest.mark.torture) for each in (LOST, UNANSWERED, ABANDONED))],
)
async def test_an_open_that_is_cut_off_says_so_and_can_be_repeated(proxy, breakable_url, how, stride):
    async def attempt(name):
        schema = name.replace(" ", "_")
        engine = PostgresEngine(proxy.through(breakable_url), schema=schema)
        told = await outcome(engine.open())
        await proxy.settled()
        if told == UNAVAILABLE:
            await engine.close()
            await engine.open()
        await engine.declare(ORDERS, QueueSettings())
        await engine.apply([Send(ORDERS, message(name))])
        assert len(await engine.peek(ORDERS, 10)) == 1
        await engine.close()

    await cut_everywhere(proxy, how, attempt, stride=stride)


async def test_connections_that_were_ended_while_nobody_used_them_cost_nothing(engine, witness, breakable_url):
    for number in range(12):  # more often than there are places in a pool
        terminate_backends(breakable_url)
        told = await until_it_answers.call_async(engine.apply, [Send(ORDERS, message(f"{number}"))])
        there = await until_it_answers.call_async(stored, witness, f"{number}")
        assert [one.sequence for one in there] == told


async def test_a_connection_that_is_lost_gives_its_place_in_the_pool_back(breakable_url):
    async with opened(breakable_url, pool_size=2, acquire_timeout=PATIENCE_S) as engine:
        await engine.declare(ORDERS, QueueSettings())
        for _ in range(12):
            await answered(lambda: engine.apply([Send(ORDERS, message("again"))]))
            await answered(lambda: engine.peek(ORDERS, 1))
            terminate_backends(breakable_url)


async def answered(call):
    """Call until it works; that all connections are busy is no reason not to."""
    while True:
        try:
            return await call()
        except EngineBusy:
            raise
        except EngineUnavailable:
            await system_clock.sleep_async(0.01)


async def test_a_waiting_receiver_is_woken_by_a_send_after_its_connection_was_ended(engine, witness, breakable_url):
    waiting = asyncio.create_task(engine.wait(ORDERS, PATIENCE_S))
    terminate_backends(breakable_url)
    while not waiting.done():
        await until_it_answers.call_async(witness.apply, [Send(ORDERS, message("wake"))])
        await asyncio.wait([waiting], timeout=0.2)
    await waiting


async def test_what_is_still_under_way_when_it_is_asked_for_is_done_once(engine, proxy, witness, breakable_url):
    await witness.apply([Send(ORDERS, message("cause"))])
    (cause,) = await witness.lock_next(ORDERS, 1)
    blocker = await asyncpg.connect(breakable_url)
    async with blocker.transaction():
        await blocker.execute("SELECT FROM redrive.messages WHERE sequence = $1 FOR UPDATE", cause.sequence)
        proxy.cut_at((1, ABANDONED))
        effects = [Complete(cause.lock), Send(ORDERS, message("effect"))]
        done = asyncio.create_task(engine.apply(effects))
        await until_it_answers.call_async(are_waiting, breakable_url, 1)
        await asyncio.wait([done], timeout=0.5)  # it asks what became of it, and may begin again
        await engine.upkeep()
    await blocker.close()
    try:
        (_, number) = await done
    except EngineBusy:  # all that took longer than a call waits for a lock: nothing was done
        (_, number) = await engine.apply(effects)
    assert [one.sequence for one in await stored(witness, "effect")] == [number]
    assert await stored(witness, "cause") == []


async def are_waiting(url, how_many):
    """Say that so many connections wait for somebody's lock."""
    blocked = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    if len(run_sql(url, blocked)) < how_many:
        raise EngineUnavailable("nobody waits yet")
