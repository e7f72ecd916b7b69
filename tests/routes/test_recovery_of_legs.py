# SPDX-License-Identifier: MIT
"""Dead legs are ordinary dead letters: layer 5 lists them by route, and recovers them into that route alone."""

import asyncio

import pytest

from redrive import connect, open_recovery, open_routes
from redrive.routes import Rejected, RouteRunner, from_queue, route, to_debug
from redrive.routes.senders.debug import DebugSender
from tests.patience import PATIENCE_S

BILLING, AUDIT = "recovered legs, billing", "recovered legs, audit"


@pytest.fixture(autouse=True)
def _forgotten():
    yield
    for name in (BILLING, AUDIT):
        DebugSender.reset(name)


class Watch:
    """Notes what becomes of legs, and lets a test wait for it."""

    def __init__(self):
        self.outcomes = []
        self.changed = asyncio.Event()

    def __call__(self, event):
        if hasattr(event, "outcome") and hasattr(event, "event_id"):
            self.outcomes.append((getattr(event, "route", ""), event.outcome))
            self.changed.set()

    async def until(self, route_name, outcome, count):
        async with asyncio.timeout(PATIENCE_S):
            while self.outcomes.count((route_name, outcome)) < count:
                self.changed.clear()
                await self.changed.wait()


@pytest.mark.parametrize("delivery", ["durable", "linked"])
async def test_a_dead_leg_is_recovered_on_its_route_alone(tmp_path, delivery):
    watch = Watch()
    DebugSender.script(BILLING, [Rejected("no such customer")] * 3)
    async with connect(f"sqlite:///{tmp_path}/shop.db") as broker, open_routes(broker) as routes:
        await broker.declare("orders")
        source = from_queue("orders", delivery=delivery, concurrency=1)
        await routes.apply(
            route("billing", source=source, concurrency=1) >> to_debug(BILLING),
            route("audit", source=source, concurrency=1) >> to_debug(AUDIT),
        )
        runner = RouteRunner(routes, on_event=watch)
        running = asyncio.create_task(runner.run())
        await broker.send_many("orders", [{"number": number} for number in range(5)])
        await watch.until("billing", "dead", 3)
        await watch.until("billing", "delivered", 2)
        await watch.until("audit", "delivered", 5)

        queue = (await routes.show("billing")).queue
        async with open_recovery(broker, sources=[f"{queue}/$dead"]) as recovery:
            async with asyncio.timeout(PATIENCE_S):
                while (await routes.show("billing")).dead < 3:  # a leg is reported before it is moved
                    pass
                while (await routes.show("billing")).dead:
                    await recovery.ingest()
            asked = await recovery.recover(f"queue:{queue}")
            async with asyncio.timeout(PATIENCE_S):
                while (await recovery.operation(asked.number)).progress.succeeded < 3:
                    await recovery.step()
        await watch.until("billing", "delivered", 5)
        runner.stop()
        await running
    bodies = [attempt.message.body for attempt in DebugSender.delivered(BILLING)]
    assert sorted(bodies) == [b'{"number":%d}' % number for number in range(5)]
    assert len(DebugSender.attempts(AUDIT)) == 5
