# SPDX-License-Identifier: MIT
"""``redrive worker``, with real processes; they say what they do, so nobody has to wait by the clock."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from redrive import connect_blocking
from redrive.cli.working import fingerprint, load
from redrive.errors import UsageError
from tests.patience import PATIENCE_S

APP = """
import os
from redrive.worker import Worker

worker = Worker("test")

@worker.handler("orders")
async def handle(body: str) -> None:
    print("handled", body, os.getpid(), flush=True)
    if body == "die":
        os._exit(3)
"""


@pytest.fixture
def app(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "app", raising=False)
    (tmp_path / "app.py").write_text(APP)
    return tmp_path / "app.py"


@pytest.fixture
def url(tmp_path):
    where = f"sqlite:///{tmp_path}/orders.db"
    with connect_blocking(where) as broker:
        broker.declare("orders")
    return where


@pytest.fixture
def start(app, url):
    """Start ``redrive worker`` as a person would; it is gone after the test."""
    started = []

    def starter(*options):
        command = [sys.executable, "-m", "redrive.cli", "worker", "app:worker", "--url", url, *options]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=app.parent, start_new_session=True
        )
        started.append(process)
        return process

    yield starter
    for process in started:
        for _ in range(2):  # the second one ends it at once, and its processes with it
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE_S)


def told(stream, text):
    """Read what a process says until it says that."""
    return next(line for line in iter(stream.readline, "") if text in line)


def send(url, *bodies):
    with connect_blocking(url) as broker:
        broker.send_many("orders", bodies)


@pytest.mark.usefixtures("app")
def test_a_worker_is_found_by_module_and_name():
    assert load("app:worker").queues == ("orders",)


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        ("app", "write module:variable"),
        (":worker", "write module:variable"),
        ("app:", "write module:variable"),
        ("nowhere:worker", "there is no module 'nowhere'"),
        ("app:nobody", "it has: worker"),
    ],
)
@pytest.mark.usefixtures("app")
def test_what_names_no_worker_says_what_would(target, problem):
    with pytest.raises(UsageError, match=problem):
        load(target)


def test_an_error_inside_the_module_is_its_own(app):
    app.write_text("import a_module_that_is_not_there")
    with pytest.raises(ModuleNotFoundError, match="a_module_that_is_not_there"):
        load("app:worker")


def test_a_fingerprint_changes_with_a_python_file_and_with_nothing_else(app):
    before = fingerprint(app.parent)
    (app.parent / "notes.txt").write_text("x")
    (app.parent / ".hidden").mkdir()
    (app.parent / ".hidden" / "x.py").write_text("x")
    assert fingerprint(app.parent) == before
    (app.parent / "sub").mkdir()
    (app.parent / "sub" / "other.py").write_text("x")
    assert fingerprint(app.parent) != before


def test_it_handles_messages_until_it_is_told_to_stop(start, url):
    process = start()
    send(url, "one")
    assert process.stdout.readline().startswith("handled one")
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 0


def test_several_processes_share_the_work_and_stop_together(start, url):
    process = start("--processes", "2")
    send(url, "one", "two")
    assert {process.stdout.readline().split()[1] for _ in range(2)} == {"one", "two"}
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 0


def test_a_process_that_dies_is_replaced(start, url):
    process = start("--processes", "2")
    send(url, "die")
    assert process.stdout.readline().startswith("handled die")
    assert told(process.stderr, "ended with status 3; starting another")
    send(url, "after")
    assert told(process.stdout, "handled after")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0


def test_its_processes_end_with_it_however_it_ends(start, url):
    process = start("--processes", "2")
    send(url, "one")
    assert process.stdout.readline().startswith("handled one")
    process.kill()
    assert process.wait(PATIENCE_S) == -signal.SIGKILL
    process.stdout.read()  # ends when the last of them has closed it


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="needs /proc to see other processes' arguments")
def test_the_url_of_a_process_is_not_for_everybody_to_see(start, url):
    process = start("--processes", "2")
    send(url, "one")
    pid = process.stdout.readline().split()[2]
    assert b"app:worker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    assert url.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()


def test_changed_code_is_started_anew(start, url, app):
    process = start("--reload")
    send(url, "one")
    assert process.stdout.readline().startswith("handled one")
    app.write_text(APP.replace('"handled"', '"now handled"'))
    assert told(process.stderr, "code has changed")
    assert told(process.stderr, "handles orders")  # the new one: until then the old one may still receive
    send(url, "two")
    assert process.stdout.readline().startswith("now handled two")
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 0
