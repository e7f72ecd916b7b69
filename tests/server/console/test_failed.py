# SPDX-License-Identifier: MIT
"""Failed messages in groups and one by one, through one filter."""

import pytest

from redrive.access import Role
from redrive.server.console.filter_bar import chips_of, narrowed_to, status_of, terms_of, with_status
from redrive.server.console.group_rows import brief_title, is_rising
from tests.server.api.conftest import make_failures
from tests.server.console.html import page_of


def test_a_filter_is_taken_apart_into_chips_each_with_the_rest():
    chips = chips_of('status:any queue:a,b age<24h "no such" attempts>=3')
    assert [(each["key"], each["value"]) for each in chips] == [
        ("queue", "a, b"),
        ("failed", "in the last 24h"),
        ("text", "no such"),
        ("attempts", "at least 3"),
    ]
    assert chips[0]["without"] == 'status:any age<24h "no such" attempts>=3'
    assert terms_of("a \"b c\" 'd e'f") == ["a", '"b c"', "'d e'f"]


def test_tabs_change_the_status_and_nothing_else():
    assert with_status("queue:a status:archived", "") == "queue:a"
    assert with_status("queue:a", "resolved") == "status:resolved queue:a"
    assert status_of("status:archived x") == "archived"
    assert status_of("x") == ""


def test_what_is_ticked_narrows_the_filter():
    assert narrowed_to("age<1h", "exception", ["ab", "cd"]) == "age<1h group:ab,cd"
    assert narrowed_to("queue:a age<1h", "queue", ["b c"]) == 'age<1h queue:"b c"'
    assert narrowed_to("age<1h", "exception", []) == "age<1h"


@pytest.mark.parametrize(
    ("title", "brief"),
    [
        ("shop.errors.ProviderTimeout in shop.charge: 9 failures", "ProviderTimeout in shop.charge: 9 failures"),
        ("no answer from api.example.org in time", "no answer from api.example.org in time"),
        ("shop.errors.ProviderTimeout is new", "shop.errors.ProviderTimeout is new"),
    ],
)
def test_a_title_is_said_without_the_module_of_its_exception(title, brief):
    assert brief_title(title) == brief


def test_a_group_rises_if_much_more_fails_than_usually():
    assert is_rising([1, 0, 1, 0, 20, 20])
    assert not is_rising([20, 20, 20, 20, 20, 20])
    assert not is_rising([0, 0, 0, 0, 1, 2])
    assert not is_rising([])


@pytest.mark.usefixtures("seeded")
async def test_groups_have_their_number_their_place_and_their_last_words(browser):
    page = page_of(await browser.get("/failed"))
    assert "ConnectionError" in page.text
    assert "the warehouse does not take three" in page.text
    assert "3 messages" in page.text
    assert "3 of 3" in page.text
    assert "Sent, unconfirmed 1" in page.text


@pytest.mark.usefixtures("seeded")
async def test_the_filter_bar_suggests_terms_with_their_counts(browser):
    html = (await browser.get("/failed")).text
    assert '<datalist id="suggested">' in html
    assert '<option value="exception:ConnectionError">3 messages</option>' in html


@pytest.mark.usefixtures("seeded")
async def test_every_way_to_group_and_to_sort_has_an_address(browser):
    for query in ("by=queue", "by=type", "sort=latest", "sort=oldest", "q=status:any&by=queue", "edit=true"):
        assert (await browser.get(f"/failed?{query}")).status_code == 200, query


@pytest.mark.usefixtures("seeded")
async def test_typing_adds_a_term_to_the_filter(browser):
    answer = await browser.get("/failed", params={"q": "queue:orders", "add": "age<1h"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/failed?q=queue%3Aorders+age%3C1h")


@pytest.mark.usefixtures("seeded")
async def test_a_filter_that_matches_nothing_offers_to_leave_terms_out(browser):
    page = page_of(await browser.get("/failed?q=queue:orders exception:KeyError"))
    assert "Nothing matches this filter" in page.text
    assert "/failed?q=queue%3Aorders" in page.links


async def test_a_wrong_filter_marks_the_term_and_says_what_to_write(browser):
    for path in ("/failed", "/failed/list", "/failed/recover"):
        answer = await browser.get(path, params={"q": "queue:orders quue:x"})
        assert answer.status_code == 422
        page = page_of(answer)
        assert "did you mean 'queue'?" in page.text
        assert "<mark>quue x</mark>" in answer.text


async def test_nothing_failed_is_said_so(desk, browser):
    await desk.broker.declare("orders")
    assert "Nothing has failed." in page_of(await browser.get("/failed")).text
    assert "Nothing has failed." in page_of(await browser.get("/failed/list")).text


async def test_a_long_list_has_pages_that_go_through_all_of_it(desk, browser):
    await make_failures(desk, bodies=[f"order {number}" for number in range(120)])
    seen, path = [], "/failed/list"
    while path:
        page = page_of(await browser.get(path))
        seen += [link for link in page.links if link.startswith("/failed/") and len(link.partition("?")[0]) == 40]
        path = next((link for link in page.links if "cursor=" in link), "")
    assert len(seen) == len(set(seen)) == 120


@pytest.mark.usefixtures("seeded")
async def test_a_view_is_saved_and_leads_to_its_filter(browser):
    answer = await browser.post("/failed/views", data={"name": "mine", "q": "queue:orders age<1d", "by": "queue"})
    assert answer.status_code == 303
    assert answer.headers["location"] == "/failed?q=queue%3Aorders+age%3C1d&by=queue"
    assert "mine" in page_of(await browser.get("/failed")).text


@pytest.mark.usefixtures("seeded")
async def test_a_person_limited_to_queues_sees_their_failures_alone(as_role):
    browser = as_role(Role.OPERATOR, queues=("orders",))
    page = page_of(await browser.get("/failed?q=status:any"))
    assert "ConnectionError" in page.text
    assert "ValueError" not in page.text


async def test_a_group_gets_an_owner_a_note_and_rest(seeded, browser):
    group = (await seeded.recovery.groups("exception:ConnectionError"))[0]
    path = f"/failed/list?q=group%3A{group.id}"
    page = page_of(await browser.get(path))
    notes = next(form for form in page.forms if form.action.endswith("/notes"))
    for _ in range(2):
        answer = await browser.post(notes.action, data={**notes.fields, "text": "seen before"})
        assert answer.headers.get("location", path) == path
    state = f"/failed/groups/{group.id}/state"
    await browser.post(state, data={"owner": "ben"})
    await browser.post(state, data={"snooze": "8h"})
    said = page_of(await browser.get(path)).text
    assert said.count("seen before") == 1
    assert "ben" in said
    assert "Snoozed until" in said
    assert (await seeded.recovery.groups("exception:ConnectionError"))[0].is_snoozed
    await browser.post(state, data={"snooze": "wake"})
    assert not (await seeded.recovery.groups("exception:ConnectionError"))[0].is_snoozed
    assert (await browser.post(state, data={"snooze": "forever"})).status_code in (400, 422)


async def test_a_viewer_decides_nothing_about_a_group(seeded, as_role):
    group = (await seeded.recovery.groups("exception:ConnectionError"))[0]
    answer = await as_role(Role.VIEWER).post(f"/failed/groups/{group.id}/state", data={"owner": "ben"})
    assert answer.status_code == 403
