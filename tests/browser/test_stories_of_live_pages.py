# SPDX-License-Identifier: MIT
"""Stories of pages that stay open: many tabs of one browser, a server that goes away, and many failures."""

import gzip
import re

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import expect

from tests.browser.acts import listens, row
from tests.browser.store import fail, fail_in_many_ways, order, payments

pytestmark = pytest.mark.asyncio(loop_scope="session")

LARGEST_PAGE = 12 * 1_024


class Streams:
    """The streams of a browser."""

    def __init__(self, context):
        self._open = set()
        context.on("request", lambda asked: asked.url.endswith("/api/v1/events") and self._open.add(asked))
        for event in ("requestfinished", "requestfailed"):
            context.on(event, self._note_the_end)

    def _note_the_end(self, asked):
        self._open.discard(asked)

    @property
    def open(self):
        """How many are open now; nobody tells that one has ended with its tab."""
        return sum(not each.frame.page.is_closed() for each in self._open)


@pytest_asyncio.fixture(loop_scope="session", params=[3, pytest.param(9, marks=pytest.mark.torture)])
async def browser(request, new_context):
    """The streams and the tabs of a browser; in the long version it has more than the connections that it makes."""
    context = await new_context()
    return Streams(context), [await context.new_page() for _ in range(request.param)]


async def test_tabs_share_one_stream_and_say_how_old_they_are(url, desk, serve, browser, troubles):
    troubles.expected = ("ERR_", "503")
    await fail(desk, 5)
    base = await serve(url)
    streams, tabs = browser
    for tab in tabs:
        await tab.goto(f"{base}/failed")
        await _says(tab, "Live")
    assert streams.open == 1
    await _one_more_fails(desk, 101)
    for tab in tabs:
        await expect(row(tab, "ProviderTimeout").get_by_role("link", name="5 messages")).to_be_visible()
    await tabs.pop(0).close()  # the one that listens
    await _one_more_fails(desk, 102)
    for tab in tabs:
        await expect(row(tab, "ProviderTimeout").get_by_role("link", name="6 messages")).to_be_visible()
    assert streams.open == 1
    await serve.stop(base)
    for tab in tabs:
        await _says(tab, re.compile(r"^\d+ s old$"))
    await _one_more_fails(desk, 103)
    await serve.again(base)
    for tab in tabs:
        await _says(tab, "Live")
        await expect(row(tab, "ProviderTimeout").get_by_role("link", name="7 messages")).to_be_visible()
    assert streams.open == 1


async def _says(tab, words):
    await expect(tab.get_by_role("banner").get_by_role("button", name=re.compile("^Live updates"))).to_have_text(words)


async def _one_more_fails(desk, number):
    await desk.broker.send("payments", order(number))
    await payments().run(desk.broker, until_idle=True)


@pytest.mark.torture
async def test_live_updates_can_be_paused_in_all_words(url, desk, serve, page):
    await fail(desk, 5)
    base = await serve(url)
    await page.goto(f"{base}/failed")
    button = page.get_by_role("banner").get_by_role("button")
    await expect(button).to_have_accessible_name("Live updates are on. Pause them.")
    await button.click()
    await expect(button).to_have_accessible_name("Live updates are paused. Resume them.")
    await expect(button).to_have_attribute("aria-pressed", "false")
    await _one_more_fails(desk, 101)
    await page.reload()
    await expect(button).to_have_text("Paused")
    await button.click()
    await _says(page, "Live")
    await expect(row(page, "ProviderTimeout").get_by_role("link", name="5 messages")).to_be_visible()


async def test_new_groups_wait_until_they_are_asked_for(url, desk, serve, page):
    await fail(desk, 4)
    base = await serve(url)
    await page.goto(f"{base}/failed")
    groups = page.get_by_role("region", name="Groups")
    await listens(page)
    await row(page, "CardDeclined").get_by_role("checkbox").check()
    await page.keyboard.press("j")
    place = await groups.get_by_role("article").first.bounding_box()
    await fail_in_many_ways(desk, 3, 2)
    show = groups.get_by_role("button", name="3 new groups · show")
    await expect(show).to_be_visible()
    await expect(groups.get_by_role("article")).to_have_count(2)
    assert await groups.get_by_role("article").first.bounding_box() == place, "something moved"
    await expect(page.get_by_role("status").filter(has_text="3 new groups · show")).to_have_count(1)  # it is heard, too
    await page.keyboard.press("Tab")
    await show.focus()
    await page.keyboard.press("Enter")
    await expect(groups.get_by_role("article")).to_have_count(5)
    await expect(show).to_have_count(0)
    await expect(groups.get_by_role("article").first.get_by_role("link").first).to_be_focused()
    checked = groups.get_by_role("checkbox", checked=True)
    await expect(checked).to_have_count(1)
    await expect(checked).to_have_accessible_name("Choose CardDeclined")


async def test_a_group_that_is_gone_stays_where_it_was_and_says_so(url, desk, serve, page):
    await fail(desk, 10)
    base = await serve(url)
    await page.goto(f"{base}/failed")
    await listens(page)
    await desk.recovery.resolve("exception:CardDeclined", actor="bo")
    await expect(row(page, "CardDeclined")).to_contain_text("no longer in this list")
    await expect(row(page, "ProviderTimeout")).not_to_contain_text("no longer in this list")
    await page.reload()
    await expect(row(page, "CardDeclined")).to_have_count(0)


@pytest.mark.parametrize(("failures", "groups"), [(600, 60), pytest.param(100_000, 400, marks=pytest.mark.torture)])
async def test_pages_of_many_failures_are_small(url, desk, serve, failures, groups):
    await fail_in_many_ways(desk, groups, failures // groups)
    failed = (await desk.recovery.failed(limit=1))[0]
    base = await serve(url, operations=False, ingest=False)
    addresses = (
        "/",
        "/failed",
        "/failed?by=queue",
        "/failed/list",
        f"/failed/{failed.id}",
        "/failed/recover",
        "/queues",
    )
    large = {}
    async with httpx.AsyncClient(base_url=base, headers={"accept": "text/html"}, timeout=60) as client:
        for address in addresses:
            answer = await client.get(address)
            assert answer.status_code == 200, address
            if (size := len(gzip.compress(answer.content))) > LARGEST_PAGE:
                large[address] = size
    assert large == {}
