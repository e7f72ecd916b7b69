# SPDX-License-Identifier: MIT
"""One failed message: why it failed, what was done, what can be done."""

import base64
import json

import pytest

from redrive.access import Role
from redrive.broker import Message
from redrive.server.console.body_text import body_of, changes_since, coloured, diff_lines, frames_of
from redrive.worker import Recoverability, Worker
from tests.server.console.conftest import HOSTILE
from tests.server.console.html import page_of

TRACE = """Traceback (most recent call last):
  File "/app/shop/worker.py", line 88, in on_order
    await charge(order)
  File "/venv/lib/python3.11/site-packages/httpx/_client.py", line 1, in send
    return send()
           ~~~~^^
  File "/usr/lib/python3.11/asyncio/tasks.py", line 2, in wait
    wait()
  File "/app/shop/client.py", line 112, in _raise_for
    raise ProviderTimeout("no")
shop.ProviderTimeout: no
"""


def test_own_frames_stand_apart_and_those_of_libraries_are_folded():
    found = frames_of(TRACE)
    assert [(each["is_own"], len(each["frames"]), each["packages"]) for each in found["blocks"]] == [
        (True, 1, []),
        (False, 2, ["httpx", "asyncio"]),
        (True, 1, []),
    ]
    assert found["blocks"][0]["frames"][0]["source"] == "await charge(order)"
    assert found["blocks"][1]["frames"][0]["source"] == "return send()"
    assert found["end"] == "shop.ProviderTimeout: no"


def test_what_is_no_traceback_is_shown_whole():
    assert frames_of("panic at main.rs:1")["rest"] == "panic at main.rs:1"
    assert frames_of("")["rest"] == ""


def test_json_is_coloured_and_nothing_of_it_is_lost():
    text = json.dumps({"a": [1, True, None, 'x"y'], "b": {"c": "d"}}, indent=2)
    parts = coloured(text)
    assert "".join(part for _, part in parts) == text
    assert ("k2", '"a"') in parts
    assert ("k3", '"d"') in parts
    assert ("k1", "true") in parts


def test_a_body_is_shown_as_what_it_is():
    assert body_of({"body": '{"a": 1}', "body_encoding": "utf-8"})["kind"] == "JSON"
    assert body_of({"body": "{no", "body_encoding": "utf-8"})["kind"] == "text"
    binary = body_of({"body": base64.b64encode(bytes(range(20))).decode(), "body_encoding": "base64"})
    assert binary["parts"][0][1].startswith("00000000  00 01 02")
    assert body_of({"body": "x" * 300_000, "body_encoding": "utf-8"})["is_cut"]


def test_two_failures_are_compared():
    attempts = [{"host": "b", "tries": 2, "worker": "w"}, {"host": "a", "tries": 2, "worker": "w"}]
    assert changes_since(attempts, 0) == [{"what": "Host", "before": "a", "now": "b"}]
    assert changes_since(attempts, 1) == []
    assert diff_lines('{"a": 1}', '{"a": 2}')[-2:] == ['+  "a": 2', " }"]


@pytest.fixture
async def failure(seeded):
    return (await seeded.recovery.failed("queue:orders"))[1]


async def test_a_failure_shows_why_and_where(failure, browser):
    page = page_of(await browser.get(f"/failed/{failure.id}"))
    assert "ConnectionError" in page.text
    assert "the warehouse does not take two" in page.text
    assert "line" in page.text
    assert "First failure" in page.text
    assert "2 others like it" in page.text
    for part in ("headers", "raw"):
        assert (await browser.get(f"/failed/{failure.id}?part={part}")).status_code == 200


async def test_previous_and_next_go_through_the_list(seeded, browser):
    failures = await seeded.recovery.failed("queue:orders")
    page = page_of(await browser.get(f"/failed/{failures[1].id}?q=queue:orders"))
    assert f"/failed/{failures[0].id}?q=queue%3Aorders" in page.links
    assert f"/failed/{failures[2].id}?q=queue%3Aorders" in page.links


async def test_a_failure_that_is_not_there_is_a_page(browser):
    answer = await browser.get(f"/failed/{'0' * 32}")
    assert answer.status_code == 404
    assert "This is not here" in page_of(answer).text


async def test_a_note_is_written_once(seeded, failure, browser):
    page = page_of(await browser.get(f"/failed/{failure.id}"))
    form = next(form for form in page.forms if form.action.endswith("/notes"))
    for _ in range(2):
        await browser.post(form.action, data={**form.fields, "text": "seen before"})
    assert [each.text for each in await seeded.recovery.notes(f"failure:{failure.id}")] == ["seen before"]
    assert "seen before" in page_of(await browser.get(f"/failed/{failure.id}")).text


