# SPDX-License-Identifier: MIT
"""The stream of events: topics without data, until the client may not listen any more."""

import asyncio
import json

import pytest

from redrive.access import Role
from redrive.errors import SignInRequired
from redrive.server import ServerSettings, create_app
from redrive.server.api import events
from redrive.testing import ManualClock
from tests.server.conftest import Someone, principal, until_asleep


class Listening:
    """A client of the stream, without a socket."""

    def __init__(self, desk, door):
        self.app = create_app(desk, ServerSettings(), door)
        self.packets = asyncio.Queue()
        self._gone = asyncio.Event()
        scope = {"type": "http", "method": "GET", "path": "/api/v1/events", "query_string": b"", "client": ("::1", 1)}
        scope |= {"headers": [(b"host", b"localhost")]}
        self.task = asyncio.create_task(self.app(scope, self._receive, self.packets.put))

    async def _receive(self):
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def next(self):
        packet = await asyncio.wait_for(self.packets.get(), 60)
        return packet.get("body", b"").decode() if packet["type"] == "http.response.body" else packet["status"]

    def leave(self):
        self._gone.set()


@pytest.fixture(autouse=True)
def clock(desk, monkeypatch):
    clock = ManualClock()
    monkeypatch.setattr(desk.broker, "_clock", clock)
    return clock


async def test_a_client_hears_of_topics_without_data(desk):
    client = Listening(desk, Someone(principal(Role.VIEWER)))
    assert await client.next() == 200
    assert await client.next() == "retry: 2000\n\n"
    client.app.state.topics.tell("failed", "operation:128")
    line = await client.next()
    assert json.loads(line.removeprefix("data: ")) == ["failed", "operation:128"]
    client.leave()
    await client.task
    assert client.app.state.topics.streams == 0


async def test_a_quiet_stream_says_that_it_is_still_there(desk, clock):
    client = Listening(desk, Someone(principal(Role.VIEWER)))
    await client.next(), await client.next()
    await until_asleep(clock)
    clock.advance(events._BEAT_S)
    assert await client.next() == ": still here\n\n"
    client.leave()
    await client.task


async def test_a_client_that_is_limited_hears_of_its_queues_only(desk):
    client = Listening(desk, Someone(principal(Role.VIEWER, queues=("orders",))))
    await client.next(), await client.next()
    client.app.state.topics.tell("failed", "queue:orders", "queue:billing", "route:shop")
    assert json.loads((await client.next()).removeprefix("data: ")) == ["failed", "queue:orders"]
    client.leave()
    await client.task


async def test_the_stream_ends_when_its_client_may_not_listen_any_more(desk, clock):
    class Revoked(Someone):
        async def admit(self, request):
            if self.principal is None:
                raise SignInRequired
            return self.principal

    door = Revoked(principal(Role.VIEWER))
    client = Listening(desk, door)
    await client.next(), await client.next()
    door.principal = None
    await until_asleep(clock)
    clock.advance(events._ASK_AGAIN_S)
    await asyncio.wait_for(client.task, 60)
    assert client.app.state.topics.streams == 0


async def test_the_stream_ends_with_the_server(desk):
    client = Listening(desk, Someone(principal(Role.VIEWER)))
    await client.next(), await client.next()
    client.app.state.topics.end()
    await asyncio.wait_for(client.task, 60)
