"""What is measured of recovery, whatever database it is in: who takes part, how often, and in which order."""

import asyncio
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import NamedTuple

from measure import rotated
from recovery_looks import look
from recovery_subjects import fill_failures, fill_raw, move, recover

from redrive.recovery import LaneSettings

MILLION = 1_000_000
RAW_PAGES = (LaneSettings().page, 100)  # recovery's own, and a usual one


class Effort(NamedTuple):
    """How much to measure."""

    sizes: tuple  # numbers of failures, the smallest first
    rounds: int  # everybody takes part in every round, in another order each time
    looks: int

    def rounds_of(self, size):
        """Return how many rounds there are of a size."""
        return 1 if size >= MILLION else self.rounds


class Subject(NamedTuple):
    """Somebody who moves messages: what is done before, and what is timed."""

    name: str
    fill: object
    job: object
    how: object
    is_ours: bool


RAW = tuple(Subject(f"raw loop, {page:,} at a time", fill_raw, move, page, is_ours=False) for page in RAW_PAGES)
STEP = Subject("redrive", fill_failures, recover, "step", is_ours=True)
RUN = Subject("redrive, run() in one process", fill_failures, recover, "run", is_ours=True)


def do(job, *values):
    """Do a job: what a new process begins with."""
    return asyncio.run(job(*values))


def in_a_process(*job):
    """Do a job in a new process, and return what it found; if the process dies, say so."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(do, *job).result()


async def one_round(subject, engine, size, before=None):
    """Measure one subject once, in an empty database, with a disk that has nothing left to write for others."""
    async with engine.place() as url:
        ingested = in_a_process(subject.fill, url, size)
        await engine.tidy(url)
        looked = await before(url) if before else None
        await engine.settle()
        found = in_a_process(subject.job, url, size, subject.how)
        return found | {"ingested": ingested, "looked": looked}


async def looks(url, engine, size, effort):
    """Look failures up, beside a table of the same that has nothing else."""
    async with engine.place() as raw_url:
        return in_a_process(look, url, raw_url, engine.name, size, effort.looks)


async def only_looks(engine, size, effort):
    """Look failures up that were made for nothing else."""
    async with engine.place() as url:
        in_a_process(fill_failures, url, size)
        await engine.tidy(url)
        return await looks(url, engine, size, effort)


def takes_part(size, effort):
    """Return who is measured with so many failures; run() only once, with the size that everything is about."""
    is_main = size == max(each for each in effort.sizes if each < MILLION or len(effort.sizes) == 1)
    return [*RAW, STEP, RUN] if is_main else [*RAW, STEP]


def measure(names, engine, effort, progress):
    """Return the figures of all scenarios: rates and memory by size and subject, rates of reading, looks."""
    figures = {"recover": {}, "memory": {}, "ingest": {}, "look": {}}
    largest = max(effort.sizes)
    if names == ["look"]:
        progress(f"{largest:,} failures, to look at")
        figures["look"] = asyncio.run(only_looks(engine, largest, effort))
        return figures
    for size in effort.sizes:
        subjects, rounds = takes_part(size, effort), effort.rounds_of(size)
        rates = figures["recover"][size] = {one.name: [] for one in subjects}
        peaks = figures["memory"][size] = {one.name: [] for one in subjects}
        for turn in range(rounds):
            for subject in rotated(subjects, turn, rounds):
                progress(f"{size:,}, round {turn + 1} of {rounds}: {subject.name}")
                looker = None
                if size == largest and subject is STEP and not turn and "look" in names:
                    looker = lambda url, size=size: looks(url, engine, size, effort)  # noqa: E731
                found = asyncio.run(one_round(subject, engine, size, looker))
                rates[subject.name].append(found["rate"])
                peaks[subject.name].append(found["MB"])
                if found["ingested"]:
                    figures["ingest"].setdefault(size, []).append(found["ingested"])
                figures["look"] |= found["looked"] or {}
    return figures
