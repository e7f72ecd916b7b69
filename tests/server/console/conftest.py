# SPDX-License-Identifier: MIT
"""A small seeded store on SQLite, and browsers without a browser; both databases are tested with the API."""

from contextlib import AsyncExitStack

import httpx
import pytest

from redrive import connect, open_recovery
from redrive.access import Role, rights_of
from redrive.server import ServerSettings, create_app, open_desk
from redrive.server.door import GuardedDoor
from tests.server.api.conftest import make_failures
from tests.server.conftest import Someone, principal

HOSTILE = "<script>alert(1)</script>'\"&\u202e\x1b[31m"
"""What no page may take for its own."""

BROWSER = {"accept": "text/html,*/*"}


@pytest.fixture
async def desk(tmp_path):
    async with AsyncExitStack() as stack:
        broker = await stack.enter_async_context(connect(f"sqlite:///{tmp_path}/console.db"))
        yield await stack.enter_async_context(open_desk(broker, open_recovery(broker)))


@pytest.fixture
async def seeded(desk):
    """A store with failures in two queues, an operation, and a queue that none reads."""
    await make_failures(desk)
    await make_failures(desk, "bills", ("four",), ValueError)
    await desk.broker.declare("waiting")
    await desk.broker.send("waiting", "for a reader")
    await desk.recovery.recover("queue:bills", actor="ann", reason="it is mended")
    await desk.recovery.step()
    await desk.history.flush()
    return desk


@pytest.fixture
def as_role(desk):
    """Return a browser of a person: a role, and whatever else a principal has."""
    return lambda role=Role.ADMIN, **more: browser_of(desk, Someone(principal(role, **more)))


@pytest.fixture
def browser(as_role):
    """A browser of an admin."""
    return as_role()


def browser_of(desk, door=None, settings=None):
    app = create_app(desk, settings or ServerSettings(), door)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False, client=("10.0.0.7", 1234))
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8484", headers=BROWSER)


@pytest.fixture
async def signed_in(desk):
    """Return a browser that has signed in, and the token of its forms."""
    settings = ServerSettings(require_sign_in=True)
    await desk.access.add_user("ann", "a long password", rights_of("operator"))
    browser = browser_of(desk, GuardedDoor(desk.access, settings), settings)
    answer = await browser.post("/login", data={"name": "ann", "password": "a long password", "next": "/"})
    assert answer.status_code == 303
    who = (await browser.get("/api/v1/session", headers={"accept": "application/json"})).json()
    return browser, who["csrf"]
