# SPDX-License-Identifier: MIT
"""Stories of operators: from what needs attention to all resolved, and what happens when it does not go well."""

import re

import pytest
from playwright.async_api import expect

from tests.browser.acts import listens, number_in, outcomes, press, row, says, until, working
from tests.browser.conftest import postgres_in_torture
from tests.browser.store import fail, order, payments

pytestmark = pytest.mark.asyncio(loop_scope="session")


@postgres_in_torture
async def test_from_an_attention_line_to_all_resolved(url, desk, serve, page):
    await fail(desk, 15)  # 12 time out, 3 are declined
    base = await serve(url)
    await page.goto(f"{base}/")
    attention = page.get_by_role("region", name="Needs attention")
    await attention.get_by_role("link", name=re.compile("ProviderTimeout in .* is new: 12 failures")).click()
    await expect(page.get_by_role("heading", name="Failures", exact=True)).to_be_visible()
    await expect(page.get_by_role("region", name="Failures").get_by_role("article")).to_have_count(12)
    await page.get_by_role("link", name="Recover all 12…").click()
    sheet = page.get_by_role("region", name="Recover 12 messages")
    await says(sheet.get_by_role("region", name="Dry run"), "12 match 12 can be sent 0 taken")
    await sheet.get_by_role("group", name="Canary").get_by_label("How many").fill("2")
    await sheet.get_by_label("Reason").fill("the provider answers again")
    async with working(desk, payments(works=True)):
        assert await press(page, "Recover 12 messages") == 1
        await until(page, succeeded=12)
        await expect(page.get_by_role("list", name="Steps")).to_contain_text("All confirmed")
    if not url.startswith("sqlite"):  # the numbers are the same on both, and to open all of them takes long
        await _numbers_open_lists_of_that_length(page, base)


async def _numbers_open_lists_of_that_length(page, base):
    """Open every number of an operation, and of the overview, that a list stands behind."""
    found = await outcomes(page)
    for name, number in ((name, number) for name, number in found.items() if name in ("succeeded", "failed again")):
        await page.get_by_role("region", name="How far it is").get_by_role("link", name=f"{number} {name}").click()
        messages = page.get_by_role("region", name="Messages")
        rows = messages.get_by_role("row").filter(has=page.get_by_role("cell", name=name, exact=True))
        await expect(rows).to_have_count(number)
    for address, bar in (("/", "Main"), ("/failed", "Status")):
        await page.goto(f"{base}{address}")
        links = page.get_by_role("navigation", name=bar, exact=True).get_by_role(
            "link", name=re.compile(r"d [1-9]\d*$")
        )
        assert await links.count() == {"/": 1, "/failed": 2}[address], "failed; unresolved, resolved"
        for said, href in [(await each.inner_text(), await each.get_attribute("href")) for each in await links.all()]:
            await _opens_a_list_of_its_length(page, number_in(re.search(r"\d+$", said)[0]), f"{base}{href}")


async def _opens_a_list_of_its_length(page, number, address):
    await page.goto(address)
    groups = page.get_by_role("region", name="Groups").get_by_role("article")
    counts = [number_in(await each.inner_text()) for each in await groups.get_by_role("link", name="message").all()]
    assert sum(counts) == number, address
    await page.get_by_role("link", name=f"{number} of {number}").click()
    await expect(page.get_by_role("region", name="Failures").get_by_role("article")).to_have_count(number)


@postgres_in_torture
async def test_canaries_that_fail_stop_an_operation_until_a_person_decides(url, desk, serve, page):
    await fail(desk, 8)
    base = await serve(url)
    await page.goto(f"{base}/failed/recover?q=exception:ProviderTimeout")
    await page.get_by_role("group", name="Canary").get_by_label("How many").fill("2")
    async with working(desk, payments()):
        await press(page, "Recover 6 messages")
        decide = page.get_by_role("region", name="What to decide")
        await expect(decide).to_contain_text("4 messages wait for you to decide")
        assert await until(page, failed_again=2, to_come=4)
    await expect(decide.get_by_role("link", name="Look at 2 messages that failed again")).to_be_visible()
    causes = page.get_by_role("region", name="Why they failed again")
    await expect(causes.get_by_role("row", name=re.compile("ProviderTimeout"))).to_have_count(1)
    await page.get_by_role("link", name="Cancel…").click()
    await expect(page.get_by_role("definition").filter(has_text="4 messages are released")).to_be_visible()
    await page.get_by_label("Reason").fill("the provider is still away")
    await page.get_by_role("button", name="Cancel operation 1").click()
    await until(page, failed_again=2, cancelled=4, to_come=0)
    await expect(page.get_by_role("region", name="Who did what")).to_contain_text("the provider is still away")
    await page.goto(f"{base}/failed")
    await expect(row(page, "ProviderTimeout").get_by_role("link", name="6 messages")).to_be_visible()


