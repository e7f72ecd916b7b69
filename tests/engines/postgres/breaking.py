# SPDX-License-Identifier: MIT
"""What the tests of faults share: an engine that is open, what it is told, and what is really stored."""

from contextlib import asynccontextmanager

from redrive.broker import Message
from redrive.engines.postgres import PostgresEngine
from redrive.errors import EngineUnavailable
from redrive.retry import Fixed, retry

ORDERS, DEAD = "orders", "orders/$dead"
UNAVAILABLE = "unavailable"

until_it_answers = retry(on=EngineUnavailable, policy=Fixed(0.05, max_attempts=2_000), deadline=None)
"""What comes back takes its time, in these tests as in life."""


@asynccontextmanager
async def opened(url, **settings):
    """Open an engine for a block."""
    engine = PostgresEngine(url, **settings)
    await engine.open()
    try:
        yield engine
    finally:
        await engine.close()


def message(name):
    """Return a message of that name."""
    return Message(b"body", id=name)


async def outcome(call):
    """Return what a call returns, or that the store did not answer; everything else is a wrong answer."""
    try:
        return await call
    except EngineUnavailable:
        return UNAVAILABLE


async def stored(engine, name, queue=ORDERS):
    """Return every message of that name."""
    return [one for one in await engine.peek(queue, 1_000) if one.id == name]
