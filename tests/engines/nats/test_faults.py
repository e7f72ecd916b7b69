# SPDX-License-Identifier: MIT
"""What goes wrong with a server: each fault is an error with a name and a way out, and nothing is lost by it."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest

import redrive
from redrive.broker import Abandon, Complete, DeadLetter, Message, QueueSettings, Send
from redrive.engines.nats import NatsEngine
from redrive.errors import EngineUnavailable, InvalidMessage, MessageTooLarge, StorageFull, UsageError
from tests.nats.server import EngineServer
from tests.routes.servers import processes

pytestmark = pytest.mark.asyncio

ORDERS, DEAD = "orders", "orders/$dead"


@asynccontextmanager
async def opened(url, namespace, **options):
    """Open an engine, and close it in the end."""
    engine = NatsEngine([url], namespace=namespace, replicas=1, **options)
    await engine.open()
    try:
        yield engine
    finally:
        await engine.close()


class SpecialServer(EngineServer):
    """A server with other settings.

    Args:
        settings: these.
        jetstream: what else its JetStream has; None: it has none.
    """

    def __init__(self, settings="", jetstream=""):
        super().__init__(processes.nats_program())
        self._settings = settings
        self._jetstream = jetstream

    def command(self):
        """Return how it is started."""
        config = self.folder / "conf"
        store = f'jetstream {{ store_dir: "{self.folder}/data" {self._jetstream} }}'
        settings = f"{self._settings}\n{store if self._jetstream is not None else ''}"
        config.write_text(f"listen: 127.0.0.1:{self.port}\nmax_payload: 8MB\n{settings}\n")
        return [self.program, "-c", config]


# --- what a message and a queue may be like


@pytest.mark.parametrize("name", ["a.b.c", "orders/eu.x", "." * 260, "-_./" * 65])
async def test_names_that_mean_something_to_nats_are_carried(engine_server, nats_namespace, name):
    async with opened(engine_server.url, nats_namespace) as engine:
        await engine.declare(name, QueueSettings(duplicate_detection=60))
        await engine.apply([Send(name, Message(b"", id="* > . \r\n é"))])
        assert await engine.apply([Send(name, Message(b"", id="* > . \r\n é"))]) == [None]
        (found,) = await engine.lock_next(name, 1)
        assert (found.queue, found.id) == (name, "* > . \r\n é")
        await engine.apply([DeadLetter(found.lock, "\r\nbroken: é")])
        (dead,) = await engine.peek(f"{name}/$dead", 1)
        assert (dead.dead_letter_info.reason, dead.dead_letter_info.source) == ("\r\nbroken: é", name)


async def test_headers_come_back_as_they_were(engine_server, nats_namespace):
    headers = {
        "a: b\r\nNats-Rollup: all": "x\r\n\r\ny",
        " blanks ": "  kept  ",
        "é": "\U0001f4a1",
        "long": "x" * 70_000,
    }
    async with opened(engine_server.url, nats_namespace) as engine:
        await engine.declare(ORDERS, QueueSettings())
        await engine.apply([Send(ORDERS, Message(b"\0\r\n", id="x", headers=headers))])
        (found,) = await engine.lock_next(ORDERS, 1)
        assert (dict(found.headers), found.body) == (headers, b"\0\r\n")


async def test_headers_of_bytes_are_refused(engine_server, nats_namespace):
    async with redrive.connect(f"{engine_server.url}/{nats_namespace}?replicas=1") as broker:
        await broker.declare(ORDERS)
        with pytest.raises(InvalidMessage, match="header 'raw'"):
            await broker.send(ORDERS, Message(b"", headers={"raw": b"\xff"}))
        assert await broker.peek(ORDERS) == []


async def test_a_message_that_is_too_large_is_refused_with_the_fix(engine_server, nats_namespace):
    async with opened(engine_server.url, nats_namespace) as engine:
        await engine.declare(ORDERS, QueueSettings(max_message_bytes=100_000_000))
        large, small = Message(bytes(9_000_000), id="large"), Message(b"", id="small")
        with pytest.raises(MessageTooLarge, match="raise the NATS server's max_payload"):
            await engine.apply([Send(ORDERS, small), Send(ORDERS, large)])
        assert await engine.peek(ORDERS, 10) == []


async def test_the_largest_message_that_is_taken_fits_as_a_dead_letter(engine_server, nats_namespace):
    async with opened(engine_server.url, nats_namespace) as engine:
        await engine.declare(ORDERS, QueueSettings(max_message_bytes=100_000_000))
        with pytest.raises(MessageTooLarge) as refused:
            await engine.apply([Send(ORDERS, Message(bytes(9_000_000), id="x"))])
        over = refused.value.size - refused.value.limit + 8  # the time of sending takes a digit more, or less
        await engine.apply([Send(ORDERS, Message(bytes(9_000_000 - over), id="x"))])
        (found,) = await engine.lock_next(ORDERS, 1)
        await engine.apply([DeadLetter(found.lock, "r" * 1_000, "é" * 4_000)])
        assert len(await engine.peek(DEAD, 10)) == 1


# --- what a server may be like


async def sent_until_full(engine):
    """Send messages until there is no room; give their ids."""
    for number in range(100):
        try:
            await engine.apply([Send(ORDERS, Message(bytes(50_000), id=f"{number}"))])
        except StorageFull as error:
            assert "raise its max_file" in str(error)  # noqa: PT017 - the others are given
            return
        yield f"{number}"


async def test_a_full_server_loses_nothing_and_can_be_emptied(nats_namespace):
    with SpecialServer(jetstream=", max_file: 1MB") as server:
        async with opened(server.url, nats_namespace) as engine:
            await engine.declare(ORDERS, QueueSettings(duplicate_detection=60))
            sent = [name async for name in sent_until_full(engine)]
            there = [one.id for one in await engine.peek(ORDERS, 100)]
            assert there == sent
            first, second, *_ = await engine.lock_next(ORDERS, 100)
            with pytest.raises(StorageFull):
                await engine.apply([Complete(first.lock), Send(ORDERS, Message(bytes(100_000), id="more"))])
            assert await engine.apply([Complete(first.lock)]) == [None], "it makes room"
            await engine.apply([Abandon(second.lock)])
            await engine.apply([Send(ORDERS, Message(bytes(1_000), id="again"))])
            left = {one.id for one in await engine.peek(ORDERS, 100)}
            assert left == {*sent, "again"} - {first.id}


@pytest.mark.parametrize("size", [20_000, 60_000])
async def test_a_hand_over_on_a_full_server_is_done_as_a_whole_or_not_at_all(nats_namespace, size):
    """The server itself stores the first messages of such a batch, and refuses the others or does not answer."""
    queues = ("bills", "copies")
    with SpecialServer(jetstream=", max_file: 1MB") as server:
        async with opened(server.url, nats_namespace, attempt=0.5) as engine:
            for queue in (ORDERS, *queues):
                await engine.declare(queue, QueueSettings())
            async for _ in sent_until_full(engine):
                pass
            orders = await engine.lock_next(ORDERS, 100)
            await engine.apply([Complete(orders[0].lock)])
            done = [await handed_over(engine, one, size, queues) for one in orders[1:6]]
            assert False in done
            left, *sent = [{one.id for one in await engine.peek(queue, 100)} for queue in (ORDERS, *queues)]
            for one, is_done in zip(orders[1:6], done, strict=True):
                assert (one.id in left, *(one.id in each for each in sent)) == (not is_done, is_done, is_done)


async def handed_over(engine, order, size, queues):
    """Settle an order and send something for it; say whether there was room."""
    try:
        await engine.apply(
            [Complete(order.lock), *(Send(queue, Message(bytes(size), id=order.id)) for queue in queues)]
        )
    except StorageFull:
        return False
    return True


USERS = """
authorization {{ users = [
  {{ user: all, password: x }}
  {{ user: some, password: x, permissions: {{ publish: {{ deny: "{denied}" }} }} }}
] }}
"""


async def send_and_receive(url):
    """Do what needs all permissions."""
    async with opened(url, "shop", patience=3.0, attempt=0.5) as engine:
        await engine.apply([Send(ORDERS, Message(b"", id="more"))])
        await engine.lock_next(ORDERS, 1)


@pytest.mark.parametrize("denied", ["$JS.API.STREAM.>", "shop.q.>", "$JS.API.CONSUMER.MSG.NEXT.>"])
async def test_a_permission_that_is_missing_is_named(denied):
    with SpecialServer(USERS.format(denied=denied)) as server:
        where = server.url.removeprefix("nats://")
        async with opened(f"nats://all:x@{where}", "shop") as engine:
            await engine.declare(ORDERS, QueueSettings())
            await engine.apply([Send(ORDERS, Message(b"", id="there"))])
            with pytest.raises(UsageError, match="grant it the permission"):
                await send_and_receive(f"nats://some:x@{where}")
            assert "there" in {one.id for one in await engine.peek(ORDERS, 10)}


async def test_a_wrong_password_is_named():
    with SpecialServer(USERS.format(denied="x")) as server:
        where = server.url.removeprefix("nats://")
        with pytest.raises(UsageError, match="check user and password") as refused:
            async with opened(f"nats://all:secret@{where}", "shop"):
                pass
        assert "secret" not in str(refused.value)


async def test_a_server_without_jetstream_is_named():
    with SpecialServer(jetstream=None) as server, pytest.raises(EngineUnavailable, match="JetStream is not enabled"):
        async with opened(server.url, "shop", patience=0.5):
            pass


async def test_a_server_that_is_too_old_is_refused_with_the_version_that_is_needed():
    async def greet(reader, writer):
        info = {"server_id": "X", "version": "2.11.9", "max_payload": 1_048_576, "headers": True, "jetstream": True}
        writer.write(f"INFO {json.dumps(info)}\r\n".encode())
        while line := await reader.readline():
            if line.startswith(b"PING"):
                writer.write(b"PONG\r\n")
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with pytest.raises(UsageError, match=r"is NATS 2\.11\.9, and this needs 2\.12\.1 or newer.*upgrade"):
        async with opened(f"nats://127.0.0.1:{port}", "shop"):
            pass
    server.close()
    await server.wait_closed()
