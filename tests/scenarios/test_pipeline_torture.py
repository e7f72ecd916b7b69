# SPDX-License-Identifier: MIT
"""A process takes reports by HTTP, sends them by HTTP and SFTP, and is killed in the middle of it again and again.

Both destinations refuse, hang and lose replies at random. Every item of every report that was answered with 201 arrives
once at each: the one drops what it has, the other is looked at.
"""

import asyncio
import http.client
import random
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

import redrive
from redrive.pipeline import TaskState
from tests.patience import PATIENCE_S
from tests.pipeline.transports.sftp_server import HOST_KEY, PASSWORD, FaultyServer
from tests.scenarios.pipeline_actors import PATH, plan
from tests.scenarios.sites import PostgresSite, SqliteSite
from tests.scenarios.test_routes_torture import HookServer, RouteStage

ACTORS = Path(__file__).with_name("pipeline_actors.py")
ITEMS = 10
CLIENTS = 4
LOCK_S = 2.0
FAULTS = {"refuse": 0.02, "away": 0.005, "lose": 0.02, "hang": 0.002}
"""How often the HTTP destination does what it should not."""

SFTP_FAULTS = ("refuse", "drop_before", "drop_after", "hang_after")
SFTP_STEPS = {"rename": 0.04, "posix_rename": 0.04, "open": 0.02, "write": 0.02}


class Hook:
    """An HTTP destination that keeps what it gets by its key, and often does not say so.

    Attributes:
        kept: the body of each key.
        repeated: how often a key came again.
    """

    def __init__(self, chance):
        self.kept = {}
        self.bodies = defaultdict(set)
        self.repeated = 0
        self.others = 0
        self.is_calm = False
        self._chance = chance
        self._lock = threading.Lock()
        self._server = HookServer(("127.0.0.1", 0), self._handler())
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self._server.server_port}/lab"

    def _handler(hook):  # noqa: N805 - self is the request's
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                if len(body) < int(self.headers["content-length"]):
                    raise ConnectionResetError  # it was killed in the middle of it
                fault = hook.fault()
                if fault not in ("refuse", "away"):
                    hook.keep(self.headers["idempotency-key"], body)
                if fault == "hang":
                    time.sleep(1.3)
                if fault in ("hang", "lose"):
                    raise ConnectionResetError
                self.send_response({"refuse": 500, "away": 503}.get(fault, 201))
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        return Handler

    def fault(self):
        """Return what goes wrong with a request, if anything does."""
        with self._lock:
            drawn = self._chance.random()
        for name, share in {} if self.is_calm else FAULTS.items():
            drawn -= share
            if drawn < 0:
                return name
        return None

    def keep(self, key, body):
        """Keep a body, if its key is new."""
        with self._lock:
            self.repeated += key in self.kept
            self.others += self.kept.setdefault(key, body) != body
            self.bodies[body].add(key)

    def close(self):
        self._server.shutdown()
        self._server.server_close()


class Files(FaultyServer):
    """An SFTP destination in a thread of its own, which often fails."""

    def __init__(self, folder, chance):
        folder.mkdir()
        super().__init__(folder)
        self.is_calm = False
        self._chance = chance
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self.start(), self._loop).result(PATIENCE_S)

    def fault_of(self, command):
        """Return how a command fails, if it does."""
        is_bad = not self.is_calm and self._chance.random() < SFTP_STEPS.get(command, 0.0)
        return self._chance.choice(SFTP_FAULTS) if is_bad else None

    def items(self):
        """Return how often each item is in a file."""
        whole = [body for name, body in self.files.items() if not name.startswith(".")]
        return Counter(item for body in whole for item in body.split(b"\n"))

    def close(self):
        asyncio.run_coroutine_threadsafe(self._stop_all(), self._loop).result(PATIENCE_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_S)
        self._loop.close()

    async def _stop_all(self):
        await self.stop()
        hung = asyncio.all_tasks() - {asyncio.current_task()}
        for task in hung:
            task.cancel()
        await asyncio.gather(*hung, return_exceptions=True)


class Client(threading.Thread):
    """Submits reports, each until it is told that it was taken.

    Attributes:
        accepted: the items of those that were.
        tasks: the tasks that it was told for each key.
        refused: how often there was another answer, or none.
    """

    def __init__(self, place, port, most):
        super().__init__(daemon=True)
        self._place, self._port, self._most = place, port, most
        self.ending = threading.Event()
        self.accepted = set()
        self.tasks = defaultdict(set)
        self.refused = Counter()

    def run(self):
        for number in range(self._most):
            if self.ending.is_set():
                return
            key = f"{self._place}.{number}"
            items = [f"{key}.{place}".encode() for place in range(ITEMS)]
            while self._post(key, b"\n".join(items)) not in (200, 201):
                time.sleep(0.02)
            self.accepted.update(items)

    def _post(self, key, body):
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE_S)
        try:
            connection.request("POST", PATH, body, {"Idempotency-Key": key})
            status = connection.getresponse().status
        except (OSError, http.client.HTTPException):
            self.refused["no answer"] += 1
            return None
        finally:
            connection.close()
        if status not in (200, 201):
            self.refused[status] += 1
        return status


