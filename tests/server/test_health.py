# SPDX-License-Identifier: MIT
"""``/live`` and ``/ready`` mean what they say."""

import asyncio

from redrive.errors import EngineUnavailable
from redrive.server.health import Health
from redrive.testing import ManualClock
from tests.server.conftest import until_asleep


async def test_a_server_whose_store_answers_is_ready(client):
    assert (await client.get("http://127.0.0.1/live")).json() == {"status": "live"}
    answer = await client.get("http://127.0.0.1/ready")
    assert (answer.status_code, answer.json()) == (200, {"status": "ready", "missing": []})


class Store:
    def __init__(self):
        self.asked = 0
        self.error = None

    async def __call__(self):
        self.asked += 1
        if self.error is not None:
            raise self.error


async def test_it_is_not_ready_before_the_store_was_reached():
    health = Health(ManualClock())
    assert (await health.readiness())["status"] == "not-ready"


async def test_it_says_since_when_the_store_is_away_and_is_ready_again_by_itself():
    clock, store = ManualClock(), Store()
    health = Health(clock)
    health.ask = store
    assert (await health.readiness())["status"] == "ready"
    store.error = EngineUnavailable("no route to host")
    clock.advance(5)
    first = (await health.readiness())["missing"]
    clock.advance(60)
    assert (await health.readiness())["missing"] == first
    assert first[0]["what"] == "store"
    assert "no route to host" in first[0]["problem"]
    store.error = None
    clock.advance(1)
    assert (await health.readiness())["status"] == "ready"


async def test_the_store_is_asked_once_a_second_however_many_ask():
    clock, store = ManualClock(), Store()
    health = Health(clock)
    health.ask = store
    for _ in range(50):
        await health.readiness()
    assert store.asked == 1
    clock.advance(1)
    await health.readiness()
    assert store.asked == 2


async def test_a_store_that_does_not_answer_in_time_is_away():
    clock = ManualClock()
    health = Health(clock)
    health.ask = lambda: asyncio.get_running_loop().create_future()
    asking = asyncio.create_task(health.readiness())
    await until_asleep(clock)
    clock.advance(2.1)
    assert "has not answered for 2 s" in (await asking)["missing"][0]["problem"]


async def test_a_part_that_ended_is_missing():
    clock = ManualClock()
    health = Health(clock)
    health.ask = Store()
    health.note_part("routes", runs=True)
    assert (await health.readiness())["status"] == "ready"
    health.note_part("routes", runs=False)
    assert [each["what"] for each in (await health.readiness())["missing"]] == ["routes"]
