# SPDX-License-Identifier: MIT
"""Ctrl-C in bulk commands: what was done is told, exactly, and the status says that it was not all."""

import json
import os
import signal
import subprocess
import sys

import pytest

from redrive import connect_blocking
from redrive.cli import bulk
from tests.patience import PATIENCE_S

URL = "sqlite:///redrive.db?synchronous=normal"
LINES = "\n".join(map(str, range(5_000)))


@pytest.fixture
def interrupted(monkeypatch):
    """Let Ctrl-C come while the first part of the work is told."""

    class Interrupting:
        """A progress bar that somebody looks at, and has seen enough."""

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def add_task(self, *_, **__):
            return 1

        def update(self, *_, **__):
            signal.raise_signal(signal.SIGINT)

        advance = update

    monkeypatch.setattr(bulk, "progress_bar", Interrupting)


@pytest.mark.usefixtures("interrupted")
def test_send_tells_how_many_it_has_sent(run, read, orders):
    ran = run("send", orders, "-", "--lines", stdin=LINES)
    assert (ran.exit_code, ran.stdout) == (130, "sent 1,000 to orders, number 1 to 1000; stopped, 4,000 not sent\n")
    assert read("queues", "show", orders)["ready"] == 1_000
    ran = run("send", orders, "-", "--lines", "--json", stdin=LINES)
    assert (ran.exit_code, json.loads(ran.stdout)["sent"], json.loads(ran.stdout)["not_sent"]) == (130, 1_000, 4_000)


@pytest.mark.parametrize("command", [("queues", "purge"), ("dead", "purge"), ("dead", "resubmit")])
@pytest.mark.usefixtures("interrupted")
def test_bulk_work_tells_how_far_it_came(run, read, orders, command):
    with connect_blocking(URL) as broker:
        broker.send_many(orders, [b"x"] * 500)
        if command[0] == "dead":
            for one in broker.receive(orders, max_messages=500):
                one.dead_letter("Test")
    ran = run(*command, orders, "--yes")
    assert ran.exit_code == 130
    done = int(ran.stdout.split()[1])
    assert 0 < done < 500
    assert ran.stdout.endswith("; stopped before the end\n")
    left = read("queues", "show", orders)
    assert (left["dead"] if command[0] == "dead" else left["ready"]) == 500 - done
    again = run(*command, orders, "--yes", "--json")
    assert (again.exit_code, json.loads(again.stdout)["interrupted"]) == (130, True)


def test_a_real_ctrl_c_is_answered(tmp_path, ok, orders):
    (tmp_path / "lines").write_text("\n".join(map(str, range(1_000_000))))
    command = [sys.executable, "-m", "redrive.cli", "send", orders, "--file", "lines", "--lines"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ))
    with connect_blocking("sqlite:///redrive.db") as broker:
        while not broker.inspect(orders).ready:
            assert process.poll() is None
    process.send_signal(signal.SIGINT)
    said, problems = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, problems) == (130, "")
    sent = int(said.split()[1].replace(",", ""))
    assert f"{sent:,} to orders" in said
    assert json.loads(ok("queues", "show", orders, "--json"))["ready"] == sent
