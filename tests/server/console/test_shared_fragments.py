# SPDX-License-Identifier: MIT
"""Live updates of a page that many people look at: made once for all who ask at one time, and never out of date."""

import asyncio
import gzip
import re
from contextlib import AsyncExitStack
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import HTTPConnection

from redrive import connect, open_recovery
from redrive.access import Role, rights_of
from redrive.clock import pause, system_clock
from redrive.errors import SignInRequired
from redrive.server import ServerSettings, open_desk
from redrive.server.console import Fragments, fragments
from redrive.server.console.fragments import KEY_SEAT, Fragment
from redrive.server.door import GuardedDoor
from redrive.testing import ManualClock
from tests.server.conftest import principal
from tests.server.console.conftest import browser_of

ANN = principal()


class Maker:
    """Makes fragments, for some seconds each."""

    def __init__(self, clock, seconds):
        self.begun = []
        self._clock = clock
        self._seconds = seconds

    async def make(self):
        self.begun.append(self._clock.monotonic())
        await pause(system_clock, 0.001)  # the others ask meanwhile
        self._clock.advance(self._seconds)
        return Fragment(f"made at {self.begun[-1]}", ANN)


@pytest.mark.parametrize("seconds", [0.01, 5])
async def test_many_who_ask_at_once_get_one_fragment_however_long_it_takes_to_make(seconds):
    clock = ManualClock()
    shared, maker = Fragments(clock), Maker(clock, seconds)
    found = await asyncio.gather(*(shared.get(("overview",), ANN, maker.make) for _ in range(200)))
    assert (len(maker.begun), len(set(found))) == (1, 1)


async def test_who_asks_while_a_slow_one_is_made_gets_a_newer_one_and_shares_it():
    clock, is_late = ManualClock(), asyncio.Event()
    shared, maker = Fragments(clock), Maker(clock, 5)

    async def first():
        is_late.set()
        return await maker.make()

    early = asyncio.create_task(shared.get(("overview",), ANN, first))
    await is_late.wait()
    clock.advance(1)  # something may have changed since it was begun
    late = await asyncio.gather(*(shared.get(("overview",), ANN, maker.make) for _ in range(200)))
    assert await early != late[0]
    assert (len(maker.begun), len(set(late))) == (2, 1)


async def test_after_a_moment_it_is_made_anew():
    clock = ManualClock()
    shared, maker = Fragments(clock), Maker(clock, 0)
    first = await shared.get(("overview",), ANN, maker.make)
    clock.advance(0.2)
    assert await shared.get(("overview",), ANN, maker.make) == first
    clock.advance(0.1)
    assert await shared.get(("overview",), ANN, maker.make) != first


# --- as browsers get it

LIVE = {"redrive-fragment": "1"}


@pytest.fixture
async def still(tmp_path):
    """A desk whose clock stands still: what was made a moment ago stays so."""
    clock = ManualClock()
    async with AsyncExitStack() as stack:
        broker = await stack.enter_async_context(connect(f"sqlite:///{tmp_path}/console.db", clock=clock))
        yield await stack.enter_async_context(open_desk(broker, open_recovery(broker)))


class Turning:
    """A door that lets in whoever it is told to."""

    def __init__(self):
        self.who = principal()

    async def admit(self, request):
        if self.who is None:
            raise SignInRequired
        return self.who


@pytest.fixture
async def door(still):
    """A door, of a server where a queue has come since its page was fetched."""
    door = Turning()
    door.browser = browser_of(still, door)
    first = await door.browser.get("/queues", headers=LIVE)
    await still.broker.declare("new-queue")
    assert (first.status_code, "new-queue" in first.text) == (200, False)
    return door


async def test_people_who_may_see_the_same_share_what_was_made_a_moment_ago(door):
    door.who = principal(name="bob", address="10.0.0.8")
    assert "new-queue" not in (await door.browser.get("/queues", headers=LIVE)).text


@pytest.mark.parametrize(
    "other",
    [principal(Role.VIEWER), principal(queues=("new-queue",)), principal(may_see_bodies=True)],
    ids=["role", "queues", "bodies"],
)
async def test_people_who_may_not_see_the_same_share_nothing(door, other):
    door.who = other
    assert "new-queue" in (await door.browser.get("/queues", headers=LIVE)).text


