# SPDX-License-Identifier: MIT
"""Stories of several people: who edits first, who may do what, who shares a filter, and who has only a keyboard."""

import asyncio
import json
import re

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import expect

from redrive.access import rights_of
from tests.browser.acts import go_signed_in, listens, press, row, sign_in, until, working
from tests.browser.conftest import postgres_in_torture
from tests.browser.store import PASSWORD, fail, payments

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(loop_scope="session")
async def people(desk):
    """Ana is an admin, bo an operator, vera a viewer."""
    for name, role in (("ana", "admin"), ("bo", "operator"), ("vera", "viewer")):
        await desk.access.add_user(name, PASSWORD, rights_of(role))


@pytest.mark.torture
@pytest.mark.usefixtures("people")
async def test_one_person_edits_a_message_and_another_learns_who_was_first(url, desk, serve, new_page, troubles):
    troubles.expected = ("409", "422", "400")
    await fail(desk, 5)
    failed = (await desk.recovery.failed("exception:CardDeclined"))[0]
    base = await serve(url, require_sign_in=True)
    ana, bo = await new_page(), await new_page()
    await go_signed_in(ana, base, "ana", f"/failed/{failed.id}")
    await go_signed_in(bo, base, "bo", f"/failed/{failed.id}/edit")
    await ana.get_by_role("link", name="Edit…").click()
    body = ana.get_by_role("textbox", name="Body")
    text = await body.input_value()
    await body.fill(text.replace("184.9", "184.9.1"))
    await ana.get_by_role("button", name="Send 1 edited copy").click()
    await expect(ana.get_by_role("alert")).to_contain_text("this is no JSON")
    await expect(body).to_have_attribute("aria-invalid", "true")
    await expect(body).to_have_accessible_description(re.compile("this is no JSON"))
    await expect(body).to_have_value(re.compile("184.9.1"))
    await body.fill(text.replace("184.9", "19.5").replace('"order": 0', '"order": 1'))
    await ana.get_by_role("button", name="Show the difference").click()
    changes = ana.get_by_role("region", name="What changes in the body")
    await expect(changes.get_by_role("deletion").last).to_contain_text("184.9")
    await expect(changes.get_by_role("insertion").last).to_contain_text("19.5")
    async with working(desk, payments(works=True)):
        await press(ana, "Send 1 edited copy")
        await until(ana, succeeded=1)
    await ana.goto(f"{base}/failed/{failed.id}")
    await ana.get_by_role("link", name="Journey of both").click()
    happened = ana.get_by_role("region", name="What happened")
    await expect(happened.get_by_role("link", name="recover 1").first).to_be_visible()
    await bo.get_by_role("textbox", name="Body").fill(json.dumps({"order": 2}))
    await bo.get_by_role("button", name="Send 1 edited copy").click()
    await expect(bo.get_by_role("alert")).to_contain_text("ana")
    await expect(bo.get_by_role("textbox", name="Body")).to_have_value(json.dumps({"order": 2}))


@pytest.mark.torture
@pytest.mark.usefixtures("people")
async def test_a_filter_with_quotes_and_a_time_goes_everywhere(url, desk, serve, new_page):
    await fail(desk, 5)
    base = await serve(url, require_sign_in=True)
    ana, bo = await new_page(), await new_page()
    await go_signed_in(ana, base, "ana", "/failed")
    for term in ('"charges timed out"', "age<1h"):
        await ana.get_by_label("Add to the filter").fill(term)
        await ana.keyboard.press("Enter")
    await _shows_the_filter(ana)
    await ana.reload()
    await _shows_the_filter(ana)
    address = ana.url
    await row(ana, "ProviderTimeout").get_by_role("link", name="4 messages").click()
    await expect(ana.get_by_role("region", name="Failures").get_by_role("article")).to_have_count(4)
    await ana.go_back()
    await _shows_the_filter(ana)
    await ana.get_by_text("Views", exact=True).click()
    await ana.get_by_label("Name of the view").fill("What timed out")
    await ana.get_by_role("button", name="Save").click()
    await _shows_the_filter(ana)
    await go_signed_in(bo, base, "bo", address.removeprefix(base))
    await _shows_the_filter(bo)
    await bo.goto(f"{base}/failed")
    await bo.get_by_text("Views", exact=True).click()
    await bo.get_by_role("link", name="What timed out ana").click()
    await _shows_the_filter(bo)
    await bo.get_by_role("link", name="Remove text charges timed out").click()
    await expect(bo.get_by_role("article")).to_have_count(2)


async def _shows_the_filter(page):
    bar = page.get_by_role("search", name="Filter failures")
    await expect(bar.get_by_role("link", name="Remove text charges timed out")).to_be_visible()
    await expect(bar.get_by_role("link", name="Remove failed in the last 1h")).to_be_visible()
    await expect(page.get_by_role("article")).to_have_count(1)


