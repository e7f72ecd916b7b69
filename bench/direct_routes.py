"""Measure ``direct`` delivery: events from memory to 1, 5 and 10 routes that do nothing with them: ``make bench``.

Beside a bare fan-out with asyncio, which has neither filters nor limits nor reports, and beside FastStream's in-memory
broker for tests. Nothing is stored by any of them. ``--memory`` delivers a million events to five routes and prints the
memory of the process on the way: it must not grow.

It reports and does not judge.
"""

# ruff: noqa: PLC0415 - imports stand where they are used, so that a library that is not installed is missed alone

import argparse
import asyncio
import json
import logging
import sys
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import ClassVar

from report import Table, as_markdown, as_text, machine, write_between_marks

from redrive import connect, open_routes
from redrive.broker import Message
from redrive.errors import ReceiverFull
from redrive.routes import Delivered, EventReceiver, EventSender, RouteRunner, add_kind, route, setting
from redrive.routes.parts import TextSetting

ROUTES = (1, 5, 10)
BODY = bytes(1_200)
FULL, QUICK = (3, 20_000), (1, 500)
"""How many rounds, and how many events in each."""

WINDOW = 100
"""How many events may be on their way."""


class Load:
    """What the bench's receiver sends, and how many deliveries its senders have seen."""

    def __init__(self, events):
        self.events = events
        self.delivered = 0
        self.done = asyncio.Event()
        self.watch = None


LOAD = None


@add_kind
@dataclass(frozen=True, slots=True)
class BenchReceiver(EventReceiver):
    """Gives as many events to its intake as the load says."""

    kind: ClassVar[str] = "bench"

    @property
    def address(self):
        """Return what it reads."""
        return "bench"

    def open(self, environment):
        """Return itself: it has no connection."""
        return self

    async def run(self, intake):
        """Give the events to the intake, then wait."""
        for number in range(LOAD.events):
            while True:
                try:
                    await intake.accept(Message(BODY, id=str(number)))
                    break
                except ReceiverFull:
                    await asyncio.sleep(0)
            if LOAD.watch is not None:
                LOAD.watch(number)
        LOAD.done.set()
        await asyncio.Event().wait()


@add_kind
@dataclass(frozen=True, slots=True)
class BenchSender(EventSender):
    """Counts."""

    kind: ClassVar[str] = "bench"
    name: str = setting(TextSetting(), "its name")

    @property
    def destination(self):
        """Return its name."""
        return self.name

    def open(self, environment):
        """Return itself: it has no connection."""
        return self

    async def send(self, message, key):
        """Count a delivery."""
        LOAD.delivered += 1
        return Delivered()

    async def close(self):
        """Do nothing."""


async def redrive_direct(routes, _events):
    """Deliver with Redrive."""
    async with connect("sqlite:///:memory:", upkeep_every=3_600) as broker, open_routes(broker) as catalog:
        source = BenchReceiver(delivery="direct")
        await catalog.apply(
            *(route(f"r{n}", source=source, concurrency=WINDOW) >> BenchSender(f"d{n}") for n in range(routes))
        )
        runner = RouteRunner(catalog, listen="127.0.0.1:0")
        began = time.perf_counter()
        await runner.run(until=LOAD.done.wait())  # what is on its way is delivered before it ends
        return time.perf_counter() - began


async def bare_asyncio(routes, events):
    """Deliver with a task for each event and route, and a limit on their number."""

    async def send(_message):
        LOAD.delivered += 1

    running, began = set(), time.perf_counter()
    for number in range(events):
        message = Message(BODY, id=str(number))
        if len(running) >= WINDOW * routes:
            await asyncio.wait(running)
        for _ in range(routes):
            task = asyncio.create_task(send(message))
            running.add(task)
            task.add_done_callback(running.discard)
    while running:
        await asyncio.wait(running)
    return time.perf_counter() - began


