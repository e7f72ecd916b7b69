# SPDX-License-Identifier: MIT
"""A server that listens, and commands that ask it: run as a person runs them, with ``--server``."""

import asyncio
import json
import socket

import pytest
from uvicorn import Config, Server

from redrive.server import ServerSettings, create_app
from tests.commands import run_command
from tests.patience import PATIENCE_S
from tests.server.api.conftest import make_failures
from tests.server.threaded import running_desk


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("REDRIVE_URL", "REDRIVE_SERVER", "REDRIVE_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture
def database(tmp_path):
    return f"sqlite:///{tmp_path / 'shop.db'}"


@pytest.fixture
def desk(database):
    """The desk of a server, and what runs a coroutine there."""
    with running_desk(database) as running:
        yield running


@pytest.fixture
def server(desk):
    """The address of a server that listens."""
    opened, run = desk
    listener = socket.create_server(("127.0.0.1", 0))
    listening = Server(Config(create_app(opened, ServerSettings()), lifespan="off", log_config=None, ws="none"))

    async def start():
        serving = asyncio.get_running_loop().create_task(listening._serve(sockets=[listener]))
        while not listening.started:
            await asyncio.to_thread(bool)
        return serving

    async def stop():
        listening.should_exit = True
        async with asyncio.timeout(PATIENCE_S):
            await serving

    serving = run(start())
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    run(stop())


@pytest.fixture
def fail(desk):
    """Let messages fail."""
    opened, run = desk
    return lambda *given, **more: run(make_failures(opened, *given, **more))


@pytest.fixture
def there(server):
    """Run a command through the server; return what it ended with."""
    return lambda *arguments, **more: run_command("--server", server, *arguments, **more)


@pytest.fixture
def here(database):
    """Run a command on the database; return what it ended with."""
    return lambda *arguments: run_command(*arguments, "--url", database)


@pytest.fixture
def both(there, here):
    """Run a command both ways; return what the server says, if it is what the database says."""

    def run(*arguments):
        answer, direct = asked(*arguments)
        if _lasting(answer) != _lasting(direct):  # a minute has begun in between, and the history has one more
            answer, direct = asked(*arguments)
        assert _lasting(answer) == _lasting(direct)
        return answer

    def asked(*arguments):
        through, direct = there(*arguments, "--json"), here(*arguments, "--json")
        assert through.exit_code == direct.exit_code == 0, through.output + direct.output
        return json.loads(through.stdout), json.loads(direct.stdout)

    return run


def _lasting(answer):
    """Return an answer without the rates of queues, which differ from one moment to the next."""
    if not isinstance(answer, dict) or "by_destination" not in answer:
        return answer
    return {
        **answer,
        "destinations": [(each["queue"], each["workers"], each["ready"]) for each in answer["destinations"]],
    }
