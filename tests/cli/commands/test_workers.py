# SPDX-License-Identifier: MIT
"""``redrive workers``, run as a person runs it."""

import asyncio

import pytest

from redrive import connect
from redrive.broker.port import WorkerReport


@pytest.fixture
def a_worker(orders):
    """A worker that has just reported itself."""
    report = WorkerReport(
        session="a",
        name="billing",
        host="here",
        pid=7,
        version="1",
        queues=(orders, "bills"),
        concurrency=8,
        in_flight=2,
        handled=1_234,
        p95_s=0.25,
    )

    async def present():
        async with connect("sqlite:///redrive.db") as broker:
            await broker.engine.worker_present(report, 60)

    asyncio.run(present())


@pytest.mark.usefixtures("a_worker")
def test_workers_are_listed_with_what_they_do(ok, read):
    heading, line = ok("workers").splitlines()
    assert heading.split() == ["worker", "host", "pid", "queues", "busy", "handled", "p95", "since", "seen"]
    assert line.split()[:8] == ["billing", "here", "7", "orders,", "bills", "2/8", "1,234", "0.25"]
    (worker,) = read("workers")["workers"]
    assert (worker["name"], worker["queues"], worker["p95_s"]) == ("billing", ["orders", "bills"], 0.25)


@pytest.mark.usefixtures("orders")
def test_where_no_worker_runs_it_says_how_to_start_one(ok):
    assert "redrive worker MODULE:WORKER" in ok("workers")


def test_a_queue_that_none_reads_is_named(run, orders):
    run("send", orders, "one")
    ran = run("workers")
    assert "1 queue with messages, and none received for 10 minutes: orders" in ran.stderr