async def test_what_was_made_a_moment_ago_is_not_for_those_who_have_lost_their_rights(door):
    door.who = None
    answer = await door.browser.get("/queues", headers=LIVE, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/login?next=%2Fqueues")


@pytest.mark.parametrize(
    "other",
    [{}, LIVE | {"cookie": "redrive-zone=Asia/Tokyo"}, LIVE | {"x-redrive-uncover": "yes"}],
    ids=["whole", "zone", "uncovered"],
)
async def test_another_page_is_made_anew(door, other):
    door.who = principal(may_see_bodies=True)
    await door.browser.get("/queues", headers=LIVE)
    answer = await door.browser.get("/queues?x=1", headers=other)
    assert "new-queue" in answer.text


async def test_a_question_to_see_all_is_written_down_each_time_and_its_answer_kept_for_nobody(door):
    door.who = principal(may_see_bodies=True)
    for _ in range(2):
        await door.browser.get("/queues", headers=LIVE | {"x-redrive-uncover": "yes"})
    entries = (await door.browser.get("/api/v1/audit")).json()
    assert [each["action"] for each in entries].count("bodies.read") == 2


async def test_each_session_gets_its_own_token_in_a_page_that_is_shared(still):
    settings = ServerSettings(require_sign_in=True)
    browser = browser_of(still, GuardedDoor(still.access, settings), settings)
    await still.broker.declare("orders")
    await still.broker.send("orders", "one")
    pages = []
    for name in ("ann", "bob"):
        await still.access.add_user(name, "a long password", rights_of("admin"))
        browser.cookies.clear()
        await browser.post("/login", data={"name": name, "password": "a long password", "next": "/"})
        token = (await browser.get("/api/v1/session", headers={"accept": "application/json"})).json()["csrf"]
        page = (await browser.get("/queues/orders/send", headers=LIVE)).text
        assert token in page
        pages.append(page.replace(token, "TOKEN"))
    keys = [re.search(r'name="key" value="([^"]+)"', page)[1] for page in pages]
    assert keys[0] != keys[1]
    assert pages[0].replace(keys[0], "KEY") == pages[1].replace(keys[1], "KEY")


async def test_a_page_that_names_its_viewer_is_for_nobody_else(door):
    for name in ("ann", "bob-the-other"):
        door.who = principal(Role.VIEWER, name=name)
        assert f"You are {name}" in (await door.browser.get("/settings", headers=LIVE)).text


async def test_a_token_that_was_revoked_gets_nothing_that_is_kept(still):
    settings = ServerSettings(require_sign_in=True)
    browser = browser_of(still, GuardedDoor(still.access, settings), settings)
    token = await still.access.create_token("ci", rights_of("viewer"))
    asked = {"authorization": f"Bearer {token.secret}", "cache-control": "max-age=9", "accept": "application/json"}
    for path, more in (("/queues", LIVE), ("/api/v1/queues", {})):
        assert (await browser.get(path, headers={**asked, **more})).status_code == 200
    await still.access.revoke_token(token.info.id, even_last=True)
    for path, more in (("/queues", LIVE), ("/api/v1/queues", {})):
        assert (await browser.get(path, headers={**asked, **more})).status_code == 401


async def test_who_has_a_fragment_already_gets_none(door):
    first = await door.browser.get("/queues", headers=LIVE)
    again = await door.browser.get("/queues", headers={**LIVE, "if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert "content-encoding" not in again.headers


@given(st.lists(st.text(max_size=3_000), min_size=1, max_size=5), st.text("abc", max_size=8))
def test_what_is_compressed_is_the_same_text(texts, filling):
    fragment = Fragment(KEY_SEAT.join([*texts, filling * 1_000]), ANN)
    app = SimpleNamespace(state=SimpleNamespace(settings=ServerSettings()))
    taken = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(fragments, "new_secret", lambda: "a-key")
        for headers in ([(b"accept-encoding", b"gzip")], []):
            answer = fragment.answer(HTTPConnection({"type": "http", "headers": headers, "app": app}))
            is_packed = answer.headers.get("content-encoding") == "gzip"
            taken.append(gzip.decompress(answer.body) if is_packed else answer.body)
    assert taken == ["a-key".join([*texts, filling * 1_000]).encode(errors="replace")] * 2
