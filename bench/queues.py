"""Measure Redrive's queues beside hand-written code and beside its peers, all of them durable: ``make bench``.

In a file, with ``--engine postgres`` in a PostgreSQL server, or with ``--engine nats`` in one NATS server and in a
cluster of three; servers are started for it. Time on the wall, because a
durable queue waits for the disk; so the disk's own time for a sync is measured beside it. It reports and does not
judge: the exit code is 0 whatever the figures are. They are explained in docs/explanation/queue-speed.md,
docs/explanation/postgres-speed.md and docs/explanation/nats-speed.md.
"""

import argparse
import asyncio
import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from postgres_endurance import measure_churn, measure_scaling
from postgres_server import NoServer
from queue_claims import claims, table_of_claims
from queue_engines import ENGINES, versions
from queue_scenarios import (
    BODY,
    FULL,
    HAND_OVERS,
    QUICK,
    RATES,
    measure_depth,
    measure_latency,
    measure_memory,
    measure_rates,
    measure_worker,
)
from queue_tables import draw, table
from report import as_markdown, as_text, machine, write_between_marks

DISTURBED = "\nTHE MACHINE WAS BUSY WITH OTHER THINGS: neither figures nor verdicts can be trusted. Measure again.\n"
BOTH = [*RATES, "worker", "latency", "memory"]
SCENARIOS = {
    "sqlite": [*BOTH, "depth"],  # depth last: the disk is busy for long after it
    "postgres": [*BOTH, "scaling", "churn", "churn-held", "depth"],
    "nats": [name for name in RATES if not name.startswith("headers")] + [*HAND_OVERS],
}
EFFORTS = {"nats": FULL._replace(rounds=3, batches=15, cycles=20, calls=150)}  # with each message synced it is slow
EVERYTHING = list(dict.fromkeys(name for names in SCENARIOS.values() for name in names))


# --- the disk ---------------------------------------------------------------------------------------------------------


SYNCS, FEW_SYNCS = 200, 3


def measure_disk(folder, times=SYNCS):
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


# --- the command ------------------------------------------------------------------------------------------------------


def arguments():
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=ENGINES, default="sqlite", help="what to measure queues in")
    parser.add_argument(
        "--quick", action="store_true", help="some seconds, to see that it runs; do not trust the figures"
    )
    parser.add_argument("--only", nargs="+", choices=EVERYTHING, metavar="SCENARIO", help=", ".join(EVERYTHING))
    parser.add_argument("--passing", type=int, metavar="COUNT", help="messages that pass while memory is watched")
    parser.add_argument("--dir", default=tempfile.gettempdir(), help="a folder on the disk to measure")
    parser.add_argument("--json", metavar="FILE", help="write all figures, round by round")
    parser.add_argument("--markdown", metavar="FILE", help="rewrite the tables between the marks of this page")
    parser.add_argument("--plot", metavar="FILE", help="draw the rates: .svg or .png")
    chosen = parser.parse_args()
    unknown = set(chosen.only or []) - set(SCENARIOS[chosen.engine])
    if unknown:
        parser.error(f"{chosen.engine} has no scenario {', '.join(sorted(unknown))}")
    if chosen.markdown and not Path(chosen.markdown).exists():
        parser.error(f"there is no page {chosen.markdown}")  # now, and not when all is measured
    return chosen


def measure(name, engine, effort, progress):
    """Return the figures of one scenario; None if they cannot be had here."""
    if rates := {**RATES, **HAND_OVERS}.get(name):
        return measure_rates(rates, engine, effort, progress)
    how = {
        "depth": lambda: measure_depth(engine, effort, progress),
        "latency": lambda: asyncio.run(measure_latency(engine, effort)),
        "memory": lambda: asyncio.run(measure_memory(engine, effort)),
        "worker": lambda: asyncio.run(measure_worker(engine, effort, progress)),
        "churn": lambda: measure_churn(engine, effort, progress),
        "churn-held": lambda: measure_churn(engine, effort, progress, held_back=True),
        "scaling": lambda: measure_scaling(engine, effort, progress),
    }
    return how[name]()


def measure_all(names, engine, effort, folder):
    """Return the figures of all scenarios, and the disk's before, between and after them."""
    times = SYNCS if engine.settles else FEW_SYNCS
    figures, syncs = {}, [measure_disk(folder, times)]
    for name in names:
        progress = lambda what, name=name: print(f"{name}: {what}", file=sys.stderr)  # noqa: E731
        figures[name] = measure(name, engine, effort, progress)
        asyncio.run(engine.settle())  # what we left to be written is not somebody else's doing
        syncs.append(measure_disk(folder, times))
    return figures, {what: [found[what] for found in syncs] for what in syncs[0]}


def heading(shape, engine, disk, kind):
    """Say where and against what this was measured."""
    place = f"{shape['date']}, {shape['python']}, {shape['system']}, {shape['cpu']}, {shape['cores']} cores"
    peers = ", ".join(f"{name} {number}" for name, number in versions(engine).items())
    syncs = ", ".join(
        f"{what} {median(times):.0f} µs ({min(times):.0f} to {max(times):.0f})" for what, times in disk.items()
    )
    told = (
        f"{place}, load {shape['load']} at the start.\nPeers: {peers or 'none installed'}.\n"
        f"The disk ({kind}) syncs a page, median of all scenarios: {syncs}.\n"
        f"Messages of {len(BODY)} bytes, {engine.durability}.\n"
    )
    return told + (DISTURBED if is_disturbed(shape, disk) else "")


def is_disturbed(shape, disk):
    """Say whether somebody else used the processor or the disk so much that the figures are not worth publishing."""
    return shape["load"] > 1 or any(max(times) > 2 * min(times) for times in disk.values())


def main():
    """Measure, print, write."""
    chosen = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # so that the server is stopped too
    shape, kind = machine(), kind_of_file_system(chosen.dir)
    effort = QUICK if chosen.quick else EFFORTS.get(chosen.engine, FULL)
    if chosen.passing:
        effort = effort._replace(passing=chosen.passing)
    try:
        with ENGINES[chosen.engine].running(chosen.dir, settles=not chosen.quick) as engine:
            figures, disk = measure_all(chosen.only or SCENARIOS[chosen.engine], engine, effort, chosen.dir)
    except NoServer as error:
        raise SystemExit(f"bench: {error}") from None
    promised = claims(figures, engine)
    tables = [*(table(name, found) for name, found in figures.items()), table_of_claims(promised)]
    told = heading(shape, engine, disk, kind)
    print(told, *map(as_text, tables), sep="\n")
    missed = [claim.promise for claim in promised if claim.holds is False]
    if missed:
        print("MISSED:", *missed, sep="\n  ")
    if chosen.json:
        data = {"machine": shape, "disk": disk, "peers": versions(engine), "figures": figures}
        data |= {"durability": engine.durability, "claims": [claim._asdict() for claim in promised]}
        Path(chosen.json).write_text(json.dumps(data, indent=1), encoding="utf-8")
    if chosen.markdown:
        write_between_marks(chosen.markdown, "\n".join([told, *map(as_markdown, tables)]))
    if chosen.plot:
        draw(figures, chosen.plot, DISTURBED.strip() if is_disturbed(shape, disk) else None)


if __name__ == "__main__":
    main()
