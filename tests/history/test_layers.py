# SPDX-License-Identifier: MIT
"""What the history counts of the other layers: failures and recoveries, legs, shipments."""

import asyncio

import pytest

from redrive import open_recovery
from redrive.broker import tallies
from redrive.clock import system_clock
from redrive.pipeline.events import TaskEnded, TaskFailed
from redrive.pipeline.send_tallies import key_of as key_of_task
from redrive.routes import LegDelivered, LegFailed, RouteChanged
from redrive.routes.leg_tallies import key_of as key_of_leg
from redrive.worker import Recoverability, Worker
from tests.history.conftest import rows
from tests.patience import PATIENCE_S


async def test_failures_are_counted_by_queue_and_group_and_recoveries_by_destination(broker):
    await broker.declare("error")
    worker, is_well = Worker(), []

    @worker.handler(
        "orders", recoverability=Recoverability(immediate=0, delayed=None, error_queue="error"), slow_down=None
    )
    async def handle(order: bytes) -> None:
        if order not in is_well:
            raise ConnectionError

    await broker.send_many("orders", [b"1", b"2", b"3"])
    async with open_recovery(broker) as recovery:
        await run_all(worker, broker)
        await recovery.ingest()
        (group,) = await recovery.groups()
        assert await failed_by(broker) == {("queue", "orders"): 3, ("group", group.id): 3}
        is_well.extend([b"1", b"2"])
        await recovery.recover("status:unresolved")
        await recovery.step()
        await run_all(worker, broker)
        await recovery.step()
    lanes = dict(await rows(broker, "topic = 'lane' AND name = 'orders'", "metric, n"))
    assert lanes == {"sent": 3, "recovered": 2, "failed_again": 1}
    assert (await failed_by(broker))["queue", "orders"] == 4


async def run_all(worker, broker):
    while (await broker.inspect("orders")).ready:  # a busy server may hold a message back for a moment
        await worker.run(broker, until_idle=True)


async def failed_by(broker):
    found = await rows(broker, "metric = 'failed'", "topic, name, n")
    return {(topic, name): n for topic, name, n in found}


async def until_there(broker, count):
    async with asyncio.timeout(PATIENCE_S):
        while (await broker.inspect("orders")).ready < count:
            await system_clock.sleep_async(0.01)


@pytest.mark.parametrize(
    ("event", "key"),
    [
        (LegDelivered("default", "copy", "1", "delivered", 1, 1, 0.1), ("route", "copy", tallies.SENT)),
        (LegDelivered("shop", "copy", "1", "consumed", 1, 0, 0.1), ("route", "shop/copy", tallies.FILTERED)),
        (LegFailed("default", "copy", "1", 1, "sender", "no", "replay", 5.0), ("route", "copy", tallies.FAILED)),
        (LegFailed("default", "copy", "1", 9, "sender", "no", "dead", None), ("route", "copy", tallies.DEAD)),
        (RouteChanged("default", "copy", 2, "running"), None),
    ],
)
def test_legs_are_counted_by_what_became_of_them(event, key):
    assert key_of_leg(event) == key


@pytest.mark.parametrize(
    ("event", "metric"),
    [
        (TaskEnded("bills", "1", "send", "bank", "send"), tallies.SENT),
        (TaskFailed("bills", "1", "send", "bank", "send_warning", "no", 5.0), tallies.FAILED),
        (TaskFailed("bills", "1", "send", "bank", "send_error", "no", None), tallies.DEAD),
        (TaskFailed("bills", "1", "send", "bank", "send_unknown", "no", None), tallies.UNKNOWN),
    ],
)
def test_shipments_are_counted_by_destination(event, metric):
    assert key_of_task(event) == ("destination", "bills/bank", metric)
    assert key_of_task(TaskEnded("bills", "1", "process", "", "process")) is None


async def test_legs_of_a_running_route_are_counted(broker):
    from redrive import open_routes
    from redrive.routes import RouteRunner, from_topic, route, to_queue

    await broker.declare_topic("events")
    async with open_routes(broker) as routes:
        await routes.add(route("copy", source=from_topic("events")) >> to_queue("orders"))
        await broker.send_many("events", [b"1", b"2"])
        await RouteRunner(routes, listen="127.0.0.1:0").run(until=until_there(broker, 2))
    await broker.engine.flush_tallies()
    assert await rows(broker, "topic = 'route'", "name, metric, n") == [("copy", "sent", 2)]
