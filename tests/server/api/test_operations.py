# SPDX-License-Identifier: MIT
"""Operations over HTTP: from the dry run to their end, each change with its actor."""

import pytest

from redrive.access import Role
from redrive.recovery import views

ALL = {"filter": "status:unresolved"}


async def test_a_dry_run_says_what_would_be_found_and_changes_nothing(client, desk, fail):
    await fail()
    found = (await client.post("/dry-runs", json={**ALL, "transform": {"replace": [["one", "1"]]}})).json()
    assert (found["matched"], found["free"], found["by_destination"]) == (3, 3, {"orders": 3})
    (orders,) = found["destinations"]
    assert (orders["queue"], orders["workers"], orders["ready"]) == ("orders", 0, 0)
    assert {"sent_per_minute", "completed_per_minute", "failed_per_minute", "is_read"} <= orders.keys()
    assert len(found["previews"]) == 3
    assert await desk.recovery.operations() == []
    assert (await client.post("/dry-runs", json={**ALL, "kind": "archive"})).json()["by_destination"] == {}


async def test_a_preview_shows_differences(client, fail):
    await fail(bodies=["one"])
    asked = {**ALL, "transform": {"replace": [["one", "uno"]]}}
    (preview,) = (await client.post("/previews", json=asked)).json()["previews"]
    assert any("uno" in line for line in preview["changes"])


async def test_an_operation_is_requested_once_for_a_key(client, desk, fail):
    await fail()
    asked = {**ALL, "kind": "recover", "rate": 50, "canary": {"count": 1}, "reason": "back again"}
    first, second = [await client.post("/operations", json=asked, headers={"Idempotency-Key": "abc"}) for _ in range(2)]
    assert first.json()["number"] == second.json()["number"]
    assert first.json() == views.operation_view(await desk.recovery.operation(first.json()["number"]))
    other = await client.post("/operations", json=ALL, headers={"Idempotency-Key": "abc"})
    assert (other.status_code, other.json()["code"]) == (409, "operation-conflict")
    (entry, *_) = [each for each in await desk.recovery.trail() if not each.outcome.startswith("refused")]
    assert (entry.actor, entry.reason) == ("ann (10.0.0.7)", "back again")


async def test_an_operation_is_watched_and_controlled(client, desk, fail):
    await fail()
    number = (await client.post("/operations", json={**ALL, "at": "2099-01-01T00:00:00Z"})).json()["number"]
    assert [each["number"] for each in (await client.get("/operations?open=true")).json()] == [number]
    assert (await client.post(f"/operations/{number}/pause", json={"reason": "wait"})).json()["state"] == "paused"
    assert (await client.post(f"/operations/{number}/resume", json={})).json()["state"] == "scheduled"
    assert (await client.patch(f"/operations/{number}", json={"rate": 5})).json()["plan"]["rate"] == 5
    assert (await client.post(f"/operations/{number}/cancel", json={})).json()["state"] == "cancelled"
    assert (await client.post(f"/operations/{number}/acknowledge")).json()["acknowledged_by"] == "ann (10.0.0.7)"
    detail = (await client.get(f"/operations/{number}")).json()
    assert detail == views.operation_detail_view(await desk.recovery.operation(number), [], None)
    refused = await client.post(f"/operations/{number}/pause", json={})
    assert (refused.status_code, refused.json()["code"]) == (409, "operation-conflict")


async def test_the_outcomes_of_an_operation_have_pages(client, desk, fail):
    await fail()
    number = (await client.post("/operations", json={**ALL, "kind": "archive"})).json()["number"]
    await desk.recovery.step()
    answer = await client.get(f"/operations/{number}/outcomes", params={"limit": 2, "outcome": ["done", "failed"]})
    assert [each["outcome"] for each in answer.json()] == ["done", "done"]
    more = await client.get(answer.links["next"]["url"].removeprefix("/api/v1"))
    assert len(more.json()) == 1
    assert (await client.get(f"/operations/{number}/outcomes?outcome=failed")).json() == []
    assert (await client.get(f"/operations/{number}/outcomes?outcome=odd")).json()["code"] == "invalid-request"


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({}, "invalid-request"),
        ({"filter": " "}, "invalid-request"),
        ({"filter": "a", "ids": ["b"]}, "invalid-request"),
        ({"filter": "odd:1"}, "invalid-filter"),
        ({**ALL, "rate": 0}, "invalid-request"),
        ({**ALL, "kind": "archive", "rate": 5}, "invalid-setting"),
        ({**ALL, "at": "tomorrow"}, "invalid-setting"),
        ({**ALL, "redirect": "nowhere"}, "queue-not-found"),
        ({**ALL, "transform": {"function": "os:system"}}, "invalid-setting"),
        ({**ALL, "transform": {"remove_headers": ["redrive-tag"]}}, "invalid-setting"),
    ],
)
async def test_what_cannot_be_done_is_refused_before_anything_is_stored(client, desk, asked, code):
    for path in ("/operations", "/dry-runs"):
        assert (await client.post(path, json=asked)).json()["code"] == code
    assert await desk.recovery.operations() == []


async def test_a_viewer_requests_nothing(as_someone):
    assert (await as_someone(Role.VIEWER).post("/operations", json=ALL)).status_code == 403


async def test_a_limited_principal_touches_no_other_queue(as_someone, client, desk, fail):
    (other, *_) = await fail("billing")
    await fail("orders")
    limited = as_someone(Role.OPERATOR, queues=("orders",), name="bob")
    assert (await limited.post("/dry-runs", json=ALL)).json()["by_destination"] == {"orders": 3}
    made = (await limited.post("/operations", json={**ALL, "kind": "archive"})).json()
    await desk.recovery.step()
    assert {each.queue for each in await desk.recovery.failed("status:archived")} == {"orders"}
    assert (await limited.get(f"/operations/{made['number']}")).status_code == 200
    by_id = await limited.post("/operations", json={"ids": [other.id], "kind": "archive"})
    assert by_id.json()["progress"]["total"] == 0
    answer = await limited.post("/operations", json={**ALL, "redirect": "billing"})
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    whole = (await client.post("/operations", json={**ALL, "at": "2099-01-01T00:00:00Z"})).json()["number"]
    assert whole not in [each["number"] for each in (await limited.get("/operations")).json()]
    for path in (f"/operations/{whole}/pause", f"/operations/{whole}/cancel"):
        assert (await limited.post(path, json={})).json()["code"] == "operation-not-found"
    assert (await limited.get(f"/operations/{whole}/outcomes")).status_code == 404


async def test_a_key_of_another_gives_nothing_of_theirs(as_someone, client, fail):
    await fail("billing")
    key = {"Idempotency-Key": "theirs"}
    await client.post("/operations", json={**ALL, "kind": "archive"}, headers=key)
    limited = as_someone(Role.OPERATOR, queues=("orders",), name="bob")
    answer = await limited.post("/operations", json={**ALL, "kind": "archive"}, headers=key)
    assert (answer.status_code, answer.json()["code"]) == (409, "operation-conflict")


async def test_lanes_and_services_are_listed(client, desk, as_someone):
    assert (await client.get("/services")).json() == views.records_view(await desk.recovery.services())
    assert (await client.get("/lanes")).json() == views.records_view(await desk.recovery.lanes())
    assert (await as_someone(Role.VIEWER, queues=("orders",)).get("/lanes")).json() == []
