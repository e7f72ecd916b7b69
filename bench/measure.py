"""How things are measured: CPU time, garbage, memory and starts of the interpreter.

CPU time of this process, not time on the wall, so that other work on the machine disturbs little.
"""

import asyncio
import gc
import resource
import subprocess
import sys
import time
import tracemalloc
from itertools import repeat
from statistics import median
from typing import NamedTuple


class Effort(NamedTuple):
    """How long to measure."""

    runs: int  # all subjects take part in every run, in another order each time
    samples: int  # a subject's figure in one run is the best of this many samples
    sample_ns: int  # a sample takes at least this long
    starts: int  # of the interpreter, for each import


FULL = Effort(runs=9, samples=5, sample_ns=20_000_000, starts=25)
QUICK = Effort(runs=2, samples=2, sample_ns=1_000_000, starts=2)

RUNNER = asyncio.Runner()

# Compiled anew for every subject: CPython adapts the bytecode of a call to what it has called before, so a loop that
# all subjects shared would be slower for each of them.
LOOP = """
{async_}def sample(times):
    started = clock()
    for _ in times:
        {await_}call(7)
    return clock() - started
"""


def sampler(call, kind):
    """Return a function that makes that many calls and returns the nanoseconds each of them took."""
    words = {"async_": "async ", "await_": "await "} if kind == "async" else {"async_": "", "await_": ""}
    namespace = {"call": call, "clock": time.process_time_ns}
    exec(LOOP.format(**words), namespace)  # noqa: S102 - our own text
    sample = namespace["sample"]
    if kind == "async":
        return lambda count: RUNNER.run(sample(repeat(None, count))) / count
    return lambda count: sample(repeat(None, count)) / count


def interleaved(samplers, effort, progress):
    """Measure all subjects in turn, run after run; return the nanoseconds per call of each run, by subject."""
    counts = {name: _calls_for(sample, effort.sample_ns) for name, sample in samplers.items()}
    found = {name: [] for name in samplers}
    gc.collect()
    gc.freeze()  # the collector stays on, as in a real program, but does not walk through everybody's modules
    for run in range(effort.runs):
        progress(f"run {run + 1} of {effort.runs}")
        for name in rotated(list(samplers), run, effort.runs):
            found[name].append(min(samplers[name](counts[name]) for _ in range(effort.samples)))
    gc.unfreeze()
    return found


def rotated(names, run, runs):
    """Return the names in this run's order: everybody begins some time, and has several neighbours."""
    first = run * len(names) // runs
    order = names[first:] + names[:first]
    return order[::-1] if run % 2 else order


def _calls_for(sample, sample_ns):
    count = 10
    while sample(count) * count < sample_ns:
        count *= 2
    return count


def garbage(call, kind, calls=100):
    """Return how many objects one call leaves for the cycle collector."""
    sample = sampler(call, kind)
    sample(calls)
    gc.collect()
    gc.disable()
    sample(calls)
    left = gc.collect()
    gc.enable()
    return left / calls


def memory(call):
    """Return how many bytes are allocated at the worst moment of one call."""
    tracemalloc.start()
    peaks = []
    for _ in range(20):
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        call(7)
        peaks.append(tracemalloc.get_traced_memory()[1] - before)
    tracemalloc.stop()
    return min(peaks)


def starts(statements, effort, progress):
    """Run each statement in interpreters of its own; return the CPU milliseconds of each start, by name."""
    found = {name: [] for name in statements}
    for name in statements:
        _start(statements[name])  # writes and caches the bytecode
    for run in range(effort.starts):
        progress(f"start {run + 1} of {effort.starts}")
        for name in rotated(list(statements), run, effort.starts):
            found[name].append(_start(statements[name]))
    return found


def _start(statement):
    before = _children_ms()
    subprocess.run([sys.executable, "-I", "-c", statement], check=True)  # noqa: S603 - our own interpreter and text
    return _children_ms() - before


def _children_ms():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (used.ru_utime + used.ru_stime) * 1_000


def over(found, baseline):
    """Return by how much starts took longer than others: best against best, and the median of the differences."""
    pairs = zip(found, baseline, strict=True)
    return {"best": min(found) - min(baseline), "median": median(one - other for one, other in pairs)}
