"""Measure Redrive's queues beside hand-written code and beside its peers, all of them durable: ``make bench``.

Time on the wall, because a durable queue waits for the disk; so the disk's own time for a sync is measured beside it.
It reports and does not judge: the exit code is 0 whatever the figures are. They are explained in
docs/explanation/queue-speed.md.
"""

import argparse
import asyncio
import gc
import json
import os
import sys
import tempfile
import time
from contextlib import asynccontextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from multiprocessing import get_context
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple

from measure import rotated
from queue_claims import claims, table_of_claims
from queue_subjects import DISTRIBUTIONS, EVERYBODY, PersistQueue, Raw, RawCoalescer, Redrive
from report import Table, as_markdown, as_text, machine, write_between_marks

from redrive.worker import Worker

BODY = bytes(range(256))
DISTURBED = "\nTHE MACHINE WAS BUSY WITH OTHER THINGS: neither figures nor verdicts can be trusted. Measure again.\n"
BATCH = 100
CALLERS = 64


class Effort(NamedTuple):
    """How much to measure."""

    rounds: int  # all subjects take part in every round, in another order each time
    batches: int
    cycles: int  # of each of the 64 callers
    calls: int  # of the lone caller
    deep: int  # messages in the deep queue
    latencies: int
    passing: int  # messages, while memory is watched
    handled: int  # messages, by the worker


FULL = Effort(
    rounds=9, batches=50, cycles=40, calls=1_000, deep=1_000_000, latencies=400, passing=100_000, handled=5_000
)
QUICK = Effort(rounds=2, batches=10, cycles=6, calls=50, deep=5_000, latencies=30, passing=5_000, handled=500)


# --- what is timed: each returns messages per second ------------------------------------------------------------------


async def send_batches(subject, effort):
    """Send batches, one after another."""
    began = time.perf_counter()
    for _ in range(effort.batches):
        await subject.send_many([BODY] * BATCH)
    return effort.batches * BATCH / (time.perf_counter() - began)


async def receive_batches(subject, effort):
    """Receive and complete batches, one after another."""
    for _ in range(effort.batches):
        await subject.send_many([BODY] * BATCH)
    began = time.perf_counter()
    for _ in range(effort.batches):
        held = await subject.receive_many(BATCH)
        assert len(held) == BATCH
        await subject.complete_many(held)
    return effort.batches * BATCH / (time.perf_counter() - began)


async def many_callers(subject, effort):
    """Let 64 callers send, receive and complete, each awaiting each of it."""
    # A library that blocks the event loop serves them one by one; it needs fewer cycles for a good figure.
    cycles = effort.cycles if type(subject) in (Redrive, RawCoalescer) else max(1, effort.cycles // 12)

    async def caller():
        for _ in range(cycles):
            await subject.send(BODY)
            await subject.complete(await subject.receive())

    began = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(CALLERS)))
    return CALLERS * cycles / (time.perf_counter() - began)


async def send_alone(subject, effort):
    """Send one message after another."""
    began = time.perf_counter()
    for _ in range(effort.calls):
        await subject.send(BODY)
    return effort.calls / (time.perf_counter() - began)


async def receive_alone(subject, effort):
    """Receive and complete one message after another."""
    for _ in range(effort.calls):
        await subject.send(BODY)
    began = time.perf_counter()
    for _ in range(effort.calls):
        await subject.complete(await subject.receive())
    return effort.calls / (time.perf_counter() - began)


class Rates(NamedTuple):
    """A scenario whose figure is messages per second, by subject."""

    title: str
    run: object
    subjects: list