async def test_a_body_can_be_downloaded(failure, browser):
    answer = await browser.get(f"/failed/{failure.id}/body")
    assert "attachment" in answer.headers["content-disposition"]
    assert b"two" in answer.content


async def test_an_edited_copy_is_shown_before_it_is_sent(seeded, failure, browser):
    page = page_of(await browser.get(f"/failed/{failure.id}/edit"))
    form = next(form for form in page.forms if form.action.endswith("/edit"))
    typed = {**form.fields, "body": '"another two"', "reason": "a typo"}
    looked = await browser.post(form.action, data={**typed, "do": "look"})
    assert "another two" in page_of(looked).text
    assert [each.number for each in await seeded.recovery.operations()] == [1]
    sent = await browser.post(form.action, data={**typed, "do": "request"})
    assert (sent.status_code, sent.headers["location"]) == (303, "/operations/2")
    assert (await seeded.recovery.operation(2)).plan.is_edit


async def test_wrong_json_is_refused_with_its_place(desk, browser):
    found = await fail_with(desk, Message(body=b'{"a": 1}', content_type="application/json"))
    answer = await browser.post(f"/failed/{found.id}/edit", data={"body": '{"a": }', "do": "request"})
    assert answer.status_code in (400, 422)
    assert "this is no JSON" in page_of(answer).text
    assert "{&#34;a&#34;: }" in answer.text


async def test_a_viewer_may_look_and_not_touch(failure, as_role):
    browser = as_role(Role.VIEWER)
    page = page_of(await browser.get(f"/failed/{failure.id}"))
    assert "ann is viewer, and this needs operator" in page.disabled
    assert (await browser.post(f"/failed/{failure.id}/edit", data={"body": "x"})).status_code == 403
    assert (await browser.post(f"/failed/{failure.id}/notes", data={"text": "x"})).status_code == 403


async def fail_with(desk, message, queue="mail", error="no"):
    worker = Worker()

    @worker.handler(
        queue, recoverability=Recoverability(immediate=0, delayed=None, error_queue="error"), slow_down=None
    )
    async def handle(body: bytes) -> None:  # noqa: ARG001 - the handler's form
        raise ValueError(error)

    await desk.broker.declare(queue)
    await desk.broker.declare("error")
    await desk.broker.send(queue, message)
    await worker.run(desk.broker, until_idle=True)
    await desk.recovery.ingest()
    return (await desk.recovery.failed("queue:" + queue))[0]


async def test_hostile_text_in_every_field_is_shown_and_never_run(desk, browser):
    message = Message(
        id=HOSTILE, body=HOSTILE.encode(), subject=HOSTILE, headers={"x-evil": HOSTILE}, correlation_id=HOSTILE
    )
    found = await fail_with(desk, message, error=HOSTILE)
    await desk.recovery.note(f"failure:{found.id}", HOSTILE, actor=HOSTILE)
    await desk.recovery.note(f"group:{found.group}", HOSTILE, actor=HOSTILE)
    paths = ["/", "/failed", "/failed/list", f"/failed/{found.id}", f"/failed/{found.id}?part=headers",
             f"/failed/{found.id}?part=raw", f"/failed/{found.id}/edit", f"/failed/recover?id={found.id}"]  # fmt: skip
    for path in paths:
        answer = await browser.get(path)
        assert answer.status_code == 200, path
        assert "<script>alert" not in answer.text, path
        assert "\u202e" not in answer.text, path
        assert "\x1b" not in answer.text, path
        assert page_of(answer).wrong == [], path
    assert "&lt;script&gt;alert(1)" in (await browser.get(f"/failed/{found.id}")).text


async def test_what_is_hidden_is_hidden_on_every_page_and_cannot_be_edited_as_a_whole(desk, browser):
    body = json.dumps({"card": {"token": "tok-secret"}, "order": 7}).encode()
    found = await fail_with(desk, Message(body=body, content_type="application/json", headers={"x-key": "key-secret"}))
    await desk.access.redactions.add("pointer", "/card/token")
    await desk.access.redactions.add("header", "x-key")
    for path in (
        f"/failed/{found.id}",
        f"/failed/{found.id}?part=headers",
        f"/failed/{found.id}/edit",
        f"/failed/{found.id}/body",
    ):
        answer = await browser.get(path)
        assert answer.status_code == 200
        assert "secret" not in answer.text, path
    assert "Part of this body is hidden" in (await browser.get(f"/failed/{found.id}/edit")).text
