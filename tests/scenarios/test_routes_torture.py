# SPDX-License-Identifier: MIT
"""A process takes events by HTTP, delivers each to three webhooks, and is killed in the middle of it again and again.

Every event that was answered with 202 arrives at all three. What arrives twice was on its way when the process was
killed, and has the same key.
"""

import asyncio
import http.client
import os
import random
import socket
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path

import pytest

import redrive
from redrive.broker import Message
from redrive.broker.rules import MAX_DELIVERY_COUNT_EXCEEDED, dead_letter_queue
from redrive.routes import from_queue, route, webhook
from redrive.routes import http as from_http
from redrive.routes.plan import leg_queue
from tests.patience import PATIENCE_S
from tests.scenarios.routes_actors import DEADLY, PATH, DeadlySender
from tests.scenarios.sites import PostgresSite, SqliteSite
from tests.scenarios.stage import Stage

ACTORS = Path(__file__).with_name("routes_actors.py")
ROOT = Path(__file__).parents[2]
NAMES = ("one", "two", "three")
CONCURRENCY = 8
WINDOW = 2 * CONCURRENCY
"""What may be repeated after a kill: a worker takes the next event while it stores that one was delivered."""

CLIENTS = 4
LOCK_S = 10.0
BY = {"X-Process": "env:ACTOR_NAME"}
"""So that a delivery says which process it comes from."""


class Hook:
    """A webhook that counts.

    Attributes:
        arrived: for each key, which processes have sent it, one after the other.
        events: the keys of each event.
        status: what it answers.
    """

    def __init__(self, name, chance):
        self.name = name
        self.arrived = defaultdict(list)
        self.events = defaultdict(set)
        self.status = 200
        self._chance = chance
        self._lock = threading.Lock()
        self._server = HookServer(("127.0.0.1", 0), self._handler())
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self._server.server_port}/{self.name}"

    def _handler(hook):  # noqa: N805 - self is the request's
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                if len(body) < int(self.headers["content-length"]):
                    raise ConnectionResetError  # it was killed in the middle of it
                if hook.status == 200:
                    hook.note(self.headers["idempotency-key"], self.headers["x-process"], body)
                self.send_response(hook.status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        return Handler

    def note(self, key, process, body):
        """Count a delivery. A destination takes a moment, in which many are on their way."""
        with self._lock:
            self.arrived[key].append(process)
            self.events[body.split(b"|")[0].decode()].add(key)
            wait = self._chance.uniform(0.0, 0.02)
        time.sleep(wait)

    @property
    def total(self):
        return sum(len(processes) for processes in list(self.arrived.values()))

    def close(self):
        self._server.shutdown()
        self._server.server_close()


class HookServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        """The other side was killed."""


class Client(threading.Thread):
    """Posts events, each until it is told that it was taken.

    Attributes:
        accepted: the events that were.
        refused: how often another status came, by status.
    """

    def __init__(self, place, port, size=10):
        super().__init__(daemon=True)
        self._place = place
        self._port = port
        self._size = size
        self._ending = threading.Event()
        self.accepted = []
        self.refused = Counter()

    def run(self):
        for number in count():
            name = f"{self._place}.{number}"
            while self._post(name) != 202:
                time.sleep(0.02)
            self.accepted.append(name)
            if self._ending.is_set():
                return

    def _post(self, name):
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE_S)
        try:
            headers = {"Idempotency-Key": name, "Content-Type": "text/plain"}
            connection.request("POST", PATH, f"{name}|".encode() + bytes(self._size), headers)
            status = connection.getresponse().status
        except (OSError, http.client.HTTPException):
            self.refused["no answer"] += 1
            return None
        finally:
            connection.close()
        if status != 202:
            self.refused[status] += 1
        return status

    def end(self):
        """Post no other event than the one that is being posted."""
        self._ending.set()


class RouteStage(Stage):
    """A stage with one process that runs routes, and what it says on its standard error."""

    def __init__(self, site, folder):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        super().__init__(site, folder, ACTOR_LISTEN=f"127.0.0.1:{self.port}", PYTHONPATH=paths)
        self.said = Path(folder) / "said"
        self.said.mkdir()

    def start(self, role="runner", place=0):
        """Start a process; return when it is ready."""
        self._started[role] += 1
        name = f"{role}.{self._started[role]}"
        command = [sys.executable, ACTORS, role, self.site.url, self.diaries / name, name, self._stop]
        with (self.said / name).open("wb") as said:
            environment = self._environment | {"ACTOR_NAME": name}
            process = subprocess.Popen(command, env=environment, stdout=said, stderr=said)
        self._cast.append((role, place, process))

    def await_ready(self):
        """Wait until the process that was started last listens."""
        started = self._started["runner"]
        self.wait_until(lambda: self.count("ready") >= started, "a process that listens")

    def await_end(self):
        """Wait until the process has ended by itself; return its exit status."""
        _, _, process = self._cast.pop()
        return process.wait(timeout=PATIENCE_S)

    def all_said(self):
        """Return what all processes have said."""
        return "".join(each.read_text(encoding="utf-8") for each in sorted(self.said.iterdir()))


