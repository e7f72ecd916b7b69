# SPDX-License-Identifier: MIT
"""What happens to a server: its database goes away, its disk is full, it is killed, its clock steps, clients are slow.

Clients are told so, nothing that was acknowledged is lost or done twice, and it goes on by itself.
"""

import asyncio
import signal
import socket
import struct
import threading
import time
from collections import Counter
from contextlib import ExitStack, contextmanager
from email.utils import parsedate_to_datetime
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

import redrive
from redrive.broker import Message
from tests.patience import PATIENCE_S
from tests.postgres.server import wait_until
from tests.serving import address, ended, ready, serving

QUEUE = "orders"
OPTIONS = ("--no-routes", "--no-pipelines")
RETRY_S = 0.05
REST_S = 0.01
"""Between two messages of a client: the server is what is tested, not how fast it is."""


class Senders:
    """Clients that send messages, each again with its key until it is acknowledged, to servers in turn.

    Args:
        bases: where the servers are.
        body: what they send.
    """

    def __init__(self, *bases, body="{}"):
        self.bases = list(bases)
        self.acknowledged = []
        self.answers = Counter()
        self._body = body
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._send, args=(name,)) for name in "abcd"]
        self._lock = threading.Lock()
        self.errors = []

    @contextmanager
    def running(self):
        """Send until the end of the block."""
        for thread in self._threads:
            thread.start()
        try:
            yield self
        finally:
            self._stopping.set()
            for thread in self._threads:
                thread.join(PATIENCE_S)
        assert not self.errors, self.errors

    def _send(self, name):
        number = 0
        with httpx.Client(timeout=PATIENCE_S) as client:
            while not self._stopping.is_set():
                number += 1
                try:
                    self._until_acknowledged(client, f"{name}-{number}")
                except Exception as error:  # noqa: BLE001 - shown at the end
                    self.errors.append(repr(error))
                    return

    def _until_acknowledged(self, client, id_):
        asked = {"messages": [{"id": id_, "body": self._body}]}
        for turn in range(1_000_000):
            base = self.bases[turn % len(self.bases)]
            try:
                answer = client.post(
                    f"{base}/api/v1/queues/{QUEUE}/messages", json=asked, headers={"Idempotency-Key": id_}
                )
            except httpx.TransportError:
                self._note("unreachable")
                if len(self.bases) == 1 and self._stopping.is_set():
                    return
                continue
            code = "sent" if answer.status_code == 200 else answer.json()["code"]
            self._note(code)
            if code in ("sent", "request-repeated"):
                with self._lock:
                    self.acknowledged.append(id_)
                self._stopping.wait(REST_S)
                return
            assert answer.status_code in (503, 507), answer.text
            if self._stopping.is_set():
                return  # it is not known whether it was sent, and nobody asks any more
            self._stopping.wait(RETRY_S)

    def _note(self, what):
        with self._lock:
            self.answers[what] += 1


def failed(number):
    """Return a message as a worker puts it into an error queue."""
    told = {"redrive-failed-queue": "recovered", "redrive-failed-exception-type": "Torture"}
    return Message(b"{}", id=f"failed-{number}", headers=told)


async def filled(url, failures=0):
    """Declare the queues, and let messages fail."""
    async with redrive.connect(url) as broker:
        for queue in (QUEUE, "recovered", "error"):
            await broker.declare(queue)
        for first in range(0, failures, 500):
            await broker.send_many("error", [failed(each) for each in range(first, min(first + 500, failures))])


async def ids_in(url, queue):
    """Return how often each id is in a queue."""
    async with redrive.connect(url) as broker:
        found, after = Counter(), 0
        while page := await broker.peek(queue, start=after, max_messages=1_000):
            found.update(each.id for each in page)
            after = page[-1].sequence + 1
        return found


def get(base, path, **more):
    return httpx.get(f"{base}{path}", timeout=PATIENCE_S, **more)


def wait_for_failures(base, count):
    wait_until(lambda: get(base, "/api/v1/failures/count").json()["count"] == count, f"{count} failures")


def recover(base, **how):
    """Request that all is recovered; return the operation's number."""
    asked, key = {"kind": "recover", "filter": "status:unresolved", **how}, {"Idempotency-Key": "all"}
    answer = httpx.post(f"{base}/api/v1/operations", json=asked, headers=key, timeout=PATIENCE_S)
    assert answer.status_code < 300, answer.text
    return answer.json()["number"]


def forwarded(base, number):
    return get(base, f"/api/v1/operations/{number}").json()["progress"]["forwarded"]


