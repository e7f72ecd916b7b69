"""Measure redrive.retry beside a hand-written loop and beside its peers: ``make bench``.

It reports and does not judge: the exit code is 0 whatever the figures are. They are explained in
docs/explanation/retry-speed.md.
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import NamedTuple
from unittest.mock import patch

from measure import FULL, QUICK, RUNNER, garbage, interleaved, memory, over, sampler, starts
from report import Table, as_markdown, as_text, machine, write_between_marks
from retry_claims import claims, table_of_claims
from retry_subjects import BARE, BLOCKS, HAND_LOOP, NO_WAITS, OURS, PEERS, REDRIVE

SRC = Path(__file__).parents[1] / "src"
ALWAYS = 10**9  # more failures than anybody has attempts


class Calls(NamedTuple):
    """A scenario that times calls."""

    title: str
    kind: str
    failures: int
    subjects: list


CALLS = {
    "sync": Calls("Sync, success at the first try", "sync", 0, [BARE, HAND_LOOP, REDRIVE, *OURS, *PEERS]),
    "async": Calls("Async, success at the first try", "async", 0, [BARE, HAND_LOOP, REDRIVE, *OURS, *PEERS]),
    "sync-failing": Calls("Sync, two failures, no wait", "sync", 2, [HAND_LOOP, NO_WAITS, REDRIVE, *OURS, *PEERS]),
    "async-failing": Calls("Async, two failures, no wait", "async", 2, [HAND_LOOP, NO_WAITS, REDRIVE, *OURS, *PEERS]),
    "block": Calls("Block form, success at the first try", "sync", 0, [BARE, HAND_LOOP, *BLOCKS]),
}
SCENARIOS = [*CALLS, "garbage", "import"]

IMPORTS = {
    "redrive.retry": "import redrive.retry",
    "redrive.retry, three names": "from redrive.retry import retry, Exponential, CircuitBreaker",
    "typing": "import typing",
    "logging": "import logging",
    "asyncio": "import asyncio",
    "tenacity": "import tenacity",
    "stamina": "import stamina",
    "backoff": "import backoff",
    "pyresilience": "import pyresilience",
    "redress": "import redress",
    "pyfailsafe": "import failsafe",
    "hyx": "import hyx.retry",
    "opnieuw": "import opnieuw",
    "google-api-core": "import google.api_core.retry",
}
FOREIGN = "print(*{name.partition('.')[0] for name in sys.modules} - sys.stdlib_module_names - before)"


# --- what is called ---------------------------------------------------------------------------------------------------


def succeed(x):
    """Succeed."""
    return x


async def succeed_async(x):
    """Succeed."""
    return x


def failing(kind, failures, counter):
    """Return a function that fails that many times, succeeds once, and starts over; it counts its calls."""

    def fail_or_succeed(x):
        if next(counter) % (failures + 1):
            raise ConnectionError("refused")
        return x

    async def fail_or_succeed_async(x):
        if next(counter) % (failures + 1):
            raise ConnectionError("refused")
        return x

    return fail_or_succeed_async if kind == "async" else fail_or_succeed


def target(kind, failures):
    """Return what the subjects of a scenario are put around."""
    if failures:
        return failing(kind, failures, itertools.count(1))
    return succeed_async if kind == "async" else succeed


def giving_up(call, kind):
    """Return a call that puts up with the failure."""

    def call_and_ignore(x):
        with suppress(Exception):
            call(x)

    async def call_and_ignore_async(x):
        with suppress(Exception):
            await call(x)

    return call_and_ignore_async if kind == "async" else call_and_ignore


def no_sleep(_seconds):
    """Take the place of time.sleep: a real sleep(0) is a system call that takes longer than all the rest."""


async def no_sleep_async(_seconds):
    """Take the place of asyncio.sleep."""


# --- the scenarios ----------------------------------------------------------------------------------------------------


def check(subject, kind, failures):
    """Stop if a subject does not do what is going to be timed."""
    counter = itertools.count(1)
    call = subject.around(failing(kind, failures, counter))
    for _ in range(2):
        result = RUNNER.run(call(7)) if kind == "async" else call(7)
        assert result == 7, f"{subject.name} returned {result}"
    called = next(counter) - 1
    assert called == 2 * (failures + 1), f"{subject.name} called {called} times"


def applicable(subjects, kind, failures, progress):
    """Return the subjects that there are for this kind, checked, and the names of those that are not installed."""
    present, missing = [], []
    for subject in subjects:
        if kind not in subject.kinds:
            continue
        try:
            check(subject, kind, failures)
        except ModuleNotFoundError as error:
            progress(f"{subject.name} is not installed ({error.name})")
            missing.append(subject.name)
        else:
            present.append(subject)
    return present, missing


def measure_calls(scenario, effort, progress):
    """Return the nanoseconds per call of each run, by subject; None for those that are not installed."""
    kind, failures = scenario.kind, scenario.failures
    subjects, missing = applicable(scenario.subjects, kind, failures, progress)
    samplers = {subject.name: sampler(subject.around(target(kind, failures)), kind) for subject in subjects}
    return interleaved(samplers, effort, progress) | dict.fromkeys(missing)


def measure_garbage(progress):
    """Return, by subject, what a call leaves for the cycle collector, and what it allocates on the way."""
    figures = {}
    for kind in ("sync", "async"):
        subjects, missing = applicable([HAND_LOOP, REDRIVE, NO_WAITS, *OURS, *PEERS, *BLOCKS], kind, 2, progress)
        for subject in subjects:
            progress(f"{kind}, {subject.name}")
            row = figures.setdefault(subject.name, {})
            row[f"{kind}, first try"] = garbage(subject.around(target(kind, 0)), kind)
            row[f"{kind}, two failures"] = garbage(subject.around(target(kind, 2)), kind)
            if subject.gives_up:
                row[f"{kind}, gives up"] = garbage(giving_up(subject.around(target(kind, ALWAYS)), kind), kind)
            if kind == "sync":
                row["bytes"] = memory(subject.around(succeed)) - memory(succeed)
        figures |= dict.fromkeys(missing)
    return figures


def measure_imports(effort, progress):
    """Return the milliseconds that imports add to the start of an interpreter, by library."""
    path = f"import sys; sys.path.insert(0, {str(SRC)!r}); "
    missing = [name for name, statement in IMPORTS.items() if find_spec(statement.split()[1].partition(".")[0]) is None]
    wanted = {name: path + statement for name, statement in IMPORTS.items() if name not in missing}
    found = starts({"bare": path} | wanted, effort, progress)
    foreign = f"{path}before = {{'redrive', *sys.modules}}; import redrive.retry; {FOREIGN}"
    ran = subprocess.run([sys.executable, "-I", "-c", foreign], check=True, capture_output=True, text=True)  # noqa: S603
    figures = {name: over(found[name], found["bare"]) for name in wanted}
    figures["redrive.retry"]["foreign"] = ran.stdout.split()
    return figures | dict.fromkeys(missing)


def measure(name, effort, progress):
    """Return the figures of one scenario."""
    if name == "import":
        return measure_imports(effort, progress)
    with patch("time.sleep", no_sleep), patch("asyncio.sleep", no_sleep_async):
        return measure_garbage(progress) if name == "garbage" else measure_calls(CALLS[name], effort, progress)


# --- the tables -------------------------------------------------------------------------------------------------------


def table_of_calls(title, figures):
    """Show calls, the fastest first."""
    hand = median(figures[HAND_LOOP.name])
    known = sorted((median(runs), name) for name, runs in figures.items() if runs)
    rows = [[name, f"{ns:,.0f}", f"{ns / hand:,.2f}x"] for ns, name in known]
    missing = [[name, "not installed", ""] for name, runs in figures.items() if not runs]
    return Table(title, ["subject", "ns per call", "to the hand loop"], rows + missing)


def table_of_garbage(figures):
    """Show garbage and memory."""
    columns = [f"{kind}, {what}" for kind in ("sync", "async") for what in ("first try", "two failures", "gives up")]
    columns.append("bytes")
    rows = [
        [name, *("-" if row.get(column) is None else f"{row[column]:.0f}" for column in columns)]
        for name, row in figures.items()
        if row
    ]
    missing = [[name, "not installed", *[""] * 6] for name, row in figures.items() if not row]
    title = "Objects that one call leaves for the cycle collector, and the bytes it needs (sync, first try)"
    return Table(title, ["subject", *columns], rows + missing)


def table_of_imports(figures):
    """Show imports, the fastest first."""
    known = sorted((row["best"], name, row["median"]) for name, row in figures.items() if row)
    rows = [[name, f"{best:.1f}", f"{middle:.1f}"] for best, name, middle in known]
    missing = [[name, "not installed", ""] for name, row in figures.items() if not row]
    title = "Import, milliseconds of CPU over a bare interpreter"
    return Table(title, ["import", "best against best", "median difference"], rows + missing)


def table(name, figures):
    """Show the figures of one scenario."""
    if name == "import":
        return table_of_imports(figures)
    return table_of_garbage(figures) if name == "garbage" else table_of_calls(CALLS[name].title, figures)


# --- the command ------------------------------------------------------------------------------------------------------


def arguments():
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--quick", action="store_true", help="a few seconds, to see that it runs; do not trust the figures"
    )
    parser.add_argument("--only", nargs="+", choices=SCENARIOS, metavar="SCENARIO", help=", ".join(SCENARIOS))
    parser.add_argument("--json", metavar="FILE", help="write all figures, run by run")
    parser.add_argument("--markdown", metavar="FILE", help="rewrite the tables between the marks of this page")
    return parser.parse_args()


def stay_on_one_core():
    """Keep the scheduler from moving us about, where it lets us."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def versions():
    """Return the peers' versions, as far as they are installed."""
    found = {}
    for subject in PEERS:
        with suppress(PackageNotFoundError):
            found[subject.name] = version(subject.name)
    return found


