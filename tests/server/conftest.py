# SPDX-License-Identifier: MIT
"""A server without a socket: its desk on each database, and clients of every kind."""

from contextlib import AsyncExitStack

import httpx
import pytest

from redrive import connect, open_recovery
from redrive.access import Principal, Role
from redrive.server import ServerSettings, create_app, open_desk
from tests.cheap_passwords import use_cheap_passwords
from tests.http.site import until


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path):
    """Where everything is."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/server.db"
    url, schema = request.getfixturevalue("postgres_url"), request.getfixturevalue("emptied_schema")
    return f"{url}{'&' if '?' in url else '?'}schema={schema}"


@pytest.fixture(autouse=True)
def passwords_are_quick(monkeypatch):
    use_cheap_passwords(monkeypatch)


@pytest.fixture
async def desk(url):
    async with AsyncExitStack() as stack:
        broker = await stack.enter_async_context(connect(url))
        yield await stack.enter_async_context(open_desk(broker, open_recovery(broker)))


class Someone:
    """A door that takes everybody for the same principal."""

    def __init__(self, principal):
        self.principal = principal

    async def admit(self, request):
        return self.principal


def principal(role=Role.ADMIN, **more):
    return Principal(**{"name": "ann", "role": role, "address": "10.0.0.7", **more})


@pytest.fixture
def as_someone(desk):
    """Return a client that is somebody: a role, and whatever else a principal has."""
    return lambda role=Role.ADMIN, **more: client_of(desk, Someone(principal(role, **more)))


def client_of(desk, door=None, settings=None):
    app = create_app(desk, settings or ServerSettings(), door)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False, client=("10.0.0.7", 1234))
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8484/api/v1")


@pytest.fixture
def client(as_someone):
    """A client that is an admin."""
    return as_someone()


async def until_asleep(clock):
    """Let other tasks run until one of them waits for a clock."""
    await until(lambda: clock.sleepers)
