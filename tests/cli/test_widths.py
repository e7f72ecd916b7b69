# SPDX-License-Identifier: MIT
"""Numbers and names are never cut, however narrow a terminal is, and whatever reads a pipe."""

import asyncio
import os
import pty
import re
import subprocess
import sys
from contextlib import suppress

import pytest

from redrive import connect, open_pipeline, open_recovery, open_routes
from redrive.broker import Message
from redrive.pipeline import parse_pipeline
from redrive.routes import from_topic, route, to_queue
from tests.patience import PATIENCE_S

QUEUE = "warehouse.deliveries.europe-west.priority"
ROUTE = "deliveries-of-europe-west-that-are-large-and-urgent"
PIPELINE = "reports-of-all-laboratories-of-the-north-and-west"
LAB = "laboratory-of-a-town-with-a-long-name"
KIND = "shop.errors.AddressNotUnderstoodByTheCarrier"
SAID = "no house number in 'Long Street' of a town with a long name, which no carrier delivers to at all"

PLAN = f"""
[pipeline]
name = "{PIPELINE}"
process = "builtins:iter"
[destinations.{LAB}]
transport = {{ kind = "file", folder = "outbox" }}
timing = {{ per_day = 24 }}
"""


async def fill():
    async with connect("sqlite:///redrive.db?synchronous=normal") as broker:
        for queue in (QUEUE, "a", "error"):
            await broker.declare(queue)
        await broker.send_many(QUEUE, [b"x"] * 1_234)
        told = {"redrive-failed-exception-type": KIND, "redrive-failed-exception-message": SAID}
        headers = told | {"redrive-failed-queue": QUEUE}
        await broker.send_many("error", [Message(b"x", headers=headers) for _ in range(1_995)])
        for one in await broker.receive(QUEUE, max_messages=1):
            await one.dead_letter("AddressNotUnderstood", SAID)
        async with open_routes(broker) as routes:
            await broker.declare_topic("news")
            await routes.add(route(ROUTE, source=from_topic("news"), application="warehouse") >> to_queue(QUEUE))
            await broker.send_many("news", [b"x"] * 1_234)
        async with open_pipeline(broker, parse_pipeline(PLAN)) as pipeline:
            for number in range(3):
                await pipeline.submit(b"x", key=str(number))
            await pipeline.hold(PIPELINE, LAB, reason=SAID)
        async with open_recovery(broker) as recovery:
            await recovery.ingest()
            await recovery.recover(f"queue:{QUEUE} exception:{KIND}", actor="ana", redirect="a")
            while await recovery.step():
                pass
            await recovery.recover(f"queue:{QUEUE} status:any", again=True, at=3_600)


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wide")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        asyncio.run(fill())
    return folder


@pytest.fixture
def shown(filled, ok, monkeypatch):
    """Return what a terminal so many columns wide gets; 0: a pipe."""
    monkeypatch.chdir(filled)

    def showing(columns, *arguments):
        monkeypatch.delenv("COLUMNS")
        for name, value in {"COLUMNS": str(columns), "TTY_COMPATIBLE": "1", "NO_COLOR": "1"}.items():
            monkeypatch.setenv(name, value) if columns else monkeypatch.delenv(name, raising=False)
        said = ok(*arguments)
        monkeypatch.setenv("COLUMNS", "80")
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", said)

    return showing


@pytest.mark.parametrize("columns", [40, 60, 80, 200, 0])
def test_numbers_and_names_are_whole(shown, columns):
    queues = shown(columns, "queues")
    assert set(re.findall(r"[\w.,-]+", queues)) >= {QUEUE, "a", "1,233", "1,995"}
    assert "…" not in queues
    operations = shown(columns, "operations", "list")
    assert re.findall(r"[\w,]+", operations).count("1,995") >= 3
    assert {"completed", "scheduled", "recover"} <= set(re.findall(r"\w+", operations))
    failed = shown(columns, "failed", "list", "status:any", "--limit", "2", "--no-ingest")
    assert failed.count(QUEUE) == 2
    assert failed.count("retry-issued") == 2
    groups = shown(columns, "failed", "groups", "status:any", "--no-ingest")
    assert "1,995" in groups
    assert re.search(r"\b[0-9a-f]{16}\b", groups)
    assert "AddressNotUnderstood" in "".join(shown(columns, "dead", "list", QUEUE).split())
    routes = shown(columns, "routes")
    assert set(re.findall(r"[\w.,-]+", routes)) >= {ROUTE, "warehouse", "running", "durable", "1,234"}
    assert ROUTE in shown(columns, "routes", "show", ROUTE)
    pipelines = shown(columns, "pipeline")
    assert set(re.findall(r"[\w-]+", pipelines)) >= {PIPELINE, "3"}
    assert LAB in "".join(pipelines.split())
    assert {PIPELINE, LAB, "held"} <= set(re.findall(r"[\w-]+", shown(columns, "pipeline", "show", PIPELINE)))
    tasks = shown(columns, "pipeline", "tasks", PIPELINE)
    assert len(re.findall(r"\b[0-9a-f]{28}\b", tasks)) == 3
    assert len(re.findall(r"\b[0-9a-f]{28}\b", shown(columns, "pipeline", "stuck", "--older", "0"))) == 3
    assert "1,995 of 1,995" in " ".join(shown(columns, "operations", "show", "1", "--no-ingest").split())


@pytest.mark.parametrize("columns", [40, 60, 80, 200])
def test_a_table_fits_the_terminal_or_is_a_list(shown, columns):
    listed = ("failed", "list", "status:any", "--no-ingest")
    for command in (
        ("queues",),
        ("operations", "list"),
        ("routes",),
        ("pipeline",),
        ("pipeline", "stuck", "--older", "0"),
        listed,
    ):
        lines = shown(columns, *command).splitlines()
        is_table = len(lines[0].split()) > 3
        assert is_table or columns < 200
        assert not is_table or max(map(len, lines)) <= columns
        assert is_table or lines[0].split()[0] in ("queue", "operation", "number", "route", "pipeline", "task")


def test_what_reads_a_pipe_gets_a_line_for_each(shown):
    lines = shown(0, "failed", "list", "status:any", "--limit", "3", "--no-ingest").splitlines()
    assert len(lines) == 4
    assert all(QUEUE in line for line in lines[1:])


def test_a_real_terminal_is_as_wide_as_it_says(filled):
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "redrive.cli", "queues"]
    environment = os.environ | {"COLUMNS": "40", "TERM": "xterm"}
    with subprocess.Popen(command, cwd=filled, env=environment, stdout=theirs) as process:
        os.close(theirs)
        said = b""
        with suppress(OSError):  # when the other end is closed
            while part := os.read(ours, 65_536):
                said += part
        os.close(ours)
        assert process.wait(PATIENCE_S) == 0
    assert QUEUE in said.decode()
