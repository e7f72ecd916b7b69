"""Those who watch an operation: programs that ask the API at a steady pace, and people in front of a browser."""

import asyncio
import time
from collections import Counter
from contextlib import AsyncExitStack

from recovery_subjects import QUEUE
from server_client import Connection

REQUESTS_S = 500
CONNECTIONS = 50  # of those who ask; a browser keeps up to six
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
STREAM_AGAIN_AFTER_S, PAGE_AGAIN_AFTER_S = 2, 5  # as the script of the console does when the server is away


class Watchers:
    """Programs that watch: streams, and requests at a steady pace, whatever the answers take.

    Args:
        server: what they watch.
        streams: how many watch.

    Attributes:
        number: the operation.
    """

    def __init__(self, server, streams):
        self._server = server
        self._streams = streams
        self.number = 0
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

    def _note(self, status, due):
        self.statuses[status] += 1
        self.has_seen.set()
        self.taken_ms.append((time.perf_counter() - due) * 1e3)

    async def _pace(self, turns):
        began, made = time.perf_counter(), 0
        while True:
            await asyncio.sleep(0.01)
            for number in range(made, int((time.perf_counter() - began) * REQUESTS_S)):
                made = number + 1
                try:
                    turns.put_nowait((time.perf_counter(), PATHS[number % len(PATHS)].format(number=self.number)))
                except asyncio.QueueFull:
                    self.late += 1

    async def _ask(self, asker, turns):
        while True:
            due, path = await turns.get()
            status, _ = await asker.get(path)
            self._note(status, due)


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
                path = PAGES[place % len(PAGES)].format(number=self.number)
                tasks.create_task(self._look(browser, path, changed))

    async def _look(self, browser, path, changed):
        while True:
            await changed.wait()
            await asyncio.sleep(AGAIN_AFTER_S)
            changed.clear()
            due = time.perf_counter()
            status, _ = await browser.fragment(path)
            self._note(status, due)


class LastingViewers(Viewers):
    """People who watch, whose pages ask again when the server has gone away, as the script of the console does.

    Attributes:
        are_back: is set when each of them has seen a page since ``forget()``.
    """

    def __init__(self, *given):
        super().__init__(*given)
        self._back = set()
        self.are_back = asyncio.Event()

    async def run(self):
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for place in range(self._streams):
                changed = asyncio.Event()
                tasks.create_task(self._listen(changed))
                tasks.create_task(self._look_again(place, changed))

    def forget(self):
        """Forget who has seen a page: the server has gone away."""
        self._back.clear()
        self.are_back.clear()

    async def _listen(self, changed):
        while True:
            try:
                async with Connection(self._server) as stream:
                    changed.set()  # what has changed before was not told
                    await stream.stream("/events", self.seen, changed)
            except OSError:
                self.seen["refused"] += 1
            await asyncio.sleep(STREAM_AGAIN_AFTER_S)

    async def _look_again(self, place, changed):
        path = PAGES[place % len(PAGES)].format(number=self.number)
        while True:
            try:
                async with Connection(self._server) as browser:
                    while await self._see(browser, path, changed):
                        self._note_back(place)
            except (OSError, asyncio.IncompleteReadError):
                self.seen["lost"] += 1
            await asyncio.sleep(PAGE_AGAIN_AFTER_S)
            changed.set()

    async def _see(self, browser, path, changed):
        """Look at a page that has changed; return whether it was there."""
        await changed.wait()
        await asyncio.sleep(AGAIN_AFTER_S)
        changed.clear()
        due = time.perf_counter()
        status, _ = await browser.fragment(path)
        if status == 503:  # the server has begun, and has not opened its database yet
            self.seen["not ready"] += 1
            return False
        self._note(status, due)
        return True

    def _note_back(self, place):
        self._back.add(place)
        if len(self._back) == self._streams:
            self.are_back.set()
