# SPDX-License-Identifier: MIT
"""Operations: what is under way, what becomes of each message, and what a person can decide."""

import re

import pytest

from redrive.access import Role
from redrive.server.console.operation_charts import destinations_of, results_over_time
from redrive.worker import Worker
from tests.server.api.conftest import AT_ONCE
from tests.server.console.conftest import HOSTILE
from tests.server.console.html import page_of


async def test_the_list_has_those_under_way_first_and_every_one_leads_to_its_page(seeded, browser):
    await seeded.recovery.recover("queue:orders", at=3_600, actor="ben", reason="tonight")
    page = page_of(await browser.get("/operations"))
    assert "1 operation under way" in page.text
    assert page.text.index("tonight") < page.text.index("it is mended")
    assert {"/operations/1", "/operations/2", "/operations/2/cancel"} <= set(page.links)


async def test_an_empty_store_has_no_operations(browser):
    page = page_of(await browser.get("/operations"))
    assert "No operation is over yet" in page.text


@pytest.mark.usefixtures("seeded")
async def test_the_figures_of_an_operation_add_up_and_each_opens_its_messages(browser):
    answer = await browser.get("/operations/1")
    page = page_of(answer)
    figures = [int(n) for n in re.findall(r'<div class="n">([\d,]+)</div>', answer.text)]
    assert sum(figures) == 1
    assert "1 of 1 have had their turn" in page.text
    for link in [each for each in page.links if "outcome=" in each and each.startswith("/operations/1?")]:
        shown = page_of(await browser.get(link.partition("#")[0]))
        assert "No message of it is" in shown.text or "unconfirmed" in shown.text
    assert "four" not in page.text  # bodies are not in lists
    assert (await browser.get("/operations/99")).status_code == 404


async def test_why_messages_failed_again_is_said_by_cause_and_leads_to_the_list(seeded, browser):
    worker = Worker()

    @worker.handler("bills", recoverability=AT_ONCE, slow_down=None)
    async def pay(bill: str) -> None:
        raise KeyError(bill)

    await worker.run(seeded.broker, until_idle=True)
    await seeded.recovery.ingest()
    page = page_of(await browser.get("/operations/1"))
    assert "1 failed again" in page.text
    assert "Why they failed again" in page.text
    assert "KeyError" in page.text
    assert "/failed/recover?q=operation%3A1+outcome%3Afailed-again" in page.links
    assert any(
        link.startswith("/failed/list?q=operation%3A1+outcome%3Afailed-again+status%3Aany+group") for link in page.links
    )


async def test_newcomers_are_counted_and_can_be_recovered_too(seeded, browser):
    await seeded.recovery.recover("queue:orders", actor="ben")
    from tests.server.api.conftest import make_failures

    await make_failures(seeded, bodies=("late",))
    page = page_of(await browser.get("/operations/2"))
    assert "1 more message matches since you asked" in page.text
    assert "/failed/recover?q=queue%3Aorders" in page.links


async def test_an_operation_is_paused_resumed_slowed_and_cancelled_from_its_page(seeded, signed_in):
    await seeded.recovery.recover("queue:orders", at=3_600, actor="ben")
    browser, csrf = signed_in
    send = {"csrf": csrf, "to": "list", "reason": "wait a little"}
    answer = await browser.post("/operations/2/pause", data=send)
    assert (answer.status_code, answer.headers["location"]) == (303, "/operations")
    assert (await seeded.recovery.operation(2)).state.word == "paused"
    assert "Resume" in page_of(await browser.get("/operations/2")).text
    answer = await browser.post("/operations/2/resume", data={"csrf": csrf})
    assert answer.headers["location"] == "/operations/2"
    await browser.post("/operations/2/rate", data={"csrf": csrf, "rate": "12.5"})
    assert (await seeded.recovery.operation(2)).plan.rate == 12.5
    asked = page_of(await browser.get("/operations/2/cancel"))
    assert "When it returns, nothing more is sent." in asked.text
    assert "3 messages are released" in asked.text
    await browser.post("/operations/2/cancel", data={"csrf": csrf, "reason": "enough"})
    assert (await seeded.recovery.operation(2)).state.word == "cancelled"
    await browser.post("/operations/2/acknowledge", data={"csrf": csrf})
    page = page_of(await browser.get("/operations/2"))
    assert "acknowledged by ann" in page.text
    assert "cancelled it: “enough”" in page.text
    assert "over" in page_of(await browser.get("/operations/2/cancel")).disabled[0]