@pytest.fixture
def sqlite_site(tmp_path):
    return SqliteSite(tmp_path / "routes.db")


@pytest.fixture
def postgres_site(breakable_postgres, breakable_url):
    return PostgresSite(breakable_postgres, breakable_url)


@pytest.fixture(params=["sqlite_site", "postgres_site"])
def stage(request, tmp_path):
    stage = RouteStage(request.getfixturevalue(request.param), tmp_path)
    yield stage
    stage.clear()


@pytest.fixture
def sqlite_stage(sqlite_site, tmp_path):
    stage = RouteStage(sqlite_site, tmp_path)
    yield stage
    stage.clear()


@pytest.fixture
def seed():
    seed = random.Random().randrange(2**32)
    print(f"seed {seed}")
    return seed


@pytest.fixture
def hooks(seed):
    hooks = [Hook(name, random.Random(f"{seed} {name}")) for name in NAMES]
    yield hooks
    for hook in hooks:
        hook.close()


def clients_of(stage, **more):
    """Start clients."""
    clients = [Client(place, stage.port, **more) for place in range(CLIENTS)]
    for client in clients:
        client.start()
    return clients


async def applied(url, routes, queues=()):
    """Store routes; locks of a process that was killed end soon."""
    async with redrive.connect(url) as broker, redrive.open_routes(broker) as found:
        for queue in queues:
            await broker.declare(queue, lock_duration=LOCK_S)
        await found.apply(*routes)
        for each in routes:
            await broker.update(leg_queue(each), lock_duration=LOCK_S)


async def left(url, routes):
    """Return how many legs wait, and which are dead, of each route."""
    async with redrive.connect(url) as broker:
        infos = [await broker.inspect(leg_queue(each)) for each in routes]
        dead = [await broker.peek(dead_letter_queue(leg_queue(each))) for each in routes]
    return [info.ready + info.locked + info.scheduled for info in infos], dead


def webhooks(source, hooks, **settings):
    return [
        route(hook.name, source=source, concurrency=CONCURRENCY, min_delay=0.1, **settings)
        >> webhook(hook.url, headers=BY)
        for hook in hooks
    ]


how_many_kills = pytest.mark.parametrize(
    "kills",
    [
        pytest.param(2, id="short"),
        pytest.param(50, id="long", marks=[pytest.mark.torture, pytest.mark.timeout(1_800)]),
    ],
)


@how_many_kills
def test_every_event_that_was_taken_arrives_at_all_webhooks_whenever_the_process_is_killed(stage, hooks, kills, seed):
    chance = random.Random(seed)
    routes = webhooks(from_http(PATH), hooks)
    asyncio.run(applied(stage.site.url, routes))
    began = time.monotonic()
    stage.start()
    clients = clients_of(stage)
    for _ in range(kills):
        stage.await_ready()
        wanted = sum(hook.total for hook in hooks) + chance.randrange(1, 200)
        stage.wait_until(lambda wanted=wanted: sum(hook.total for hook in hooks) >= wanted, "deliveries")
        time.sleep(chance.uniform(0.0, 0.02))
        stage.kill(0)
        stage.start()
    for client in clients:
        client.end()
    for client in clients:
        client.join(PATIENCE_S)
        assert not client.is_alive()
    accepted = {name for client in clients for name in client.accepted}
    stage.wait_until(lambda: not any(asyncio.run(left(stage.site.url, routes))[0]), "queues without legs")
    stage.stop()

    _, dead = asyncio.run(left(stage.site.url, routes))
    twice = {hook.name: repeated(hook) for hook in hooks}
    print(
        f"{len(accepted):,} events, {kills} kills, {time.monotonic() - began:.0f} s; "
        f"deliveries {[hook.total for hook in hooks]}, lost {[len(accepted - hook.events.keys()) for hook in hooks]}, "
        f"repeated {[sum(each.values()) for each in twice.values()]}, after one kill at most "
        f"{[max(each.values(), default=0) for each in twice.values()]}; posts without 202: "
        f"{dict(sum((client.refused for client in clients), Counter()))}"
    )
    said = stage.all_said()
    print(said)
    stage.site.check_integrity()
    assert not any(dead), dead
    assert "Traceback" not in said
    for hook in hooks:
        assert accepted == set(hook.events)
        assert {tuple(keys) for keys in hook.events.values()} == {(f"{name}:{hook.name}",) for name in accepted}
        assert max(twice[hook.name].values(), default=0) <= WINDOW


