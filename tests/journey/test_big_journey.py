# SPDX-License-Identifier: MIT
"""One message through all layers, with a crash in the middle: every place and every step is in its journey.

HTTP receiver, a route with three legs, a worker that fails, two recoveries, a pipeline, a batch, SFTP.
"""

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from redrive import connect, open_journeys, open_pipeline, open_recovery, open_routes
from redrive.pipeline import Every, Output, Pipeline, PipelineRunner, SftpTransport, TaskState
from redrive.routes import RouteRunner, http, route, to_queue
from redrive.worker import Recoverability, Worker
from tests.journey.doomed_process import CHARGES
from tests.patience import PATIENCE_S
from tests.pipeline.transports.sftp_server import HOST_KEY, PASSWORD, FaultyServer

CHILDREN = ("billing", "search", "partner")
BILLING = "ord-1:billing@billing"


@pytest.fixture
async def server(tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_PASSWORD", PASSWORD)
    folder = tmp_path / "in"
    folder.mkdir()
    made = FaultyServer(folder)
    await made.start()
    yield made
    await made.stop()


def invoices(server):
    """Return a pipeline that sends what it gets every hour, in one file, by SFTP."""
    pipe = Pipeline("invoices")
    key = HOST_KEY.export_public_key().decode().strip()
    login = {"username": "lab", "password": "env:LAB_PASSWORD", "host_key": key}
    transport = SftpTransport(host="127.0.0.1", port=server.port, **login)
    pipe.destination("acme", transport, timing=Every(3_600), merge=lambda items: b"|".join(item.body for item in items))
    pipe.process(lambda report: [Output("acme", report.items)])
    return pipe


async def until(clock, holds, step=0.0):
    """Let everything run until something holds; with a step, time passes meanwhile."""
    async with asyncio.timeout(PATIENCE_S):
        while not await holds():
            clock.advance(step)
            for _ in range(5):
                await asyncio.to_thread(bool)


async def receive_order(broker, clock):
    """Send an order over HTTP to three routes, and follow it on each."""
    for queue in (*CHILDREN, "error"):
        await broker.declare(queue, journey="all")
    async with open_routes(broker) as routes:
        source = http("/orders")
        await routes.apply(*(route(name, source=source) >> to_queue(name) for name in CHILDREN))
        for topic in await broker.topics():
            for subscription in topic.subscriptions:
                await broker.update(subscription.queue, journey="all")
        runner = RouteRunner(routes, listen="127.0.0.1:0")
        running = asyncio.create_task(runner.run())
        await until(clock, lambda: _is_listening(runner))
        async with httpx.AsyncClient() as client:
            url = f"http://127.0.0.1:{runner.http.port}/orders"
            answer = await client.post(url, json={"total": 2}, headers={"Idempotency-Key": "ord-1"})
        assert answer.status_code == 202

        async def all_arrived():
            return all([(await broker.inspect(name)).ready for name in CHILDREN])

        await until(clock, all_arrived, 0.01)
        clock.advance(2)
        runner.stop()
        await running


async def _is_listening(runner):
    return bool(runner.http.port)


def shop(pipeline=None):
    """Return a worker that cannot charge while it has no pipeline for invoices."""
    worker = Worker(chance=lambda: 0.5)
    policy = Recoverability(immediate=1, delayed=None, error_queue="error")

    @worker.handler("billing", recoverability=policy, slow_down=None)
    async def charge(body: bytes) -> None:
        if pipeline is None:
            raise TimeoutError("the provider does not answer")
        await pipeline.submit(body, key="invoice-1")

    return worker


async def before_the_crash(url, clock):
    """Receive an order; charging fails, also when it is recovered; a second recovery has just been requested."""
    async with connect(url, clock=clock) as broker:
        await receive_order(broker, clock)
        async with open_recovery(broker) as recovery:
            await shop().run(broker, until_idle=True)
            await recovery.ingest()
            clock.advance(600)
            await recovery.recover("queue:billing", actor="ana", reason="the provider says it is mended")
            await recovery.step()
            clock.advance(1)
            await shop().run(broker, until_idle=True)
            await recovery.ingest()
            clock.advance(300)
            await recovery.recover("queue:billing", actor="ana", reason="now it is")


def kill_in_the_middle(url, now):
    """Start a process that recovers the order, and kill it (``kill -9``) while its handler charges."""
    command = [sys.executable, "-m", "tests.journey.doomed_process", url, str(now)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]) as process:
        try:
            assert process.stdout.readline() == f"{CHARGES}\n"
        finally:
            process.kill()
        assert process.wait(PATIENCE_S) == -signal.SIGKILL


