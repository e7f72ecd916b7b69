# SPDX-License-Identifier: MIT
"""A real browser in front of a real server: one browser for all tests of a process, and pages that are used again.

Tests and server share one loop, that of the session: Playwright's. Every test fails when the browser reports an error,
a violation of the policy, or a request to another machine.
"""

import asyncio
import os
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import async_playwright, expect

from redrive import connect, open_recovery
from redrive.clock import system_clock
from redrive.server import ServerProcess, ServerSettings, open_desk
from tests.browser import chromium
from tests.cheap_passwords import use_cheap_passwords
from tests.patience import PATIENCE_S

WIDE, NARROW = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
ALERT = """\
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => {
    window.violations.push(`${event.violatedDirective} ${event.blockedURI}`);
    console.error("CSP", event.violatedDirective, event.blockedURI);
});
window.alert = () => console.error("a script of a message has run");
"""

expect.set_options(timeout=PATIENCE_S * 1_000)


@pytest.fixture(scope="session", autouse=True)
def passwords_are_quick():
    with pytest.MonkeyPatch.context() as monkeypatch:
        use_cheap_passwords(monkeypatch)
        yield


@pytest.fixture(scope="session")
def chromium_path():
    """Where Chromium is; in CI it is an error that there is none."""
    try:
        return chromium.program()
    except chromium.NoChromium as error:
        if os.environ.get("CI"):
            pytest.fail(str(error))
        pytest.skip(f"NOT SHOWN HERE: everything that is seen in a browser. {error}")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def chrome(chromium_path):
    """The browser."""
    async with async_playwright() as playwright:
        launched = await playwright.chromium.launch(
            executable_path=chromium_path, args=list(chromium.FLAGS), chromium_sandbox=os.geteuid() != 0
        )
        yield launched
        await launched.close()


@asynccontextmanager
async def served(url, clock=system_clock, **more):
    """Run a server with everything that it does; yield its address."""
    listening = asyncio.get_running_loop().create_future()
    process = ServerProcess(
        ServerSettings(
            **{"listen": "127.0.0.1:0", "receivers": "127.0.0.1:0", "database": url, "work_process": False} | more
        ),
        clock=clock,
    )
    process.on_listening = listening.set_result
    running = asyncio.create_task(process.run())
    await asyncio.wait([listening, running], return_when=asyncio.FIRST_COMPLETED)
    try:
        base = f"http://{listening.result()}"
        async with httpx.AsyncClient(base_url=base, timeout=PATIENCE_S) as client:
            while not (await client.get("/ready")).is_success:
                assert not running.done(), running
        yield base
    finally:
        process.stop()
        await running


class Servers:
    """The servers of a test, each known by its address: it can be stopped, and started again at the same one."""

    def __init__(self):
        self._running, self._settings = {}, {}

    async def __call__(self, url, **more):
        """Start a server; return its address."""
        stack = AsyncExitStack()
        base = await stack.enter_async_context(served(url, **more))
        self._running[base], self._settings[base] = stack, (url, more)
        return base

    async def stop(self, base):
        """Stop a server."""
        await self._running.pop(base).aclose()

    async def again(self, base):
        """Start a server that was stopped."""
        url, more = self._settings[base]
        assert await self(url, **{**more, "listen": base.removeprefix("http://")}) == base

    async def close(self):
        """Stop all of them."""
        for base in list(self._running):
            await self.stop(base)


@asynccontextmanager
async def opened(url, clock=system_clock):
    """Open the desk of a store, to fill it and to look into it."""
    async with AsyncExitStack() as stack:
        broker = await stack.enter_async_context(connect(url, clock=clock))
        yield await stack.enter_async_context(open_desk(broker, open_recovery(broker)))


@pytest.fixture
def sqlite_url(tmp_path):
    return f"sqlite:///{tmp_path}/browser.db"


@pytest.fixture
def url(request):
    """Where everything is: in SQLite, unless the test asks for ``both_databases``."""
    if getattr(request, "param", "sqlite") == "sqlite":
        return request.getfixturevalue("sqlite_url")
    url, schema = request.getfixturevalue("postgres_url"), request.getfixturevalue("emptied_schema")
    return f"{url}{'&' if '?' in url else '?'}schema={schema}"


