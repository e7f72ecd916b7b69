"""Tabs of one real browser that show an operation: nine tabs, which share one stream of events."""

import os
import shutil
from contextlib import AsyncExitStack

from playwright.async_api import async_playwright
from server_process import HOST

TABS = 9
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ("--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update")
PATIENCE_MS = 120_000


class NoBrowser(Exception):
    """There is no Chromium."""


class Tabs:
    """One browser with several tabs, all of which show an operation.

    Args:
        server: what they look at.
        number: the operation.
    """

    def __init__(self, server, number):
        self._address = f"http://{HOST}:{server.port}/operations/{number}"
        self._stack = AsyncExitStack()
        self._tabs = []
        self._streams = set()
        self.most_streams = 0

    async def __aenter__(self):
        """Open the tabs, one after the other."""
        path = next(filter(None, map(shutil.which, PROGRAMS)), None)
        if path is None:
            raise NoBrowser("no chromium in PATH")
        driver = await self._stack.enter_async_context(async_playwright())
        browser = await driver.chromium.launch(
            executable_path=path, args=list(FLAGS), chromium_sandbox=os.geteuid() != 0
        )
        self._stack.push_async_callback(browser.close)
        context = await browser.new_context()
        context.set_default_timeout(PATIENCE_MS)
        context.on("request", self._note_stream)
        for event in ("requestfinished", "requestfailed"):
            context.on(event, self._note_end)
        for _ in range(TABS):
            tab = await context.new_page()
            await tab.goto(self._address)
            self._tabs.append(tab)
        return self

    async def __aexit__(self, *_):
        """Close the browser."""
        await self._stack.aclose()

    def _note_stream(self, request):
        if request.url.endswith("/events"):
            self._streams.add(request)
            self.most_streams = max(self.most_streams, len(self._streams))

    def _note_end(self, request):
        self._streams.discard(request)

    async def all_say(self, word):
        """Wait until all tabs show a word, without having been asked to load their page again."""
        for tab in self._tabs:
            await tab.get_by_role("main").get_by_text(word).first.wait_for()

    async def all_are_live(self):
        """Wait until all tabs say that they are live."""
        for tab in self._tabs:
            await tab.get_by_role("banner").get_by_text("Live", exact=True).wait_for()
