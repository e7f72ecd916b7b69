"""An operation with and without those who watch it: programs that ask the API, or people in front of a browser.

At the end, the server is stopped and started again in the middle, under all those browsers and nine tabs of a real one.
"""

import asyncio
import json
import sys
import time
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from statistics import median, quantiles

from recovery_subjects import QUEUE
from report import Table
from server_client import Connection
from server_process import running_serve
from server_standin import running_stand_in
from server_tabs import NoBrowser, Tabs
from server_watchers import LastingViewers, Viewers, Watchers

LOOK_EVERY_S = 0.25
ALONE, RESTARTED = "alone", "beside browsers, restarted"
KINDS = {
    ALONE: None,
    "beside 500 requests/s": Watchers,
    "beside browsers": Viewers,
    "beside 500 requests/s to a stand-in": Watchers,
    "beside browsers of a stand-in": Viewers,
    RESTARTED: LastingViewers,
}
USERS = ("answers", "work", "PostgreSQL", "load", "stand-in")  # of the CPU


async def operate(engine, server, kind, chosen):
    """Recover all failures; return seconds, and what the watchers found."""
    with running_stand_in() if "stand-in" in kind else nullcontext() as stand_in:
        watchers = (KINDS[kind] or Watchers)(stand_in or server, chosen.streams)
        return await _operate(Cpu(engine, server, stand_in), server, kind, chosen.operation, watchers)


class Cpu:
    """The CPU time of all who take part."""

    def __init__(self, engine, server, stand_in):
        self._engine = engine
        self._server = server
        self._stand_in = stand_in

    def begin(self):
        """Count from here on."""
        self._before = self._now()
        self._began = time.perf_counter()

    def shares(self):
        """Return how much of one core each has used, in percent."""
        taken = time.perf_counter() - self._began
        return {user: (used - self._before[user]) / taken * 100 for user, used in self._now().items()}

    def _now(self):
        now = {**self._server.cpu_by_process, "load": time.process_time()}
        if self._stand_in is not None:
            now["stand-in"] = self._stand_in.cpu_s
        if hasattr(self._engine, "server"):
            now["PostgreSQL"] = self._engine.server.cpu_seconds()
        return now


