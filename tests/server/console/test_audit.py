# SPDX-License-Identifier: MIT
"""The audit trail: who did what, refusals too, filtered and exported."""

import csv

import pytest

from redrive.access import Role
from tests.server.console.conftest import HOSTILE
from tests.server.console.html import page_of


async def test_entries_say_who_did_what_and_refusals_stand_out(seeded, as_role):
    await as_role(Role.VIEWER).post("/operations/1/pause", data={})
    page = page_of(await as_role().get("/audit"))
    assert "recover" in page.text
    assert "it is mended" in page.text
    assert "forbidden" in page.text
    assert "/operations/1" in page.links
    assert (await seeded.recovery.trail(limit=1))[0].outcome.startswith("forbidden")


@pytest.mark.usefixtures("seeded")
async def test_the_trail_is_filtered_and_each_term_can_be_taken_away(browser):
    page = page_of(await browser.get("/audit", params={"action": "recover", "actor": "none-here"}))
    assert "No entry matches" in page.text
    assert "/audit?action=recover" in page.links
    assert "it is mended" in page_of(await browser.get("/audit?action=recover")).text
    assert "No entry matches" in page_of(await browser.get("/audit?until=2020-01-01T00:00Z")).text
    wrong = await browser.get("/audit?since=yesterday")
    assert wrong.status_code == 400
    assert "ISO 8601" in page_of(wrong).text


async def test_the_export_has_every_entry_and_no_formula(seeded, browser):
    await seeded.recovery.audit("try", "queue:orders", actor="=cmd()", reason="", outcome="done")
    answer = await browser.get("/audit/export?action=try")
    assert answer.headers["content-type"].startswith("text/csv")
    assert "attachment" in answer.headers["content-disposition"]
    head, entry = csv.reader(answer.text.splitlines())
    assert dict(zip(head, entry, strict=True))["actor"] == "'=cmd()"


async def test_hostile_entries_are_shown_and_never_run(seeded, browser):
    await seeded.recovery.audit(HOSTILE, HOSTILE, actor=HOSTILE, reason=HOSTILE, outcome=HOSTILE)
    answer = await browser.get("/audit")
    assert "<script>alert" not in answer.text
    assert "\u202e" not in answer.text


async def test_a_person_limited_to_queues_does_not_see_the_trail(as_role):
    assert (await as_role(Role.ADMIN, queues=("orders",)).get("/audit")).status_code == 403
