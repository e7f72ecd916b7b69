# SPDX-License-Identifier: MIT
"""A NATS server that the tests of a process share, and a namespace of it for each of them."""

import os
from itertools import count

import pytest

from tests.nats.server import Cluster, EngineServer, remove_stream
from tests.routes.servers import processes

numbers = count(1)


@pytest.fixture(scope="session")
def shared_engine_server():
    """The server that all tests of this process share; in CI it is an error that there is none."""
    try:
        program = processes.nats_program()
    except processes.NoServer as error:
        if os.environ.get("CI"):
            pytest.fail(str(error))
        pytest.skip(f"NOT SHOWN HERE: everything about the engine on NATS. {error}")
    with EngineServer(program) as server:
        yield server


@pytest.fixture
def engine_server(shared_engine_server):
    """A server, which a test may kill."""
    yield shared_engine_server
    shared_engine_server.thaw_or_restart()


@pytest.fixture
def nats_namespace(engine_server):
    """A namespace that no other test has."""
    name = f"t{next(numbers)}"
    yield name
    engine_server.thaw_or_restart()
    remove_stream(engine_server.url, name)


@pytest.fixture(scope="module")
def cluster():
    """Three servers that the tests of this file share; in CI it is an error that there are none."""
    try:
        program = processes.nats_program()
    except processes.NoServer as error:
        if os.environ.get("CI"):
            pytest.fail(str(error))
        pytest.skip(f"NOT SHOWN HERE: a cluster of NATS. {error}")
    with Cluster(program) as found:
        yield found


@pytest.fixture
def whole(cluster):
    """The cluster, which a test may damage."""
    yield cluster
    for server in cluster.servers:
        server.thaw_or_restart()
