"""Kills a process that sends, again and again, and counts what a server has received twice, or never.

The server is this process; what is killed is this script with the name of a subject, run as a process of its own. Each
item is one request. All subjects submit the same items with the same keys when they start, as a sender would that has
got no answer.
"""

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import ClassVar

from pipeline_subjects import launched

from redrive import connect, open_pipeline
from redrive.parts import TextSetting, setting
from redrive.pipeline import (
    Output,
    Pipeline,
    PipelineRunner,
    ShipmentDelayed,
    ShipmentSent,
    Transport,
    add_transport,
)

SLOW_S = 0.02
"""How long the server takes before and after it has noted a request: most kills happen within."""

LOCK_S = 2.0
FOUND = 204
PATIENCE_S = 120.0


class CountingServer(ThreadingHTTPServer):
    """Counts requests by their paths."""

    daemon_threads = True
    request_queue_size = 100

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.seen = Counter()
        self.lock = Lock()


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        """Note a request, in the middle of the time it takes."""
        time.sleep(SLOW_S)
        with self.server.lock:
            self.server.seen[self.path] += 1
        time.sleep(SLOW_S)
        self._answer(FOUND)

    def do_GET(self):
        """Say whether a request was noted."""
        self._answer(FOUND if self.server.seen[self.path] else 404)

    def _answer(self, status):
        self.send_response(status)
        self.end_headers()

    def log_message(self, *_):
        """Say nothing."""


@contextmanager
def counting():
    """Run a server."""
    with CountingServer() as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def requested(port, method, path):
    """Make a request; return the status."""
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, path)
        return connection.getresponse().status
    finally:
        connection.close()


# --- what is killed


@add_transport
@dataclass(frozen=True, slots=True)
class PostTransport(Transport):
    """Posts each shipment."""

    kind: ClassVar[str] = "bench-post"
    port: str = setting(TextSetting(), "where the server is")

    @property
    def address(self):
        """Return where to."""
        return self.port

    def open(self, environment):
        """Return itself: each request has its own connection."""
        return self

    async def send(self, shipment):
        """Post it."""
        await asyncio.to_thread(requested, self.port, "POST", f"/{shipment.body.decode()}")
        return ShipmentSent()

    async def close(self):
        """Do nothing."""


@add_transport
@dataclass(frozen=True, slots=True)
class AskedTransport(PostTransport):
    """Posts each shipment to a destination that can be asked what it has."""

    kind: ClassVar[str] = "bench-asked"

    @property
    def can_probe(self):
        """Return that it can be asked."""
        return True

    async def probe(self, shipment):
        """Ask for it."""
        status = await asyncio.to_thread(requested, self.port, "GET", f"/{shipment.body.decode()}")
        return ShipmentSent() if status == FOUND else ShipmentDelayed("not there")


async def run_redrive(url, port, items, *, transport):
    """Submit items, and run the pipeline until all are sent."""
    pipe = Pipeline("kills")
    pipe.process(_to_there)
    pipe.destination("there", transport(str(port)), retry=[0.5] * 20, concurrency=8)
    async with connect(url) as broker:
        for queue in pipe.plan.queues:  # locks of a process that was killed end soon
            await broker.declare(queue, lock_duration=LOCK_S, max_delivery_count=100)
        async with open_pipeline(broker, pipe) as pipeline:
            await asyncio.gather(*(pipeline.submit(f"{number}", key=f"{number}") for number in range(items)))
            await PipelineRunner(pipeline).run(until=_all_done(pipeline))


async def _to_there(report):
    return [Output("there", report.items)]


async def _all_done(pipeline):
    while any(state.word != "done" for _, _, state in await pipeline.counts("kills")):  # noqa: ASYNC110 - no event
        await asyncio.sleep(0.2)


async def run_dbos(url, port, items):
    """Start a workflow for each item, and wait until all have ended."""

    async def send(key, _body):
        await asyncio.to_thread(requested, port, "POST", f"/{key}")

    start = launched(url, send)
    gate = asyncio.Semaphore(8)

    async def one(number):
        async with gate:
            await (await start(f"{number}", "")).get_result()

    await asyncio.gather(*(one(number) for number in range(items)))
    os._exit(0)  # its threads would stay


SUBJECTS = {
    "DBOS, a workflow": run_dbos,
    "redrive, sends again": lambda *given: run_redrive(*given, transport=PostTransport),
    "redrive, asks before": lambda *given: run_redrive(*given, transport=AskedTransport),
}

# --- who kills


def killed(name, url, items, kills):
    """Kill a subject so many times while it works; return how many items came twice, and how many never."""
    chance = random.Random(20_261_117)  # the same for all
    with counting() as server:
        command = [sys.executable, __file__, name, url, str(server.server_port), str(items)]
        for _ in range(kills):
            before = sum(server.seen.values())
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL)  # noqa: S603 - this script
            give_up = time.monotonic() + PATIENCE_S
            wanted = before + chance.randint(items // (4 * kills), items // (2 * kills))
            while sum(server.seen.values()) < wanted and process.poll() is None and time.monotonic() < give_up:
                time.sleep(0.005)
            process.send_signal(signal.SIGKILL)
            process.wait()
        ran = subprocess.run(command, stdout=subprocess.DEVNULL, timeout=PATIENCE_S, check=False)  # noqa: S603 - as above
        assert ran.returncode == 0, f"{name} does not end"
        twice = sum(times - 1 for times in server.seen.values())
        return twice, items - len(server.seen)


if __name__ == "__main__":
    asyncio.run(SUBJECTS[sys.argv[1]](sys.argv[2], *map(int, sys.argv[3:])))
