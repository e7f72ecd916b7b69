# SPDX-License-Identifier: MIT
"""Processes that die: at most the last second is lost, and nothing is ever counted twice."""

import asyncio

import pytest

from redrive.broker import Broker, Message, Send
from redrive.engines.sql.history import rounds
from redrive.errors import EngineUnavailable
from redrive.history.buckets import HOUR
from tests.history.conftest import rows
from tests.history.test_rounds import store
from tests.patience import PATIENCE_S


class Killed(BaseException):
    """The process is no more."""


def killed_after(script, steps):
    """Return a script that dies after so many steps."""

    def dying():
        running, answer = script(), None
        for _ in range(steps):
            try:
                answer = yield running.send(answer)
            except StopIteration as end:
                return end.value
        raise Killed

    return dying


@pytest.mark.usefixtures("broker")
async def test_what_was_counted_and_not_stored_is_lost_and_nothing_else(place):
    engine = place.home.engine(place.clock)  # without a broker, which would store it within a second
    await engine.open()
    await engine.apply([Send("orders", Message(b"1", id="1"))])
    await engine.flush_tallies()
    await engine.apply([Send("orders", Message(b"2", id="2"))])
    place.home.crash()
    after = await place.broker()
    assert await rows(after, "metric = 'sent'", "n") == [(1,)]
    assert (await after.inspect("orders")).ready == 2
    engine._history.tallies._counts.clear()  # a process that was killed stores nothing at its end
    await engine.close()


async def test_what_was_counted_is_stored_within_a_second(place):
    async with Broker(place.home.engine(place.clock), clock=place.clock) as broker:
        await broker.declare("orders")
        await broker.send("orders", b"1")
        other = await place.broker()
        async with asyncio.timeout(PATIENCE_S):
            while not (found := await rows(other, "metric = 'sent'", "n")):
                place.clock.advance(1)
        assert found == [(1,)]


async def test_what_was_counted_is_stored_when_the_broker_is_closed(broker, place):
    async with Broker(place.home.engine(place.clock), clock=place.clock) as other:
        await other.send("orders", b"1")
    assert await rows(broker, "metric = 'sent'", "n") == [(1,)]


@pytest.mark.parametrize("steps", range(1, 12))
async def test_a_process_that_dies_while_it_rolls_up_loses_and_doubles_nothing(broker, place, steps):
    now = place.clock.time()
    for age in range(50 * HOUR, 52 * HOUR, 1_200):
        await store(broker, place, {("orders", "sent"): 3, ("orders", "ready"): 7}, now - age)
    other = await place.broker()
    try:
        await other.engine.run(killed_after(rounds.roll_up, steps))
    except (Killed, EngineUnavailable):
        assert len(await rows(broker)) == 12
    while not await broker.engine.run(rounds.roll_up):
        pass
    found = await rows(broker)
    assert sum(n for _, metric, _, _, n in found if metric == "sent") == 18
    assert {(step, n) for _, metric, step, _, n in found if metric == "ready"} == {(HOUR, 7)}


@pytest.mark.parametrize("steps", range(1, 5))
async def test_a_process_that_dies_while_it_notes_depths_leaves_the_minute_to_others(broker, place, steps):
    await broker.send("orders", b"1")
    other = await place.broker()
    try:
        await other.engine.run(killed_after(lambda: rounds.note([]), steps))
    except (Killed, EngineUnavailable):
        assert await rows(broker, "topic = 'store'") == []
    await broker.engine.upkeep()
    await broker.engine.upkeep()
    assert [n for *_, n in await rows(broker, "topic = 'store'")] == [1]


async def test_what_cannot_be_stored_is_stored_later_and_once(broker):
    buffer = broker.engine._history.tallies
    run = buffer._run

    async def away(_script):
        raise EngineUnavailable("the disk is full")

    buffer._run = away
    await broker.send("orders", b"1")
    with pytest.raises(EngineUnavailable):
        await broker.engine.flush_tallies()
    await broker.send("orders", b"2")
    buffer._run = run
    await broker.engine.flush_tallies()
    await broker.engine.flush_tallies()
    assert await rows(broker, "metric = 'sent'", "n") == [(2,)]


async def test_what_may_have_been_stored_is_not_stored_again(broker):
    buffer = broker.engine._history.tallies
    run = buffer._run

    async def unknown(script):
        await run(script)
        error = EngineUnavailable("the connection was lost during the commit")
        error.may_be_done = True
        raise error

    buffer._run = unknown
    await broker.send("orders", b"1")
    with pytest.raises(EngineUnavailable):
        await broker.engine.flush_tallies()
    buffer._run = run
    await broker.engine.flush_tallies()
    assert await rows(broker, "metric = 'sent'", "n") == [(1,)]
