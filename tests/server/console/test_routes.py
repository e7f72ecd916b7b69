# SPDX-License-Identifier: MIT
"""The pages about routes: numbers are right, forms do what they say, and a forbidden one says why."""

import pytest

from redrive.access import Role
from redrive.broker import tallies
from redrive.broker.port import find_ability
from redrive.routes import from_queue, match, route, to_queue
from tests.server.console.conftest import HOSTILE
from tests.server.console.html import page_of


@pytest.fixture
async def big(desk):
    """A route with three events that wait and two that are dead, of which a day is counted."""
    for queue in ("orders", "billing"):
        await desk.broker.declare(queue)
    await desk.routes.add(route("big", source=from_queue("orders")) | match("body.total > 100") >> to_queue("billing"))
    queue = (await desk.routes.show("big")).queue
    await desk.broker.send_many(queue, ["event"] * 5)
    for delivery in await desk.broker.receive(queue, max_messages=2):
        await delivery.dead_letter("refused", HOSTILE)
    store = find_ability(desk.broker.engine, tallies.Tallying)
    store.tally({("route", "big", "sent"): 1_410, ("route", "big", "filtered"): 96, ("route", "big", "dead"): 2})
    await desk.history.flush()
    return desk


async def forms_of(browser, path):
    page = page_of(await browser.get(path))
    return {form.action.partition("?")[0].rpartition("/")[2]: form for form in page.forms if form.method == "post"}


@pytest.mark.usefixtures("big")
async def test_the_list_shows_what_waits_what_is_dead_and_what_became_of_a_day(browser):
    page = page_of(await browser.get("/routes"))
    assert "running" in page.text
    assert "at least once" in page.text
    assert "1,410" in page.text
    assert {"/routes/big", "/routes/big#dead"} <= set(page.links)


@pytest.mark.usefixtures("big")
async def test_a_route_shows_what_passed_each_of_its_parts(browser):
    answer = await browser.get("/routes/big")
    page = page_of(answer)
    for words in ("1,508 came in", "1,412 passed", "96 filtered out", "1,410 sent"):
        assert words in page.text
    assert page.text.count("refused") == 2
    assert "<script>alert" not in answer.text
    assert "/routes/big/replay" in page.links


async def test_no_route_is_an_empty_page_with_the_command_that_adds_one(browser):
    assert "redrive routes apply" in page_of(await browser.get("/routes")).text
    assert (await browser.get("/routes/none")).status_code == 404


async def test_a_route_is_paused_with_a_reason_and_resumed(browser, big):
    form = (await forms_of(browser, "/routes/big/pause"))["pause"]
    answer = await browser.post(form.action, data={**form.fields, "reason": "they count"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/routes/big")
    found = await big.routes.show("big")
    assert (found.state, found.reason) == ("paused", "they count")
    page = page_of(await browser.get("/routes/big"))
    assert "they count" in page.text
    form = (await forms_of(browser, "/routes/big"))["resume"]
    await browser.post(form.action, data=form.fields)
    assert (await big.routes.show("big")).state == "running"


async def test_dead_events_are_replayed_once_however_often_the_button_is_pressed(browser, big):
    assert "Replay 2 dead events" in page_of(await browser.get("/routes/big/replay")).text
    form = (await forms_of(browser, "/routes/big/replay"))["replay"]
    first = await browser.post(form.action, data={**form.fields, "max_messages": "1"})
    again = await browser.post(form.action, data={**form.fields, "max_messages": "1"})
    assert (first.status_code, again.status_code) == (303, 409)
    assert (await big.routes.show("big")).dead == 1


async def test_draining_a_route_says_what_it_does_first(browser, big):
    page = page_of(await browser.get("/routes/big/drain"))
    assert "is removed when it has delivered what it has" in page.text
    form = (await forms_of(browser, "/routes/big/drain"))["drain"]
    assert (await browser.post(form.action, data={**form.fields, "within": "60"})).status_code == 303
    assert (await big.routes.show("big")).state == "draining"


@pytest.mark.usefixtures("big")
async def test_an_event_on_trial_shows_what_each_step_did(browser):
    form = (await forms_of(browser, "/routes/big/test"))["test"]
    typed = {**form.fields, "content_type": "application/json"}
    passed = page_of(await browser.post(form.action, data={**typed, "body": '{"total": 250}'}))
    assert "passed" in passed.text
    assert "would" in passed.text
    assert "consumed" in page_of(await browser.post(form.action, data={**typed, "body": '{"total": 5}'})).text


@pytest.mark.usefixtures("big")
async def test_a_tap_without_a_script_shows_what_passed_in_a_second(browser):
    page = page_of(await browser.get("/routes/big/tap"))
    assert "Nothing has passed yet" in page.text


@pytest.mark.usefixtures("big")
async def test_a_viewer_sees_buttons_that_say_why_they_cannot_be_pressed(as_role):
    viewer = as_role(Role.VIEWER)
    page = page_of(await viewer.get("/routes/big"))
    assert page.disabled
    assert all("operator" in why for why in page.disabled)
    assert (await viewer.post("/routes/big/pause", data={"reason": "x"})).status_code == 403


async def test_routes_of_two_applications_have_addresses_of_their_own(browser, desk):
    for application in ("one", "two"):
        await desk.broker.declare(f"from-{application}")
        await desk.broker.declare(f"to-{application}")
        source = from_queue(f"from-{application}")
        await desk.routes.add(route("big", source=source, application=application) >> to_queue(f"to-{application}"))
    assert {"/routes/big?application=one", "/routes/big?application=two"} <= set(
        page_of(await browser.get("/routes")).links
    )
    assert "queue to-two" in page_of(await browser.get("/routes/big?application=two")).text
