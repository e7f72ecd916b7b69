# SPDX-License-Identifier: MIT
"""Queues over HTTP: what the command line says about them, with the same codes."""

import pytest

from redrive.access import Role
from redrive.broker.views import queue_view


async def test_a_queue_is_declared_with_the_settings_that_are_stated(client, desk):
    answer = await client.put("/queues/orders", json={"max_delivery_count": 3})
    assert answer.status_code == 200
    assert answer.json() == queue_view(await desk.broker.inspect("orders"))
    assert answer.json()["settings"]["max_delivery_count"] == 3


async def test_all_queues_are_listed_without_those_of_redrive_itself(client, desk):
    await desk.broker.declare("orders")
    await desk.broker.declare("billing")
    await desk.broker.declare("redrive.own")
    assert [each["name"] for each in (await client.get("/queues")).json()] == ["billing", "orders"]
    shown = (await client.get("/queues", params={"all": True})).json()
    assert "redrive.own" in [each["name"] for each in shown]


async def test_a_name_with_a_slash_is_one_name(client, desk):
    await desk.broker.declare("orders")
    assert (await client.get("/queues/orders%2F$dead")).json()["name"] == "orders/$dead"
    assert (await client.get("/queues/orders/$dead")).json()["code"] == "unknown-path"


async def test_some_settings_are_changed_and_the_others_stay(client, desk):
    await desk.broker.declare("orders", max_delivery_count=3, default_ttl=60)
    answer = await client.patch("/queues/orders", json={"default_ttl": None})
    assert answer.json()["settings"]["default_ttl"] is None
    assert answer.json()["settings"]["max_delivery_count"] == 3


async def test_a_queue_with_other_settings_is_a_conflict_that_says_how_to_change_it(client, desk):
    await desk.broker.declare("orders", max_delivery_count=3)
    answer = await client.put("/queues/orders", json={"max_delivery_count": 4})
    assert answer.status_code == 409
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json() == {
        "type": "urn:redrive:error:queue-conflict",
        "title": "Conflict",
        "status": 409,
        "detail": answer.json()["detail"],
        "code": "queue-conflict",
        "fix": "change it: PATCH /api/v1/queues/orders",
    }


async def test_a_deleted_queue_is_gone_with_its_messages(client, desk):
    await desk.broker.declare("orders")
    await desk.broker.send("orders", b"1")
    assert (await client.delete("/queues/orders")).json() == {"queue": "orders", "deleted": True, "messages": 1}
    answer = await client.get("/queues/orders")
    assert (answer.status_code, answer.json()["code"]) == (404, "queue-not-found")


async def test_a_topic_is_not_deleted_as_a_queue(client, desk):
    await desk.broker.declare_topic("orders")
    assert (await client.delete("/queues/orders")).json()["code"] == "not-a-queue"


@pytest.mark.parametrize(
    "body", [{"max_delivery_count": 0}, {"max_delivery_count": "3"}, {"nonsense": 1}, {"requires_session": None}, []]
)
async def test_a_body_of_another_form_is_refused_with_its_place(client, body):
    answer = await client.put("/queues/orders", json=body)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid-request")
    assert answer.json()["detail"].startswith("body")


async def test_a_name_that_no_queue_may_have_is_refused(client):
    assert (await client.put("/queues/a%20b", json={})).json()["code"] == "invalid-setting"
    assert (await client.get("/queues/%ff")).status_code in (400, 404)


# --- who may


async def test_a_viewer_sees_and_changes_nothing_and_the_refusal_is_written_down(as_someone, desk):
    viewer = as_someone(Role.VIEWER)
    await desk.broker.declare("orders")
    assert (await viewer.get("/queues/orders")).status_code == 200
    answer = await viewer.delete("/queues/orders")
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    (entry,) = await desk.recovery.trail()
    assert (entry.actor, entry.action, entry.subject) == ("ann (10.0.0.7)", "queues.delete", "queue:orders")
    assert entry.outcome.startswith("forbidden: ann is viewer")
    assert (await desk.broker.inspect("orders")).name == "orders"


async def test_a_change_is_written_down_before_and_after(client, desk):
    await client.put("/queues/orders", json={})
    assert [(each.action, each.outcome) for each in await desk.recovery.trail()] == [
        ("queues.declare", "done"),
        ("queues.declare", "begun"),
    ]


async def test_a_change_that_is_refused_is_written_down_with_the_reason(client, desk):
    await client.delete("/queues/orders")
    newest, begun = await desk.recovery.trail()
    assert begun.outcome == "begun"
    assert newest.outcome.startswith("refused: there is no queue 'orders'")


async def test_whoever_is_limited_to_queues_sees_only_these_and_their_dead_letters(as_someone, desk):
    limited = as_someone(Role.ADMIN, queues=("orders", "shop.*"))
    for name in ("orders", "billing", "shop.eu"):
        await desk.broker.declare(name)
    assert [each["name"] for each in (await limited.get("/queues")).json()] == ["orders", "shop.eu"]
    assert (await limited.get("/queues/orders%2F$dead")).status_code == 200
    for answer in (await limited.get("/queues/billing"), await limited.delete("/queues/billing")):
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    assert (await desk.broker.inspect("billing")).name == "billing"
