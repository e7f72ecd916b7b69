# SPDX-License-Identifier: MIT
"""Slow questions: pages are answered beside them, they say how far they got, and they end when the client leaves."""

import asyncio
from dataclasses import replace

import httpx
import pytest

from redrive.recovery import search
from redrive.server import ServerSettings, create_app
from redrive.server.api import failures as endpoints
from redrive.server.api.client_disconnect import unless_left
from tests.engines.test_questions import begun, end
from tests.patience import PATIENCE_S
from tests.server.conftest import client_of


@pytest.fixture
def small_parts(monkeypatch):
    """Let a search look through two messages at a time."""
    for name in ("_FIRST_PART", "_LARGEST_PART", "_SMALLEST_PART"):
        monkeypatch.setattr(search, name, 2)


async def test_pages_operations_and_ingestion_go_on_while_slow_questions_run(client, fail, desk):
    await fail("orders")
    tasks = await begun(desk.broker, 4)  # they never end, and have all readers
    async with asyncio.timeout(PATIENCE_S):
        for path in ("/failures", "/failures/count", "/failures/statuses", "/groups", "/queues", "/figures"):
            assert (await client.get(path)).status_code == 200
        asked = await client.post("/operations", json={"filter": "queue:orders", "kind": "archive"})
        await desk.recovery.step()
        assert (await desk.recovery.operation(asked.json()["number"])).is_over
        assert await fail("billing")
    assert not any(task.done() for task in tasks)
    await end(tasks)


@pytest.mark.usefixtures("small_parts")
async def test_a_search_that_is_ended_says_how_far_it_got_and_goes_on_there(fail, desk):
    await fail("orders", bodies=[f"body {number}" for number in range(7)])
    slow = client_of(replace(desk, question_limit=1e-9))  # one part a page
    path, seen, pages = "/failures?q=%22body+6%22&limit=5", [], 0
    while path is not None:
        page = await slow.get(path)
        pages += 1
        seen += page.json()
        assert ("redrive-looked-until" in page.headers) == ("next" in page.links)
        path = page.links["next"]["url"].removeprefix("/api/v1") if page.links else None
    assert pages == 4
    assert ["body 6" in each["exception_message"] for each in seen] == [True]


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("order", ["oldest", "newest", "last-failed"])
async def test_a_search_finds_the_same_in_parts_as_at_once(client, fail, desk, order):
    await fail("orders", bodies=["a", "b", "ab", "c", "ba"])
    found = [each["number"] for each in (await client.get(f"/failures?q=%22take+a%22&order={order}")).json()]
    assert found == [each.number for each in await desk.recovery.failed('"take a"', order=order)]
    assert len(found) == 2
    lines = (await client.get("/failures/export?q=%22take+a%22&format=csv")).text.splitlines()
    assert len(lines) == 3


async def test_a_count_by_reading_stops_and_says_so_unless_all_are_asked_for(client, fail, monkeypatch):
    await fail("orders")
    monkeypatch.setattr(endpoints, "_MOST_COUNTED", 2)
    counts = {}
    for query in ("q=attempts>0", "q=attempts>0&exact=true", "q=attempts>0+queue:none", "q=queue:orders"):
        counts[query] = (await client.get(f"/failures/count?{query}")).json()
    assert list(counts.values()) == [{"count": 2, "more": True}, {"count": 3}, {"count": 0}, {"count": 3}]


async def test_what_takes_too_long_is_a_problem_with_a_fix(client, fail, desk):
    await fail("orders")
    tasks = await begun(desk.broker, 2)
    desk.slow._ledger.database._seconds = 0.01
    for path in ("/groups?q=text", "/failures/statuses?q=age<1h", "/failures?q=attempts>1", "/failures?q=text"):
        answer = await client.get(path)
        assert (answer.status_code, answer.json()["code"]) == (422, "question-too-slow")
        assert "narrow the filter" in answer.json()["fix"]
    await end(tasks)


async def test_a_question_ends_when_its_client_leaves(desk):
    """The app is called as a server calls it: the client sends its request, and goes away."""
    app, gone, sent = create_app(desk, ServerSettings()), asyncio.Event(), []
    packets = [{"type": "http.request", "body": b"", "more_body": False}]
    cancelled = asyncio.Event()

    async def receive():
        if packets:
            return packets.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    async def count(*_, **__):
        gone.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    desk.slow.count = count
    scope = httpx_scope("/api/v1/failures/count", b"q=text")
    async with asyncio.timeout(PATIENCE_S):
        await app(scope, receive, lambda packet: _noted(sent, packet))
        assert cancelled.is_set()


async def _noted(sent, packet):
    sent.append(packet)


def httpx_scope(path, query):
    url = httpx.URL("http://127.0.0.1:8484").copy_with(path=path, query=query)
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": url.query,
        "root_path": "",
        "headers": [(b"host", b"127.0.0.1")],
        "server": ("127.0.0.1", 8484),
        "client": ("127.0.0.1", 1),
    }


async def test_an_error_of_what_is_asked_is_the_answer():
    async def receive():
        await asyncio.Event().wait()

    async def fails():
        raise KeyError("odd")

    with pytest.raises(KeyError, match="odd"):
        await unless_left(receive, fails)
