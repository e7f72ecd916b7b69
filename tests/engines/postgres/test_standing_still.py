# SPDX-License-Identifier: MIT
"""A process that stands still between two statements of a transaction: what others did meanwhile stays theirs.

It may be paused by its operating system, wait for its garbage collector, or be far away. The time that it has read is
old by then, so a lock or lease that another process has got since looks longer than any can be, as if the clock had
been set back.
"""

import asyncio
from itertools import count

import pytest

from redrive.broker import Message, QueueSettings, Send
from redrive.engines.sql.recovery import leases
from redrive.testing.conformance.verbs import lock_of
from tests.engines.postgres.breaking import ORDERS, message, opened

TALKS, LANE = "talks", "lane/orders"
LOCK_S = 60.0
LEASE_S = 15.0
UNTIL_OF_THEIRS = "SELECT until FROM @.services WHERE session = 'theirs'"
A_WHILE_S = 0.2
"""How long the slow process stands still if the other has to wait for it."""


@pytest.fixture
async def theirs(postgres_url, emptied_schema):
    async with opened(postgres_url, schema=emptied_schema) as engine:
        await engine.declare(ORDERS, QueueSettings(lock_duration=LOCK_S))
        await engine.declare(TALKS, QueueSettings(lock_duration=LOCK_S, requires_session=True))
        yield engine


@pytest.fixture
async def slow(postgres_url, emptied_schema, theirs):  # noqa: ARG001 - after theirs
    async with opened(postgres_url, schema=emptied_schema) as engine:
        yield engine


@pytest.fixture
async def stand_still(slow, monkeypatch):
    """Return a function: does something with the slow engine, and something else after each of its statements."""
    transaction = slow._database.transaction

    async def play(doing, meanwhile):
        tasks = []

        async def slowly(do, *more):
            return await transaction(lambda connection: do(Slow(connection, meanwhile, tasks)), *more)

        monkeypatch.setattr(slow._database, "transaction", slowly)
        result = await doing(slow)
        await asyncio.gather(*tasks)
        return result

    return play


class Slow:
    """A connection that lets something else happen after each statement."""

    def __init__(self, connection, meanwhile, tasks):
        self._connection = connection
        self._meanwhile = meanwhile
        self._tasks = tasks

    def __getattr__(self, name):
        run = getattr(self._connection, name)

        async def run_slowly(*arguments, **more):
            result = await run(*arguments, **more)
            self._tasks.append(asyncio.ensure_future(self._meanwhile()))
            await asyncio.wait(self._tasks[-1:], timeout=A_WHILE_S)
            return result

        return run_slowly


async def test_a_lock_that_is_taken_meanwhile_lasts_as_long_as_was_promised(theirs, stand_still):
    numbers, promised = count(), {}

    async def lock():
        await theirs.apply([Send(ORDERS, message(f"{next(numbers)}"))])
        promised.update({one.sequence: one.locked_until.timestamp() for one in await theirs.lock_next(ORDERS, 10)})

    await stand_still(lambda slow: slow.upkeep(), lock)
    assert len(promised) > 3
    assert dict(await theirs._database.read("SELECT sequence, due FROM @.messages")) == promised


async def test_a_lock_that_is_renewed_meanwhile_lasts_as_long_as_was_promised(theirs, stand_still):
    await theirs.apply([Send(ORDERS, message("one"))])
    (held,) = await theirs.lock_next(ORDERS, 1)
    renewals = []

    async def renew():
        if not renewals:
            renewals.extend(await theirs.renew([lock_of(held)]))

    await stand_still(lambda slow: slow.upkeep(), renew)
    assert await due(theirs, "SELECT due FROM @.messages") == renewals[0].timestamp()


async def test_a_session_that_is_taken_or_renewed_meanwhile_lasts_as_long_as_was_promised(theirs, stand_still):
    await theirs.apply([*(Send(TALKS, Message(b"", id=each, session_id=each)) for each in ("first", "second"))])
    held, promised = await theirs.lock_session(TALKS, "first"), {}

    async def renew_and_accept():
        promised["first"] = (await theirs.renew_session(held)).locked_until.timestamp()
        other = await theirs.lock_session(TALKS, "second")
        if other is not None:
            promised["second"] = other.locked_until.timestamp()

    await stand_still(lambda slow: slow.upkeep(), renew_and_accept)
    assert dict(await theirs._database.read("SELECT session, locked_until FROM @.sessions")) == promised


async def test_a_lease_that_is_renewed_meanwhile_lasts_as_long_as_was_promised(theirs, stand_still):
    lease = await theirs.run(lambda: leases.hold(LANE, "theirs", LEASE_S))
    promised = []

    async def renew():
        if not promised:
            promised.append(0.0)
            await theirs.run(lambda: leases.renew(lease, LEASE_S))
            promised.append(await due(theirs, "SELECT until FROM @.leases"))

    assert await stand_still(lambda slow: slow.run(lambda: leases.hold(LANE, "slow", LEASE_S)), renew) is None
    assert await due(theirs, "SELECT until FROM @.leases") == promised[-1]


async def test_a_service_that_says_so_meanwhile_is_present_as_long_as_it_said(theirs, stand_still):
    await theirs.run(lambda: leases.present("theirs", "host", LEASE_S))
    promised = []

    async def say_so():
        if not promised:
            promised.append(0.0)
            await theirs.run(lambda: leases.present("theirs", "host", LEASE_S))
            promised.append(await due(theirs, UNTIL_OF_THEIRS))

    await stand_still(lambda slow: slow.run(lambda: leases.present("slow", "host", LEASE_S)), say_so)
    assert await due(theirs, UNTIL_OF_THEIRS) == promised[-1]


async def due(engine, statement):
    """Return the only value that a statement finds."""
    ((value,),) = await engine._database.read(statement)
    return value
