"""Measure pipelines: what an item costs through all four stages, with full durability: ``make bench``.

Beside the same hand-overs by the broker alone, without a ledger: equal messages, equally many sends, receives and
completions by as many workers; and, on PostgreSQL, beside a DBOS workflow with the same four steps. Then with many old
tasks in the tables, and the questions that people ask. ``--only`` chooses some of that; ``--only share`` measures the
pipeline beside the hand-overs, one right after the other, in many rounds.

Time on the wall, because a durable store waits for the disk. Each round measures all subjects one after another, and
ratios are medians of the rounds' ratios. It reports and does not judge.
"""

import argparse
import asyncio
import json
import logging
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

import pipeline_kills
from pipeline_subjects import BODY, SUBJECTS, HandOvers, Staged
from pipeline_tables import RAW, TABLES, asked
from postgres_server import NoServer
from queue_engines import DATABASES
from report import Table, as_markdown, as_text, machine, write_between_marks

MANY = 64
"""So many submitters are many."""

PARTS = ("stages", "size", "questions", "kills")
SHARE = "share"
"""Only when it is asked for: the pipeline beside the hand-overs, in more rounds than *stages*."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is measured: rounds, items of a round, sizes of the tables, items and kills of the last part, turns."""

    rounds: int
    items: int
    sizes: tuple
    asked: int
    killed: int
    kills: int
    turns: int


FULL = Effort(5, 3_000, (10_000, 1_000_000), 15, 200, 5, 21)
QUICK = Effort(1, 40, (100, 1_000), 2, 12, 1, 2)
WAYS = {"four stages": True, "no slots: sent at once": False}


async def measure_once(subject, engine, items, submitters, url=None):
    """Return items per second."""
    if url is None:
        async with engine.place() as place:
            return await measure_once(subject, engine, items, submitters, place)
    await subject.open(url)
    try:
        await subject.run(20, 4)  # whatever is done at the first call only
        await engine.settle()
        began = time.perf_counter()
        await subject.run(items, submitters)
        return items / (time.perf_counter() - began)
    finally:
        await subject.close()


def measure_stages(engine, effort, progress):
    """Return the rates of each round, by the way that items go and by subject."""
    ways = [(way, is_batched, many) for way, is_batched in WAYS.items() for many in (MANY, 1)]
    kinds = [(kind.name, kind.can_send_at_once) for kind in SUBJECTS[engine.name]]
    found = {
        f"{way}, {_submitters(many)}": {name: [] for name, once in kinds if is_batched or once}
        for way, is_batched, many in ways
    }
    for turn in range(effort.rounds):
        for way, is_batched, many in ways:
            label = f"{way}, {_submitters(many)}"
            progress(f"{engine.name}, round {turn + 1} of {effort.rounds}: {label}")
            items = effort.items if many > 1 else effort.items // 4
            for kind in SUBJECTS[engine.name]:
                if not is_batched and not kind.can_send_at_once:
                    continue
                rate = asyncio.run(measure_once(kind(is_batched=is_batched), engine, items, many))
                found[label][kind.name].append(rate)
    return found


def _submitters(many):
    return "a lone submitter" if many == 1 else f"{many} submitters"


def stages_table(engine, found):
    """Return the table of rates, with ratios to the hand-overs alone."""
    rows = []
    for way, rates in found.items():
        raw = rates[HandOvers.name]
        for name, rounds in rates.items():
            share = median(rate / base for rate, base in zip(rounds, raw, strict=True))
            rows.append([f"{name}: {way}", f"{median(rounds):,.0f}", f"{share:.2f}x"])
    return Table(f"Through all stages, {engine}: items/s", ["subject", "items/s", "to layer 2"], rows)


def measure_share(engine, effort, progress):
    """Return the rates of hand-overs and pipeline, round by round, by submitters; each goes first in every other."""
    found = {_submitters(many): [] for many in (MANY, 1)}
    for turn in range(effort.turns):
        progress(f"{engine.name}, turn {turn + 1} of {effort.turns}: hand-overs and pipeline")
        for many in (MANY, 1):
            rates = {}
            for kind in (HandOvers, Staged) if turn % 2 else (Staged, HandOvers):
                items = effort.items if many > 1 else effort.items // 4
                rates[kind] = asyncio.run(measure_once(kind(), engine, items, many))
            found[_submitters(many)].append((rates[HandOvers], rates[Staged]))
    return found


def share_table(engine, found):
    """Return the table of what is left of the speed of the hand-overs."""
    rows = []
    for label, pairs in found.items():
        raw, ours = (median(each[place] for each in pairs) for place in (0, 1))
        low, middle, high = quantiles([ours_rate / raw_rate for raw_rate, ours_rate in pairs], n=4)
        half = f"{low:.2f} to {high:.2f}"
        rows.append([f"redrive, {label}", f"{raw:,.0f}", f"{ours:,.0f}", f"{middle:.2f}x", half])
    heads = ["subject", "hand-overs", "pipeline", "to layer 2, median of rounds", "half of the rounds"]
    return Table(f"Four stages beside their hand-overs, {engine}: items/s", heads, rows)


async def _filled(engine, url, items):
    subject = Staged()
    await subject.open(url)  # makes the tables
    await subject.close()
    tables = TABLES[engine.name](url)
    tables.fill(items)
    return tables


