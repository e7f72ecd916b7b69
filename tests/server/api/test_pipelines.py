# SPDX-License-Identifier: MIT
"""Pipelines and their tasks over HTTP."""

import pytest

from redrive.access import Role
from redrive.pipeline import TaskState, views
from tests.server.api.pipeline_functions import make_pipeline


@pytest.fixture(autouse=True)
async def _pipeline(desk):
    """A pipeline that has had three submissions, one of which has an unknown outcome, and one waits for a slot."""
    await make_pipeline(desk)


async def test_a_pipeline_is_shown_with_its_destinations_and_counts(client):
    (found,) = (await client.get("/pipelines")).json()
    assert found == (await client.get("/pipelines/reports")).json()
    assert [each["name"] for each in found["destinations"]] == ["archive", "lab"]
    assert found["destinations"][1]["waiting"] == 1
    assert {each["state"] for each in found["tasks"]} >= {"done", "unknown"}
    assert (await client.get("/pipelines/none")).json()["code"] == "pipeline-not-found"


async def test_tasks_have_pages_and_are_found_by_state(client, desk):
    everything = (await client.get("/pipelines/reports/tasks")).json()
    assert everything == [views.record_view(each) for each in await desk.pipelines.tasks("reports")]
    seen, address = [], "/pipelines/reports/tasks?limit=2"
    while address:
        answer = await client.get(address.removeprefix("/api/v1"))
        seen += answer.json()
        address = answer.links.get("next", {}).get("url")
    assert seen == everything
    (unknown,) = (await client.get("/pipelines/reports/tasks?state=unknown&destination=archive")).json()
    assert unknown["state"] == "unknown"
    for path in ("/pipelines/reports/stuck", "/stuck"):
        assert unknown["id"] in [each["id"] for each in (await client.get(path)).json()]
    odd = await client.get("/pipelines/reports/tasks?destination=none")
    assert odd.json()["code"] == "destination-not-found"


async def test_a_task_is_shown_traced_and_resolved(client, desk):
    (task,) = await desk.pipelines.tasks("reports", states=[TaskState.UNKNOWN])
    shown = (await client.get(f"/tasks/{task.id}")).json()
    assert shown == views.detail_view(await desk.pipelines.show(task.id))
    assert (await client.get(f"/tasks/{task.id}/trace")).json()["tasks"]
    answer = await client.post(f"/tasks/{task.id}/resolve", json={"items": [1], "arrived": True, "reason": "asked"})
    assert answer.json()["state"] == "done"
    again = await client.post(f"/tasks/{task.id}/cancel", json={})
    assert (again.status_code, again.json()["code"]) == (409, "task-conflict")
    assert (await client.get("/tasks/none")).json()["code"] == "task-not-found"
    (entry, *_) = [each for each in (await client.get("/pipelines/reports/history")).json() if each["actor"]]
    assert (entry["name"], entry["actor"], entry["reason"]) == ("resolve", "ann (10.0.0.7)", "asked")


async def test_what_is_unknown_is_sent_again_once_for_a_key(client, desk):
    (task,) = await desk.pipelines.tasks("reports", states=[TaskState.UNKNOWN])
    key = {"Idempotency-Key": "k"}
    answer = await client.post(f"/tasks/{task.id}/resend", json={"items": "unknown"}, headers=key)
    assert answer.json()["state"] == "ready"
    again = await client.post(f"/tasks/{task.id}/resend", json={"items": "unknown"}, headers=key)
    assert again.json()["code"] == "request-repeated"


async def test_a_destination_is_held_and_released_and_has_slots(client):
    path = "/pipelines/reports/destinations/lab"
    held = (await client.post(f"{path}/hold", json={"reason": "they move"})).json()
    assert (held["is_held"], held["reason"]) == (True, "they move")
    assert (await client.post(f"{path}/release", json={})).json()["is_held"] is False
    slots = (await client.get(f"{path}/slots")).json()
    assert len(slots["next"]) == 10
    assert (await client.post("/pipelines/reports/destinations/none/hold", json={})).status_code == 404


async def test_a_waiting_task_is_cancelled_and_revived(client, desk):
    (task,) = [each for each in await desk.pipelines.tasks("reports") if each.stage == "batch"]
    assert (await client.post(f"/tasks/{task.id}/cancel", json={})).json()["state"] == "cancelled"
    assert (await client.post(f"/tasks/{task.id}/revive", json={})).json()["state"] in ("waiting", "ready")


async def test_pipelines_are_not_for_whoever_is_limited_to_queues(as_someone):
    limited = as_someone(Role.ADMIN, queues=("reports", "lab"))
    for path in ("/pipelines", "/pipelines/reports", "/stuck", "/tasks/x"):
        assert (await limited.get(path)).json()["code"] == "forbidden"
