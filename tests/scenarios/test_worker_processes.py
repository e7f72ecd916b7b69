# SPDX-License-Identifier: MIT
"""``redrive worker --processes 4``, started and stopped again and again while messages flow.

Its processes write to its standard error, and it does not end with 0 unless all of them do: what it says is what all of
them say, and its status says how all of them end.
"""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter

import pytest

from redrive import connect_blocking
from redrive.broker import Message
from tests.patience import PATIENCE_S
from tests.scenarios.sites import PostgresSite, SqliteSite

PROCESSES = 4
QUEUES = ("asynchronous", "blocking")
APP = """
import asyncio, os, time
from redrive.worker import BlockingContext, Context, Worker

worker = Worker("crew")
diary = os.open(os.environ["DIARY"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)

@worker.handler("asynchronous", concurrency=4, prefetch=4)
async def handle(context: Context) -> None:
    await asyncio.sleep(0.01)
    os.write(diary, f"{context.message.id}\\n".encode())

@worker.handler("blocking", concurrency=2, prefetch=4)
def handle_blocking(context: BlockingContext) -> None:
    time.sleep(0.01)
    os.write(diary, f"{context.message.id}\\n".encode())
"""


class Crew:
    """A program with a worker, and what its handlers have written down."""

    def __init__(self, site, folder):
        self.site = site
        self._folder = folder
        self._diary = folder / "diary"
        (folder / "app.py").write_text(APP)

    def start(self):
        """Start the processes; return when they are on their way."""
        command = [sys.executable, "-m", "redrive.cli", "worker", "app:worker", "--processes", str(PROCESSES)]
        environment = {**os.environ, "DIARY": str(self._diary), "REDRIVE_URL": self.site.url}
        process = subprocess.Popen(command, cwd=self._folder, env=environment, stderr=subprocess.PIPE, text=True)
        assert process.stderr.readline() == "4 processes run app:worker; Ctrl-C stops them\n"
        return process

    def stop(self, process, how):
        """Stop them; all of them have ended with 0 and not said a word."""
        process.send_signal(how)
        said = process.communicate(timeout=PATIENCE_S)[1]
        assert (process.returncode, said) == (0, "")

    def handled(self):
        """Return how often each message was handled."""
        return Counter(self._diary.read_text().split()) if self._diary.exists() else Counter()


class Flow:
    """Sends messages to both queues until it is stopped."""

    def __init__(self, url):
        self.sent = set()
        self._url = url
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._send)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._is_over.set()
        self._thread.join()

    def _send(self):
        with connect_blocking(self._url) as broker:
            while not self._is_over.wait(0.02):
                for queue in QUEUES:
                    ids = [f"{queue}-{len(self.sent) + n}" for n in range(2)]
                    broker.send_many(queue, [Message(b"x", id=each) for each in ids])
                    self.sent.update(ids)


@pytest.fixture
def sqlite_site(tmp_path):
    return SqliteSite(tmp_path / "queue.db")


@pytest.fixture
def postgres_site(breakable_postgres, breakable_url):
    return PostgresSite(breakable_postgres, breakable_url)


@pytest.fixture(params=["sqlite_site", "postgres_site"])
def crew(request, tmp_path):
    site = request.getfixturevalue(request.param)
    with connect_blocking(site.url) as broker:
        for queue in QUEUES:
            broker.declare(queue)
    return Crew(site, tmp_path)


def stop_at_a_random_moment(crew, process, chance):
    """Stop while the processes start, when they have just begun to work, or in the middle of it."""
    moment = chance.choice(("start", "first", "later"))
    before = crew.handled().total()
    if moment == "start":
        time.sleep(chance.uniform(0.0, 1.5))
    else:
        wait_until(lambda: crew.handled().total() > before + (0 if moment == "first" else chance.randrange(300)))
    how = chance.choice((signal.SIGTERM, signal.SIGINT))
    crew.stop(process, how)
    return f"{moment} {how.name}"


def wait_until(holds, limit_s=PATIENCE_S):
    ends_at = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < ends_at
        time.sleep(0.02)


@pytest.mark.parametrize(
    "rounds",
    [
        pytest.param(1, id="short"),
        pytest.param(50, id="long", marks=[pytest.mark.torture, pytest.mark.timeout(900)]),
    ],
)
def test_every_process_ends_well_whenever_it_is_stopped_and_every_message_is_handled_once(crew, rounds):
    seed = random.Random().randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)

    with Flow(crew.site.url) as flow:
        moments = Counter(stop_at_a_random_moment(crew, crew.start(), chance) for _ in range(rounds))
    process = crew.start()
    wait_until(lambda: crew.handled().keys() >= flow.sent)
    crew.stop(process, signal.SIGTERM)

    handled = crew.handled()
    print(f"{rounds} times started and stopped: {dict(moments)}; {len(flow.sent):,} sent, {handled.total():,} handled")
    assert handled.keys() == flow.sent, "a message is lost, or was never sent"
    assert max(handled.values()) == 1, "a message was handled twice"
    with connect_blocking(crew.site.url) as broker:
        assert [(each.ready, each.locked, each.dead) for each in broker.queues()] == [(0, 0, 0)] * 2
    crew.site.check_integrity()
