# SPDX-License-Identifier: MIT
"""The sheet: what would be done, and then the button; without a script."""

from datetime import UTC

import pytest

from redrive.access import Role
from redrive.errors import InvalidRequest
from redrive.server.console import sheet_form
from redrive.server.console.forms import Form
from redrive.server.console.text_formats import zone_of
from tests.server.console.html import page_of


def form_of(**given):
    return Form(list(given.items()))


async def sheet(browser, path):
    """Return the fields of the sheet at an address, as a browser would send them."""
    answer = await browser.get(path)
    assert answer.status_code == 200, answer.text[:500]
    return next(form for form in page_of(answer).forms if form.method == "post" and form.action != "/failed/views")


@pytest.mark.usefixtures("seeded")
async def test_the_sheet_says_how_many_where_to_and_how_it_is_there(browser):
    page = page_of(await browser.get("/failed/recover?q=queue:orders"))
    assert "Recover 3 messages" in page.text
    assert "3 match" in page.text
    assert "3 can be sent" in page.text
    assert "no worker" in page.text
    assert "still failing: ConnectionError" in page.text
    assert "redrive recover queue:orders" in page.text


async def test_pressing_the_button_requests_the_operation_once(seeded, browser):
    form = await sheet(browser, "/failed/recover?q=queue:orders")
    typed = {**form.fields, "reason": "it is back", "rate": "20", "canary": "1", "do": "request"}
    first = await browser.post(form.action, data=typed)
    again = await browser.post(form.action, data=typed)
    assert (first.status_code, first.headers["location"]) == (303, "/operations/2")
    assert again.headers.get("location") == "/operations/2", again.text
    made = await seeded.recovery.operation(2)
    assert (made.progress.total, made.reason, made.plan.rate, made.plan.canary.count) == (3, "it is back", 20.0, 1)
    assert made.actor == "ann (10.0.0.7)"


@pytest.mark.parametrize("kind", ["archive", "resolve"])
async def test_what_sends_nothing_has_a_sheet_as_well(seeded, browser, kind):
    form = await sheet(browser, f"/failed/{kind}?q=queue:orders")
    assert "canary" not in form.fields
    answer = await browser.post(form.action, data={**form.fields, "do": "request"})
    assert answer.status_code == 303
    assert (await seeded.recovery.operation(2)).plan.kind.value == kind


async def test_archived_messages_can_be_restored(seeded, browser):
    await seeded.recovery.archive("queue:orders")
    await seeded.recovery.step()
    form = await sheet(browser, "/failed/restore?q=status:archived")
    assert (await browser.post(form.action, data={**form.fields, "do": "request"})).status_code == 303
    await seeded.recovery.step()
    assert await seeded.recovery.count("queue:orders") == 3


async def test_what_is_ticked_is_what_is_meant(seeded, browser):
    group = (await seeded.recovery.groups("exception:ConnectionError"))[0]
    page = page_of(await browser.get("/failed/recover", params={"q": "age<1d", "g": [group.id], "by": "exception"}))
    assert f"group:{group.id}" in page.text
    one = (await seeded.recovery.failed("queue:orders"))[0]
    page = page_of(await browser.get("/failed/recover", params={"id": [one.id]}))
    assert "Recover 1 message" in page.text


@pytest.mark.usefixtures("seeded")
async def test_looking_again_shows_what_a_change_would_do(browser):
    form = await sheet(browser, "/failed/recover?q=queue:orders")
    answer = await browser.post(
        form.action, data={**form.fields, "set_headers": "tenant=acme", "limit": "2", "do": "look"}
    )
    page = page_of(answer)
    assert answer.status_code == 200
    assert "Recover 2 messages" in page.text
    assert "tenant" in page.text
    assert "acme" in page.text
    assert "--set-header tenant=acme" in page.text


@pytest.mark.usefixtures("seeded")
async def test_what_is_wrong_comes_back_with_the_form_as_it_was(browser):
    form = await sheet(browser, "/failed/recover?q=queue:orders")
    for wrong, said in (
        ({"rate": "fast"}, "'fast' is no number"),
        ({"limit": "0"}, "limit"),
        ({"redirect": "nowhere"}, "nowhere"),
        ({"set_json": "no equals"}, "one to a line"),
        ({"at": "tomorrow"}, "is no time"),
    ):
        answer = await browser.post(
            form.action, data={**form.fields, "reason": "kept <words>", "do": "request", **wrong}
        )
        assert answer.status_code in (404, 409, 422, 400), (wrong, answer.status_code)
        assert said in page_of(answer).text, wrong
        assert "kept &lt;words&gt;" in answer.text