def state_of(base, number):
    return get(base, f"/api/v1/operations/{number}").json().get("state")


LONG = [pytest.mark.torture, pytest.mark.timeout(600)]


@pytest.mark.parametrize(
    ("failures", "away_s"), [pytest.param(60, 0.0, id="short"), pytest.param(20_000, 60.0, id="long", marks=LONG)]
)
def test_a_database_that_goes_away_under_load_comes_back_and_nothing_is_lost(
    breakable_postgres, breakable_url, tmp_path, failures, away_s
):
    asyncio.run(filled(breakable_url, failures))
    with serving("--database", breakable_url, *OPTIONS, cwd=tmp_path) as process:
        base = address(process)
        ready(base)
        wait_for_failures(base, failures)
        with Senders(base).running() as senders:
            number = recover(base)
            wait_until(lambda: len(senders.acknowledged) > 20, "messages that are sent")
            breakable_postgres.stop("immediate")
            wait_until(lambda: senders.answers["engine-unavailable"] > 5, "answers that say that the store is away")
            assert get(base, "/live").status_code == 200
            wait_until(
                lambda: get(base, "/ready").status_code == 503, "a server that is not ready"
            )  # it asks once a second
            missing = get(base, "/ready")
            assert (missing.status_code, missing.json()["missing"][0]["what"]) == (503, "store")
            page = get(base, "/api/v1/failures")
            assert (page.status_code, page.json()["code"], page.headers["retry-after"]) == (
                503,
                "engine-unavailable",
                "2",
            )
            time.sleep(away_s)
            breakable_postgres.start()
            ready(base)
            sent = len(senders.acknowledged)
            wait_until(lambda: len(senders.acknowledged) > sent + 20, "messages that are sent again")
            wait_until(lambda: state_of(base, number) == "completed", "an operation that ends")
        process.send_signal(signal.SIGTERM)
        status, _, err = ended(process)
    print(dict(senders.answers))
    assert status == 0, err
    assert "Traceback" not in err, err
    check_each_once(breakable_url, senders, failures)


def check_each_once(url, senders, failures=0):
    """Everything that was acknowledged is in the queue, and nothing is there twice."""
    stored, recovered = asyncio.run(ids_in(url, QUEUE)), asyncio.run(ids_in(url, "recovered"))
    assert set(senders.acknowledged) <= stored.keys()
    assert max(stored.values()) == 1
    assert recovered == Counter({f"failed-{number}": 1 for number in range(failures)})


@pytest.mark.parametrize(
    ("failures", "kills"), [pytest.param(200, 1, id="short"), pytest.param(20_000, 10, id="long", marks=LONG)]
)
def test_one_of_two_servers_is_killed_and_the_other_one_goes_on(breakable_url, tmp_path, failures, kills):
    asyncio.run(filled(breakable_url, failures))
    options = ("--database", breakable_url, *OPTIONS)
    with ExitStack() as stack:
        servers = [stack.enter_context(serving(*options, cwd=tmp_path)) for _ in range(2)]
        senders = Senders(*map(address, servers))
        for base in senders.bases:
            ready(base)
        wait_for_failures(senders.bases[0], failures)
        with senders.running():
            number = recover(senders.bases[0])
            for turn in range(kills):
                sent = len(senders.acknowledged)
                wait_until(lambda sent=sent: len(senders.acknowledged) > sent + 10, "messages that are sent")
                servers[turn % 2].kill()
                sent = len(senders.acknowledged)
                wait_until(lambda sent=sent: len(senders.acknowledged) > sent + 10, "messages that the other one takes")
                servers[turn % 2] = stack.enter_context(serving(*options, cwd=tmp_path))
                senders.bases[turn % 2] = address(servers[turn % 2])
                ready(senders.bases[turn % 2])
            wait_until(lambda: state_of(senders.bases[0], number) == "completed", "an operation that ends")
        for process in servers:
            process.send_signal(signal.SIGTERM)
            status, _, err = ended(process)
            assert (status, "Traceback" in err) == (0, False), err
    print(dict(senders.answers))
    check_each_once(breakable_url, senders, failures)


class SteppedClock:
    """The clock that a server and its processes go by, which a test sets forward and back.

    Args:
        folder: where what they read is.
    """

    def __init__(self, folder):
        self._file = folder / "step"
        self._file.write_bytes(struct.pack("d", 0.0))
        place = Path(__file__).parent / "stepping"
        self.variables = {"STEP_FILE": str(self._file), "PYTHONPATH": str(place)}

    def set_to(self, seconds):
        """Let it be so many seconds ahead of the machine's."""
        with self._file.open("r+b") as file:  # the same file, as they have it in memory
            file.write(struct.pack("d", seconds))