async def measure_old(engine, effort, parts, progress):
    """Return the rates with few and with many old items in the tables, and the seconds of questions to many."""
    rates, questions = {items: [] for items in effort.sizes}, {}
    async with engine.place() as few, engine.place() as many:
        urls = dict(zip(effort.sizes, (few, many), strict=True))
        for items, url in urls.items():
            progress(f"{engine.name}, filling the tables with {items:,} items")
            tables = await _filled(engine, url, items)
            if items == effort.sizes[-1] and "questions" in parts:
                questions = await asked(url, tables, effort.asked)
            tables.close()
        for turn in range(effort.rounds if "size" in parts else 0):
            for items, url in urls.items():
                progress(f"{engine.name}, round {turn + 1} of {effort.rounds}: {items:,} items in the tables")
                rates[items].append(await measure_once(Staged(), engine, effort.items, MANY, url))
    return rates, questions


def size_table(engine, rates):
    """Return the table of rates by the size of the tables."""
    few = next(iter(rates.values()))
    rows = [
        [
            f"redrive, {items:,} old items",
            f"{median(rounds):,.0f}",
            f"{median(a / b for a, b in zip(few, rounds, strict=True)):.2f}x",
        ]
        for items, rounds in rates.items()
    ]
    return Table(f"With old items in the tables, {engine}: items/s", ["subject", "items/s", "cost per item"], rows)


def questions_table(engine, items, found):
    """Return the table of questions."""
    rows = []
    for name, pairs in found.items():
        ours, raw = (median(each[place] for each in pairs) * 1_000 for place in (0, 1))
        ratio = median(ours_s / raw_s for ours_s, raw_s in pairs)
        rows.append([f"redrive, {name}", f"{ours:,.2f}", f"{raw:,.2f}", f"{ratio:.2f}x"])
    title = f"Questions, with {items:,} old items in the tables, {engine}: ms"
    return Table(title, ["question", "Redrive", "query by hand", "ratio"], rows)


async def measure_kills(engine, effort, progress):
    """Return how many items came twice and never, by subject."""
    found = {}
    for name in pipeline_kills.SUBJECTS:
        if not name.startswith("redrive") and len(SUBJECTS[engine.name]) < 3:
            continue  # it is not there, or not for this database
        progress(f"{engine.name}, killing: {name}")
        async with engine.place() as url:
            killing = asyncio.to_thread(pipeline_kills.killed, name, url, effort.killed, effort.kills)
            found[name] = await killing
    return found


def kills_table(engine, effort, found):
    """Return the table of repetitions."""
    rows = [[name, f"{twice:,}", f"{never:,}"] for name, (twice, never) in found.items()]
    title = f"{effort.killed} items, killed {effort.kills} times while it sends, {engine}"
    return Table(title, ["subject", "sent twice", "never sent"], rows)


def measure(engine, effort, parts, progress):
    """Return all figures, and tables of them."""
    figures, shown = {}, []
    if "stages" in parts:
        figures["stages"] = measure_stages(engine, effort, progress)
        shown.append(stages_table(engine.name, figures["stages"]))
    if SHARE in parts:
        figures[SHARE] = measure_share(engine, effort, progress)
        shown.append(share_table(engine.name, figures[SHARE]))
    if "kills" in parts:
        figures["kills"] = asyncio.run(measure_kills(engine, effort, progress))
        shown.append(kills_table(engine.name, effort, figures["kills"]))
    if "size" in parts or "questions" in parts:
        rates, questions = asyncio.run(measure_old(engine, effort, parts, progress))
        if "size" in parts:
            figures["size"] = rates
            shown.append(size_table(engine.name, rates))
        if "questions" in parts:
            figures["questions"] = questions
            shown.append(questions_table(engine.name, effort.sizes[-1], questions))
    assert "questions" not in figures or figures["questions"].keys() == RAW.keys()
    return figures, shown


def arguments():
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=[*DATABASES, "all"], default="all", help="the databases to measure in")
    parser.add_argument("--only", choices=[*PARTS, SHARE], nargs="+", default=PARTS, help="what to measure")
    parser.add_argument("--quick", action="store_true", help="a moment, to see that it runs; do not trust the figures")
    parser.add_argument("--dir", default=tempfile.gettempdir(), help="a folder on the disk to measure")
    parser.add_argument("--json", metavar="FILE", help="write all figures, round by round")
    parser.add_argument("--markdown", metavar="FILE", help="rewrite the tables between the marks of this page")
    return parser.parse_args()


def main():
    """Measure, print, write."""
    chosen, shape = arguments(), machine()
    logging.disable(logging.CRITICAL)
    progress = lambda what: print(what, file=sys.stderr, flush=True)  # noqa: E731
    effort = QUICK if chosen.quick else FULL
    figures, shown, durability = {}, [], []
    for name in DATABASES if chosen.engine == "all" else [chosen.engine]:
        try:
            with DATABASES[name].running(chosen.dir, settles=not chosen.quick) as engine:
                figures[name], tables = measure(engine, effort, chosen.only, progress)
                shown += tables
                durability.append(f"{name}: {engine.durability}")
        except NoServer as error:
            raise SystemExit(f"bench: {error}") from None
    place = f"{shape['date']}, {shape['python']}, {shape['system']}, {shape['cpu']}, {shape['cores']} cores"
    heading = f"{place}, load {shape['load']} at the start.\nBodies of {len(BODY):,} bytes. {'; '.join(durability)}.\n"
    print(heading, *map(as_text, shown), sep="\n")
    if chosen.json:
        Path(chosen.json).write_text(json.dumps({"machine": shape, "figures": figures}, indent=1), encoding="utf-8")
    if chosen.markdown:
        write_between_marks(chosen.markdown, "\n".join([heading, *map(as_markdown, shown)]))


if __name__ == "__main__":
    main()
