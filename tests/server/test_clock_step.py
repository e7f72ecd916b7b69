# SPDX-License-Identifier: MIT
"""The wall clock is set forward by an hour and back again while a server, an operation and two workers are at work."""

import asyncio
from collections import Counter
from contextlib import AsyncExitStack

import pytest

from redrive import connect, open_recovery
from redrive.access import rights_of
from redrive.broker import Message
from redrive.server import open_desk
from redrive.testing import ManualClock
from redrive.worker import Context, MessageLockLost, Worker
from tests.patience import PATIENCE_S
from tests.server.test_door import PASSWORD, client_at, who

MESSAGES = 8
HANDLING_S = 2.0
AT_A_TIME = 2
HOUR_S = 3_600.0


class Site:
    """A server with an operation under way and two workers, and time in the test's hand."""

    def __init__(self, desk, clock):
        self.desk = desk
        self.clock = clock
        self.deliveries = []
        self.in_hand = set()
        self.lost = []
        self.workers = [self._worker(), self._worker()]

    def _worker(self):
        worker = Worker(on_event=lambda event: self.lost.append(event) if isinstance(event, MessageLockLost) else None)

        @worker.handler("recovered", concurrency=AT_A_TIME, slow_down=None)
        async def handle(_: bytes, context: Context) -> None:
            self.deliveries.append(context.message.id)
            self.in_hand.add(context.message.id)
            try:
                await self.clock.sleep_async(HANDLING_S)
            finally:
                self.in_hand.discard(context.message.id)

        return worker

    async def begin(self, stack):
        """Let messages fail, and begin to work."""
        told = {"redrive-failed-queue": "recovered", "redrive-failed-exception-type": "Odd"}
        await self.desk.broker.declare("recovered", lock_duration=60)
        await self.desk.broker.declare("error")
        await self.desk.broker.send_many("error", [Message(b"{}", id=f"m{n}", headers=told) for n in range(MESSAGES)])
        await self.desk.recovery.ingest()
        running = [self.desk.recovery, *self.workers]
        tasks = [
            asyncio.create_task(each.run(*([] if each is self.desk.recovery else [self.desk.broker])))
            for each in running
        ]

        async def end():
            for each in running:
                each.stop()
            await self.until(lambda: all(task.done() for task in tasks))
            await asyncio.gather(*tasks)

        stack.push_async_callback(end)

    async def until(self, holds, step=0.1):
        """Let time pass until something holds."""
        async with asyncio.timeout(PATIENCE_S):
            while not (await found if asyncio.iscoroutine(found := holds()) else found):
                self.clock.advance(step)
                for _ in range(4):
                    await asyncio.to_thread(bool)

    async def operation(self, number):
        return await self.desk.recovery.operation(number)


@pytest.fixture
async def site(url):
    clock = ManualClock()
    async with AsyncExitStack() as stack:
        broker = await stack.enter_async_context(connect(url, clock=clock))
        desk = await stack.enter_async_context(open_desk(broker, open_recovery(broker)))
        made = Site(desk, clock)
        await made.begin(stack)
        yield made


@pytest.mark.parametrize("steps", [(HOUR_S, -HOUR_S), (-HOUR_S, HOUR_S)], ids=["forward", "back"])
async def test_after_a_step_of_the_clock_all_is_handled_and_only_what_was_in_hand_twice(site, steps):
    await site.desk.access.add_user("ann", PASSWORD, rights_of("admin"))
    async with client_at(site.desk) as client:
        signed = await client.post("/session", json={"name": "ann", "password": PASSWORD})
        assert signed.status_code == 200, signed.text
        asked = {"kind": "recover", "filter": "status:unresolved", "rate": 2}
        csrf = {"x-redrive-csrf": signed.json()["csrf"]}
        number = (await client.post("/operations", json=asked, headers=csrf)).json()["number"]
        may_be_doubled = set()
        for seconds in steps:
            had = len(site.deliveries)
            await site.until(lambda had=had: site.in_hand and len(site.deliveries) >= had + 2)
            may_be_doubled |= site.in_hand
            site.clock.jump(seconds)
            assert await who(client) == "ann", "an hour is less than a session may be idle"
        done = {f"m{n}" for n in range(MESSAGES)}

        async def is_over():
            progress = (await site.operation(number)).progress
            return progress.succeeded == MESSAGES and not site.in_hand

        await site.until(is_over, 0.5)
        assert (await client.get(f"/operations/{number}")).json()["state"] == "completed"
        assert await who(client) == "ann"
    counts = Counter(site.deliveries)
    assert counts.keys() == done
    assert {each for each, times in counts.items() if times > 1} <= may_be_doubled
    assert len(site.lost) <= len(may_be_doubled)
    info = await site.desk.broker.inspect("recovered")
    assert (info.ready, info.locked, info.dead) == (0, 0, 0)
