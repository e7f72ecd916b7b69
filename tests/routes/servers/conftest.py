# SPDX-License-Identifier: MIT
"""Servers for the tests of receivers and senders, started when the first test asks for them."""

import os
from itertools import count

import pytest

from tests.routes.servers import processes

names = (f"s{number}" for number in count(1))


def new_server(kind, program, what):
    """Start a server, and remove it at the end; in CI it is an error that there is none."""
    try:
        found = program()
    except processes.NoServer as error:
        if os.environ.get("CI"):
            pytest.fail(str(error))
        pytest.skip(f"NOT SHOWN HERE: everything about {what}. {error}")
    with kind(found) as server:
        yield server


@pytest.fixture(scope="session")
def shared_valkey():
    """The Valkey server that all tests of this process share."""
    yield from new_server(processes.ValkeyServer, processes.valkey_program, "Redis Streams")


@pytest.fixture(scope="session")
def shared_nats():
    """The NATS server that all tests of this process share."""
    yield from new_server(processes.NatsServer, processes.nats_program, "NATS JetStream")


@pytest.fixture
def valkey(shared_valkey):
    """A Valkey server, which a test may kill."""
    yield shared_valkey
    shared_valkey.thaw_or_restart()


@pytest.fixture
def nats_server(shared_nats):
    """A NATS server, which a test may kill."""
    yield shared_nats
    shared_nats.thaw_or_restart()


@pytest.fixture
def name():
    """A name that no other test has."""
    return next(names)
