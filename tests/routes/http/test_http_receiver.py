# SPDX-License-Identifier: MIT
"""The HTTP receiver: requests become events, and answers of the intake become answers of HTTP."""

import asyncio
import subprocess
import sys

import httpx
import pytest

from redrive.errors import (
    EngineUnavailable,
    InvalidMessage,
    InvalidSetting,
    MessageTooLarge,
    QueueNotFound,
    ReceiverFull,
    StorageFull,
    Unavailable,
)
from redrive.routes.ack_tree import AckTree
from redrive.routes.receivers.http import HttpReceiver
from tests.http.site import post, until


def nack(**reasons):
    """Return the answer when these routes have not delivered."""
    tree = AckTree(reasons)
    return [tree.nack(tree.legs[route], reason) for route, reason in reasons.items()][-1].answer


@pytest.mark.parametrize(("delivery", "status"), [("durable", 202), ("linked", 200), ("direct", 202)])
async def test_an_event_that_was_taken(site, intake, delivery, status):
    await site.run(intake, delivery=delivery)
    got, _, body = await site.ask(post(b'{"a": 1}', idempotency_key="o-7"))
    assert (got, body) == (status, {"id": "o-7"})
    message = intake.accepted[-1]
    assert (message.body, message.id, message.content_type) == (b'{"a": 1}', "o-7", "application/json")
    assert message.headers == {}


async def test_an_event_without_a_key_gets_an_id_of_its_own(site, intake):
    await site.run(intake)
    answers = [(await site.ask(post()))[2]["id"] for _ in range(3)]
    assert len(set(answers)) == 3
    assert answers == [message.id for message in intake.accepted]


async def test_the_header_of_the_id_can_be_chosen(site, intake):
    await site.run(intake, id_header="X-GitHub-Delivery")
    assert (await site.ask(post(x_github_delivery="d-1", idempotency_key="no")))[2] == {"id": "d-1"}


async def test_only_chosen_headers_and_those_of_traces_are_kept(site, intake):
    await site.run(intake, keep_headers=["X-Tenant", "absent"])
    await site.ask(post(traceparent="00-1", tracestate="a=1", X_Tenant="acme", authorization="Bearer x"))
    assert intake.accepted[0].headers == {"traceparent": "00-1", "tracestate": "a=1", "x-tenant": "acme"}


async def test_a_header_that_is_there_twice_is_joined(site, intake):
    await site.run(intake, keep_headers=["x-tag"])
    await site.ask(post(X_Tag="one\r\nx-tag: two"))
    assert intake.accepted[0].headers == {"x-tag": "one, two"}


@pytest.mark.parametrize("delivery", ["durable", "linked", "direct"])
async def test_nothing_is_acknowledged_before_the_intake_has_answered(site, intake, delivery):
    intake.gate.clear()
    await site.run(intake, delivery=delivery)
    wire = await site.connect()
    wire.write(post(idempotency_key="o-7"))
    answer = asyncio.create_task(wire.answer())
    await until(lambda: intake.begun)
    for _ in range(20):  # the server works all the time
        assert (await site.ask(post(b"", "/-/health", "GET")))[0] == 200
    assert not answer.done()
    intake.gate.set()
    assert (await answer)[2] == {"id": "o-7"}
    wire.close()


async def test_an_event_that_was_not_delivered_says_why(site, intake):
    intake.answer = nack(billing="connection refused", audit="no\nroom")
    await site.run(intake, delivery="linked")
    status, _, body = await site.ask(post(idempotency_key="o-7"))
    assert status == 502
    assert body["id"] == "o-7"
    assert body["reasons"] == [
        {"route": "billing", "reason": "connection refused"},
        {"route": "audit", "reason": "no\\nroom"},
    ]


@pytest.mark.parametrize(
    ("error", "status", "pause"),
    [
        (StorageFull("the disk is full"), 503, "5"),
        (EngineUnavailable("no answer"), 503, "5"),
        (Unavailable("not now"), 503, "5"),
        (ReceiverFull("http /in", 7), 429, "5"),
        (MessageTooLarge("in", 3_000_000, 1_000_000), 413, None),
        (InvalidMessage("id", "x", "must be y"), 400, None),
    ],
)
async def test_an_event_that_was_not_taken(site, intake, error, status, pause):
    intake.error = error
    await site.run(intake)
    got, headers, body = await site.ask(post())
    assert (got, headers.get("retry-after"), body["error"]) == (status, pause, error.code)
    assert body["detail"] == str(error)
    intake.error = None
    assert (await site.ask(post()))[0] == 202  # it goes on when the store does


