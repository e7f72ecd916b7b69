"""Measure recovery beside a raw loop that moves the same messages between two queues, both durable: ``make bench``.

In a file, in a PostgreSQL server that is started for it, or in both. Time on the wall, from the request to the end of
the operation. It reports and does not judge: the exit code is 0 whatever the figures are. They are explained in
docs/explanation/recovery-speed.md.
"""

import argparse
import asyncio
import json
import signal
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path
from statistics import median

from postgres_server import NoServer
from queue_engines import DATABASES
from queues import DISTURBED, FEW_SYNCS, SYNCS, is_disturbed, kind_of_file_system, measure_disk
from recovery_claims import claims, draw, tables
from recovery_looks import LOOKS
from recovery_scenarios import MILLION, Effort, measure, one_process
from recovery_subjects import BODY, GROUPS
from report import as_markdown, as_text, machine, write_between_marks

SCENARIOS = ["recover", "read", "look"]
SMALL = 10_000
IN_MEMORY = "\nTHIS DISK IS IN MEMORY: nothing is durable here, and the figures are worthless. Choose another --dir.\n"


def arguments():
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=[*DATABASES, "both"], default="both", help="the database to measure in")
    parser.add_argument("--size", type=int, default=100_000, metavar="N", help="failed messages; 100,000 unless told")
    parser.add_argument(
        "--million", action="store_true", help="also a million; about an hour and a half, and 15 GB of disk"
    )
    parser.add_argument("--rounds", type=int, default=3, help="everybody takes part in each")
    parser.add_argument("--quick", action="store_true", help="to see that it runs; do not trust the figures")
    parser.add_argument("--only", nargs="+", choices=SCENARIOS, metavar="SCENARIO", help=", ".join(SCENARIOS))
    parser.add_argument("--dir", default=tempfile.gettempdir(), help="a folder on the disk to measure")
    parser.add_argument("--json", metavar="FILE", help="write all figures, round by round")
    parser.add_argument("--markdown", metavar="FILE", help="rewrite the tables between the marks of this page")
    parser.add_argument("--plot", metavar="FILE", help="draw the rates: .svg or .png")
    chosen = parser.parse_args()
    if chosen.size < 1 or chosen.rounds < 1:
        parser.error("--size and --rounds must be 1 or more")
    if chosen.markdown and not Path(chosen.markdown).exists():
        parser.error(f"there is no page {chosen.markdown}")  # now, and not when all is measured
    return chosen


def effort_of(chosen):
    """Return how much to measure: the size that was asked for beside a tenth of it, or ten thousand."""
    if chosen.quick:
        return Effort(sizes=(100, 400), rounds=1, looks=2)
    sizes = {min(SMALL, max(1, chosen.size // 10)), chosen.size} | ({MILLION} if chosen.million else set())
    return Effort(sizes=tuple(sorted(sizes)), rounds=chosen.rounds, looks=9)


def measure_engine(name, chosen, effort):
    """Return the figures of an engine, its durability, and the disk's before and after it."""
    progress = lambda what: print(f"{name}: {what}", file=sys.stderr, flush=True)  # noqa: E731
    times = FEW_SYNCS if chosen.quick else SYNCS
    syncs = [measure_disk(chosen.dir, times)]
    process = one_process() if chosen.quick else nullcontext()  # one for all, or one for each figure
    with DATABASES[name].running(chosen.dir, settles=not chosen.quick) as engine, process:
        figures = asyncio.run(measure(set(chosen.only or SCENARIOS), engine, effort, progress))
        asyncio.run(engine.settle())  # what we left to be written is not somebody else's doing
        durability = engine.durability
        if name == "postgres":
            durability += ", fsync={}".format(*asyncio.run(engine.ask("SELECT current_setting('fsync')")))
    syncs.append(measure_disk(chosen.dir, times))
    return figures, durability, {what: [found[what] for found in syncs] for what in syncs[0]}


def heading(shape, durabilities, disk, kind):
    """Say where and under which conditions this was measured."""
    syncs = ", ".join(
        f"{what} {median(times):.0f} µs ({min(times):.0f} to {max(times):.0f})" for what, times in disk.items()
    )
    told = (
        f"{shape['date']}, {shape['python']}, {shape['system']}, {shape['cpu']}, {shape['cores']} cores,"
        f" load {shape['load']} at the start.\n"
        f"The disk ({kind}) syncs a page: {syncs}.\n"
        f"Messages of {len(BODY)} bytes, a subject and two headers; {GROUPS} groups of failures; "
        f"{'; '.join(durabilities)}.\n"
    )
    told += IN_MEMORY if kind in ("tmpfs", "ramfs") else ""
    return told + (DISTURBED if is_disturbed(shape, disk) else "")


def main():
    """Measure, print, write."""
    chosen = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # so that the server is stopped too
    shape, kind, effort = machine(), kind_of_file_system(chosen.dir), effort_of(chosen)
    measured, durabilities, disk = {}, [], {}
    for name in DATABASES if chosen.engine == "both" else [chosen.engine]:
        try:
            measured[name], durability, syncs = measure_engine(name, chosen, effort)
        except NoServer as error:
            raise SystemExit(f"bench: {error}") from None
        durabilities.append(durability)
        disk = {what: [*disk.get(what, []), *times] for what, times in syncs.items()}
    promised = {name: claims(figures, effort.sizes, LOOKS) for name, figures in measured.items()}
    shown = [one for name in measured for one in tables(name, measured[name], effort.sizes, promised[name])]
    told = heading(shape, durabilities, disk, kind)
    print(told, *map(as_text, shown), sep="\n")
    missed = [f"{name}: {claim.promise}" for name, found in promised.items() for claim in found if claim.holds is False]
    if missed:
        print("MISSED:", *missed, sep="\n  ")
    if chosen.json:
        data = {"machine": shape, "disk": disk, "durability": durabilities, "figures": measured}
        data |= {"claims": {name: [claim._asdict() for claim in found] for name, found in promised.items()}}
        Path(chosen.json).write_text(json.dumps(data, indent=1), encoding="utf-8")
    if chosen.markdown:
        write_between_marks(chosen.markdown, "\n".join([told, *map(as_markdown, shown)]))
    if chosen.plot:
        draw(measured, chosen.plot, DISTURBED.strip() if is_disturbed(shape, disk) else None)


if __name__ == "__main__":
    main()
