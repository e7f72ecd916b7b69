# SPDX-License-Identifier: MIT
"""Queues and topics: what waits where, and forms that show their counts first."""

import pytest

from redrive.access import Role
from redrive.broker import Message, Rule, dead_letter_queue
from redrive.errors import InvalidRequest
from redrive.server.console.queue_forms import headers_of
from tests.server.console.conftest import HOSTILE
from tests.server.console.html import page_of


@pytest.mark.usefixtures("seeded")
async def test_the_list_says_what_is_in_each_queue_and_every_number_leads_to_it(browser):
    page = page_of(await browser.get("/queues"))
    assert "waiting" in page.text
    assert {"/queues/waiting", "/queues/waiting?state=ready#messages", "/queues/orders?state=dead#messages"} <= set(
        page.links
    )


async def test_an_empty_store_has_no_queues(browser):
    assert "No queue yet" in page_of(await browser.get("/queues")).text


async def test_a_queue_shows_its_messages_by_state_page_by_page(seeded, browser):
    await seeded.broker.send_many("waiting", [Message(f"body {n}".encode(), id=f"w{n}") for n in range(30)])
    page = page_of(await browser.get("/queues/waiting?state=ready"))
    assert "Ready 31" in page.text
    assert "w23" in page.text
    assert "w29" not in page.text
    following = next(link for link in page.links if "cursor=" in link)
    assert "w29" in page_of(await browser.get(following)).text
    assert "No message is scheduled" in page_of(await browser.get("/queues/waiting?state=scheduled")).text
    assert (await browser.get("/queues/nowhere")).status_code == 404


async def test_dead_letters_are_shown_with_why_and_can_be_resubmitted(seeded, signed_in):
    (delivery,) = await seeded.broker.receive("waiting")
    await delivery.dead_letter("TooOld", "it is of last year")
    browser, csrf = signed_in
    page = page_of(await browser.get("/queues/waiting?state=dead"))
    assert "TooOld" in page.text
    assert "it is of last year" in page.text
    assert "1 dead letter to waiting" in page_of(await browser.get("/queues/waiting/resubmit")).text
    answer = await browser.post("/queues/waiting/resubmit", data={"csrf": csrf, "key": "k1", "max_messages": ""})
    assert answer.headers["location"] == "/queues/waiting?did=resubmitted&n=1"
    assert "1 dead letter was sent again." in page_of(await browser.get(answer.headers["location"])).text
    assert (await seeded.broker.inspect("waiting")).ready == 1
    assert await seeded.broker.peek(dead_letter_queue("waiting")) == []


async def test_dead_letters_are_resubmitted_and_removed_one_by_one(seeded, as_role):
    await seeded.broker.send_many("waiting", ["two", "three", "four"])
    for delivery in await seeded.broker.receive("waiting", max_messages=4):
        await delivery.dead_letter("TooOld")
    browser, dead = as_role(), dead_letter_queue("waiting")
    first, second, third, _ = [each.sequence for each in await seeded.broker.peek(dead)]
    (form,) = [
        each for each in page_of(await browser.get("/queues/waiting?state=dead")).forms if "resubmit" in each.action
    ]
    page = page_of(await browser.get(form.action, params={"number": [first, third]}))
    assert f"2 dead letters to waiting, each in one transaction with its removal Numbers {first}, {third}" in page.text
    (sheet,) = [each for each in page.forms if each.method == "post" and each.action.endswith("/resubmit")]
    assert sheet.fields["number"] == str(first)
    answer = await browser.post(sheet.action, data={"key": "k1", "number": [first, third]})
    assert answer.headers["location"] == "/queues/waiting?did=resubmitted&n=2"
    assert [each.body for each in await seeded.broker.peek("waiting")] == [b"for a reader", b"three"]
    again = await browser.post(sheet.action, data={"key": "k2", "number": [first]})
    assert (again.status_code, (await seeded.broker.inspect("waiting")).ready) == (404, 2)
    untyped = await browser.post("/queues/waiting/purge", data={"number": [second], "shown": "1", "count": ""})
    assert (untyped.status_code, (await seeded.broker.inspect("waiting")).dead) == (422, 2)
    typed = await browser.post("/queues/waiting/purge", data={"number": [second], "shown": "1", "count": "1"})
    assert typed.headers["location"] == "/queues/waiting?did=purged&n=1"
    assert [each.body for each in await seeded.broker.peek(dead)] == [b"four"]
    assert (await as_role(Role.VIEWER).post(sheet.action, data={"number": [1]})).status_code == 403
    assert (await browser.post(sheet.action, data={"number": ["<b>"]})).status_code == 422


