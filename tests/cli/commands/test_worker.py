# SPDX-License-Identifier: MIT
"""``redrive worker``, with real processes; they say what they do, so nobody has to wait by the clock."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from redrive import connect_blocking
from redrive.cli.commands.worker import load
from redrive.cli.worker_processes import fingerprint
from redrive.errors import UsageError
from tests.patience import PATIENCE_S

IN_PIECES = "PYTHONUNBUFFERED"
"""Where it is set, a line is written piece by piece, and those of two processes get mixed up."""

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
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=app.parent,
            env={name: value for name, value in os.environ.items() if name != IN_PIECES},
            start_new_session=True,
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


@pytest.mark.parametrize("options", [(), ("--processes", "2")])
def test_until_idle_it_ends_when_its_queues_have_nothing_ready(start, url, options):
    send(url, *map(str, range(20)))
    process = start("--until-idle", *options)
    handled, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert sorted(int(line.split()[1]) for line in handled.splitlines()) == list(range(20))


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_several_processes_share_the_work_and_all_end_well(start, url, how):
    process = start("--processes", "2")
    send(url, "one", "two")
    assert {process.stdout.readline().split()[1] for _ in range(2)} == {"one", "two"}
    process.send_signal(how)
    # its processes write there too, and it does not end with 0 unless they do
    assert process.communicate(timeout=PATIENCE_S)[1] == "2 processes run app:worker; Ctrl-C stops them\n"
    assert process.returncode == 0


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


def test_a_process_that_does_not_end_well_is_named_and_the_command_fails(start, url, app):
    app.write_text(f"{APP}\nimport atexit\natexit.register(os._exit, 7)")
    process = start("--processes", "2")
    send(url, "one")
    assert process.stdout.readline().startswith("handled one")
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=PATIENCE_S)[1].splitlines()[1:]
    assert len(said) == 2
    assert all(line.startswith("worker process ") and line.endswith(" ended with status 7") for line in said)
    assert process.returncode == 7


UNTIL_A_SIGNAL = """
import os, signal
read, write = os.pipe()
os.set_blocking(write, False)
signal.set_wakeup_fd(write)
print("importing", flush=True)
os.read(read, 1)
"""


@pytest.mark.parametrize("options", [(), ("--processes", "2")], ids=["one", "two"])
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_during_the_start_takes_no_message_and_ends_well(start, url, app, options, how):
    app.write_text(UNTIL_A_SIGNAL + APP)
    send(url, "one")
    process = start(*options)
    assert [process.stdout.readline() for _ in range(len(options) or 1)] == ["importing\n"] * (len(options) or 1)
    process.send_signal(how)
    assert process.communicate(timeout=PATIENCE_S)[0] == ""
    assert process.returncode == 0


def test_a_second_signal_gives_everything_back_at_once_and_ends_well(start, url, app):
    hanging = APP.replace("os._exit(3)", "import asyncio; await asyncio.Event().wait()")
    app.write_text(hanging.replace('Worker("test")', 'Worker("test", grace=3_600)'))
    process = start("--processes", "2")
    send(url, "die", "die")
    assert [process.stdout.readline().split()[1] for _ in range(2)] == ["die", "die"]
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=PATIENCE_S)[1] == "2 processes run app:worker; Ctrl-C stops them\n"
    assert process.returncode == 0
    with connect_blocking(url) as broker:
        assert broker.inspect("orders").ready == 2


IMPATIENT = """
import sys, typer
from redrive.cli.stop_signals import StopSignals
from redrive.cli.worker_processes import WorkerProcesses
from redrive.retry import Fixed
with StopSignals() as signals:
    processes = WorkerProcesses("app:worker", sys.argv[1], 1, reload=False, restarts=Fixed(0.01, max_attempts=3))
    sys.exit(processes.run(signals))
"""


@pytest.mark.parametrize(
    ("source", "problem", "status"),
    [
        (APP.replace('"orders"', '"nowhere"'), "there is no queue 'nowhere'", 5),
        ("import os; os.kill(os.getpid(), 9)", "", -9),
    ],
    ids=["no queue", "killed"],
)
def test_processes_that_fail_at_once_again_and_again_end_the_command(app, url, source, problem, status):
    app.write_text(source)
    ran = subprocess.run(
        [sys.executable, "-c", IMPATIENT, url], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert ran.returncode == (status if status > 0 else 1)
    assert ran.stderr.count(problem) >= 3
    assert f"ended with status {status}, 3 times in a row within 30 s of its start; giving up" in ran.stderr


def test_a_mistyped_url_is_refused_and_makes_no_database(app, run):
    for options in ((), ("--processes", "2")):
        refused = run("worker", "app:worker", "--url", "sqlite:///ordres.db", *options)
        assert refused.exit_code == 1
        assert "there is no database ordres.db; say where it is with --url" in " ".join(refused.stderr.split())
    assert not app.with_name("ordres.db").exists()


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
    app.write_text(APP.replace('"handled"', '"now handled"') + "\nprint('imported', flush=True)")
    assert told(process.stderr, "code has changed")
    assert told(process.stdout, "imported")  # the new one: until then the old one may still receive
    send(url, "two")
    assert told(process.stdout, "handled two").startswith("now")
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 0
