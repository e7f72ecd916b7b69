"""Measure what fan-out costs: an event for 1, 5 and 10 subscriptions, with full durability: ``make bench``.

*Accept* is the commit that stores an event for all of them, 100 events at a time. *Settle* is the rest: each
subscription receives and completes its message, 100 at a time. Beside a program that was written by hand with the same
tables, the body once and a row for each subscription, and beside a send to a queue for each. *Store and deliver* is
both at once, by a runner of routes in ``durable`` delivery: bench/durable_routes.py. *Accept by 64 callers* is what
sources do: each stores one event, waits for its commit, and acknowledges. ``--only growth`` measures nothing but
accept, with 1 and with 10 subscriptions in turns, for longer: what nine more subscriptions cost.

Time on the wall, because a durable store waits for the disk. It reports and does not judge.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import durable_routes
from postgres_server import NoServer
from queue_engines import DATABASES
from report import Table, as_markdown, as_text, machine, write_between_marks
from routes_subjects import SUBJECTS, Topic

BODY = bytes(1_200)
BATCH = 100
ROUTES = (1, 5, 10)
FULL, QUICK = (5, 30), (1, 2)
"""How many rounds, and how many batches in each."""
CALLERS = 64
GROWTH, QUICK_GROWTH = (12, 100), (1, 2)
"""The same, for accept alone."""


async def measure_once(kind, engine, routes, batches):
    """Return events per second for accept and for settle."""
    async with engine.place() as url:
        subject = kind()
        await subject.open(url, routes)
        try:
            await subject.accept([BODY] * BATCH)  # whatever is done at the first call only
            await settle(subject, routes, 1)
            await engine.settle()
            began = time.perf_counter()
            for _ in range(batches):
                await subject.accept([BODY] * BATCH)
            accepted = time.perf_counter()
            await settle(subject, routes, batches)
            settled = time.perf_counter()
            assert await subject.is_empty(), "a body is left without a message"
        finally:
            await subject.close()
    events = batches * BATCH
    return events / (accepted - began), events / (settled - accepted)


async def settle(subject, routes, batches):
    """Let each subscription receive and complete all its messages."""
    for route in range(routes):
        for _ in range(batches):
            assert await subject.settle(route, BATCH) == BATCH


def measure(engine, effort, progress):
    """Return the rates of each round, by number of routes and by subject."""
    rounds, batches = effort
    found = {routes: {kind.name: [] for kind in SUBJECTS[engine.name]} for routes in ROUTES}
    for turn in range(rounds):
        for routes in ROUTES:
            progress(f"{engine.name}, round {turn + 1} of {rounds}, {routes} routes")
            for kind in SUBJECTS[engine.name]:
                found[routes][kind.name].append(asyncio.run(measure_once(kind, engine, routes, batches)))
    return found


async def measure_callers_once(engine, routes, events):
    """Return events per second when each caller stores one event after the other, and waits for each."""
    async with engine.place() as url:
        subject = Topic()
        await subject.open(url, routes)
        try:
            await subject.accept([BODY] * BATCH)  # whatever is done at the first call only
            await engine.settle()

            async def caller():
                for _ in range(events):
                    await subject.accept([BODY])

            began = time.perf_counter()
            await asyncio.gather(*(caller() for _ in range(CALLERS)))
            return CALLERS * events / (time.perf_counter() - began)
        finally:
            await subject.close()


def measure_callers(engine, effort, progress):
    """Return the rates of each round by number of routes, the numbers in turns."""
    rounds, events = effort
    found = {routes: [] for routes in ROUTES}
    for turn in range(rounds):
        progress(f"{engine.name}, round {turn + 1} of {rounds}, {CALLERS} callers")
        for routes, rates in found.items():
            rates.append(asyncio.run(measure_callers_once(engine, routes, events)))
    return found


def callers_table(engine, found):
    """Return the table of what 64 callers store, with ratios to one route."""
    rates = {routes: median(rounds) for routes, rounds in found.items()}
    rows = [[f"{Topic.name}, {routes}", f"{rate:,.0f}", f"{rate / rates[1]:.2f}x"] for routes, rate in rates.items()]
    columns = ["subject, routes", "events/s", "to 1 route"]
    return Table(f"Accept by {CALLERS} callers, one event each, {engine}: events/s", columns, rows)


# --- what more subscriptions cost


async def accept_once(kind, engine, routes, batches):
    """Return events per second for accept alone, 100 events in a commit."""
    async with engine.place() as url:
        subject = kind()
        await subject.open(url, routes)
        try:
            await subject.accept([BODY] * BATCH)
            await engine.settle()
            began = time.perf_counter()
            for _ in range(batches):
                await subject.accept([BODY] * BATCH)
            return batches * BATCH / (time.perf_counter() - began)
        finally:
            await subject.close()


def measure_growth(engine, effort, progress):
    """Return the rates of accept of each round, with few and with many subscriptions one right after the other."""
    rounds, batches = effort
    raw = SUBJECTS[engine.name][0]
    ways = {
        f"{raw.name}, {BATCH} in a commit": lambda routes: accept_once(raw, engine, routes, batches),
        f"{Topic.name}, {BATCH} in a commit": lambda routes: accept_once(Topic, engine, routes, batches),
        f"{Topic.name}, {CALLERS} callers": lambda routes: measure_callers_once(engine, routes, batches),
    }
    found = {way: [] for way in ways}
    for turn in range(rounds):
        progress(f"{engine.name}, round {turn + 1} of {rounds}: accept with {ROUTES[0]} and {ROUTES[-1]}")
        for way, run in ways.items():
            order = (ROUTES[0], ROUTES[-1]) if turn % 2 else (ROUTES[-1], ROUTES[0])
            rates = {routes: asyncio.run(run(routes)) for routes in order}
            found[way].append((rates[ROUTES[0]], rates[ROUTES[-1]]))
    return found


def growth_table(engine, found):
    """Return the table of accept with many subscriptions beside accept with one."""
    rows = []
    for way, rounds in found.items():
        ratios = sorted(many / one for one, many in rounds)
        rates = [f"{median(each):,.0f}" for each in zip(*rounds, strict=True)]
        spread = f"{ratios[len(ratios) // 4]:.2f} to {ratios[-1 - len(ratios) // 4]:.2f}"
        rows.append([way, *rates, f"{median(ratios):.2f}x", spread])
    columns = ["subject", "1: events/s", "10: events/s", "10 to 1, median of rounds", "half of the rounds"]
    return Table(f"Accept with 10 subscriptions beside 1, {engine}", columns, rows)


def tables(engine, found):
    """Return a table for accept and one for settle, with ratios to the program that was written by hand."""
    made = []
    for place, word in enumerate(("Accept", "Settle")):
        rows = []
        for routes, subjects in found.items():
            rates = {name: median(rate[place] for rate in rounds) for name, rounds in subjects.items()}
            by_hand = next(rate for name, rate in rates.items() if name.startswith("raw"))
            rows += [[f"{name}, {routes}", f"{rate:,.0f}", f"{rate / by_hand:.2f}x"] for name, rate in rates.items()]
        made.append(Table(f"{word}, {engine}: events/s", ["subject, routes", "events/s", "to raw"], rows))
    return made


def arguments():
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=DATABASES, default="sqlite", help="the database to measure in")
    parser.add_argument("--only", choices=["growth"], help="what to measure, if not everything else")
    parser.add_argument("--quick", action="store_true", help="a moment, to see that it runs; do not trust the figures")
    parser.add_argument("--dir", default=tempfile.gettempdir(), help="a folder on the disk to measure")
    parser.add_argument("--json", metavar="FILE", help="write all figures, round by round")
    parser.add_argument("--markdown", metavar="FILE", help="rewrite the tables between the marks of this page")
    return parser.parse_args()


def measured(engine, chosen, progress):
    """Return the figures, and the tables of them."""
    if chosen.only == "growth":
        growth = measure_growth(engine, QUICK_GROWTH if chosen.quick else GROWTH, progress)
        return {"growth": growth}, [growth_table(chosen.engine, growth)]
    effort = QUICK if chosen.quick else FULL
    found = measure(engine, effort, progress)
    callers = measure_callers(engine, effort, progress)
    durable = durable_routes.measure(engine, ROUTES, effort, progress)
    accepted, settled = tables(chosen.engine, found)
    shown = [accepted, callers_table(chosen.engine, callers), settled, durable_routes.table(chosen.engine, durable)]
    return {"figures": found, "callers": callers, "durable": durable}, shown


def main():
    """Measure, print, write."""
    chosen = arguments()
    shape = machine()
    progress = lambda what: print(what, file=sys.stderr)  # noqa: E731
    try:
        with DATABASES[chosen.engine].running(chosen.dir, settles=not chosen.quick) as engine:
            figures, shown = measured(engine, chosen, progress)
            durability = engine.durability
    except NoServer as error:
        raise SystemExit(f"bench: {error}") from None
    place = f"{shape['date']}, {shape['python']}, {shape['system']}, {shape['cpu']}, {shape['cores']} cores"
    heading = f"{place}, load {shape['load']} at the start.\nBodies of {len(BODY):,} bytes, {durability}.\n"
    print(heading, *map(as_text, shown), sep="\n")
    if chosen.json:
        Path(chosen.json).write_text(json.dumps({"machine": shape, **figures}, indent=1), encoding="utf-8")
    if chosen.markdown:
        write_between_marks(chosen.markdown, "\n".join([heading, *map(as_markdown, shown)]))


if __name__ == "__main__":
    main()