BATCHING = [subject for subject in EVERYBODY if subject.has_batches]
ONE_BY_ONE = [subject for subject in EVERYBODY if subject is not RawCoalescer]
RATES = {
    "batch-send": Rates("Send 100 at a time, messages/s", send_batches, BATCHING),
    "batch-receive": Rates("Receive and complete 100 at a time, messages/s", receive_batches, BATCHING),
    "callers-64": Rates(
        "64 callers, each awaiting send, receive, complete: cycles/s",
        many_callers,
        [subject for subject in EVERYBODY if subject is not Raw],
    ),
    "lone-send": Rates("A lone caller sends one by one, messages/s", send_alone, ONE_BY_ONE),
    "lone-receive": Rates("A lone caller receives and completes one by one, messages/s", receive_alone, ONE_BY_ONE),
}
SCENARIOS = [*RATES, "worker", "latency", "memory", "depth"]  # depth last: the disk is busy for long after it


@asynccontextmanager
async def opened(kind, folder):
    """Open a subject on a file of its own."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        subject = kind()
        await subject.open(str(Path(place) / "queue.db"))
        try:
            yield subject
        finally:
            await subject.close()


async def one_rate(run, kind, folder, effort):
    """Measure one subject once, with a clean heap and a disk that has nothing left to write for others."""
    async with opened(kind, folder) as subject:
        await subject.send(BODY)  # whatever is done at the first call only
        await subject.complete(await subject.receive())
        gc.collect()
        os.sync()
        return await run(subject, effort)


def measure_rates(scenario, effort, folder, progress):
    """Return each round's messages per second, by subject; None for those that are not installed."""
    found = {}
    for kind in scenario.subjects:
        try:
            asyncio.run(one_rate(scenario.run, kind, folder, QUICK))
        except ModuleNotFoundError as error:
            progress(f"{kind.name} is not installed ({error.name})")
            found[kind.name] = None
        else:
            found[kind.name] = []
    present = [kind for kind in scenario.subjects if found[kind.name] is not None]
    for turn in range(effort.rounds):
        progress(f"round {turn + 1} of {effort.rounds}")
        for kind in rotated(present, turn, effort.rounds):
            found[kind.name].append(asyncio.run(one_rate(scenario.run, kind, folder, effort)))
    return found


# --- a deep queue -----------------------------------------------------------------------------------------------------