async def _operate(cpu, server, kind, size, watchers):
    async with Connection(server) as client:
        began = time.perf_counter()
        status, operation = await client.post("/operations", {"kind": "recover", "filter": f"queue:{QUEUE}"})
        assert status < 300, operation
    watchers.number = operation["number"]
    cpu.begin()
    async with AsyncExitStack() as stack:
        tabs = await stack.enter_async_context(opened_tabs(server, operation["number"])) if kind == RESTARTED else None
        if KINDS[kind]:
            await stack.enter_async_context(watched(watchers))
        memory, away = [server.memory_mb], None
        while (state := await state_of(server, operation["number"]))["state"] not in ("completed", "failed"):
            if kind == RESTARTED and away is None and state["progress"]["forwarded"] * 2 >= size:
                away = await restart(server, watchers, tabs)
            await asyncio.sleep(LOOK_EVERY_S)
            memory.append(server.memory_mb)
        taken = time.perf_counter() - began
        shares = cpu.shares() if away is None else {}  # a server that was stopped has taken its own with it
        if tabs is not None:
            await tabs.all_say("Completed")
    assert state["progress"]["forwarded"] == size, state
    return {
        "rate": size / taken,
        "cpu": shares,
        "memory": [round(each, 1) for each in (memory[0], median(memory[len(memory) // 2 :]), max(memory))],
        "requests": sum(watchers.statuses.values()),
        "errors": sum(count for status, count in watchers.statuses.items() if status >= 400),
        "late": watchers.late,
        "asked_s": sum(watchers.statuses.values()) / taken,
        "events": watchers.seen["events"],
        "ended": watchers.seen["ended"],
        "p50": median(watchers.taken_ms) if watchers.taken_ms else 0.0,
        "p95": quantiles(watchers.taken_ms, n=20)[-1] if len(watchers.taken_ms) > 1 else 0.0,
        "away": away,
        "tab streams": tabs.most_streams if tabs is not None else None,
    }


@asynccontextmanager
async def watched(watchers):
    """Let people watch for as long as the block lasts, and until one of them has seen something."""
    watching = asyncio.create_task(watchers.run())
    yield
    # a short operation is over before anybody has looked
    await asyncio.wait([watching, asyncio.create_task(watchers.has_seen.wait())], return_when="FIRST_COMPLETED")
    watching.cancel()
    await asyncio.wait([watching])
    if not watching.cancelled():
        watching.result()


@asynccontextmanager
async def opened_tabs(server, number):
    """Open the tabs of a real browser; yield None, and say why, where there is none."""
    async with AsyncExitStack() as stack:
        try:
            tabs = await stack.enter_async_context(Tabs(server, number))
        except NoBrowser as error:
            print(f"no tabs: {error}", file=sys.stderr)
            tabs = None
        yield tabs


async def restart(server, watchers, tabs):
    """Stop and start the server; return the seconds until it answers, and until all who watch are back."""
    began = time.perf_counter()
    await asyncio.to_thread(server.stop)
    watchers.forget()
    await asyncio.to_thread(server.start)
    answers = time.perf_counter() - began
    await watchers.are_back.wait()
    if tabs is not None:
        await tabs.all_are_live()
    return {"answers_s": answers, "back_s": time.perf_counter() - began}


async def state_of(server, number):
    """Return an operation."""
    async with Connection(server) as client:
        _, body = await client.get(f"/operations/{number}", fresh=True)
    return json.loads(body)


async def measure(engine, filled, chosen, folder, progress):
    """Return what each round found, alone and watched, in turns, each on a copy of the database."""
    size, rounds = chosen.operation, chosen.rounds
    found = {kind: [] for kind in KINDS}
    for turn in range(rounds):
        for kind in reversed(KINDS) if turn % 2 else KINDS:
            progress(f"{engine.name}, round {turn + 1} of {rounds}: recover {size:,}, {kind}")
            async with engine.copy(filled) as url:
                await engine.settle()
                with running_serve(url, folder, "--no-routes", "--no-pipelines") as server:
                    found[kind].append(await operate(engine, server, kind, chosen))
    return found


def away(rounds):
    """Return how long the server was away for those who watch, and how many streams nine tabs had, if it was at all."""
    restarts = [each["away"]["back_s"] for each in rounds if each["away"]]
    streams = [each["tab streams"] for each in rounds if each["tab streams"] is not None]
    return [f"{median(restarts):.0f}" if restarts else "", f"{max(streams)}" if streams else ""]


def table(engine, found):
    """Return how quick the operation was, alone and watched, and what the watchers saw."""
    rows = []
    alone = median(each["rate"] for each in found[ALONE])
    for kind, rounds in found.items():
        of = lambda name, rounds=rounds: median(each[name] for each in rounds)  # noqa: E731
        first, later, most = (median(each["memory"][place] for each in rounds) for place in range(3))
        rows.append(
            [
                kind,
                f"{of('rate'):,.0f}",
                f"{of('rate') / alone:.2f}x",
                f"{of('asked_s'):,.0f}",
                f"{sum(each['errors'] for each in rounds)}",
                f"{of('p50'):.0f}",
                f"{of('p95'):.0f}",
                f"{of('events'):,.0f}",
                f"{first:.0f} / {later:.0f} / {most:.0f}",
                *away(rounds),
            ]
        )
    columns = [
        "operation",
        "messages/s",
        "to alone",
        "requests/s",
        "errors",
        "ms",
        "ms, p95",
        "events",
        "MB",
        "back, s",
        "streams of nine tabs",
    ]
    return Table(f"An operation that is watched, {engine}", columns, rows)


def cpu_table(engine, found):
    """Return who used the two cores meanwhile: what an operation is slowed by."""
    rows = []
    for kind, rounds in found.items():
        shares = [[each["cpu"][user] for each in rounds if user in each["cpu"]] for user in USERS]
        rows.append([kind, *(f"{median(each):.0f}" if each else "" for each in shares)])
    columns = ["operation", *(f"{user}, % of a core" for user in USERS)]
    return Table(f"Who used the CPU, {engine}", columns, rows)