@pytest_asyncio.fixture(loop_scope="session")
async def serve():
    """Return what runs servers until the end of the test; browsers are closed before they end."""
    servers = Servers()
    yield servers
    await servers.close()


@pytest_asyncio.fixture(loop_scope="session")
async def desk(url):
    """What fills the store of a test and looks into it, beside the server."""
    async with opened(url) as desk:
        yield desk


both_databases = pytest.mark.parametrize("url", ["sqlite", "postgres"], indirect=True)
"""Lets a test be run on both databases; others are on SQLite alone, as what differs is tested with the API."""

postgres_in_torture = pytest.mark.parametrize(
    "url", ["sqlite", pytest.param("postgres", marks=pytest.mark.torture)], indirect=True
)
"""Lets a story be told on both databases, every day on SQLite."""


class Troubles(list):
    """What the browser reported in a test.

    Attributes:
        expected: words in reports that the test provokes.
    """

    expected: tuple[str, ...] = ()

    def note(self, report):
        if not any(each in report for each in self.expected):
            self.append(report)


@pytest.fixture
def troubles():
    found = Troubles()
    yield found
    assert found == []


async def open_context(chrome, troubles, **more):
    """Open a context: a browser of another person, whose reports go to a list."""
    given = {"viewport": WIDE, "timezone_id": "Europe/Berlin", "reduced_motion": "reduce", **more}
    context = await chrome.new_context(**given)
    if given.get("java_script_enabled", True):
        await context.add_init_script(ALERT)
    context.set_default_timeout(PATIENCE_S * 1_000)
    context.on("console", lambda said: said.type == "error" and troubles.note(f"{said.text} at {said.page.url}"))
    context.on("weberror", lambda error: troubles.note(str(error.error)))
    context.on("request", lambda asked: _is_ours(asked.url) or troubles.note(f"asks for {asked.url}"))
    return context


@pytest_asyncio.fixture(loop_scope="session")
async def new_context(chrome, troubles, serve):  # noqa: ARG001 - it is closed before the server is
    """Return what opens a context."""
    async with AsyncExitStack() as stack:

        async def new(**more):
            context = await open_context(chrome, troubles, **more)
            stack.push_async_callback(context.close)
            return context

        yield new


def _is_ours(address):
    return address.startswith(("http://127.0.0.1:", "data:", "about:"))


class Windows:
    """Pages, each in a browser of its own: a person has one. They are used again, as a new one takes long.

    A test finds one as if it was new: without cookies, and every server has an origin of its own, so that nothing that
    a page has kept is found by another test.

    Attributes:
        troubles: where reports go.
    """

    def __init__(self, chrome):
        self._chrome = chrome
        self._idle, self._used = [], []
        self.troubles = Troubles()

    def note(self, report):
        self.troubles.note(report)

    async def open(self):
        """Return a page that no other person has."""
        page = self._idle.pop() if self._idle else await (await open_context(self._chrome, self)).new_page()
        self._used.append(page)
        return page

    async def leave(self):
        """Let the next test have all pages."""
        while self._used:
            page = self._used.pop()
            await page.goto("about:blank")
            await page.context.clear_cookies()
            await page.set_viewport_size(WIDE)
            await page.emulate_media(color_scheme="null")
            self._idle.append(page)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def windows(chrome):
    return Windows(chrome)


@pytest_asyncio.fixture(loop_scope="session")
async def new_page(windows, troubles, serve):  # noqa: ARG001 - it is left before the server ends
    """Return what gives a person a page."""
    windows.troubles = troubles
    yield windows.open
    await windows.leave()


@pytest_asyncio.fixture(loop_scope="session")
async def page(new_page):
    """A page in a browser of its own."""
    return await new_page()


@asynccontextmanager
async def going_on(*coroutines):
    """Let something go on beside a test."""
    tasks = [asyncio.create_task(each) for each in coroutines]
    try:
        yield
    finally:
        for each in tasks:
            each.cancel()
            with suppress(asyncio.CancelledError):
                await each