async def test_a_viewer_cannot_open_the_sheet_nor_send_its_form(as_role, seeded):
    browser = as_role(Role.VIEWER)
    assert (await browser.get("/failed/recover?q=queue:orders")).status_code == 403
    answer = await browser.post("/failed/recover", data={"q": "queue:orders", "do": "request"})
    assert answer.status_code == 403
    assert [each.number for each in await seeded.recovery.operations()] == [1]


async def test_a_form_of_a_session_needs_its_token(signed_in, desk):
    browser, csrf = signed_in
    await desk.broker.declare("orders")
    typed = {"q": "queue:orders", "do": "look"}
    assert (await browser.post("/failed/recover", data=typed)).status_code == 403
    assert (await browser.post("/failed/recover", data={**typed, "csrf": csrf})).status_code == 200


async def test_messages_that_another_operation_has_are_a_conflict_that_names_who_has_them(seeded, browser):
    await seeded.recovery.recover("queue:orders", limit=1, actor="ben")
    await seeded.recovery.step()
    (taken,) = await seeded.recovery.failed("status:retry-issued queue:orders")
    path = f"/failed/recover?id={taken.id}"
    page = page_of(await browser.get(path))
    assert "/operations/2" in page.links
    assert "0 can be sent" in page.text
    form = await sheet(browser, path)
    answer = await browser.post(form.action, data={**form.fields, "do": "request"})
    assert answer.status_code == 409, page_of(answer).text
    assert "ben" in page_of(answer).text


def test_above_ten_thousand_the_number_is_typed():
    assert sheet_form.must_confirm(10_001)
    assert not sheet_form.must_confirm(10_000)
    assert sheet_form.is_confirmed(form_of(confirm="10,001"), 10_001)
    assert not sheet_form.is_confirmed(form_of(confirm="10000"), 10_001)
    assert not sheet_form.is_confirmed(form_of(), 10_001)


def test_canaries_are_suggested_for_many_messages():
    assert sheet_form.first_values({"free": 101})["canary"] == "5"
    assert sheet_form.first_values({"free": 100})["canary"] == ""


def test_the_form_as_a_request():
    asked = sheet_form.asked_of(
        "recover",
        form_of(
            q="queue:a", limit="1,000", canary="5", patience="2m", rate="0.5", redirect="b", again="1",
            at="2026-11-16T09:30", set_json="/a=1\n/b=x=y", remove_headers="h", replace="old=new ", reason=" why ",
        ),
        zone_of("Europe/Berlin"),
    )  # fmt: skip
    assert asked["canary"] == {"count": 5, "max_failures": 0, "patience": 120.0}
    assert asked["at"] == "2026-11-16T09:30:00+01:00"
    assert asked["transform"] == {
        "set_json": {"/a": 1, "/b": "x=y"},
        "remove_headers": ["h"],
        "replace": [["old", "new"]],
    }
    assert (asked["limit"], asked["rate"], asked["again"], asked["reason"]) == (1_000, 0.5, True, "why")


def test_a_line_that_cannot_be_read_is_refused():
    with pytest.raises(InvalidRequest, match="one to a line"):
        sheet_form.transform_of(form_of(set_headers="just a name"))
    with pytest.raises(InvalidRequest, match="no whole number"):
        sheet_form.asked_of("archive", form_of(q="a", limit="x"), UTC)


def test_the_command_line_is_what_the_form_says():
    values = {
        "limit": "5",
        "canary": "2",
        "patience": "1m",
        "rate": "3",
        "redirect": "b c",
        "set_json": "/a=1",
        "reason": "it's back",
    }
    said = sheet_form.command_line("recover", "queue:a age<1h", values)
    assert said == (
        "redrive recover 'queue:a age<1h' --limit 5 --canary 2 --rate 3 --to 'b c' --patience 1m --set-json /a=1"
        """ --reason 'it'"'"'s back'"""
    )
    assert (
        sheet_form.command_line("archive", "queue:a", values)
        == "redrive archive queue:a --limit 5 --reason 'it'\"'\"'s back'"
    )