@postgres_in_torture
@pytest.mark.usefixtures("people")
async def test_a_viewer_looks_and_changes_nothing(url, desk, serve, page, troubles):
    troubles.expected = ("401", "403")
    await fail(desk, 5)
    failed = (await desk.recovery.failed("exception:CardDeclined"))[0]
    base = await serve(url, require_sign_in=True)
    await sign_in(page, base, "vera", f"/failed/{failed.id}")
    for name in ("Recover…", "Archive…", "Resolve…", "Edit…"):
        button = page.get_by_role("link", name=f"{name} (vera is viewer, and this needs operator)")
        await expect(button).to_be_disabled()
    csrf = await page.locator("[name=csrf]").first.input_value()
    await page.goto(f"{base}/failed/recover?id={failed.id}")
    await expect(page.get_by_role("heading", name="You may not do this")).to_be_visible()
    await expect(page.get_by_role("main")).to_contain_text("vera is viewer, and this needs operator")
    await page.go_back()
    form = {"csrf": csrf, "id": failed.id, "do": "request"}
    by_hand = await page.request.post(f"{base}/failed/recover", form=form, headers={"accept": "text/html"})
    assert by_hand.status == 403
    assert "needs operator" in await by_hand.text()
    await sign_in_again(page, base, "bo", f"/failed/recover?id={failed.id}")
    without = await page.request.post(f"{base}/failed/recover", form={"id": failed.id, "do": "request"})
    wrong = await page.request.post(f"{base}/failed/recover", form=form)
    assert (without.status, wrong.status) == (403, 403)
    assert await desk.recovery.operations() == []
    await press(page, "Recover 1 message")


async def sign_in_again(page, base, name, to):
    """Sign out, and in as somebody else."""
    await page.get_by_role("button", name="Sign out").click()
    await expect(page.get_by_role("button", name="Sign in")).to_be_visible()
    await sign_in(page, base, name, to)


@pytest.mark.usefixtures("people")
async def test_whoever_is_removed_is_asked_to_sign_in_at_once(url, desk, serve, page, troubles):
    troubles.expected = ("401", "403")
    await fail(desk, 5)
    token = await desk.access.create_token("ci", rights_of("operator"), actor="ana")
    base = await serve(url, require_sign_in=True)
    async with httpx.AsyncClient(base_url=base, headers={"authorization": f"Bearer {token.secret}"}) as program:
        assert (await program.get("/api/v1/failures/count")).status_code == 200
        await desk.access.revoke_token(token.info.id)
        assert (await program.get("/api/v1/failures/count")).status_code == 401
    await go_signed_in(page, base, "bo", "/failed")
    # otherwise a live update might find out before the button does
    await page.get_by_role("button", name="Live updates are on. Pause them.").click()
    await row(page, "CardDeclined").get_by_role("checkbox").check()
    await desk.access.remove_user("bo")
    await page.get_by_role("button", name="Recover…").click()
    await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    assert await desk.recovery.operations() == []


@postgres_in_torture
@pytest.mark.usefixtures("people")
async def test_a_keyboard_is_enough_from_signing_in_to_recovery(url, desk, serve, page):
    await fail(desk, 5)  # 4 time out, 1 is declined
    base = await serve(url, require_sign_in=True)
    await page.goto(base)
    await expect(page.get_by_label("Name")).to_be_focused()
    await page.keyboard.type("bo")
    await page.keyboard.press("Tab")
    await page.keyboard.insert_text(PASSWORD)
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("region", name="Needs attention")).to_be_visible()
    await listens(page)
    # both at once: the browser takes the later of two keys for itself if it comes late, as on a machine that is busy
    await asyncio.gather(page.keyboard.press("g"), page.keyboard.press("f"))
    await expect(page.get_by_role("heading", name="Failed", exact=True)).to_be_visible()
    await listens(page)
    await page.keyboard.press("j")
    await expect(row(page, "ProviderTimeout").get_by_role("link", name="ProviderTimeout", exact=True)).to_be_focused()
    await page.keyboard.press("x")
    await expect(page.get_by_role("status").filter(has_text="1 group, 4 messages")).to_be_visible()
    await page.keyboard.press("r")
    await expect(page.get_by_role("region", name="Recover 4 messages")).to_be_visible()
    async with working(desk, payments(works=True)):
        for _ in range(100):
            await page.keyboard.press("Tab")
            if await page.evaluate("document.activeElement.innerText") == "Recover 4 messages":
                break
        await page.keyboard.press("Enter")
        await page.wait_for_url(f"{base}/operations/1")
        await until(page, succeeded=4)


@pytest.mark.torture
@pytest.mark.usefixtures("people")
async def test_no_script_is_needed_from_signing_in_to_recovery(url, desk, serve, new_context):
    await fail(desk, 5)
    base = await serve(url, require_sign_in=True)
    page = await (await new_context(java_script_enabled=False)).new_page()
    await sign_in(page, base, "bo", "/failed")
    await row(page, "ProviderTimeout").get_by_role("checkbox").check()
    await page.get_by_role("button", name="Recover…").click()
    await page.get_by_role("textbox", name="How many the oldest first").fill("3")
    await page.get_by_role("button", name="Look again").click()
    await expect(page.get_by_role("region", name="Recover 3 messages")).to_be_visible()
    async with working(desk, payments(works=True)):
        await press(page, "Recover 3 messages")
        while "3 succeeded" not in await page.get_by_role("region", name="How far it is").aria_snapshot():
            await page.reload()
    await page.goto(f"{base}/failed")
    await expect(row(page, "ProviderTimeout").get_by_role("link", name="1 message", exact=True)).to_be_visible()
