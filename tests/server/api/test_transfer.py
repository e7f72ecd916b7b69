# SPDX-License-Identifier: MIT
"""What every request and answer passes through: limits, tags, compression."""

from redrive.server import ServerSettings
from tests.server.conftest import Someone, client_of, principal


async def test_an_answer_that_has_not_changed_is_not_sent_again(client, desk):
    await desk.broker.declare("orders")
    first = await client.get("/queues/orders")
    again = await client.get("/queues/orders", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", first.headers["etag"])
    await desk.broker.send("orders", b"1")
    changed = await client.get("/queues/orders", headers={"If-None-Match": f'"x", {first.headers["etag"]}'})
    assert changed.status_code == 200
    assert changed.headers["etag"] != first.headers["etag"]


async def test_only_what_is_whole_and_right_has_a_tag(client):
    assert "etag" not in (await client.get("/queues/none")).headers
    assert "etag" not in (await client.get("/failures/export")).headers
    assert "etag" not in (await client.put("/queues/orders", json={})).headers


async def test_large_answers_are_compressed_if_the_client_can_read_that(client, desk):
    for number in range(20):
        await desk.broker.declare(f"orders-{number}")
    assert (await client.get("/queues")).headers["content-encoding"] == "gzip"
    assert "content-encoding" not in (await client.get("/queues", headers={"accept-encoding": "identity"})).headers
    assert "content-encoding" not in (await client.get("/queues/orders-1")).headers


async def test_a_request_that_is_too_large_is_refused_whether_it_says_so_or_not(desk):
    small = client_of(desk, Someone(principal()), ServerSettings(max_body_bytes=1_024))

    async def parts():
        for _ in range(20):
            yield b'"' + b"x" * 100 + b'"'

    for content in (b"x" * 2_000, parts()):
        answer = await small.put("/queues/orders", content=content, headers={"content-type": "application/json"})
        assert (answer.status_code, answer.json()["code"]) == (413, "body-too-large")
    assert (await small.put("/queues/orders", json={})).status_code == 200
