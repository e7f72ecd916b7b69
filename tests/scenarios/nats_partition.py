# SPDX-License-Identifier: MIT
"""Three servers in networks of their own, and a leader that is cut off from the others while clients reach it.

``unshare -rnm --fork --kill-child python -m tests.scenarios.nats_partition``: there the program is root, and nothing
outside sees what it does. Prints what it has counted as JSON.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path

from redrive.broker import Message, QueueSettings, Send
from redrive.clock import system_clock
from redrive.engines.nats import NatsEngine
from redrive.errors import EngineUnavailable
from tests.nats.hand_over import ORDERS, opened
from tests.nats.server import ask
from tests.postgres.server import wait_until
from tests.routes.servers import processes

NODES = (1, 2, 3)
CLIENTS, PEERS = "10.9.0", "10.8.0"
STREAM = "shop"


def sh(commands):
    """Run commands."""
    subprocess.run(commands, shell=True, check=True)  # noqa: S602 - they are all in this file


def build():
    """Make a network for clients and another for the servers among themselves."""
    sh("ip link set lo up; mount -t tmpfs none /run; mkdir -p /run/netns")
    for bridge, net in (("brc", CLIENTS), ("brk", PEERS)):
        sh(f"ip link add {bridge} type bridge; ip link set {bridge} up; ip addr add {net}.1/24 dev {bridge}")
    for node in NODES:
        sh(f"ip netns add node{node}; ip netns exec node{node} ip link set lo up")
        for bridge, net, device in (("brc", CLIENTS, "cli"), ("brk", PEERS, "clu")):
            inside = f"ip netns exec node{node} ip"
            sh(
                f"ip link add {device}{node} type veth peer name {device} netns node{node};"
                f"ip link set {device}{node} master {bridge} up;"
                f"{inside} addr add {net}.1{node}/24 dev {device}; {inside} link set {device} up"
            )


def start(folder, node):
    """Start a server in its network."""
    peers = ", ".join(f'"nats://{PEERS}.1{each}:6222"' for each in NODES)
    config = Path(folder, f"{node}.conf")
    config.write_text(
        f"server_name: n{node}\nlisten: {CLIENTS}.1{node}:4222\nmax_payload: 8MB\n"
        f'jetstream {{ store_dir: "{folder}/{node}" }}\n'
        f"cluster {{ name: c, listen: {PEERS}.1{node}:6222, no_advertise: true, routes: [{peers}] }}\n"
    )
    command = [
        "ip",
        "netns",
        "exec",
        f"node{node}",
        processes.nats_program(),
        "-c",
        config,
        "-l",
        f"{folder}/{node}.log",
    ]
    return subprocess.Popen(command)


def url(node):
    """Where clients reach a server."""
    return f"nats://{CLIENTS}.1{node}:4222"


def leader():
    """Return the number of the server that leads the stream."""
    return int(ask(url(1), f"STREAM.INFO.{STREAM}", patience=3)["cluster"]["leader"][1:])


class Sending:
    """Sends through one server, and notes what was confirmed."""

    def __init__(self, name, engine):
        self.name = name
        self.engine = engine
        self.confirmed = []
        self.unknown = []

    async def send(self, count):
        """Send so many messages."""
        for number in range(count):
            name = f"{self.name}-{len(self.confirmed) + len(self.unknown)}-{number}"
            try:
                await self.engine.apply([Send(ORDERS, Message(b"", id=name))])
                self.confirmed.append(name)
            except EngineUnavailable:
                self.unknown.append(name)


async def scene():
    """Cut the leader off under traffic, and mend it; return what was confirmed and what is there."""
    async with opened(NatsEngine([url(each) for each in NODES], namespace=STREAM, replicas=3)) as engine:
        await engine.declare(ORDERS, QueueSettings())
    cut = await asyncio.to_thread(leader)
    others = [url(each) for each in NODES if each != cut]
    async with (
        opened(NatsEngine([url(cut)], namespace=STREAM, patience=4.0, attempt=1.0)) as inside,
        opened(NatsEngine(others, namespace=STREAM, patience=30.0, attempt=1.0)) as outside,
    ):
        minority, majority = Sending("minority", inside), Sending("majority", outside)
        await asyncio.gather(minority.send(50), majority.send(50))
        traffic = asyncio.gather(minority.send(4), majority.send(300))
        sh(f"ip link set clu{cut} down")
        began = system_clock.monotonic()
        await traffic
        during = len(majority.confirmed)
        took = system_clock.monotonic() - began
        sh(f"ip link set clu{cut} up")
        await asyncio.to_thread(wait_until, heals, "a cluster that is whole again", lambda: "")
        await minority.send(20)
        there, also = await look(outside), await look(inside)
    confirmed, unanswered = {*minority.confirmed, *majority.confirmed}, {*minority.unknown, *majority.unknown}
    differs = set(there) ^ set(also)
    return {
        "confirmed": len(confirmed),
        "by the majority while the leader was cut off": during - 50,
        "seconds": round(took, 1),
        "refused by the minority": len(minority.unknown),
        "missing": sorted(confirmed - set(there)),
        "twice": sorted(name for name, times in there.items() if times > 1),
        "unasked": sorted({*there, *also} - confirmed - unanswered),
        # A connection between servers that stood still delivers what was sent before: also after the cluster is whole.
        "arrived between two looks": sorted(differs & unanswered),
        "seen by one program only": sorted(differs - unanswered),
    }


async def look(engine):
    """Return what a program sees; the consumer of the queue may get its leader later than the stream."""
    async with asyncio.timeout(60):
        while True:
            try:
                return Counter(one.id for one in await engine.peek(ORDERS, 100_000))
            except EngineUnavailable:
                continue


def heals():
    """Say whether all servers have all of the stream."""
    try:
        info = ask(url(leader()), f"STREAM.INFO.{STREAM}", patience=3)["cluster"]
    except Exception:  # noqa: BLE001 - it is asked again
        return False
    replicas = info.get("replicas", [])
    return len(replicas) == len(NODES) - 1 and all(each.get("current") for each in replicas)


def has_leaders():
    """Say whether streams can be made."""
    try:
        config = {"name": "probe", "subjects": ["probe.>"], "num_replicas": 3}
        return "error" not in ask(url(1), "STREAM.CREATE.probe", config, patience=3)
    except Exception:  # noqa: BLE001 - it is asked again
        return False


def main():
    """Play the scene."""
    warnings.simplefilter("ignore")
    build()
    with tempfile.TemporaryDirectory(prefix="rds", dir="/tmp") as folder:
        servers = [start(folder, node) for node in NODES]
        try:
            wait_until(has_leaders, "a cluster that elects leaders", lambda: "")
            json.dump(asyncio.run(scene()), sys.stdout)
        finally:
            for server in servers:
                server.kill()
                server.wait()


if __name__ == "__main__":
    main()
