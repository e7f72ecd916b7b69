# SPDX-License-Identifier: MIT
"""Odd ids, names, cursors, filters and bodies at every endpoint: never a 500, and never another's data."""

import json
from dataclasses import replace
from itertools import cycle
from urllib.parse import quote

import pytest

from redrive.access import Role
from tests.server.api.conftest import make_failures

MARK = "5ecret-0f-billing"
ODD = (
    *("0", "-1", "9223372036854775807", "9223372036854775808", "1e999", "NaN", "true", "null"),
    *("a\0b", "\x1b[2J", "\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16"), "%", "%%s", "{}", "'; --"),
    *("..", "a/b", "a" * 900, "*", "orders/$dead", "redrive.confirmations", "billing", "billing/$dead", "0" * 32),
    *("queue:billing", "id:" + "0" * 32, "status:any", '"', "text:'\0'", "operation:99999999999999999999", "group:*"),
    *("failure:0000", "operation:1", "group:x", "AAAA", "bnVsbA==", "2031-13-45", ""),
)
BODIES = (
    *(b"", b"{", b"[]", b"null", b'"x"', b"\xff\xfe", b"[" * 5_000, b'{"a": ' * 2_000, b"1e999"),
    *(
        json.dumps(each).encode()
        for each in ({"filter": "queue:billing"}, {"ids": [MARK, "0" * 32]}, {"to": "billing"})
    ),
    b'{"messages": [{"body": "\\ud800"}]}',
    b'{"subject": "group:\\u0000", "text": "\\u0000"}',
    b'{"source": {"kind": "\\u0000"}, "sender": {"kind": {}}, "filters": [{}]}',
    b'{"filter": "status:any", "transform": {"set_json": {"/a": "\\ud800"}, "body": "!"}, "canary": -1}',
    b'{"rule": {"equals": {"a": 1e400}, "expression": "\\u0000"}}',
)


@pytest.fixture
async def requests(client):
    """Every request that the document knows, without streams: method, path, and the parameters of the query."""
    paths = (await client.get("/openapi.json")).json()["paths"]
    return [
        (method, path.removeprefix("/api/v1"), [each["name"] for each in found.get("parameters", ())])
        for path, methods in paths.items()
        for method, found in methods.items()
        if path.startswith("/api/v1") and not path.endswith(("/tap", "/events"))
    ]


@pytest.fixture
async def _failures(desk):
    await make_failures(desk, "billing", bodies=[MARK], error=KeyError)
    await make_failures(desk, "orders")
    await desk.recovery.recover("queue:billing", at=3_600, reason=MARK)
    await desk.broker.declare_topic("billing-news")


async def _sent(client, request, value, body):
    method, path, names = request
    place = {name: quote(value, safe="") or "%20" for name in names if f"{{{name}}}" in path}
    query = {name: value for name in names if name not in place and name != "Idempotency-Key"}
    headers = {"content-type": "application/json"}
    return await client.request(method, path.format(**place), params=query, content=body, headers=headers)


@pytest.fixture(params=[4, pytest.param(1_000, marks=pytest.mark.torture)], ids=["some", "all"])
def some(request):
    """Return so many of some values, others each time: all of them are used somewhere."""
    turns = {}

    def chosen(values):
        turn = turns.setdefault(id(values), cycle(values))
        return [next(turn) for _ in range(min(request.param, len(values)))]

    return chosen


@pytest.mark.usefixtures("_failures")
async def test_odd_values_are_never_an_error_of_the_server(client, requests, some):
    for request in requests:
        for value in some(ODD) if request[2] else ("",):
            (body,) = some(BODIES)[:1] if request[0] != "get" else (None,)
            answer = await _sent(client, request, value, body)
            assert answer.status_code < 500, (request, value, answer.text)


@pytest.mark.usefixtures("_failures")
async def test_odd_bodies_are_never_an_error_of_the_server(client, requests, some):
    for request in requests:
        for body in some(BODIES) if request[0] != "get" else ():
            answer = await _sent(client, request, "orders", body)
            assert answer.status_code < 500, (request, body, answer.text)


@pytest.mark.usefixtures("_failures")
async def test_nothing_of_another_queue_comes_out(as_someone, requests, some, desk):
    limited = as_someone(Role.ADMIN, queues=("orders",), name="bob")
    (failure,) = await desk.recovery.failed("queue:billing")
    before = await desk.broker.inspect("billing")
    values = (failure.id, failure.group, "1", "billing", "billing/$dead", "queue:billing", "status:any")
    bodies = (
        {"filter": "status:any"},
        {"filter": "queue:billing", "transform": {"replace": [["a", "b"]]}},
        {"ids": [failure.id], "kind": "archive"},
        {"subject": f"failure:{failure.id}", "text": "x"},
        {"to": "billing"},
        {"transform": {"replace": [["a", "b"]]}},
        {},
    )
    for request in requests:
        for value in some(values):
            for body in some(bodies) if request[0] not in ("get", "delete") else (None,):
                answer = await _sent(limited, request, value, None if body is None else json.dumps(body).encode())
                assert answer.status_code < 500, (request, value, answer.text)
                assert MARK not in answer.text, (request, value, body)
    after = await desk.broker.inspect("billing")
    assert replace(after, used_at=before.used_at) == before  # when it was used is stored a while later
    assert await desk.recovery.failed("queue:billing status:any") == [failure]
