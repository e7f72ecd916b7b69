# SPDX-License-Identifier: MIT
"""The process that does the work of a server: it is started again when it dies, and it dies with its server."""

import asyncio
import os
import signal
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from redrive import connect, open_pipeline, open_routes
from redrive.clock import pause, system_clock
from redrive.errors import ProblemReported
from redrive.pipeline import read_pipeline
from redrive.routes import from_queue, route, to_queue
from redrive.server import ServerSettings
from redrive.server.app import Observed
from redrive.server.work import WORK_PROCESS
from redrive.server.work_process import WorkProcess
from tests.patience import PATIENCE_S
from tests.serving import address, ended, ready, serving

PIPELINE = f"""
[pipeline]
name = "reports"
receive = "{__name__}:receive"
process = "{__name__}:pass_on"

[destinations.partner]
transport = {{ kind = "call", function = "{__name__}:send" }}
"""


def receive(submission):
    print("this is no report")  # noqa: T201 - as functions of users do
    return [submission.body]


def pass_on(_):
    return []


def send(_):
    """Send nothing."""


async def until(holds):
    """Wait until something holds."""
    async with asyncio.timeout(PATIENCE_S):
        while not holds():
            await pause(system_clock, 0.01)


@asynccontextmanager
async def at_work(tmp_path, **settings):
    """Run a work process; yield what is known about it, and its tasks."""
    observed = Observed.by(system_clock)
    url = f"sqlite:///{tmp_path}/work.db?synchronous=normal"
    chosen = ServerSettings(**{"database": url, "receivers": "127.0.0.1:0"} | settings)
    async with WorkProcess(chosen, system_clock, observed).running(None) as tasks:
        yield observed, tasks, chosen


def runs(observed):
    """Say whether everything runs, as far as is known."""
    return WORK_PROCESS in observed.health.parts and set(observed.health.parts.values()) == {None}


def counted(observed, name):
    """Return how many events of a kind the server has counted."""
    samples = [sample for family in observed.metrics.registry.collect() for sample in family.samples]
    return sum(sample.value for sample in samples if sample.name == name)


def children_of(process):
    """Return the processes that a process has started."""
    tasks = Path(f"/proc/{process}/task").iterdir()
    return {int(each) for task in tasks for each in (task / "children").read_text().split()}


async def test_it_says_what_runs_and_ends_when_the_server_does(tmp_path):
    async with at_work(tmp_path) as (observed, tasks, _):
        assert observed.health.parts == {WORK_PROCESS: pytest.approx(system_clock.time(), abs=PATIENCE_S)}
        await until(lambda: runs(observed))
        assert observed.health.parts.keys() == {WORK_PROCESS, "operations", "routes", "notifications"}
        assert not tasks[0].done()
    assert tasks[0].result() is None


async def test_one_without_parts_of_its_own_is_ready_too(tmp_path):
    parts = dict.fromkeys(("ingest", "operations", "routes", "pipelines", "notifications"), False)
    async with at_work(tmp_path, **parts) as (observed, _, _settings):
        await until(lambda: runs(observed))
        assert observed.health.parts == {WORK_PROCESS: None}


async def test_what_happens_in_it_is_counted_by_the_server_and_told_to_those_who_look(tmp_path):
    async with at_work(tmp_path) as (observed, _, settings):
        stream = observed.topics.open(lambda _: True)
        await until(lambda: runs(observed))
        async with connect(settings.database) as broker, open_routes(broker) as routes:
            await broker.declare("orders")
            await broker.declare("bills")
            await routes.add(route("bill", source=from_queue("orders")) >> to_queue("bills"))
            told = await stream.next(system_clock, PATIENCE_S)
        assert "route:bill" in told
        await until(lambda: counted(observed, "redrive_routes_route_changed_total"))


async def test_what_functions_print_is_not_taken_for_a_report(tmp_path):
    (tmp_path / "reports.toml").write_text(PIPELINE)
    async with at_work(tmp_path, pipeline_files=(str(tmp_path / "reports.toml"),)) as (observed, _, settings):
        await until(lambda: runs(observed))
        async with connect(settings.database) as broker:
            async with open_pipeline(broker, read_pipeline(tmp_path / "reports.toml")) as pipeline:
                await pipeline.submit(b"1", key="1")
            await until(lambda: counted(observed, "redrive_pipeline_task_ended_total"))


async def test_one_that_was_killed_is_started_again(tmp_path, caplog):
    before = children_of(os.getpid())
    async with at_work(tmp_path) as (observed, _, _settings):
        await until(lambda: runs(observed))
        (first,) = children_of(os.getpid()) - before
        os.kill(first, signal.SIGKILL)
        await until(lambda: not runs(observed))
        await until(lambda: runs(observed))
        assert children_of(os.getpid()) - before - {first}
    assert "the work process has ended with signal SIGKILL; another is started in 1 s" in caplog.text


async def test_an_error_of_a_part_ends_the_server_with_the_same_error(tmp_path):
    (tmp_path / "work.db").write_bytes(b"this is no database" * 100)
    async with at_work(tmp_path) as (_, tasks, _settings):
        await asyncio.wait(tasks, timeout=PATIENCE_S)
        with pytest.raises(ProblemReported, match="is not a database") as caught:
            tasks[0].result()
    assert caught.value.code == "storage-damaged"


async def test_without_a_server_it_ends_at_once(tmp_path):
    with serving("--database", f"sqlite:///{tmp_path}/served.db", cwd=tmp_path) as server:
        ready(address(server))
        (child,) = children_of(server.pid)
        server.kill()
        server.wait(PATIENCE_S)
        await until(lambda: not Path(f"/proc/{child}").exists())


async def test_an_operation_that_the_server_accepts_is_worked_on_in_it(tmp_path):
    with serving("--database", f"sqlite:///{tmp_path}/served.db", cwd=tmp_path) as server:
        base = address(server)
        ready(base)
        async with httpx.AsyncClient(base_url=f"{base}/api/v1", timeout=PATIENCE_S) as client:
            asked = await client.post("/operations", json={"kind": "recover", "filter": "queue:orders"})
            while (await client.get(f"/operations/{asked.json()['number']}")).json()["state"] != "completed":
                assert server.poll() is None
        server.send_signal(signal.SIGTERM)
        status, _, log = ended(server)
    assert status == 0
    assert log.endswith("INFO redrive.recovery: operation 1 (recover) is completed\n"), log


@pytest.mark.parametrize(
    ("settings", "has_one"),
    [
        ({}, True),
        ({"work_process": False}, False),
        ({"database": "sqlite:///:memory:"}, False),
        ({"database": "postgresql://db/redrive"}, True),
        (dict.fromkeys(("ingest", "operations", "routes", "pipelines", "upkeep", "notifications"), False), False),
    ],
)
def test_there_is_one_if_there_is_work_that_another_process_can_do(settings, has_one):
    assert ServerSettings(**settings).has_work_process is has_one
