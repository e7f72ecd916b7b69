# SPDX-License-Identifier: MIT
"""NATS servers for the engine: one of the tests' own, or a cluster of three."""

import asyncio
import json
from contextlib import ExitStack

import nats

from tests.patience import PATIENCE_S
from tests.postgres.server import wait_until
from tests.routes.servers.processes import NatsServer, free_port


class EngineServer(NatsServer):
    """A NATS server as the engine needs it. It does not wait for the disk: a killed process leaves what it wrote."""

    def command(self):
        """Return how it is started."""
        config = self.folder / "conf"
        store = f'jetstream {{ store_dir: "{self.folder}/data" }}'
        config.write_text(f"listen: 127.0.0.1:{self.port}\nmax_payload: 8MB\n{store}\n")
        return [self.program, "-c", config]


class ClusterServer(EngineServer):
    """One of three servers.

    Args:
        program: the server.
        name: its name.
        routes: the ports at which they talk to each other, its own first.
    """

    def __init__(self, program, name, routes):
        super().__init__(program)
        self.name = name
        self._routes = routes

    def command(self):
        """Return how it is started."""
        config = self.folder / "conf"
        peers = ", ".join(f'"nats://127.0.0.1:{port}"' for port in self._routes)
        config.write_text(
            f"server_name: {self.name}\nlisten: 127.0.0.1:{self.port}\nmax_payload: 8MB\n"
            f'jetstream {{ store_dir: "{self.folder}/data" }}\n'
            f"cluster {{ name: c, listen: 127.0.0.1:{self._routes[0]}, no_advertise: true, routes: [{peers}] }}\n"
        )
        return [self.program, "-c", config]


class Cluster:
    """Three servers that keep everything together. Use it in a ``with`` block."""

    def __init__(self, program):
        routes = [free_port() for _ in range(3)]
        turned = [routes[turn:] + routes[:turn] for turn in range(3)]
        self.servers = [ClusterServer(program, f"n{number}", turned[number]) for number in range(3)]
        self._stack = ExitStack()

    def __enter__(self):
        for server in self.servers:
            self._stack.enter_context(server)
        wait_until(self._has_leader, "a cluster that elects leaders", self.servers[0].log)
        return self

    def __exit__(self, *_):
        self._stack.close()

    @property
    def urls(self):
        """Where they are."""
        return [server.url for server in self.servers]

    def leader(self, stream):
        """Return the server that leads a stream, as the others know it; None while there is none."""
        return self._leader(f"STREAM.INFO.{stream}")

    def wait_until_whole(self, stream):
        """Wait until every server has all of a stream."""
        wait_until(lambda: self._is_whole(stream), "a stream with all its replicas", self.servers[0].log)

    def _is_whole(self, stream):
        leader = self.leader(stream)
        info = None if leader is None else asked_once(leader, f"STREAM.INFO.{stream}")
        if info is None:
            return False
        replicas = info["cluster"].get("replicas", [])
        return len(replicas) == len(self.servers) - 1 and all(each.get("current") for each in replicas)

    def consumer_apart(self, stream, consumer):
        """Return the server that leads a consumer, when it is another than the one that leads its stream."""
        found = []

        def is_apart():
            apart = self._leader(f"CONSUMER.INFO.{stream}.{consumer}")
            leader = self.leader(stream)
            found[:] = [apart]
            if apart is not None and apart is leader:
                ask(leader.url, f"CONSUMER.LEADER.STEPDOWN.{stream}.{consumer}")
            return None not in (apart, leader) and apart is not leader

        wait_until(is_apart, "a consumer that another server leads", self.servers[0].log)
        return found[0]

    def _leader(self, what):
        for server in self.servers:
            answer = asked_once(server, what)
            name = None if answer is None else answer.get("cluster", {}).get("leader")
            if name is not None:
                return next(each for each in self.servers if each.name == name)
        return None

    def _has_leader(self):
        config = {"name": "probe", "subjects": ["probe.>"], "num_replicas": 3}
        answer = asked_once(self.servers[0], "STREAM.CREATE.probe", config)
        return answer is not None and "error" not in answer


def asked_once(server, what, body=None):
    """Return what JetStream answers; None if it does not soon, as during an election, when requests are lost."""
    try:
        return ask(server.url, what, body, patience=3)
    except (OSError, TimeoutError, nats.errors.Error):
        return None


def ask(url, what, body=None, patience=PATIENCE_S):
    """Return what JetStream answers."""

    async def asked():
        client = await nats.connect(url, allow_reconnect=False, connect_timeout=patience, error_cb=ignore)
        try:
            payload = json.dumps(body).encode() if body else b""
            return json.loads((await client.request(f"$JS.API.{what}", payload, timeout=patience)).data)
        finally:
            await client.close()

    return asyncio.run(asked())


async def ignore(_):
    """Say nothing about what the client reports beside what it raises."""


def remove_stream(url, name):
    """Take a namespace away."""
    ask(url, f"STREAM.DELETE.{name}")