@postgres_in_torture
async def test_an_operation_that_is_cancelled_half_way_says_the_same_after_a_restart(url, desk, serve, page, troubles):
    troubles.expected = ("ERR_", "503")  # the server is away for a moment
    await fail(desk, 100)
    base = await serve(url)
    await page.goto(f"{base}/failed/recover?q=exception:ProviderTimeout")
    await page.get_by_role("textbox", name="Rate").fill("1")
    await press(page, "Recover 80 messages")
    region = page.get_by_role("region", name="How far it is")
    await says(region, "80 to come", is_so=False)
    await page.get_by_role("link", name="Cancel…").click()
    await page.get_by_role("button", name="Cancel operation 1").click()
    await says(region, "0 to come")
    at_once = await outcomes(page)
    assert at_once["cancelled"] > 0 < at_once["unconfirmed"]
    await page.reload()
    assert await outcomes(page) == at_once
    await serve.stop(base)
    await serve.again(base)
    await page.goto(f"{base}/operations/1")
    assert await outcomes(page) == at_once
    assert (await desk.broker.inspect("payments")).ready == at_once["unconfirmed"]


async def test_what_was_ticked_is_what_is_sent_although_more_arrives(url, desk, serve, page):
    await fail(desk, 8)
    base = await serve(url)
    await page.goto(f"{base}/failed/list")
    failures = page.get_by_role("region", name="Failures")
    boxes = failures.get_by_role("checkbox", name=re.compile("^Choose [0-9a-f]{32}$"))
    await listens(page)
    await expect(boxes).to_have_count(8)
    chosen = [await boxes.nth(place).get_attribute("value") for place in (2, 5)]
    for each in chosen:
        await page.locator(f"[value='{each}']").check()
    await expect(page.get_by_role("status").filter(has_text="2 messages")).to_be_visible()
    before = [await each.get_attribute("value") for each in await boxes.all()]
    await page.get_by_label("Add to the filter").fill("queue:pay")
    await boxes.nth(2).focus()
    await desk.broker.send_many("payments", [order(number) for number in range(100, 104)])
    await payments().run(desk.broker, until_idle=True)
    await expect(page.get_by_role("button", name="4 new messages · show")).to_be_visible()
    assert [await each.get_attribute("value") for each in await boxes.all()] == before, "something moved"
    for each in chosen:
        await expect(page.locator(f"[value='{each}']")).to_be_checked()
    await expect(page.get_by_label("Add to the filter")).to_have_value("queue:pay")
    await page.get_by_role("button", name="4 new messages · show").click()
    await expect(boxes).to_have_count(12)
    await expect(page.get_by_role("status").filter(has_text="2 messages")).to_be_visible()
    await page.get_by_role("button", name="Recover…").click()
    await press(page, "Recover 2 messages")
    await until(page, unconfirmed=2)
    sent = await desk.recovery.failed("operation:1 status:any")
    assert {each.id for each in sent} == set(chosen)


@pytest.mark.torture
async def test_groups_are_archived_and_restored_and_snoozed(url, desk, serve, page):
    await fail(desk, 10)  # 8 time out, 2 are declined
    base = await serve(url)
    await page.goto(f"{base}/failed")
    await row(page, "CardDeclined").get_by_role("checkbox", name="Choose CardDeclined").check()
    await expect(page.get_by_role("status").filter(has_text="1 group, 2 messages")).to_be_visible()
    await page.get_by_role("button", name="Archive…").click()
    await press(page, "Archive 2 messages")
    await says(page.get_by_role("region", name="How far it is"), "2 of 2 have had their turn")
    await page.goto(f"{base}/failed")
    await expect(row(page, "CardDeclined")).to_have_count(0)
    await page.get_by_role("navigation", name="Status").get_by_role("link", name="Archived 2").click()
    await row(page, "CardDeclined").get_by_role("checkbox", name="Choose CardDeclined").check()
    await page.get_by_role("button", name="Restore…").click()
    await press(page, "Restore 2 messages")
    await says(page.get_by_role("region", name="How far it is"), "2 of 2 have had their turn")
    await page.goto(f"{base}/failed")
    await row(page, "CardDeclined").get_by_role("link", name="CardDeclined").click()
    about = page.get_by_role("region", name="About this group")
    await about.get_by_label("Snooze for").select_option("8 hours")
    await about.get_by_role("button", name="Snooze").click()
    await expect(about).to_contain_text("Snoozed until")
    await page.goto(f"{base}/")
    attention = page.get_by_role("region", name="Needs attention")
    await expect(attention).to_contain_text("ProviderTimeout")
    await expect(attention).not_to_contain_text("CardDeclined")
    await page.goto(f"{base}/failed")
    await expect(row(page, "CardDeclined")).to_contain_text("Snoozed until")
    await row(page, "CardDeclined").get_by_role("link", name="CardDeclined").click()
    await about.get_by_role("button", name="Wake").click()
    await expect(about).not_to_contain_text("Snoozed until")