async def after_the_crash(url, clock, server):
    """Another process goes on: it recovers the order, and dies while it charges; the next one charges and bills."""
    clock.advance(120)
    await asyncio.to_thread(kill_in_the_middle, url, clock.time())
    clock.advance(61)  # the lock of a process that is gone ends
    async with connect(url, clock=clock) as broker, open_pipeline(broker, invoices(server)) as pipeline:
        await shop(pipeline).run(broker, until_idle=True)
        await pipeline.submit(b"another", key="invoice-2")
        running = PipelineRunner(pipeline, listen="127.0.0.1:0")
        task = asyncio.create_task(running.run())

        async def all_done():
            if await pipeline.tasks(states=(TaskState.READY,)):
                return False  # the server answers in its own time
            clock.advance(20)
            unfinished = await pipeline.tasks(states=(TaskState.READY, TaskState.WAITING))
            return not unfinished and len(await pipeline.tasks()) >= 5

        await until(clock, all_done, 0.01)
        running.stop()
        await task
        async with open_recovery(broker) as recovery:
            await recovery.step()


async def test_the_journey_of_a_message_through_all_layers_with_a_crash_has_every_node_and_edge(url, clock, server):
    await before_the_crash(url, clock)
    await after_the_crash(url, clock, server)
    async with connect(url, clock=clock) as broker, open_journeys(broker) as journeys:
        found = await journeys.find("ord-1")
        failed = await journeys.find("ord-1:billing")
    nodes = {node.id: node for node in found.nodes}
    edges = {(edge.source, edge.target, edge.kind) for edge in found.edges}
    (event,) = [node for node in found.nodes if node.kind == "event"]

    for name in CHILDREN:  # a fork into three legs, and a message of each
        leg, child = f"ord-1@{event.title}/{name}", f"ord-1:{name}@{name}"
        assert nodes[leg].state == "completed"
        assert (event.id, leg, "fork") in edges
        assert (leg, child, "child") in edges

    (failure,) = [node for node in found.nodes if node.kind == "failure"]
    operations = [node for node in found.nodes if node.kind == "operation"]
    assert failure.state == "resolved"
    assert [each.event for each in failure.happenings] == ["failed", "failed"]
    assert [each.state for each in operations] == ["failed-again", "succeeded"]
    assert (BILLING, failure.id, "failed") in edges
    for operation in operations:
        assert (failure.id, operation.id, "recovery") in edges
        assert (operation.id, BILLING, "again") in edges
    happened = [each.event for each in nodes[BILLING].happenings]
    assert happened.count("failed") == 2
    assert "lock-expired" in happened, "a process died while it handled the message"
    assert happened[-1] == "completed"

    tasks = {node.title: node for node in found.nodes if node.kind == "task"}
    process, batch, send = (tasks[f"invoices {title}"] for title in ("process", "batch to acme", "send to acme"))
    (shipment,) = [node for node in found.nodes if node.kind == "shipment"]
    assert {process.state, batch.state, send.state, shipment.state} == {"done", "sent"}
    assert (BILLING, process.id, "submitted") in edges
    assert (process.id, batch.id, "stage") in edges
    assert (batch.id, send.id, "join") in edges
    assert (send.id, shipment.id, "sent") in edges
    assert len(server.files) == 1, "one file, with the invoice of another order in it"

    assert sum(found.times.values()) == pytest.approx(found.end - found.begin)
    assert {"failed", "in recovery", "in batch"} <= found.times.keys()
    assert found.times["failed"] >= 900
    assert {node.id for node in failed.nodes} == nodes.keys(), "it is the same journey, from wherever one looks"
