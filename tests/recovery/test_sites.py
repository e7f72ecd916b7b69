# SPDX-License-Identifier: MIT
"""The sites of these tests: their clock is moved by tests alone, and every moment that is asked for is met."""

import asyncio
import sqlite3

import pytest

from redrive.broker import Message
from tests.recovery.sites import one_file


@pytest.fixture
async def file():
    site = one_file(None)
    yield site
    await site.close()
    site.remove()


async def test_waiting_for_a_file_that_another_process_writes_to_moves_no_clock(file):
    process = await file.open()
    other = sqlite3.connect(process._raw._path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    before = file.clock.monotonic()
    sending = asyncio.create_task(process.broker.send("orders", Message(b"")))
    while len(file.clock.slept) < 200:
        await asyncio.wait([sending], timeout=0.01)
    other.execute("ROLLBACK")
    await sending
    other.close()
    assert file.clock.monotonic() == before


async def test_each_of_several_calls_is_met(file):
    process = await file.open()
    met = []
    for nth in (3, 1, 2):
        process.at("engine.inspect", lambda *_, nth=nth: met.append(nth), nth=nth)
    for _ in range(4):
        await process.broker.inspect("orders")
    assert met == [1, 2, 3]