async def faststream(routes, events):
    """Deliver with FastStream's in-memory broker."""
    from faststream.nats import NatsBroker, TestNatsBroker

    broker = NatsBroker(logger=None)

    def subscribe(name):
        @broker.subscriber("events", queue=name)
        async def handle(_body: bytes):
            LOAD.delivered += 1

    for number in range(routes):
        subscribe(f"q{number}")
    async with TestNatsBroker(broker) as memory:
        began = time.perf_counter()
        for _ in range(events):
            await memory.publish(BODY, "events")
        return time.perf_counter() - began


SUBJECTS = {"bare asyncio": bare_asyncio, "FastStream, in memory": faststream, "redrive, direct": redrive_direct}
if find_spec("faststream") is None:
    del SUBJECTS["FastStream, in memory"]


def measure(effort, progress):
    """Return the rates of each round, by number of routes and by subject."""
    global LOAD  # noqa: PLW0603 - routes are opened by their runner, so the load is one for all
    rounds, events = effort
    found = {routes: {name: [] for name in SUBJECTS} for routes in ROUTES}
    for turn in range(rounds):
        for routes in ROUTES:
            progress(f"round {turn + 1} of {rounds}, {routes} routes")
            for name, subject in SUBJECTS.items():
                LOAD = Load(events)
                seconds = asyncio.run(subject(routes, events))
                assert LOAD.delivered == events * routes, (name, LOAD.delivered)
                found[routes][name].append(events / seconds)
    return found


def table(found):
    """Return the table, with ratios to the bare fan-out."""
    rows = []
    for routes, subjects in found.items():
        rates = {name: median(rounds) for name, rounds in subjects.items()}
        bare = rates["bare asyncio"]
        rows += [[f"{name}, {routes}", f"{rate:,.0f}", f"{rate / bare:.2f}x"] for name, rate in rates.items()]
    return Table("Direct, nothing stored: events/s", ["subject, routes", "events/s", "to asyncio"], rows)


def resident_mib():
    """Return the memory of this process."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4_096 / 2**20


def measure_memory(events, progress):
    """Deliver events to five routes; return the memory after each tenth of them."""
    global LOAD
    LOAD, seen = Load(events), []

    def watch(number):
        if number % (events // 10) == events // 10 - 1:
            seen.append(resident_mib())
            progress(f"{number + 1:,} events, {seen[-1]:.1f} MiB")

    LOAD.watch = watch
    asyncio.run(redrive_direct(5, events))
    return seen


def arguments():
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a moment, to see that it runs; do not trust the figures")
    parser.add_argument("--memory", action="store_true", help="deliver a million events, and print the memory")
    parser.add_argument("--json", metavar="FILE", help="write all figures, round by round")
    parser.add_argument("--markdown", metavar="FILE", help="rewrite the tables between the marks of this page")
    return parser.parse_args()


def main():
    """Measure, print, write."""
    chosen = arguments()
    logging.disable(logging.CRITICAL)
    progress = lambda what: print(what, file=sys.stderr)  # noqa: E731
    if chosen.memory:
        seen = measure_memory(10_000 if chosen.quick else 1_000_000, progress)
        print(f"{seen[0]:.1f} MiB after a tenth, {seen[-1]:.1f} MiB at the end")
        return
    shape = machine()
    found = measure(QUICK if chosen.quick else FULL, progress)
    place = f"{shape['date']}, {shape['python']}, {shape['system']}, {shape['cpu']}, {shape['cores']} cores"
    heading = f"{place}, load {shape['load']} at the start.\nBodies of {len(BODY):,} bytes, nothing is stored.\n"
    print(heading, as_text(table(found)), sep="\n")
    if chosen.json:
        Path(chosen.json).write_text(json.dumps({"machine": shape, "figures": found}, indent=1), encoding="utf-8")
    if chosen.markdown:
        write_between_marks(chosen.markdown, "\n".join([heading, as_markdown(table(found))]))


if __name__ == "__main__":
    main()
