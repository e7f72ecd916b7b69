# SPDX-License-Identifier: MIT
"""What people do in stories, and what they read: names and roles as a screen reader meets them."""

import re
from contextlib import asynccontextmanager

from playwright.async_api import expect

from tests.browser.conftest import going_on
from tests.browser.store import PASSWORD

OUTCOMES = ("succeeded", "failed again", "unconfirmed", "skipped", "could not be sent", "cancelled", "to come")
"""What can become of a message of an operation; each message has exactly one of them."""


@asynccontextmanager
async def working(desk, worker):
    """Let a worker do its work beside a test."""
    async with going_on(worker.run(desk.broker)):
        yield
        worker.stop()


async def go_signed_in(page, base, name, to):
    """Go to a page as somebody who has signed in before."""
    answer = await page.request.post(f"{base}/login", form={"name": name, "password": PASSWORD, "next": "/live"})
    assert answer.ok
    await page.goto(f"{base}{to}")


async def sign_in(page, base, name, to="/"):
    """Sign in, and go to a page."""
    await page.goto(f"{base}{to}")
    await page.get_by_label("Name").fill(name)
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("navigation", name="Main", exact=True)).to_contain_text(name)


async def listens(page):
    """Wait until the script of a page is there: it listens to keys, and to what changes."""
    await expect(page.get_by_role("button", name="Live updates are on. Pause them.")).to_be_visible()


def number_in(text):
    """Return the number that a text begins with."""
    return int(re.match(r"[\d,]+", text)[0].replace(",", ""))


def row(page, name):
    """Return the entry of a list that has a heading or link of this name."""
    return page.get_by_role("article").filter(has=page.get_by_role("link", name=name, exact=True))


async def outcomes(page):
    """Return what an operation says of its messages, read at one instant; it must add up."""
    said = await page.get_by_role("region", name="How far it is").aria_snapshot()
    numbers = re.findall(rf"\b([\d,]+) ({'|'.join(OUTCOMES)})", said)
    found = {name: number_in(number) for number, name in reversed(numbers)}  # the bar says some of them first
    assert set(found) == set(OUTCOMES), said
    turned, total = re.search(r"([\d,]+) of ([\d,]+) have had their turn", said).groups()
    assert sum(found.values()) == number_in(total), said
    assert number_in(total) - found["to come"] == number_in(turned), said
    bar = re.findall(r'img "([^"]*)"', said)[-1]
    drawn = {name: number_in(number) for number, name in re.findall(rf"([\d,]+) ({'|'.join(OUTCOMES)})", bar)}
    assert drawn == {name: number for name, number in found.items() if number}, said
    return found


async def says(part, words, *, is_so=True):
    """Wait until a part of a page says this: blanks are whatever stands between words on the screen."""
    wanted = expect(part).to_contain_text if is_so else expect(part).not_to_contain_text
    await wanted(re.compile(r"(?<![\d,])" + r"\s+".join(map(re.escape, words.split()))), use_inner_text=True)


async def until(page, **wanted):
    """Wait until an operation says this of its messages, as live updates come in; it adds up whenever one looks."""
    region = page.get_by_role("region", name="How far it is")
    for name, number in wanted.items():
        await says(region, f"{number:,} {name.replace('_', ' ')}")
        await outcomes(page)
    return await outcomes(page)


async def press(page, name):
    """Press the button of a sheet, and wait for the operation that it makes; return its number."""
    await page.get_by_role("button", name=name, exact=True).click()
    await page.wait_for_url(re.compile(r"/operations/\d+$"))
    return int(page.url.rpartition("/")[2])
