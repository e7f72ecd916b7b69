"""What bench/routes.py measures of ``durable`` delivery: events that are stored, then delivered on each route.

From the moment the receiver has its first event until each route has delivered and completed all of them; the senders
do nothing. Beside the program that was written by hand, which stores 100 events at a time and lets each route receive
and complete them, 100 at a time: it has neither filters nor retries nor reports, nor anything that runs at the same
time.
"""

import asyncio
import logging
import time
from dataclasses import dataclass
from statistics import median
from typing import ClassVar

from report import Table
from routes_subjects import SUBJECTS

from redrive import connect, open_routes
from redrive.broker import Message
from redrive.routes import Delivered, EventReceiver, EventSender, RouteRunner, add_kind, route, setting
from redrive.routes.parts import TextSetting

BODY = bytes(1_200)
BATCH = 100
"""How many events are stored at a time, and how many a route has on their way."""


class Load:
    """What the bench's receiver has to send, when it began, and how many deliveries are still to come."""

    def __init__(self, events, routes):
        self.events = events
        self.missing = events * routes
        self.began = None
        self.done = asyncio.Event()


LOAD = None


@add_kind
@dataclass(frozen=True, slots=True)
class StoringReceiver(EventReceiver):
    """Gives as many events to its intake as the load says, from 100 callers at a time."""

    kind: ClassVar[str] = "durable-bench"

    @property
    def address(self):
        """Return what it reads."""
        return "bench"

    def open(self, environment):
        """Return itself: it has no connection."""
        return self

    async def run(self, intake):
        """Give the events to the intake, then wait."""
        LOAD.began = time.perf_counter()
        for _ in range(LOAD.events // BATCH):
            await asyncio.gather(*(intake.accept(Message(BODY)) for _ in range(BATCH)))
        await asyncio.Event().wait()


@add_kind
@dataclass(frozen=True, slots=True)
class CountingSender(EventSender):
    """Counts."""

    kind: ClassVar[str] = "durable-bench"
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
        LOAD.missing -= 1
        if not LOAD.missing:
            LOAD.done.set()
        return Delivered()

    async def close(self):
        """Do nothing."""


async def with_routes(url, routes, events):
    """Store and deliver events with Redrive; return the seconds."""
    global LOAD  # noqa: PLW0603 - routes are opened by their runner, so the load is one for all
    LOAD = Load(events, routes)
    async with connect(url, upkeep_every=3_600) as broker, open_routes(broker) as catalog:
        source = StoringReceiver(delivery="durable")
        await catalog.apply(
            *(route(f"r{n}", source=source, concurrency=BATCH) >> CountingSender(f"d{n}") for n in range(routes))
        )
        await RouteRunner(catalog, listen="127.0.0.1:0").run(until=LOAD.done.wait())  # all are completed when it ends
        seconds = time.perf_counter() - LOAD.began
        assert LOAD.missing == 0, "an event was delivered twice"
        assert all(queue.ready + queue.locked == 0 for queue in await broker.queues()), "a leg is left"
    return seconds


async def by_hand(kind, url, routes, events):
    """Store and settle events with the program that was written by hand; return the seconds."""
    subject = kind()
    await subject.open(url, routes)
    try:
        began = time.perf_counter()
        for _ in range(events // BATCH):
            await subject.accept([BODY] * BATCH)
            for each in range(routes):
                assert await subject.settle(each, BATCH) == BATCH
        seconds = time.perf_counter() - began
        assert await subject.is_empty(), "an event is left"
    finally:
        await subject.close()
    return seconds


async def measure_once(engine, routes, events):
    """Return events per second, by subject."""
    raw = SUBJECTS[engine.name][0]
    rates = {}
    for name, run in ((raw.name, lambda *where: by_hand(raw, *where)), ("redrive, routes", with_routes)):
        async with engine.place() as url:
            await engine.settle()
            rates[name] = events / await run(url, routes, events)
    return rates


def measure(engine, numbers, effort, progress):
    """Return the rates of each round, by number of routes and by subject."""
    rounds, batches = effort
    found = {routes: {} for routes in numbers}
    logging.disable(logging.CRITICAL)  # routes say when they begin and end
    try:
        for turn in range(rounds):
            for routes in numbers:
                progress(f"{engine.name}, durable, round {turn + 1} of {rounds}, {routes} routes")
                for name, rate in asyncio.run(measure_once(engine, routes, batches * BATCH)).items():
                    found[routes].setdefault(name, []).append(rate)
    finally:
        logging.disable(logging.NOTSET)
    return found


def table(engine, found):
    """Return the table, with ratios to the program that was written by hand."""
    rows = []
    for routes, subjects in found.items():
        rates = {name: median(rounds) for name, rounds in subjects.items()}
        raw = next(rate for name, rate in rates.items() if name.startswith("raw"))
        rows += [[f"{name}, {routes}", f"{rate:,.0f}", f"{rate / raw:.2f}x"] for name, rate in rates.items()]
    return Table(f"Store and deliver, {engine}: events/s", ["subject, routes", "events/s", "to raw"], rows)
