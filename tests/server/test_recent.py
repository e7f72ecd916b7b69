# SPDX-License-Identifier: MIT
"""Answers of a moment ago: for those who take them, never for others, and one question for all who wait."""

import asyncio

import pytest

from redrive import connect, open_recovery
from redrive.access import Role
from redrive.errors import SignInRequired
from redrive.server import open_desk
from redrive.server.recent import ACTION, RecentAnswers
from redrive.testing import ManualClock
from tests.server.conftest import client_of, principal


class App:
    """Answers with the number of the question, when its gate is open."""

    def __init__(self):
        self.asked, self.status, self.action, self.size = 0, 200, "queues.read", 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(self, scope, receive, send):
        self.asked += 1
        body = str(self.asked).encode()
        scope[ACTION] = self.action
        await self.gate.wait()
        await send({"type": "http.response.start", "status": self.status, "headers": []})
        await send({"type": "http.response.body", "body": body + b" " * self.size})


class Server:
    """The middleware, and what it finds in the scope: an application with a door."""

    def __init__(self):
        self.app, self.clock, self.who = App(), ManualClock(), principal()
        self.recent = RecentAnswers(self.app, self.clock)
        self.state = self.door = self

    async def admit(self, request):
        if self.who is None:
            raise SignInRequired
        return self.who

    async def ask(self, path="/queues", *, method="GET", query=b"", **headers):
        sent = []
        given = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        scope = {"type": "http", "method": method, "path": path, "query_string": query, "headers": given, "app": self}

        async def send(packet):
            sent.append(packet)

        await self.recent(scope, None, send)
        start, body = sent
        return int(body["body"]), dict(start["headers"]).get(b"age")

    async def recently(self, *args, **more):
        return await self.ask(*args, cache_control="max-age=2", **more)


@pytest.fixture
def server():
    return Server()


async def test_an_answer_is_new_unless_the_client_takes_another(server):
    await server.recently()
    for number, said in enumerate(({}, {"cache_control": "no-cache"}, {"cache_control": "max-age=0"}), start=2):
        assert await server.ask(**said) == (number, None)


async def test_who_takes_an_answer_of_a_moment_ago_gets_it_with_its_age(server):
    assert await server.recently() == (1, None)
    assert await server.recently() == (1, b"0")
    server.clock.advance(1.5)
    assert await server.recently() == (1, b"1")
    server.clock.advance(0.6)
    assert await server.recently() == (2, None)


async def test_no_answer_is_older_than_ten_seconds(server):
    await server.ask(cache_control="max-age=999999")
    server.clock.advance(10.5)
    assert await server.ask(cache_control="max-age=999999") == (2, None)


@pytest.mark.parametrize(
    "other",
    [
        {"path": "/topics"},
        {"query": b"limit=1"},
        {"method": "HEAD"},
        {"x_redrive_uncover": "yes"},
        {"accept_encoding": "gzip"},
    ],
    ids=str,
)
async def test_another_question_has_another_answer(server, other):
    await server.recently()
    assert await server.recently(**other) == (2, None)


@pytest.mark.parametrize(
    "other", [principal(Role.VIEWER), principal(queues=("orders",)), principal(may_see_bodies=True), None], ids=str
)
async def test_an_answer_is_for_those_who_may_see_the_same(server, other):
    await server.recently()
    server.who = other
    assert await server.recently() == (2, None)


async def test_people_who_may_see_the_same_share_an_answer(server):
    await server.recently()
    server.who = principal(name="bob", address="10.0.0.8")
    assert await server.recently() == (1, b"0")


@pytest.mark.parametrize("change", [{"status": 404}, {"action": "own.read"}, {"size": 300_000}], ids=str)
async def test_what_is_wrong_or_own_or_large_is_not_kept(server, change):
    for name, value in change.items():
        setattr(server.app, name, value)
    await server.recently()
    assert await server.recently() == (2, None)


async def test_a_question_is_asked_once_for_all_who_wait(server):
    server.app.gate.clear()
    waiting = [asyncio.ensure_future(server.recently()) for _ in range(5)]
    await asyncio.sleep(0)  # noqa: TID251 - nothing is waited for but a turn
    server.app.gate.set()
    assert await asyncio.gather(*waiting) == [(1, None), *[(1, b"0")] * 4]


async def test_who_waits_asks_again_when_the_first_goes_away(server):
    server.app.gate.clear()
    first, second = (asyncio.ensure_future(server.recently()) for _ in range(2))
    await asyncio.sleep(0)  # noqa: TID251 - nothing is waited for but a turn
    first.cancel()
    server.app.gate.set()
    assert await second == (2, None)
    await asyncio.wait([first])
    assert await server.recently() == (2, b"0")


async def test_only_so_many_answers_are_kept(server):
    for number in range(501):
        await server.recently(f"/queues/{number}")
    assert await server.recently("/queues/500") == (501, b"0")
    assert await server.recently("/queues/0") == (502, None)


async def test_an_endpoint_gives_an_answer_again_and_says_so_if_it_is_known(url):
    recent = {"cache-control": "max-age=1"}
    async with connect(url, clock=ManualClock()) as broker, open_desk(broker, open_recovery(broker)) as desk:
        client = client_of(desk)
        first = await client.get("/queues", headers=recent)
        await desk.broker.declare("orders")
        again = await client.get("/queues", headers=recent)
        assert (again.json(), again.headers["age"], first.json()) == ([], "0", [])
        known = await client.get("/queues", headers={**recent, "if-none-match": first.headers["etag"]})
        assert (known.status_code, known.content) == (304, b"")
        assert [each["name"] for each in (await client.get("/queues")).json()] == ["orders"]


async def test_who_one_is_is_never_an_answer_of_a_moment_ago(client):
    for _ in range(2):
        assert "age" not in (await client.get("/session", headers={"cache-control": "max-age=5"})).headers