async def test_a_message_is_sent_once_however_often_the_button_is_pressed(seeded, signed_in):
    browser, csrf = signed_in
    form = {
        "csrf": csrf,
        "key": "k2",
        "body": '{"total": 7}',
        "subject": "order.placed",
        "headers": "customer: 7\nname: Ann: B",
    }
    first = await browser.post("/queues/waiting/send", data=form)
    assert (first.status_code, first.headers["location"]) == (303, "/queues/waiting?did=sent&n=1")
    again = await browser.post("/queues/waiting/send", data=form)
    assert again.status_code in (303, 409)
    sent = [each for each in await seeded.broker.peek("waiting") if each.message.subject == "order.placed"]
    assert [dict(each.message.headers) for each in sent] == [{"customer": 7, "name": "Ann: B"}]
    wrong = await browser.post("/queues/waiting/send", data={**form, "key": "k3", "headers": "no colon"})
    assert wrong.status_code == 422
    assert "no colon" in page_of(wrong).text


def test_headers_are_lines_with_a_colon():
    assert headers_of("a: 1\n b : true \nc: [1]\n\n") == {"a": 1, "b": True, "c": "[1]"}
    with pytest.raises(InvalidRequest):
        headers_of(": 1")


async def test_a_queue_is_purged_only_if_the_number_was_typed(seeded, as_role):
    admin = as_role()
    assert "1 message that can be received now" in page_of(await admin.get("/queues/waiting/purge")).text
    wrong = await admin.post("/queues/waiting/purge", data={"shown": "1", "count": "2"})
    assert wrong.status_code == 422
    assert "type 1 to confirm it" in page_of(wrong).text
    await seeded.broker.send_many("waiting", ["a", "b", "c"])
    late = await admin.post("/queues/waiting/purge", data={"shown": "1", "count": "1"})
    assert "there are 4 messages by now" in page_of(late).text
    done = await admin.post("/queues/waiting/purge", data={"shown": "4", "count": "4"})
    assert done.headers["location"] == "/queues/waiting?did=purged&n=4"
    assert (await seeded.broker.inspect("waiting")).ready == 0


async def test_settings_and_redirects_are_changed_by_forms(seeded, as_role):
    admin = as_role()
    fields = next(
        form.fields
        for form in page_of(await admin.get("/queues/waiting/settings")).forms
        if form.action == "/queues/waiting/settings"
    )
    answer = await admin.post("/queues/waiting/settings", data={**fields, "lock_duration": "30"})
    assert answer.status_code == 303, page_of(answer).text
    settings = (await seeded.broker.inspect("waiting")).settings
    assert (settings.lock_duration, settings.max_delivery_count) == (30.0, 10)
    wrong = await admin.post("/queues/waiting/settings", data={**fields, "lock_duration": "9000"})
    assert wrong.status_code == 422
    assert "9000" in wrong.text
    await admin.post("/queues/orders/redirect", data={"to": "waiting"})
    assert await seeded.recovery.redirects() == {"orders": "waiting"}
    assert "/queues/waiting" in page_of(await admin.get("/queues/orders")).links
    await admin.post("/queues/orders/redirect", data={"to": ""})
    assert await seeded.recovery.redirects() == {}


@pytest.mark.usefixtures("seeded")
async def test_a_viewer_and_a_person_of_other_queues_may_not(as_role):
    viewer = as_role(Role.VIEWER)
    assert "ann is viewer, and this needs operator" in page_of(await viewer.get("/queues/waiting")).disabled
    assert (await viewer.post("/queues/waiting/purge", data={"shown": "1", "count": "1"})).status_code == 403
    limited = as_role(Role.ADMIN, queues=("orders",))
    assert (await limited.get("/queues/waiting")).status_code in (403, 404)
    assert "waiting" not in page_of(await limited.get("/queues")).text


async def test_hostile_messages_are_shown_and_never_run(seeded, browser):
    hostile = Message(HOSTILE.encode(), id="h", subject=HOSTILE, headers={"x": HOSTILE})
    await seeded.broker.send("waiting", hostile)
    answer = await browser.get("/queues/waiting")
    assert "<script>alert" not in answer.text
    assert "\u202e" not in answer.text
    assert "alert(1)" in page_of(answer).text


async def test_a_topic_shows_its_subscriptions_and_their_rules(desk, browser):
    assert "No topic yet" in page_of(await browser.get("/topics")).text
    await desk.broker.declare_topic("shop")
    await desk.broker.subscribe("shop", "billing")
    await desk.broker.subscribe("shop", "eu", Rule({"region": "eu"}, "body.total > 100"))
    await desk.broker.send("shop", Message(b'{"total": 7}', content_type="application/json"))
    page = page_of(await browser.get("/topics"))
    assert "/topics/shop" in page.links
    page = page_of(await browser.get("/topics/shop"))
    assert "every message" in page.text
    assert "region = 'eu'" in page.text
    assert "body.total > 100" in page.text
    assert "/queues/shop%2Fbilling?state=ready#messages" in page.links
    assert (await browser.get("/topics/none")).status_code == 404
    assert (await browser.get("/queues/shop%2Fbilling")).status_code == 200
