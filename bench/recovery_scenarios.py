"""What is measured of recovery, whatever database it is in: who takes part, how often, and in which order.

Databases are filled once, which takes longer than anything else, and everybody gets a copy. A machine is faster at one
moment than at another; so all sizes take part in every round, and what is compared was measured soon after each other.
"""

import asyncio
from concurrent.futures import ProcessPoolExecutor
from contextlib import AsyncExitStack, contextmanager
from multiprocessing import get_context
from typing import NamedTuple

from measure import rotated
from recovery_looks import look
from recovery_subjects import fill_errors, fill_failures, fill_raw, move, read, recover

from redrive.recovery import LaneSettings

MILLION = 1_000_000
RAW_PAGES = (LaneSettings().page, 100)  # recovery's own, and a usual one


class Effort(NamedTuple):
    """How much to measure."""

    sizes: tuple  # numbers of failures, the smallest first
    rounds: int  # everybody takes part in every round, in another order each time
    looks: int


class Subject(NamedTuple):
    """A program that moves messages: what it finds in its database, and what is timed."""

    name: str
    fill: object
    job: object
    how: object
    is_ours: bool


RAW = tuple(Subject(f"raw loop, {page:,} at a time", fill_raw, move, page, is_ours=False) for page in RAW_PAGES)
STEP = Subject("redrive", fill_failures, recover, "step", is_ours=True)
READ = Subject("redrive, reads failures", fill_errors, read, None, is_ours=True)
RUN = Subject("redrive, run() in one process", fill_failures, recover, "run", is_ours=True)


def do(job, *values):
    """Do a job: what a new process begins with."""
    return asyncio.run(job(*values))


def new_process():
    """Return a pool of one process, which is started when it gets something to do."""
    return ProcessPoolExecutor(1, mp_context=get_context("spawn"))


_kept = []


@contextmanager
def one_process():
    """Do all jobs of a block in one process: quicker, and what one job has left disturbs the next one's figures."""
    with new_process() as pool:
        _kept.append(pool)
        try:
            yield
        finally:
            _kept.remove(pool)


def in_a_process(*job):
    """Do a job in a new process, and return what it found; if the process dies, say so."""
    if _kept:
        return _kept[-1].submit(do, *job).result()
    with new_process() as pool:
        return pool.submit(do, *job).result()


async def one_round(subject, engine, filled, size):
    """Measure one subject once, in a copy of a database, with a disk that has nothing left to write for others."""
    async with engine.copy(filled) as url:
        await engine.settle()
        return in_a_process(subject.job, url, size, subject.how)


async def looks(url, engine, size, times):
    """Look failures up, beside a table of the same that has nothing else."""
    async with engine.place() as raw_url:
        return in_a_process(look, url, raw_url, engine.name, size, times)


def takes_part(size, effort, names):
    """Return who is measured with so many failures; run() only once, with the size that everything is about.

    Failures are read with the smallest size: an error queue is not deep for long.
    """
    is_main = size == max(each for each in effort.sizes if each < MILLION or len(effort.sizes) == 1)
    found = [STEP] if "recover" in names else []
    if "recover" in names and is_main:
        found.append(RUN)
    if "read" in names and size == min(effort.sizes):
        found.append(READ)
    return [*RAW, *found] if found else []


class Stock:
    """Databases that are filled already."""

    def __init__(self, engine, places, progress):
        self.engine = engine
        self.progress = progress
        self._places = places
        self._urls = {}
        self.ingested = {}

    async def filled(self, fill, size):
        """Return the URL of a database with so many messages."""
        if (fill, size) not in self._urls:
            self.progress(f"{size:,}: {fill.__doc__.partition(';')[0].rstrip('.').lower()}")
            url = await self._places.enter_async_context(self.engine.place())
            if rate := in_a_process(fill, url, size):
                self.ingested[size] = rate
            await self.engine.tidy(url)
            self._urls[fill, size] = url
        return self._urls[fill, size]


async def rates_of(stock, effort, names):
    """Return messages a second and memory, by size and subject, round by round."""
    everybody = {size: found for size in effort.sizes if (found := takes_part(size, effort, names))}
    rates = {size: {one.name: [] for one in found} for size, found in everybody.items()}
    peaks = {size: {one.name: [] for one in found} for size, found in everybody.items()}
    for turn in range(effort.rounds):
        for size, found in everybody.items():
            for subject in rotated(found, turn, effort.rounds):
                filled = await stock.filled(subject.fill, size)
                stock.progress(f"{size:,}, round {turn + 1} of {effort.rounds}: {subject.name}")
                measured = await one_round(subject, stock.engine, filled, size)
                rates[size][subject.name].append(measured["rate"])
                peaks[size][subject.name].append(measured["MB"])
    return rates, peaks


async def measure(names, engine, effort, progress):
    """Return the figures of all scenarios: rates and memory by size and subject, rates of reading, looks."""
    figures = {"recover": {}, "memory": {}, "ingest": {}, "look": {}}
    async with AsyncExitStack() as places:
        stock = Stock(engine, places, progress)
        if "look" in names:
            largest = max(effort.sizes)
            url = await stock.filled(fill_failures, largest)
            progress(f"{largest:,}: look at them")
            figures["look"] = await looks(url, engine, largest, effort.looks)
        if not names.isdisjoint({"recover", "read"}):
            figures["recover"], figures["memory"] = await rates_of(stock, effort, names)
        figures["ingest"] = stock.ingested
    return figures
