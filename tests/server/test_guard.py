# SPDX-License-Identifier: MIT
"""What every request and every response passes, whatever it is for."""

import asyncio

import httpx
import pytest

from redrive.server import ServerSettings, create_app
from redrive.server.guard import is_known_host
from redrive.testing import ManualClock
from tests.server.conftest import client_of, until_asleep


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8484", "127.0.0.1", "[::1]:8484", "localhost:8484", "LOCALHOST", "10.0.0.7", "redrive.example"]
)
def test_addresses_and_own_names_are_known(host):
    assert is_known_host(host, {"redrive.example"})


@pytest.mark.parametrize(
    "host", ["", "evil.example", "redrive.example.evil", "127.0.0.1.evil.example", "[evil]", "localhost.", "a:b:c"]
)
def test_other_names_are_not(host):
    assert not is_known_host(host, {"redrive.example"})


async def test_a_request_for_another_host_is_refused(client):
    answer = await client.get("/queues", headers={"host": "evil.example"})
    assert (answer.status_code, answer.json()["code"]) == (421, "unknown-host")


async def test_every_response_has_the_headers_of_safety(client):
    for answer in (await client.get("/queues"), await client.get("/nothing"), await client.get("/queues/none")):
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'")
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["referrer-policy"] == "same-origin"


async def test_a_body_that_says_it_is_too_large_is_not_read(desk):
    client = client_of(desk, settings=ServerSettings(max_body_bytes=1_024))
    answer = await client.put("/queues/orders", content=b" " * 1_025)
    assert (answer.status_code, answer.json()["code"]) == (413, "body-too-large")


async def test_a_body_that_does_not_say_its_size_is_read_up_to_the_limit(desk):
    sent = 0

    async def endless():
        nonlocal sent
        while True:
            sent += 1
            yield b" " * 1_024

    client = client_of(desk, settings=ServerSettings(max_body_bytes=2_048))
    answer = await client.put("/queues/orders", content=endless(), headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["code"]) == (413, "body-too-large")
    assert sent <= 4


async def test_a_body_that_does_not_arrive_is_given_up(desk, monkeypatch):
    clock = ManualClock()
    monkeypatch.setattr(desk.broker, "_clock", clock)
    app = create_app(desk, ServerSettings())
    sent = []

    async def receive():
        await asyncio.get_running_loop().create_future()

    async def send(packet):
        sent.append(packet)

    scope = {"type": "http", "method": "PUT", "path": "/api/v1/queues/orders", "query_string": b"", "app": app}
    scope |= {"headers": [(b"host", b"localhost"), (b"transfer-encoding", b"chunked")], "client": ("::1", 1)}
    task = asyncio.create_task(app(scope, receive, send))
    await until_asleep(clock)
    clock.advance(30.1)
    await task
    assert sent[0]["status"] == 408


async def test_large_answers_are_compressed(client, desk):
    for number in range(20):
        await desk.broker.declare(f"queue-{number}")
    answer = await client.get("/queues", headers={"accept-encoding": "gzip"})
    assert answer.headers["content-encoding"] == "gzip"
    assert len(answer.json()) == 20


async def test_half_an_answer_is_not_ended_as_if_it_were_whole(desk):
    app = create_app(desk, ServerSettings())

    @app.get("/half")
    async def half():
        from fastapi.responses import StreamingResponse

        async def pieces():
            yield b"1"
            raise ValueError("in the middle")

        return StreamingResponse(pieces())

    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        with pytest.raises(ValueError, match="in the middle"):
            await client.get("/half")