async def fill(subject, depth):
    """Fill a queue: at its head a twentieth is scheduled and a twentieth locked, the rest is ready."""
    await subject.schedule_together([BODY] * (depth // 20), 3_600)
    await subject.send_in_pages([BODY] * (depth - depth // 20))
    for _ in range(depth // 20 // 50):
        await subject.receive_many(50)


class DeepRedrive(Redrive):
    """The broker with what it takes to fill a queue quickly."""

    async def schedule_together(self, bodies, delay):
        """Schedule messages, a thousand to a transaction."""
        from redrive.broker import Message, Send  # noqa: PLC0415
        from redrive.clock import utc  # noqa: PLC0415

        at = utc(time.time() + delay)
        for start in range(0, len(bodies), 1_000):
            await self.broker.apply(*(Send("bench", Message(body), at) for body in bodies[start : start + 1_000]))

    async def send_in_pages(self, bodies):
        """Send messages, a thousand to a transaction."""
        for start in range(0, len(bodies), 1_000):
            await self.send_many(bodies[start : start + 1_000])


async def receive_steadily(subject, calls):
    """Receive, complete and send, so that the depth stays; return the seconds of each receive with its completion."""
    taken = []
    for _ in range(calls):
        began = time.perf_counter()
        await subject.complete(await subject.receive())
        taken.append(time.perf_counter() - began)
        await subject.send(BODY)
    return taken


async def measure_depth(effort, folder, progress):
    """Return the median microseconds of receive and complete in each round, by depth."""
    depths = [1_000, effort.deep]
    found = {depth: [] for depth in depths}
    async with opened(DeepRedrive, folder) as shallow, opened(DeepRedrive, folder) as deep:
        subjects = dict(zip(depths, (shallow, deep), strict=True))
        for depth, subject in subjects.items():
            progress(f"filling {depth:,}")
            await fill(subject, depth)
        os.sync()  # what was filled must not be written while receiving is measured
        gc.collect()
        for turn in range(effort.rounds):
            progress(f"round {turn + 1} of {effort.rounds}")
            for depth in rotated(depths, turn, effort.rounds):
                taken = await receive_steadily(subjects[depth], effort.calls)
                found[depth].append(median(taken) * 1e6)
    return found


# --- latency ----------------------------------------------------------------------------------------------------------


async def measure_latency(effort, folder):
    """Return the microseconds from the call of send to the handler of a worker that was idle."""
    async with opened(Redrive, folder) as subject:
        worker = Worker("bench")
        arrived = asyncio.Queue()

        @worker.handler("bench")
        async def note(_body: bytes):
            arrived.put_nowait(time.perf_counter())

        running = asyncio.create_task(worker.run(subject.broker))
        taken = []
        for _ in range(effort.latencies):
            await asyncio.sleep(0.005)  # the worker asks, finds nothing, and waits
            began = time.perf_counter()
            await subject.send(BODY)
            taken.append((await arrived.get() - began) * 1e6)
        worker.stop()
        await running
    cuts = quantiles(taken, n=100)
    return {"p50": cuts[49], "p99": cuts[98]}


# --- memory -----------------------------------------------------------------------------------------------------------


def resident_mb():
    """Return the megabytes this process holds in memory."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


async def pass_messages(count, folder):
    """Let messages pass through a queue; return the resident megabytes after each tenth."""
    async with opened(Redrive, folder) as subject:
        seen = []
        for _ in range(10):
            for _ in range(max(1, count // 10 // BATCH)):
                await subject.send_many([BODY] * BATCH)
                await subject.complete_many(await subject.receive_many(BATCH))
            seen.append(resident_mb())
    return seen


def passing(count, folder):
    """Run in a process of its own."""
    return asyncio.run(pass_messages(count, folder))


def measure_memory(effort, folder):
    """Return the resident megabytes of a fresh process after each tenth of the messages."""
    if not Path("/proc/self/statm").exists():
        return None
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(passing, (effort.passing, folder))


# --- the worker -------------------------------------------------------------------------------------------------------


async def handle_all(subject, count):
    """Let a worker with an empty handler and 64 at once handle all messages; return messages per second."""
    done, handled = asyncio.Event(), 0
    worker = Worker()

    @worker.handler("bench", concurrency=CALLERS)
    async def handle(_body: bytes) -> None:
        nonlocal handled
        handled += 1
        if handled == count:
            done.set()

    for _ in range(max(1, count // BATCH)):
        await subject.send_many([BODY] * BATCH)
    began = time.perf_counter()
    running = asyncio.create_task(worker.run(subject.broker))
    await done.wait()
    while (await subject.broker.inspect("bench")).locked:  # noqa: ASYNC110 - the last completions tell nobody
        await asyncio.sleep(0.001)
    taken = time.perf_counter() - began
    worker.stop()
    await running
    return count / taken


async def measure_worker(effort, folder, progress):
    """Return the worker's messages per second in each round, beside what persist-queue receives and acknowledges."""
    found = {"redrive worker": [], PersistQueue.name: []}
    for turn in range(effort.rounds):
        progress(f"round {turn + 1} of {effort.rounds}")
        async with opened(Redrive, folder) as subject, asyncio.timeout(60):
            found["redrive worker"].append(await handle_all(subject, effort.handled))
        with suppress(ModuleNotFoundError):
            found[PersistQueue.name].append(await one_rate(receive_alone, PersistQueue, folder, effort))
    return found


# --- the disk ---------------------------------------------------------------------------------------------------------


def measure_disk(folder, times=200):
    """Return the microseconds that this disk needs to sync: a page written over, and a page appended."""
    found = {}
    with tempfile.NamedTemporaryFile(dir=folder, buffering=0) as file:
        for name, place in (("overwritten", lambda _: 0), ("appended", lambda turn: turn * 4_096)):
            taken = []
            for turn in range(times):
                began = time.perf_counter()
                os.pwrite(file.fileno(), bytes(4_096), place(turn))
                getattr(os, "fdatasync", os.fsync)(file.fileno())
                taken.append((time.perf_counter() - began) * 1e6)
            found[name] = median(taken)
    return found


def kind_of_file_system(folder):
    """Return the kind of file system a folder is on; a disk in memory would make every figure worthless."""
    try:
        lines = Path("/proc/mounts").read_text(encoding="utf-8").splitlines()
    except OSError:
        return "unknown"
    mounts = [line.split()[1:3] for line in lines]
    inside = [(len(place), kind) for place, kind in mounts if Path(folder).resolve().is_relative_to(place)]
    return max(inside)[1] if inside else "unknown"


# --- tables -----------------------------------------------------------------------------------------------------------


def measure(name, effort, folder, progress):
    """Return the figures of one scenario; None if they cannot be had here."""
    if name in RATES:
        return measure_rates(RATES[name], effort, folder, progress)
    if name == "depth":
        return asyncio.run(measure_depth(effort, folder, progress))
    if name == "latency":
        return asyncio.run(measure_latency(effort, folder))
    if name == "memory":
        return measure_memory(effort, folder)
    return asyncio.run(measure_worker(effort, folder, progress))


def table_of_rates(title, figures):
    """Show rates, the highest first."""
    known = sorted(((median(runs), min(runs), max(runs), name) for name, runs in figures.items() if runs), reverse=True)
    rows = [[name, f"{middle:,.0f}", f"{low:,.0f}", f"{high:,.0f}"] for middle, low, high, name in known]
    missing = [[name, "not installed", "", ""] for name, runs in figures.items() if not runs]
    return Table(title, ["subject", "median", "lowest", "highest"], rows + missing)


def table_of_the_rest(name, figures):
    """Show what is no rate."""
    if figures is None:
        return Table(name, ["", ""], [["not measured", "-"]])
    if name == "depth":
        rows = [[f"redrive, {depth:,} messages", f"{median(runs):,.0f}"] for depth, runs in figures.items()]
        title = "Receive and complete from a deep queue, a tenth of it scheduled or locked at the head"
        return Table(title, ["depth", "median µs"], rows)
    if name == "latency":
        rows = [[f"redrive, {which}", f"{value:,.0f}"] for which, value in figures.items()]
        return Table("From send to the handler of an idle worker, µs", ["", "µs"], rows)
    if name == "memory":
        rows = [[f"redrive, after {tenth} tenths", f"{figures[tenth - 1]:.1f}"] for tenth in (1, 2, 5, 10)]
        return Table("Memory of the process while messages pass, MB", ["", "resident"], rows)
    return table_of_rates("The worker with an empty handler, 64 at once, messages/s", figures)


def table(name, figures):
    """Show the figures of one scenario."""
    return table_of_rates(RATES[name].title, figures) if name in RATES else table_of_the_rest(name, figures)


def draw(figures, page, *, disturbed):
    """Draw the rates as bars; matplotlib is only needed here."""
    import matplotlib as mpl  # noqa: PLC0415 - only here
    from matplotlib import pyplot as plt  # noqa: PLC0415

    mpl.rcParams.update({"svg.hashsalt": "redrive", "svg.fonttype": "none", "font.size": 9})
    shown = [name for name in RATES if figures.get(name)]
    picture, places = plt.subplots(len(shown), 1, figsize=(8, 1.6 * len(shown)), squeeze=False)
    for place, name in zip(places[:, 0], shown, strict=True):
        known = sorted((median(runs), subject) for subject, runs in figures[name].items() if runs)
        names = [subject for _, subject in known]
        colours = ["#c2410c" if subject.startswith("redrive") else "#94a3b8" for subject in names]
        bars = place.barh(names, [rate for rate, _ in known], color=colours)
        place.bar_label(bars, fmt="{:,.0f}", padding=3)
        place.set_title(RATES[name].title, loc="left", fontsize=10)
        place.margins(x=0.12)
        place.xaxis.set_visible(False)
        place.spines[["top", "right", "bottom"]].set_visible(False)
    if disturbed:
        picture.suptitle(DISTURBED.strip(), color="#b91c1c", fontsize=8)
    picture.tight_layout()
    picture.savefig(page, metadata={"Date": None} if str(page).endswith(".svg") else None)


# --- the command ------------------------------------------------------------------------------------------------------


def arguments():
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--quick", action="store_true", help="under half a minute, to see that it runs; do not trust the figures"
    )
    parser.add_argument("--only", nargs="+", choices=SCENARIOS, metavar="SCENARIO", help=", ".join(SCENARIOS))
    parser.add_argument("--passing", type=int, metavar="COUNT", help="messages that pass while memory is watched")
    parser.add_argument("--dir", default=tempfile.gettempdir(), help="a folder on the disk to measure")
    parser.add_argument("--json", metavar="FILE", help="write all figures, round by round")
    parser.add_argument("--markdown", metavar="FILE", help="rewrite the tables between the marks of this page")
    parser.add_argument("--plot", metavar="FILE", help="draw the rates: .svg or .png")
    return parser.parse_args()


def versions():
    """Return the peers' versions, as far as they are installed."""
    found = {}
    for distribution in DISTRIBUTIONS.values():
        with suppress(PackageNotFoundError):
            found[distribution] = version(distribution)
    return found


def heading(shape, peers, disk, kind):
    """Say where and against what this was measured."""
    place = f"{shape['date']}, {shape['python']}, {shape['system']}, {shape['cpu']}, {shape['cores']} cores"
    against = ", ".join(f"{name} {number}" for name, number in peers.items())
    syncs = ", ".join(
        f"{what} {median(times):.0f} µs ({min(times):.0f} to {max(times):.0f})" for what, times in disk.items()
    )
    told = (
        f"{place}, load {shape['load']} at the start.\nPeers: {against or 'none installed'}.\n"
        f"The disk ({kind}) syncs a page, median of all scenarios: {syncs}.\n"
        f"Messages of {len(BODY)} bytes, synchronous=FULL for all.\n"
    )
    return told + (DISTURBED if is_disturbed(shape, disk) else "")


def is_disturbed(shape, disk):
    """Say whether somebody else used the processor or the disk so much that the figures are not worth publishing."""
    return shape["load"] > 1 or any(max(times) > 2 * min(times) for times in disk.values())


def main():
    """Measure, print, write."""
    chosen = arguments()
    shape, peers, kind = machine(), versions(), kind_of_file_system(chosen.dir)
    effort = QUICK if chosen.quick else FULL
    if chosen.passing:
        effort = effort._replace(passing=chosen.passing)
    figures, syncs = {}, [measure_disk(chosen.dir)]
    for name in chosen.only or SCENARIOS:
        progress = lambda what, name=name: print(f"{name}: {what}", file=sys.stderr)  # noqa: E731
        figures[name] = measure(name, effort, chosen.dir, progress)
        syncs.append(measure_disk(chosen.dir))
    disk = {what: [found[what] for found in syncs] for what in syncs[0]}
    promised = claims(figures)
    tables = [*(table(name, found) for name, found in figures.items()), table_of_claims(promised)]
    told = heading(shape, peers, disk, kind)
    print(told, *map(as_text, tables), sep="\n")
    missed = [claim.promise for claim in promised if claim.holds is False]
    if missed:
        print("MISSED:", *missed, sep="\n  ")
    if chosen.json:
        data = {"machine": shape, "disk": disk, "peers": peers, "figures": figures}
        data["claims"] = [claim._asdict() for claim in promised]
        Path(chosen.json).write_text(json.dumps(data, indent=1), encoding="utf-8")
    if chosen.markdown:
        write_between_marks(chosen.markdown, "\n".join([told, *map(as_markdown, tables)]))
    if chosen.plot:
        draw(figures, chosen.plot, disturbed=is_disturbed(shape, disk))


if __name__ == "__main__":
    main()
