"""Measure what the history costs: 64 callers with and without counting, in turns: ``python bench/history.py``.

In a file and in a PostgreSQL server, which is started for it. Each turn is short, and the two kinds alternate, so that
whatever else the machine does hits both; the figure is the ratio of their medians, on the wall and in CPU time of this
process. It reports and does not judge. docs/explanation/history.md explains the figures.
"""

import argparse
import asyncio
import os
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from postgres_server import NoServer, running_server

from redrive import connect
from redrive.engines.postgres.exchange import Exchange
from redrive.engines.sqlite import store
from redrive.engines.sqlite.outgoing_messages import OutgoingMessages

CALLERS = 64
BODY = b"x" * 100
COUNTED = [
    (store.Store, "_count"),
    (store.Store, "_count_delivered"),
    (store, "Counter"),
    (OutgoingMessages, "sent_to"),
    (Exchange, "counted"),
]


@contextmanager
def not_counting():
    """Let engines count nothing, so that nothing is stored either."""
    before = [(owner, name, getattr(owner, name)) for owner, name in COUNTED]
    for owner, name, _ in before:
        setattr(owner, name, nothing)
    try:
        yield
    finally:
        for owner, name, what in before:
            setattr(owner, name, what)


def nothing(*_):
    """Count nothing."""
    return {}


@contextmanager
def counting():
    """Let engines count, as they do."""
    yield


async def turn(broker, cycles):
    """Let 64 callers send, receive and complete; return seconds for each cycle on the wall, and of CPU time."""

    async def caller():
        for _ in range(cycles):
            await broker.send("orders", BODY)
            for delivery in await broker.receive("orders"):
                await delivery.complete()

    began, used = time.perf_counter(), time.process_time()
    await asyncio.gather(*(caller() for _ in range(CALLERS)))
    done = CALLERS * cycles
    return (time.perf_counter() - began) / done, (time.process_time() - used) / done


async def measure(url, turns, cycles):
    """Return the seconds of each turn, by kind."""
    found = {"with": [], "without": []}
    kinds = {"with": counting, "without": not_counting}
    async with connect(url) as broker:
        await broker.declare("orders")
        await turn(broker, max(1, cycles // 4))
        for number in range(turns):
            for kind in ("with", "without") if number % 2 else ("without", "with"):
                with kinds[kind]():
                    found[kind].append(await turn(broker, cycles))
    return found


def report(name, found):
    """Print what counting costs."""
    for place, what in enumerate(("on the wall", "CPU time")):
        on, off = (median(each[place] for each in found[kind]) for kind in ("with", "without"))
        ratios = sorted(one[place] / other[place] for one, other in zip(found["with"], found["without"], strict=True))
        low, high = ratios[len(ratios) // 4], ratios[3 * len(ratios) // 4]
        print(
            f"{name}, {what}: {1 / off:,.0f} cycles/s without, {1 / on:,.0f} with;"
            f" {on / off - 1:+.1%} (pairs: {median(ratios) - 1:+.1%}, half of them {low - 1:+.1%} to {high - 1:+.1%})"
        )


def main():
    """Measure both engines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=100)
    parser.add_argument("--cycles", type=int, default=20, help="of each of the 64 callers, in each turn")
    parser.add_argument("--folder", default=None, help="where the files are; not in memory")
    parser.add_argument("--engine", choices=("sqlite", "postgres"), action="append")
    asked = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory(dir=asked.folder) as folder:
        Path(folder).chmod(0o755)  # PostgreSQL may run as another user
        if "sqlite" in (asked.engine or ("sqlite",)):
            report("SQLite", asyncio.run(measure(f"sqlite:///{folder}/queue.db", asked.turns, asked.cycles)))
        if "postgres" in (asked.engine or ("postgres",)):
            try:
                with running_server(folder) as server:
                    url = server.url("postgres")
                    report("PostgreSQL", asyncio.run(measure(url, asked.turns, asked.cycles)))
            except NoServer as error:
                print(f"PostgreSQL is not measured: {error}")


if __name__ == "__main__":
    main()