async def test_an_error_that_knows_how_long_it_lasts(site, intake):
    intake.error = Unavailable("not now")
    intake.error.retry_after = 61.2
    await site.run(intake)
    assert (await site.ask(post()))[1]["retry-after"] == "62"


@pytest.mark.parametrize(
    "error", [RuntimeError("the password is hunter2"), QueueNotFound("hunter2"), KeyError("hunter2")]
)
async def test_an_error_of_ours_is_not_shown(site, intake, error, caplog):
    intake.error = error
    await site.run(intake)
    status, headers, body = await site.ask(post())
    assert status == 500
    assert "hunter2" not in f"{headers}{body}"
    assert "hunter2" in caplog.text


# --- what is no event


BAD_JSON = [
    b"",
    b"{",
    b"nope",
    b"[1,]",
    b'{"a": NaN}',
    b"\xff\xfe\xfd",
    b'"\xed\xa0\x80"',
    b"[" * 200_000,
    b"1" * 10_000,
]


@pytest.mark.parametrize(
    "content_type", ["application/json", "Application/JSON; charset=utf-8", "application/x+json", None]
)
async def test_bad_json(site, intake, content_type):
    await site.run(intake)
    for body in BAD_JSON:
        status, _, answer = await site.ask(post(body, content_type=content_type))
        assert (status, answer["error"], body) == (400, "invalid-message", body)
    assert not intake.begun


async def test_json_without_a_type_is_json(site, intake):
    await site.run(intake)
    assert (await site.ask(post(b"[1]", content_type=None)))[0] == 202
    assert intake.accepted[0].content_type == "application/json"


@pytest.mark.parametrize("settings", [{}, {"json": False}])
async def test_what_is_no_json_need_not_be_json(site, intake, settings):
    await site.run(intake, **settings)
    assert (await site.ask(post(b"{nope", content_type="text/plain")))[0] == 202
    assert (intake.accepted[0].body, intake.accepted[0].content_type) == (b"{nope", "text/plain")


async def test_json_need_not_be_checked(site, intake):
    await site.run(intake, json=False)
    assert (await site.ask(post(b"{nope", content_type=None)))[0] == 202
    assert (intake.accepted[0].body, intake.accepted[0].content_type) == (b"{nope", None)


@pytest.mark.parametrize("key", ["x" * 1_025, "a\tb", "ü", "", "   "])
async def test_a_bad_key(site, intake, key):
    await site.run(intake)
    status, _, answer = await site.ask(post(idempotency_key=key))
    assert status == 400
    assert "Idempotency-Key" in answer["detail"]
    assert not intake.begun


@pytest.mark.parametrize("size", [1, 1_024])
async def test_a_good_key(site, intake, size):
    await site.run(intake)
    assert (await site.ask(post(idempotency_key="x" * size)))[2] == {"id": "x" * size}


async def test_a_type_that_no_message_can_have(site, intake):
    await site.run(intake)
    assert (await site.ask(post(content_type="text/" + "x" * 2_000)))[0] == 400


async def test_a_usual_client(site, intake):
    await site.run(intake, methods=["POST", "PUT"])
    async with httpx.AsyncClient(base_url=site.url) as client:
        assert (await client.post("/in?from=here", json={"a": 1})).status_code == 202
        assert (await client.put("/in", content=b"[]")).status_code == 202


# --- settings


def test_two_receivers_of_one_path_are_the_same_source():
    assert HttpReceiver(path="/in").address == "/in"
    assert HttpReceiver(path="/in").guarantee == "at_least_once"
    assert HttpReceiver(path="/in", delivery="direct").guarantee == "best_effort"


@pytest.mark.parametrize(
    "wrong",
    [
        {"path": "in"},
        {"path": ""},
        {"path": "/a b"},
        {"path": "/a?b"},
        {"path": "/a%20b"},
        {"path": "/-/health"},
        {"path": "/ü"},
        {"path": "/" + "x" * 1_000},
        {"methods": []},
        {"methods": ["post"]},
        {"methods": "POST"},
        {"max_bytes": 0},
        {"json": 1},
        {"id_header": ""},
        {"keep_headers": [1]},
        {"on_nack": "fail_fast"},
    ],
)
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(InvalidSetting):
        HttpReceiver(**{"path": "/in"} | wrong)


def test_as_files_write_it():
    table = {"kind": "http", "path": "/in", "methods": ["POST", "PUT"], "keep_headers": ["x-tenant"]}
    assert HttpReceiver.from_table(table).to_table() == table


def test_neither_httpx_nor_uvicorn_is_needed_before_a_route_runs():
    code = (
        "import sys; sys.modules.update(dict.fromkeys(['httpx', 'uvicorn', 'starlette', 'h11']));"
        "import redrive.routes.receivers.http, redrive.routes.senders.webhook, redrive.http.server"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
