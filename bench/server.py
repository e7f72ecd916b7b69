"""Measure the server: what pages ask, with a million failures, and an operation that people watch: ``make bench``.

*Questions*: each list, count, group and series over HTTP, beside the statement one would write for it by hand, on a
table with an index made for it. *Pages*: each page of the console, its time and its size. *An operation that people
watch*: an operation with 100,000 messages in a server, alone, beside 200 streams of events and 500 requests a second,
and beside 200 browsers that fetch their page anew when it has changed; and the same two while they ask a stand-in
that answers with the same bytes always, which shows what making that load costs on these cores. The server is a process
of its own.

Time on the wall, because people wait for it. It reports and does not judge. docs/explanation/server-speed.md explains
the figures.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path

import server_load
import server_looks
import server_pages
from postgres_server import NoServer
from queue_engines import DATABASES
from recovery_scenarios import Stock
from recovery_subjects import fill_failures
from report import as_markdown, as_text, machine, write_between_marks
from server_process import running_serve

PARTS = ("questions", "pages", "load")


async def measure(engine, chosen, folder, progress):
    """Return the figures of the parts that are asked for."""
    found = {}
    async with AsyncExitStack() as places:
        stock = Stock(engine, places, progress)
        if {"questions", "pages"} & set(chosen.only):
            url = await stock.filled(fill_failures, chosen.size)
            raw_url = await places.enter_async_context(engine.place())
            with running_serve(url, folder, "--no-routes", "--no-pipelines", "--no-ingest") as server:
                if "questions" in chosen.only:
                    progress(f"{engine.name}: ask")
                    asked = server_looks.measure(server, raw_url, engine.name, chosen.size, chosen.times)
                    found["questions"] = await asked
                if "pages" in chosen.only:
                    progress(f"{engine.name}: look at pages")
                    known = await server_looks.known_in(server)
                    found["pages"] = await server_pages.measure(server, known, chosen.times)
        if "load" in chosen.only:
            url = await stock.filled(fill_failures, chosen.operation)
            found["load"] = await server_load.measure(engine, url, chosen, folder, progress)
    return found


def arguments():
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=[*DATABASES, "both"], default="both", help="the database to measure in")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="what to measure")
    parser.add_argument("--size", type=int, default=1_000_000, metavar="N", help="failures that pages ask about")
    parser.add_argument("--operation", type=int, default=100_000, metavar="N", help="messages of the operation")
    parser.add_argument("--streams", type=int, default=200, metavar="N", help="of events, or browsers, that watch it")
    parser.add_argument("--times", type=int, default=40, help="how often each question is asked")
    parser.add_argument("--rounds", type=int, default=3, help="of the operation, each way")
    parser.add_argument("--quick", action="store_true", help="to see that it runs; do not trust the figures")
    parser.add_argument("--dir", default=tempfile.gettempdir(), help="a folder on the disk to measure")
    parser.add_argument("--json", metavar="FILE", help="write all figures, round by round")
    parser.add_argument("--markdown", metavar="FILE", help="rewrite the tables between the marks of this page")
    chosen = parser.parse_args()
    if chosen.quick:
        chosen.size, chosen.operation, chosen.streams, chosen.times, chosen.rounds = 300, 200, 20, 3, 1
    return chosen


def main():
    """Measure, print, write."""
    chosen = arguments()
    shape = machine()
    progress = lambda what: print(what, file=sys.stderr)  # noqa: E731
    figures, shown = {}, []
    names = list(DATABASES) if chosen.engine == "both" else [chosen.engine]
    with tempfile.TemporaryDirectory(dir=chosen.dir) as folder:
        for name in names:
            try:
                with DATABASES[name].running(chosen.dir, settles=not chosen.quick) as engine:
                    found = asyncio.run(measure(engine, chosen, folder, progress))
            except NoServer as error:
                raise SystemExit(f"bench: {error}") from None
            figures[name] = found
            parts = {"questions": server_looks.table, "pages": server_pages.table, "load": server_load.table}
            shown += [parts[part](name, what) for part, what in found.items()]
            shown += [server_load.cpu_table(name, found["load"])] if "load" in found else []
    place = f"{shape['date']}, {shape['python']}, {shape['system']}, {shape['cpu']}, {shape['cores']} cores"
    heading = f"{place}, load {shape['load']} at the start.\n{chosen.size:,} failures, full durability.\n"
    print(heading, *map(as_text, shown), sep="\n")
    if chosen.json:
        Path(chosen.json).write_text(json.dumps({"machine": shape, "figures": figures}, indent=1), encoding="utf-8")
    if chosen.markdown:
        write_between_marks(chosen.markdown, "\n".join([heading, *map(as_markdown, shown)]))


if __name__ == "__main__":
    main()
