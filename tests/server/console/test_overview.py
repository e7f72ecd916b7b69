# SPDX-License-Identifier: MIT
"""The first page: what needs a person, and how things stand."""

import pytest

from redrive.access import Role
from redrive.server.console.overview import flags_of
from tests.server.api.conftest import make_failures
from tests.server.console.html import page_of


async def test_the_overview_says_what_needs_a_person_and_leads_there(seeded, browser):
    page = page_of(await browser.get("/"))
    assert "ConnectionError" in page.text
    assert "is new: 3 failures" in page.text
    group = (await seeded.recovery.groups("exception:ConnectionError"))[0]
    assert f"/failed/recover?q=group%3A{group.id}" in page.links


@pytest.mark.usefixtures("seeded")
async def test_the_figures_are_those_of_the_store(browser):
    page = page_of(await browser.get("/"))
    assert "Failed, unresolved 3" in page.text
    assert "Sent, unconfirmed 1" in page.text
    assert "waiting" in page.text


@pytest.mark.usefixtures("seeded")
async def test_every_span_has_its_chart(browser):
    for span in ("1h", "6h", "24h", "7d"):
        answer = await browser.get(f"/?span={span}")
        assert answer.status_code == 200
        assert "chart" in answer.text
    assert (await browser.get("/?span=8h")).status_code == 422


async def test_an_empty_store_is_a_first_run(browser):
    page = page_of(await browser.get("/"))
    assert "Nothing is here yet" in page.text
    assert "redrive queues declare orders" in page.text


@pytest.mark.usefixtures("seeded")
async def test_a_viewer_sees_buttons_that_say_why_they_cannot_be_pressed(as_role):
    page = page_of(await as_role(Role.VIEWER).get("/"))
    assert "ann is viewer, and this needs operator" in page.disabled
    assert not [link for link in page.links if link.startswith("/failed/recover")]


@pytest.mark.usefixtures("seeded")
async def test_a_person_limited_to_queues_sees_these_alone(as_role):
    page = page_of(await as_role(Role.OPERATOR, queues=("bills",)).get("/"))
    assert "bills" in page.text
    assert "orders" not in page.text
    assert "Failed, unresolved 0" in page.text


async def test_whatever_needs_a_person_is_there_however_much_it_is(desk, browser):
    for number in range(12):
        await make_failures(desk, f"queue-{number}", ("one",), type(f"Error{number}", (ValueError,), {}))
    page = page_of(await browser.get("/"))
    assert "12 things need attention" in page.text
    assert "4 more" in page.text
    assert len([link for link in page.links if link.startswith("/failed/list?q=group")]) == 12


def test_flags_that_would_cover_each_other_are_one():
    assert flags_of({3: 7, 20: 8, 22: 9, 24: 10, 60: 11}, 4) == [(3, "7"), (20, "8-10"), (60, "11")]
    assert flags_of({}, 4) == []