def repeated(hook):
    """Return how many deliveries were repeated after the death of each process; none may be by the same process."""
    found = Counter()
    for key, processes in hook.arrived.items():
        assert len(processes) == len(set(processes)), f"{key} came twice from one process: {processes}"
        found.update(processes[:-1])
    return found


@pytest.mark.torture
def test_an_event_that_kills_its_process_is_the_only_dead_leg(sqlite_stage, hooks, tmp_path):
    stage, journal = sqlite_stage, tmp_path / "journal"
    source = from_queue("orders")
    deadly = route("deadly", source=source, concurrency=CONCURRENCY) >> DeadlySender(str(journal))
    routes = [*webhooks(source, hooks), deadly]
    asyncio.run(applied(stage.site.url, routes, ["orders"]))

    async def send():
        async with redrive.connect(stage.site.url) as broker:
            listed = [Message(DEADLY if n == 3 else f"e{n}|".encode(), id=f"e{n}") for n in range(12)]
            await broker.send_many("orders", listed)

    asyncio.run(send())
    statuses = []
    while True:
        stage.start()
        ends_at = time.monotonic() + PATIENCE_S
        while (status := stage._cast[-1][2].poll()) is None:
            waiting, dead = asyncio.run(left(stage.site.url, routes))
            if not any(waiting) and any(dead):
                break
            assert time.monotonic() < ends_at, (statuses, waiting, dead)
            time.sleep(0.1)
        if status is None:
            break
        stage.await_end()
        statuses.append(status)
    stage.stop()
    assert set(statuses) == {-9}
    print(f"killed {len(statuses)} times")
    assert len(statuses) == 10
    assert [[leg.id for leg in legs] for legs in dead] == [[], [], [], ["e3"]]
    assert dead[-1][0].dead_letter_info.reason == MAX_DELIVERY_COUNT_EXCEEDED
    keys = {line.split()[-1] for line in journal.read_text(encoding="utf-8").splitlines()}
    assert keys == {f"e{n}:deadly" for n in range(12) if n != 3}
    for hook in hooks:
        assert set(hook.arrived) == {f"e{n}:{hook.name}" for n in range(12)}


@pytest.fixture
def small_stage(small_disk, tmp_path):
    stage = RouteStage(SqliteSite(small_disk / "queue.db"), tmp_path)
    yield stage
    stage.clear()


@pytest.mark.torture
def test_a_full_disk_refuses_events_and_the_process_lives_on(small_stage, small_disk, hooks):
    stage, ballast = small_stage, small_disk / "ballast"
    ballast.write_bytes(bytes(3_000_000))
    routes = webhooks(from_http(PATH), hooks, max_attempts=1_000, max_delay=1.0, probe_after=1.0)
    asyncio.run(applied(stage.site.url, routes))
    for hook in hooks:
        hook.status = 503
    stage.start()
    stage.await_ready()
    clients = clients_of(stage, size=8_000)
    stage.wait_until(lambda: sum(client.refused[503] for client in clients) >= 20, "clients who are told to wait")
    before = {name for client in clients for name in client.accepted}
    assert not any(hook.events for hook in hooks)
    ballast.unlink()
    for hook in hooks:
        hook.status = 200
    stage.wait_until(
        lambda: {name for client in clients for name in client.accepted} > before, "events that are taken again"
    )
    for client in clients:
        client.end()
    for client in clients:
        client.join(PATIENCE_S)
    accepted = {name for client in clients for name in client.accepted}
    stage.wait_until(lambda: all(accepted <= hook.events.keys() for hook in hooks), "all events at all webhooks")
    stage.stop()
    print(f"{len(before)} events until the disk was full, {len(accepted)} in the end")
    said = stage.all_said()
    assert "Traceback" not in said, said
    with suppress(FileNotFoundError):
        ballast.unlink()
    stage.site.check_integrity()
    for hook in hooks:
        assert {tuple(keys) for keys in hook.events.values()} == {(f"{name}:{hook.name}",) for name in hook.events}