HOUR = 3600.0


def is_ahead_by(base, seconds):
    """Say whether a server's answers have the time that its clock is set to."""
    there = parsedate_to_datetime(get(base, "/live").headers["date"]).timestamp()
    return abs(there - time.time() - seconds) < HOUR / 2


@pytest.mark.parametrize(
    ("failures", "steps"),
    [
        pytest.param(40, (-HOUR, HOUR), id="short"),
        pytest.param(2_000, (-HOUR, HOUR, 0.0, 24 * HOUR, -24 * HOUR, -2.0, 2.0, 0.0), id="long", marks=LONG),
    ],
)
@pytest.mark.parametrize("store", ["file", "server"])
def test_a_clock_that_is_set_back_and_forward_stops_nothing(request, tmp_path, store, failures, steps):
    url = f"sqlite:///{tmp_path}/served.db" if store == "file" else request.getfixturevalue("postgres_url")
    asyncio.run(filled(url, failures))
    clock = SteppedClock(tmp_path)
    with serving("--database", url, *OPTIONS, cwd=tmp_path, variables=clock.variables) as process:
        base = address(process)
        ready(base)
        wait_for_failures(base, failures)
        with Senders(base).running() as senders:
            number = recover(base, rate=failures / len(steps))  # a second for each step
            for turn, seconds in enumerate(steps, 1):
                clock.set_to(seconds)
                wait_until(lambda seconds=seconds: is_ahead_by(base, seconds), "a server whose clock has stepped")
                sent, share = len(senders.acknowledged), failures * turn / (len(steps) + 1)
                wait_until(lambda sent=sent: len(senders.acknowledged) > sent + 10, "messages that are sent")
                wait_until(lambda share=share: forwarded(base, number) >= share, "an operation that goes on")
                assert get(base, "/ready").status_code == 200
            wait_until(lambda: state_of(base, number) == "completed", "an operation that ends")
        process.send_signal(signal.SIGTERM)
        status, _, err = ended(process)
    assert (status, "Traceback" in err) == (0, False), err
    check_each_once(url, senders, failures)


def test_a_full_disk_is_told_and_nothing_acknowledged_is_lost(small_disk, tmp_path):
    url = f"sqlite:///{small_disk}/served.db"
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(4_000_000))
    asyncio.run(filled(url))
    with serving("--database", url, *OPTIONS, cwd=tmp_path) as process:
        base = address(process)
        ready(base)
        with Senders(base, body="x" * 50_000).running() as senders:
            wait_until(lambda: senders.answers["storage-full"] > 5, "answers that say that the disk is full")
            assert get(base, "/live").status_code == 200
            assert get(base, f"/api/v1/queues/{QUEUE}").status_code == 200  # looking needs no room
            ballast.unlink()
            sent = len(senders.acknowledged)
            wait_until(lambda: len(senders.acknowledged) > sent, "messages that are sent again")
        process.send_signal(signal.SIGTERM)
        status, _, err = ended(process)
    print(dict(senders.answers))
    assert (status, "Traceback" in err) == (0, False), err
    check_each_once(url, senders)


@pytest.mark.parametrize("clients", [pytest.param(200, id="short"), pytest.param(10_000, id="long", marks=LONG)])
def test_slow_clients_keep_nobody_else_waiting(tmp_path, clients):
    with (
        serving("--database", f"sqlite:///{tmp_path}/served.db", *OPTIONS, cwd=tmp_path) as process,
        ExitStack() as stack,
    ):
        base = address(process)
        ready(base)
        where = urlsplit(base)
        before = memory_mb(process)
        for number in range(clients):
            slow = stack.enter_context(socket.create_connection((where.hostname, where.port), PATIENCE_S))
            if number % 3 == 0:
                slow.sendall(b"GET /api/v1/queues HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ")
            elif number % 3 == 1:
                slow.sendall(b"POST /api/v1/operations HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n{")
        with httpx.Client(base_url=base, timeout=PATIENCE_S) as client:
            for _ in range(20):
                assert client.get("/api/v1/queues").status_code == 200
                assert client.get("/ready").status_code == 200
        print(f"{clients:,} slow clients: {before:.0f} MB before, {memory_mb(process):.0f} MB beside them")
        assert memory_mb(process) - before < 20 + clients * 0.05
        process.send_signal(signal.SIGTERM)
        status, _, err = ended(process)
    assert (status, "Traceback" in err) == (0, False), err


def memory_mb(process):
    lines = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))