def heading(shape, peers):
    """Say where and against what this was measured."""
    place = f"{shape['date']}, {shape['python']}, {shape['system']}, {shape['cpu']}, {shape['cores']} cores"
    against = ", ".join(f"{name} {number}" for name, number in peers.items())
    return f"{place}, load {shape['load']} at the start.\nPeers: {against or 'none installed'}.\n"


def main():
    """Measure, print, write."""
    chosen = arguments()
    stay_on_one_core()
    shape, peers = machine(), versions()
    figures = {}
    for name in chosen.only or SCENARIOS:
        effort = QUICK if chosen.quick else FULL
        figures[name] = measure(name, effort, lambda what, name=name: print(f"{name}: {what}", file=sys.stderr))
    promised = claims(figures)
    tables = [*(table(name, found) for name, found in figures.items()), table_of_claims(promised)]
    print(heading(shape, peers), *map(as_text, tables), sep="\n")
    missed = [claim.promise for claim in promised if claim.holds is False]
    if missed:
        print("MISSED:", *missed, sep="\n  ")
    if chosen.json:
        data = {"machine": shape, "peers": peers, "figures": figures, "claims": [claim._asdict() for claim in promised]}
        Path(chosen.json).write_text(json.dumps(data, indent=1), encoding="utf-8")
    if chosen.markdown:
        write_between_marks(chosen.markdown, "\n".join([heading(shape, peers), *map(as_markdown, tables)]))


if __name__ == "__main__":
    main()