class PipelineStage(RouteStage):
    """A stage with one process that runs a pipeline, and its two destinations."""

    def __init__(self, site, folder, chance):
        super().__init__(site, folder)
        self.hook = Hook(chance)
        self.files = Files(folder / "lab", chance)
        self.host_key = HOST_KEY.export_public_key().decode().strip()
        self._environment |= {
            "ACTOR_HOOK": self.hook.url,
            "ACTOR_SFTP": str(self.files.port),
            "ACTOR_HOST_KEY": self.host_key,
            "ACTOR_PASSWORD": PASSWORD,
        }

    def start(self, role="runner", place=0):
        """Start a process."""
        self._started[role] += 1
        name = f"{role}.{self._started[role]}"
        command = [sys.executable, ACTORS, role, self.site.url, self.diaries / name, name, self._stop]
        with (self.said / name).open("wb") as said:
            process = subprocess.Popen(command, env=self._environment, stdout=said, stderr=said)
        self._cast.append((role, place, process))

    def close(self):
        """End everything."""
        self.clear()
        self.hook.close()
        self.files.close()

    async def prepare(self):
        """Declare the pipeline; locks of a process that was killed end soon."""
        made = plan(self.hook.url, self.files.port, self.host_key)
        async with redrive.connect(self.site.url) as broker, redrive.open_pipeline(broker, made):
            for queue in made.queues:
                await broker.update(queue, lock_duration=LOCK_S)

    async def states(self):
        """Return how many tasks are in which state."""
        async with redrive.connect(self.site.url) as broker, redrive.open_pipelines(broker) as pipelines:
            counts = await pipelines.counts("reports")
        found = Counter()
        for (_, _, state), count in counts.items():
            found[state] += count
        return found

    async def help_out(self):
        """Send again what was set aside because several processes were killed at it; return how many tasks."""
        async with redrive.connect(self.site.url) as broker, redrive.open_pipelines(broker) as pipelines:
            failed = await pipelines.tasks("reports", states=(TaskState.FAILED,), limit=1_000)
            for task in failed:
                assert "processes have died at it" in task.reason, task
                await pipelines.resend(task.id, which="all", actor="ann", reason="it was the test")
        return len(failed)


@pytest.fixture
def seed():
    seed = random.Random().randrange(2**32)
    print(f"seed {seed}")
    return seed


@pytest.fixture(
    params=["sqlite", pytest.param("postgres", marks=[pytest.mark.torture])],
)
def stage(request, tmp_path, seed):
    if request.param == "sqlite":
        site = SqliteSite(tmp_path / "pipeline.db")
    else:
        names = ("breakable_postgres", "breakable_url")
        site = PostgresSite(*(request.getfixturevalue(name) for name in names))
    stage = PipelineStage(site, tmp_path, random.Random(seed))
    yield stage
    stage.close()


def killed(stage, kills, chance):
    """Kill the process again and again, each time when it has sent something more."""
    for _ in range(kills):
        stage.await_ready()
        wanted = len(stage.hook.kept) + chance.randrange(1, 100)
        ends_at = time.monotonic() + 20.0
        stage.wait_until(
            lambda wanted=wanted, ends_at=ends_at: len(stage.hook.kept) >= wanted or time.monotonic() > ends_at,
            "shipments",
        )
        time.sleep(chance.uniform(0.0, 0.3))
        stage.kill(0)
        stage.start()


def settled(stage):
    """Wait until nothing moves; people help with what was set aside. Return how many tasks that were."""
    helped = 0
    while True:
        found = asyncio.run(stage.states())
        if not found[TaskState.READY] and not found[TaskState.WAITING]:
            if not found[TaskState.FAILED]:
                return helped
            helped += asyncio.run(stage.help_out())
        stage.check_alive()
        time.sleep(0.2)


@pytest.mark.parametrize(
    ("kills", "reports"),
    [
        pytest.param(3, 8, id="short"),
        pytest.param(50, 500, id="long", marks=[pytest.mark.torture, pytest.mark.timeout(3_600)]),
    ],
)
def test_every_item_that_was_taken_arrives_once_whenever_the_process_is_killed(stage, kills, reports, seed):
    began, chance = time.monotonic(), random.Random(f"{seed} kills")
    asyncio.run(stage.prepare())
    stage.start()
    clients = [Client(place, stage.port, reports) for place in range(CLIENTS)]
    for client in clients:
        client.start()
    killed(stage, kills, chance)
    for client in clients:
        client.join(PATIENCE_S * (10 if kills > 10 else 1))
        assert not client.is_alive()
    accepted = set().union(*(client.accepted for client in clients))
    assert len(accepted) == CLIENTS * reports * ITEMS
    helped = settled(stage)
    stage.stop()

    hook, files = stage.hook, stage.files.items()
    print(
        f"{len(accepted):,} items, {kills} kills, {time.monotonic() - began:.0f} s; repeated {hook.repeated} requests, "
        f"{helped} tasks were set aside; {dict(asyncio.run(stage.states()))}; posts without 201: "
        f"{dict(sum((client.refused for client in clients), Counter()))}"
    )
    said = stage.all_said()
    print(said[-2_000:])
    stage.site.check_integrity()
    assert "Traceback" not in said
    assert set(asyncio.run(stage.states())) == {TaskState.DONE}
    assert set(hook.bodies) == accepted
    assert {len(keys) for keys in hook.bodies.values()} == {1}, "an item went as two shipments"
    assert hook.others == 0
    assert set(files) == accepted
    assert set(files.values()) == {1}, [item for item, count in files.items() if count > 1][:10]
