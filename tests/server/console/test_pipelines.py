# SPDX-License-Identifier: MIT
"""The pages about pipelines: numbers are right, bulk changes say first what they do, and do that."""

import pytest

from redrive.access import Role
from redrive.pipeline import TaskState
from tests.server.api.pipeline_functions import make_pipeline
from tests.server.console.html import page_of


@pytest.fixture(autouse=True)
async def _reports(desk):
    """A pipeline that has had three submissions, one of which has an unknown outcome, and one waits for a slot."""
    await make_pipeline(desk)


async def form_of(browser, path, end):
    page = page_of(await browser.get(path))
    return next(form for form in page.forms if form.method == "post" and form.action.endswith(end))


async def unknown(desk):
    (task,) = await desk.pipelines.tasks("reports", states=[TaskState.UNKNOWN])
    return task


async def test_the_list_links_each_number_to_the_tasks_it_counts(browser):
    page = page_of(await browser.get("/pipelines"))
    assert {"/pipelines/reports", "/pipelines/reports/stuck", "/pipelines/reports/tasks?state=unknown"} <= set(
        page.links
    )
    tasks = page_of(await browser.get("/pipelines/reports/tasks?state=unknown"))
    assert sum("/tasks/" in link for link in tasks.links) == 1


async def test_a_pipeline_shows_its_stages_and_the_next_slot_of_a_destination(browser):
    page = page_of(await browser.get("/pipelines/reports"))
    for word in ("Receive", "Process", "Batch", "Send", "lab", "archive"):
        assert word in page.text
    assert "/pipelines/reports/tasks?destination=lab&state=waiting" in page.links


async def test_what_is_stuck_is_listed_with_the_reason(browser, desk):
    page = page_of(await browser.get("/pipelines/reports/stuck"))
    assert "no answer" in page.text
    assert f"/pipelines/reports/tasks/{(await unknown(desk)).id}" in page.links


async def test_what_waits_is_sent_now_after_a_page_with_its_count(browser, desk):
    assert "/pipelines/reports/send-now?destination=lab" in page_of(await browser.get("/pipelines/reports")).links
    address = "/pipelines/reports/send-now?destination=lab"
    assert "1 task , 1 item" in page_of(await browser.get(address)).text
    form = await form_of(browser, address, "/send-now")
    pressed = [await browser.post(form.action, data={**form.fields, "reason": "they ask for it"}) for _ in range(2)]
    assert (pressed[0].headers["location"], pressed[1].status_code) == ("/pipelines/reports", 409)
    (slot,) = await desk.pipelines.slots("reports", "lab")
    assert slot.closed_by == "person"
    refused = await browser.post(form.action, data={"destination": "lab"})
    assert refused.status_code == 409


async def test_a_destination_is_held_with_a_reason_and_released(browser, desk):
    form = await form_of(browser, "/pipelines/reports/hold?destination=lab", "/hold")
    await browser.post(form.action, data={**form.fields, "reason": "they move"})
    held = {each.name: each.reason for each in await desk.pipelines.destinations("reports") if each.is_held}
    assert held == {"lab": "they move"}
    assert "they move" in page_of(await browser.get("/pipelines/reports")).text
    form = await form_of(browser, "/pipelines/reports", "/release")
    await browser.post(form.action, data=form.fields)
    assert not any(each.is_held for each in await desk.pipelines.destinations("reports"))
    assert (await browser.get("/pipelines/reports/hold?destination=none")).status_code == 404


async def test_all_unknown_tasks_are_sent_again_after_a_dry_run(browser, desk):
    path = "/pipelines/reports/again?verb=resend-unknown"
    assert "Resend 1 task" in page_of(await browser.get(path)).text
    form = await form_of(browser, path, "/again")
    done = page_of(await browser.post(form.action, data={**form.fields, "reason": "they lost it"}))
    assert "1 task is done again." in done.text
    assert await desk.pipelines.tasks("reports", states=[TaskState.UNKNOWN]) == []
    again = await browser.post(form.action, data=form.fields)
    assert "0 tasks are done again." in page_of(again).text


async def test_a_person_says_that_a_shipment_has_arrived(browser, desk):
    task = await unknown(desk)
    form = await form_of(browser, f"/pipelines/reports/tasks/{task.id}", "/resolve")
    await browser.post(form.action, data={**form.fields, "arrived": "yes", "reason": "asked them"})
    assert (await desk.pipelines.show(task.id)).task.state is TaskState.DONE
    assert "asked them" in page_of(await browser.get(f"/pipelines/reports/tasks/{task.id}")).text


async def test_a_waiting_task_is_cancelled_and_revived(browser, desk):
    (task,) = [each for each in await desk.pipelines.tasks("reports") if each.stage == "batch"]
    for verb, state in (("cancel", TaskState.CANCELLED), ("revive", TaskState.WAITING)):
        form = await form_of(browser, f"/pipelines/reports/tasks/{task.id}", f"/{verb}")
        assert (await browser.post(form.action, data=form.fields)).status_code == 303
        assert (await desk.pipelines.show(task.id)).task.state is state


async def test_a_viewer_looks_and_changes_nothing(as_role):
    viewer = as_role(Role.VIEWER)
    page = page_of(await viewer.get("/pipelines/reports"))
    assert page.disabled
    assert all("operator" in why for why in page.disabled)
    assert (await viewer.post("/pipelines/reports/hold", data={"destination": "lab"})).status_code == 403


async def test_a_pipeline_that_is_not_there_is_a_page_that_says_so(browser):
    assert (await browser.get("/pipelines/none")).status_code == 404
    assert (await browser.get("/pipelines/reports/tasks/none")).status_code == 404
