# SPDX-License-Identifier: MIT
"""What the script of the console does with live updates, step by step: stream, answers and time are in the test's hand.

The stories show the same with a real stream; whether two things meet there is a matter of luck.
"""

import json
import re

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import expect

from tests.browser.acts import row
from tests.browser.conftest import Troubles, open_context, opened, served
from tests.browser.store import fail

pytestmark = pytest.mark.asyncio(loop_scope="session")

IN_HAND = """\
window.asked = [];
window.streams = [];
window.fetch = (_, options) => new Promise((resolve) => window.asked.push({ headers: options.headers, resolve }));
window.EventSource = class { constructor() { this.readyState = 0; window.streams.push(this); } };
"""
TAG = 'W/"1"'
FOLLOWS_IN_MS = 300
"""How long the script waits for more changes before it fetches a page."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def base(tmp_path_factory):
    url = f"sqlite:///{tmp_path_factory.mktemp('live')}/live.db"
    async with opened(url) as desk:
        await fail(desk, 5)  # 4 time out, 1 is declined
    async with served(url, operations=False, ingest=False, routes=False, pipelines=False) as base:
        yield base


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def window(chrome):
    """One page for all tests, whose time stands still unless a test lets it pass; and what it reports."""
    troubles = Troubles()
    context = await open_context(chrome, troubles)
    await context.add_init_script(IN_HAND)
    page = await context.new_page()
    await page.clock.install(time=0)
    await page.clock.pause_at(1_000)
    yield page, troubles
    await context.close()


class Live:
    """A page that hears of changes from the test."""

    def __init__(self, page, base):
        self.page = page
        self.base = base
        self._answered = 0

    async def open(self, address):
        """Open a page, and let the first stream begin; what it fetches then is as it was."""
        zone = {"name": "redrive-zone", "value": "Europe/Berlin", "url": self.base}
        await self.page.context.add_cookies([zone])
        await self.page.goto(f"{self.base}{address}")
        await self.stream_opens(1)
        await self.passes(FOLLOWS_IN_MS)
        await self.answer(await self.fragment(address))
        await self.says("Live")

    async def passes(self, milliseconds):
        """Let time pass in the page."""
        await self.page.clock.run_for(milliseconds)

    async def stream_opens(self, number):
        """Wait until the page has asked for so many streams, and let the last one begin."""
        await self.page.wait_for_function("number => window.streams.length === number", arg=number)
        await self.page.evaluate("() => { const last = streams.at(-1); last.readyState = 1; last.onopen(); }")

    async def hears(self, *topics):
        """Tell it what has changed."""
        await self.page.evaluate("data => streams.at(-1).onmessage({ data })", json.dumps(topics))

    async def asked(self):
        """Return how often it has asked for what changed and has no answer yet."""
        return await self.page.evaluate("window.asked.length") - self._answered

    async def fragment(self, address):
        """Return what the server answers."""
        async with httpx.AsyncClient(base_url=self.base) as client:
            zone = {"cookie": "redrive-zone=Europe/Berlin"}
            return (await client.get(address, headers={"accept": "text/html", "redrive-fragment": "1", **zone})).text

    async def answer(self, html="", status=200):
        """Answer what it asked for first."""
        assert await self.asked() > 0
        await self.page.evaluate(
            """([number, html, status, etag]) => window.asked[number].resolve(
                new Response(status === 304 ? null : html, { status, headers: { etag } }))""",
            [self._answered, html, status, TAG],
        )
        self._answered += 1

    async def last_headers(self):
        """Return with which headers it asked."""
        return await self.page.evaluate("window.asked.at(-1).headers")

    async def says(self, words):
        """Wait until it says how new it is."""
        await expect(self.page.locator("[data-live-word]")).to_have_text(words)


@pytest_asyncio.fixture(loop_scope="session")
async def live(window, base):
    page, troubles = window
    yield Live(page, base)
    await page.evaluate("localStorage.clear()")
    assert troubles == []


def count_in(html, number):
    """Return a fragment in which another number of messages has failed in each group."""
    changed, many = re.subn(r">4<small>messages", f">{number}<small>messages", html)
    assert many == 1
    return changed


async def test_a_stream_that_was_refused_is_asked_for_again(live):
    await live.open("/failed")
    await live.page.evaluate("() => { const last = streams.at(-1); last.readyState = 2; last.onerror(); }")
    await live.says("Reconnecting")
    await live.passes(2_000)
    await live.stream_opens(2)
    await live.says("Live")
    await live.passes(FOLLOWS_IN_MS)
    assert await live.asked() == 1, "what changed meanwhile was not told"


async def test_a_page_follows_although_something_changes_all_the_time(live):
    await live.open("/failed")
    for _ in range(4):
        await live.hears("failed")
        await live.passes(FOLLOWS_IN_MS - 50)
    assert await live.asked() == 1


async def test_the_frame_counts_what_the_page_counts(live):
    await live.open("/operations")
    html = await live.fragment("/operations")
    failed = live.page.locator(".side [data-n='/failed']")
    await expect(failed).to_have_text("5")
    for count, short in (("12,345", "12.3k"), ("0", "0")):
        await live.hears("operations")
        await live.passes(FOLLOWS_IN_MS)
        changed, many = re.subn(
            r'data-of="/failed" data-short="5">5<', f'data-of="/failed" data-short="{short}">{count}<', html
        )
        assert many == 1
        await live.answer(changed)
        await expect(failed).to_have_text(count)
        await expect(live.page.locator(".tabbar [data-n='/failed']")).to_have_text(short)
    await expect(failed).to_be_hidden()


async def test_no_answer_replaces_a_later_one(live):
    await live.open("/failed")
    html = await live.fragment("/failed")
    await live.hears("failed")
    await live.passes(FOLLOWS_IN_MS)
    await live.hears("failed")
    await live.passes(FOLLOWS_IN_MS)
    assert await live.asked() == 1, "it asks again before it has the first answer"
    await live.answer(count_in(html, 5))
    await expect(row(live.page, "ProviderTimeout").get_by_role("link", name="5 messages")).to_be_visible()
    assert await live.asked() == 1
    await live.answer(count_in(html, 6))
    await expect(row(live.page, "ProviderTimeout").get_by_role("link", name="6 messages")).to_be_visible()
    assert await live.asked() == 0


async def test_what_changed_while_somebody_typed_is_shown_when_they_are_done(live):
    await live.open("/failed")
    field = live.page.get_by_label("Add to the filter")
    await field.fill("queue:pay")
    await live.hears("failed")
    await live.passes(2_000)
    assert await live.asked() == 0
    await field.blur()
    await live.passes(1_000 + FOLLOWS_IN_MS)
    assert await live.asked() == 1
    await live.answer(count_in(await live.fragment("/failed"), 5))
    await expect(row(live.page, "ProviderTimeout").get_by_role("link", name="5 messages")).to_be_visible()
    await expect(field).to_have_value("queue:pay")


async def test_a_page_that_could_not_be_fetched_says_so_and_is_fetched_again(live):
    await live.open("/failed")
    await live.hears("failed")
    await live.passes(FOLLOWS_IN_MS)
    await live.answer("the store does not answer", 503)
    await live.says("Reconnecting")
    await live.passes(10_000)
    await live.says(re.compile(r"^\d+ s old$"))
    assert await live.asked() == 1
    assert (await live.last_headers())["If-None-Match"] == TAG
    await live.answer(status=304)
    await live.says("Live")


def with_new_groups(html, many):
    """Return a fragment with groups that were not there before, as copies of the first."""
    first = re.search(r'<article class="g".*?</article>', html, re.DOTALL)[0]
    known = re.search('data-id="([^"]+)"', first)[1]
    return html.replace(first, "".join(first.replace(known, f"{new:016x}") for new in range(many)) + first)


async def test_a_screen_reader_hears_one_sentence_in_ten_seconds(live):
    await live.open("/failed")
    html, heard = await live.fragment("/failed"), live.page.locator("[role=status][aria-live=polite]")
    for many in (1, 2, 3):
        await live.hears("failed")
        await live.passes(FOLLOWS_IN_MS)
        await live.answer(with_new_groups(html, many))
        words = "1 new group · show" if many == 1 else f"{many} new groups · show"
        await expect(live.page.get_by_role("button", name=words)).to_be_visible()
        await expect(heard).to_have_text("1 new group · show")
    await live.passes(10_000)
    await expect(heard).to_have_text("3 new groups · show")


async def test_ticks_are_where_they_belong_as_soon_as_rows_are_new(live):
    await live.open("/failed/list")
    boxes = live.page.get_by_role("checkbox", name=re.compile("^Choose [0-9a-f]{32}$"))
    chosen = await boxes.nth(1).get_attribute("value")
    await boxes.nth(1).check()
    html = await live.fragment("/failed/list")
    first = re.search(r'<article class="g".*?</article>', html, re.DOTALL)[0]
    new = first.replace(re.search('data-id="([^"]+)"', first)[1], "f" * 32)
    await live.page.evaluate(
        """() => { const is = htmx.swap; htmx.swap = (given) => {
            is.call(htmx, given);
            return new Promise(() => {});  // it never settles
        }; }"""
    )
    await live.page.evaluate("document.querySelector('[data-new]').click()")
    assert await live.asked() == 1
    await live.answer(html.replace(first, new + first))
    await expect(boxes).to_have_count(6)
    ticked = live.page.get_by_role("region", name="Failures").get_by_role("checkbox", checked=True)
    await expect(ticked).to_have_count(1)
    assert await ticked.get_attribute("value") == chosen


async def test_what_is_typed_before_a_page_is_in_the_zone_of_the_browser_stays(live):
    page = live.page
    await page.context.clear_cookies()
    address = "/failed/recover?q=exception:ProviderTimeout"
    await page.goto(f"{live.base}{address}")
    assert await live.asked() == 1
    canaries = page.get_by_role("group", name="Canary").get_by_label("How many")
    await canaries.fill("2")
    await page.get_by_label("Reason").fill("the provider answers again")
    await live.answer(await live.fragment(address))
    await expect(page.locator("main")).not_to_have_class(re.compile("htmx-swapping"))
    await expect(canaries).to_have_value("2")
    await expect(page.get_by_label("Reason")).to_have_value("the provider answers again")


async def test_two_keys_belong_together_whatever_was_pressed_before(live):
    await live.open("/failed")
    await live.page.keyboard.press("j")
    await live.passes(900)
    await live.page.keyboard.press("g")
    await live.passes(900)
    await live.page.keyboard.press("q")
    await expect(live.page.get_by_role("heading", name="Queues", exact=True)).to_be_visible()


async def test_a_key_that_comes_late_stands_for_itself(live):
    await live.open("/failed")
    await live.page.keyboard.press("g")
    await live.passes(3_000)
    await live.page.keyboard.press("j")
    await expect(
        row(live.page, "ProviderTimeout").get_by_role("link", name="ProviderTimeout", exact=True)
    ).to_be_focused()
    await live.passes(3_000)
    await live.page.keyboard.press("q")
    await expect(live.page.get_by_role("heading", name="Failed", exact=True)).to_be_visible()
