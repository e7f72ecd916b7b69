"""An operation with and without those who watch it: programs that ask the API, or people in front of a browser."""

import asyncio
import json
import time
from collections import Counter
from contextlib import AsyncExitStack
from statistics import median, quantiles

from recovery_subjects import QUEUE
from report import Table
from server_client import Connection, running_serve

REQUESTS_S = 500
CONNECTIONS = 50  # of those who ask; a browser keeps up to six
LOOK_EVERY_S = 0.25
PATHS = (
    "/failures?limit=50&order=newest",
    "/failures/count",
    "/failures/statuses",
    "/groups",
    f"/groups?q=queue:{QUEUE}",
    "/operations",
    "/operations/{number}",
    f"/queues/{QUEUE}",
    "/queues",
    "/series?metric=failed",
)


PAGES = ("/operations/{number}", "/operations", "/failed", "/")
AGAIN_AFTER_S = 0.3  # a browser hears of a change, and of what changes just after it, before it asks


class Watchers:
    """Programs that watch: streams, and requests at a steady pace, whatever the answers take.

    Args:
        server: what they watch.
        number: the operation.
        streams: how many watch.
    """

    def __init__(self, server, number, streams):
        self._server = server
        self._streams = streams
        self._number = number
        self.taken_ms = []
        self.statuses = Counter()
        self.seen = Counter()
        self.late = 0
        self.has_seen = asyncio.Event()

    async def run(self):
        """Watch until cancelled."""
        async with AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
            for _ in range(self._streams):
                stream = await stack.enter_async_context(Connection(self._server))
                tasks.create_task(stream.stream("/events", self.seen))
            turns = asyncio.Queue(REQUESTS_S)
            for _ in range(CONNECTIONS):
                asker = await stack.enter_async_context(Connection(self._server))
                tasks.create_task(self._ask(asker, turns))
            await self._pace(turns)

    async def _pace(self, turns):
        began, made = time.perf_counter(), 0
        while True:
            await asyncio.sleep(0.01)
            for number in range(made, int((time.perf_counter() - began) * REQUESTS_S)):
                made = number + 1
                try:
                    turns.put_nowait((time.perf_counter(), PATHS[number % len(PATHS)].format(number=self._number)))
                except asyncio.QueueFull:
                    self.late += 1

    async def _ask(self, asker, turns):
        while True:
            due, path = await turns.get()
            status, _ = await asker.get(path)
            self.statuses[status] += 1
            self.has_seen.set()
            self.taken_ms.append((time.perf_counter() - due) * 1e3)


class Viewers(Watchers):
    """People who watch: each has a stream, and fetches a page again when the stream says that something has changed."""

    async def run(self):
        """Watch until cancelled."""
        async with AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
            for place in range(self._streams):
                stream = await stack.enter_async_context(Connection(self._server))
                browser = await stack.enter_async_context(Connection(self._server))
                changed = asyncio.Event()
                tasks.create_task(stream.stream("/events", self.seen, changed))
                path = PAGES[place % len(PAGES)].format(number=self._number)
                tasks.create_task(self._look(browser, path, changed))

    async def _look(self, browser, path, changed):
        while True:
            await changed.wait()
            await asyncio.sleep(AGAIN_AFTER_S)
            changed.clear()
            due = time.perf_counter()
            status, _ = await browser.fragment(path)
            self.statuses[status] += 1
            self.has_seen.set()
            self.taken_ms.append((time.perf_counter() - due) * 1e3)


KINDS = {"alone": None, "beside 500 requests/s": Watchers, "beside browsers": Viewers}


async def operate(server, size, kind, streams):
    """Recover all failures; return seconds, and what the watchers found."""
    async with Connection(server) as client:
        began = time.perf_counter()
        status, operation = await client.post("/operations", {"kind": "recover", "filter": f"queue:{QUEUE}"})
        assert status < 300, operation
        watchers = (KINDS[kind] or Watchers)(server, operation["number"], streams)
        watching = asyncio.create_task(watchers.run()) if KINDS[kind] else None
        memory = [server.memory_mb]
        while (state := (await state_of(client, operation["number"])))["state"] not in ("completed", "failed"):
            await asyncio.sleep(LOOK_EVERY_S)
            memory.append(server.memory_mb)
        taken = time.perf_counter() - began
        if watching is not None:
            # a short operation is over before anybody has looked
            await asyncio.wait([watching, asyncio.create_task(watchers.has_seen.wait())], return_when="FIRST_COMPLETED")
            watching.cancel()
            await asyncio.wait([watching])
            if not watching.cancelled():
                watching.result()
    assert state["progress"]["forwarded"] == size, state
    return {
        "rate": size / taken,
        "memory": [round(each, 1) for each in (memory[0], median(memory[len(memory) // 2 :]), max(memory))],
        "requests": sum(watchers.statuses.values()),
        "errors": sum(count for status, count in watchers.statuses.items() if status >= 400),
        "late": watchers.late,
        "asked_s": sum(watchers.statuses.values()) / taken,
        "events": watchers.seen["events"],
        "ended": watchers.seen["ended"],
        "p50": median(watchers.taken_ms) if watchers.taken_ms else 0.0,
        "p95": quantiles(watchers.taken_ms, n=20)[-1] if len(watchers.taken_ms) > 1 else 0.0,
    }


async def state_of(client, number):
    """Return an operation."""
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
                    found[kind].append(await operate(server, size, kind, chosen.streams))
    return found


def table(engine, found):
    """Return how quick the operation was, alone and watched, and what the watchers saw."""
    rows = []
    alone = median(each["rate"] for each in found["alone"])
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
            ]
        )
    columns = ["operation", "messages/s", "to alone", "requests/s", "errors", "ms", "ms, p95", "events", "MB"]
    return Table(f"An operation that is watched, {engine}", columns, rows)