async def test_a_wrong_rate_is_refused_with_a_sentence(seeded, signed_in):
    await seeded.recovery.recover("queue:orders", at=3_600, actor="ben")
    browser, csrf = signed_in
    answer = await browser.post("/operations/2/rate", data={"csrf": csrf, "rate": "fast"})
    assert answer.status_code == 422
    assert "no number" in page_of(answer).text
    assert (await browser.post("/operations/2/pause", data={})).status_code == 403


async def test_canaries_that_stopped_an_operation_leave_a_decision(seeded, browser):
    await seeded.recovery.recover("queue:orders", canary=1, actor="ben")
    await seeded.recovery.step()
    worker = Worker()

    @worker.handler("orders", recoverability=AT_ONCE, slow_down=None)
    async def ship(order: str) -> None:
        raise ConnectionError(order)

    await worker.run(seeded.broker, until_idle=True)
    await seeded.recovery.ingest()
    await seeded.recovery.step()
    page = page_of(await browser.get("/operations/2"))
    assert "The canaries stopped it: 1 of the first 1 failed again" in page.text
    assert "2 messages wait for you to decide" in page.text
    assert "First 1: stopped" in page.text


@pytest.mark.usefixtures("seeded")
async def test_a_viewer_sees_buttons_of_operations_that_say_why(seeded, as_role):
    await seeded.recovery.recover("queue:orders", at=3_600, actor="ben")
    viewer = as_role(Role.VIEWER)
    assert "ann is viewer, and this needs operator" in page_of(await viewer.get("/operations/2")).disabled
    assert (await viewer.post("/operations/2/pause", data={})).status_code == 403


async def test_hostile_reasons_are_shown_and_never_run(seeded, browser):
    await seeded.recovery.recover("queue:orders", at=3_600, actor=HOSTILE, reason=HOSTILE)
    for path in ("/operations", "/operations/2", "/operations/2/cancel"):
        answer = await browser.get(path)
        assert answer.status_code == 200
        assert "<script>alert" not in answer.text
        assert "\u202e" not in answer.text


def sample(second, **lanes):
    return {"at": f"2026-11-17T10:00:{second:02d}+00:00", "sent": 0, "lanes": lanes}


def test_results_over_time_are_differences_and_add_up():
    samples = [
        sample(0, orders={"succeeded": 1}),
        sample(5, orders={"succeeded": 4, "failed-again": 1}),
        sample(20, orders={"succeeded": 4, "failed-again": 2}, bills={"succeeded": 3}),
    ]
    chart = results_over_time(samples)
    assert (chart["step"], chart["succeeded"], chart["failed_again"]) == (5, [1, 3, 0, 0, 3], [0, 1, 0, 0, 1])
    assert [row[1:] for row in chart["rows"]] == [(3, 1), (3, 1), (1, 0)]
    assert results_over_time(samples[:1]) is None


def test_a_destination_says_what_became_of_its_messages_and_who_sends():
    found = destinations_of(
        [sample(0, orders={"succeeded": 2, "forwarded": 3, "pending": 9}, **{"": {"pending": 4}})],
        [{"name": "orders", "session": "s1"}],
        [{"name": "orders", "ready": 7}],
    )
    assert [
        (each["name"], each["turned"], each["unconfirmed"], each["served_by"], each["ready"]) for each in found
    ] == [("orders", 5, 3, "s1", 7)]
    assert destinations_of([], [], []) == []


async def test_the_page_of_an_operation_follows_the_work_of_other_processes(seeded, browser):  # noqa: ARG001 - it has one
    page = (await browser.get("/operations/1")).text
    assert 'data-topics="operation:1 operations"' in page, "only this process names the operation that has changed"
