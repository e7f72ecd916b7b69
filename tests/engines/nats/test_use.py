# SPDX-License-Identifier: MIT
"""A broker, a worker and recovery on NATS: nothing but the URL is different, and the ledger is somewhere else."""

import asyncio
from functools import partial

import pytest

import redrive
from redrive.errors import InvalidSetting, MessageTooLarge, NotSupported, RedriveError, UsageError
from redrive.wiring import open_pipelines, open_recovery, open_routes
from redrive.worker import Recoverability, Worker
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.asyncio


@pytest.fixture
def url(engine_server, nats_namespace):
    return f"{engine_server.url}/{nats_namespace}?replicas=1"


async def test_a_worker_handles_messages_and_its_failures_are_recovered(url, tmp_path):
    is_broken, handled = True, asyncio.Event()

    async with redrive.connect(url) as broker:
        for queue in ("orders", "error"):
            await broker.declare(queue)
        worker = Worker()

        @worker.handler("orders", recoverability=Recoverability(immediate=1, delayed=None, error_queue="error"))
        async def handle(_: bytes):
            if is_broken:
                raise RuntimeError("not today")
            handled.set()

        running = asyncio.create_task(worker.run(broker))
        await broker.send("orders", {"item": "lamp"})
        async with open_recovery(broker, f"sqlite:///{tmp_path}/failures.db") as recovery:
            async with asyncio.timeout(PATIENCE_S):
                while not await recovery.count():
                    await broker.engine.wait("error", 0.2)
                    await recovery.ingest()
                is_broken = False
                await recovery.recover("queue:orders", actor="ann")
                while not handled.is_set():
                    await recovery.step()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert handled.is_set()


async def test_what_needs_a_database_says_so(url):
    async with redrive.connect(url) as broker:
        for opening in (open_routes, open_pipelines):
            with pytest.raises(NotSupported, match="NATS"):
                opening(broker)
        with pytest.raises(InvalidSetting, match="no database"):
            open_recovery(broker)


async def test_queues_with_sessions_are_refused(url):
    async with redrive.connect(url) as broker:
        with pytest.raises(NotSupported, match=r"NATS.*sessions"):
            await broker.declare("orders", requires_session=True)


async def test_a_message_larger_than_the_server_takes_is_refused(url):
    async with redrive.connect(url) as broker:
        await broker.declare("orders", max_message_bytes=100_000_000)
        with pytest.raises(MessageTooLarge):
            await broker.send("orders", bytes(9_000_000))
        await broker.send("orders", bytes(7_000_000))
        assert [len(one.body) for one in await broker.peek("orders")] == [7_000_000]


async def test_a_stream_that_is_deleted_while_it_is_used_is_named(url, nats_namespace):
    async with redrive.connect(f"{url}&patience=1&attempt=0.5") as broker:
        await broker.declare("orders")
        client = await broker.engine._connection.client()
        await client.request(f"$JS.API.STREAM.DELETE.{nats_namespace}", timeout=10)
        for call in (partial(broker.send, "orders", b"x"), partial(broker.receive, "orders"), broker.engine.inspect):
            with pytest.raises(RedriveError, match="gone"):
                await call()
    async with redrive.connect(url) as broker:
        await broker.declare("orders")
        await broker.send("orders", b"again")


async def test_a_stream_of_another_program_is_left_alone(engine_server, nats_namespace):
    import nats

    client = await nats.connect(engine_server.url)
    await client.jetstream().add_stream(name=nats_namespace, subjects=[f"{nats_namespace}.>"])
    await client.close()
    with pytest.raises(UsageError, match="not Redrive's"):
        async with redrive.connect(f"{engine_server.url}/{nats_namespace}?replicas=1"):
            pass


async def test_more_replicas_than_servers_are_refused_with_the_fix(engine_server, nats_namespace):
    with pytest.raises(UsageError, match="ask for fewer replicas"):
        async with redrive.connect(f"{engine_server.url}/{nats_namespace}?replicas=3"):
            pass


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("nats://", "must name its servers"),
        ("nats://a:b:c", "must name its servers"),
        ("nats://a/x.y", "must be 1 to 64 letters"),
        ("nats://a?replicas=2", "must be 1, 3 or 5"),
        ("nats://a?replicas=two", "no number"),
        ("nats://a?unknown=1", "unknown option"),
    ],
)
async def test_a_url_that_cannot_be_used_is_refused_with_the_fix(url, problem):
    with pytest.raises(InvalidSetting, match=problem):
        redrive.connect(url)
