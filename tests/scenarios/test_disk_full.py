# SPDX-License-Identifier: MIT
"""The disk fills up while processes work: they are told so, nothing acknowledged is lost, and it goes on."""

import asyncio

import pytest

import redrive
from tests.scenarios.actors import QUEUE
from tests.scenarios.sites import SqliteSite
from tests.scenarios.stage import Stage

MEGABYTE = 1_000_000
# The log holds up to 4 MB before it is moved into the database; there must be room for both.


@pytest.fixture
def stage(small_disk, tmp_path):
    stage = Stage(SqliteSite(small_disk / "queue.db"), tmp_path, ACTOR_BODY_BYTES="8000")
    yield stage
    stage.clear()


async def declared(url):
    async with redrive.connect(url) as broker:
        await broker.declare(QUEUE, lock_duration=1, max_delivery_count=100)


def test_nothing_acknowledged_is_lost_when_the_disk_is_full_and_it_goes_on_when_there_is_room(stage, small_disk):
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(4 * MEGABYTE))
    asyncio.run(declared(stage.site.url))

    for place in range(2):
        stage.start("producer", place)
    stage.wait_until(lambda: stage.count("full") >= 20, "senders who are told that the disk is full")
    before = stage.ids("sent")
    assert before <= stage.site.stored(QUEUE).keys()

    ballast.unlink()
    stage.wait_until(lambda: stage.ids("sent") > before, "sends that work again")
    stage.stop()
    sent, stored = stage.ids("sent"), stage.site.stored(QUEUE)
    print(f"{len(before):,} sent when it was full, {len(sent):,} in the end, told {stage.count('full'):,} times")
    assert sent <= stored.keys()
    assert max(stored.values()) == 1
    stage.site.check_integrity()


def test_a_full_disk_can_be_emptied_by_receiving_once_there_is_a_little_room(stage, small_disk):
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(4 * MEGABYTE))
    asyncio.run(declared(stage.site.url))
    stage.start("producer", 0)
    stage.wait_until(lambda: stage.count("full") >= 10, "a sender who is told that the disk is full")
    stage.stop()
    stored = set(stage.site.stored(QUEUE))

    ballast.unlink()
    stage.start("consumer", 0)
    stage.wait_until(lambda: not stage.site.stored(QUEUE), "an empty queue")
    stage.stop()
    assert stage.ids("sent") <= stage.ids("completed", "buried")
    assert stored == stage.ids("completed", "buried")
    stage.site.check_integrity()
