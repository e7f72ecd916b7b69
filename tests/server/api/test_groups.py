# SPDX-License-Identifier: MIT
"""Groups of failures over HTTP."""

from redrive.access import Role
from redrive.recovery import views


async def test_groups_are_listed_with_the_largest_first(client, desk, fail):
    await fail("orders", error=ConnectionError)
    await fail("billing", bodies=["one"], error=KeyError)
    found = (await client.get("/groups")).json()
    assert found == views.records_view(await desk.recovery.groups(largest_first=True))
    assert [each["count"] for each in found] == [3, 1]
    by_queue = (await client.get("/groups", params={"by": "queue", "q": "status:any"})).json()
    assert [(each["id"], each["count"]) for each in by_queue] == [("orders", 3), ("billing", 1)]


async def test_groups_by_id_have_pages(client, fail):
    for queue in ("a", "b", "c"):
        await fail(queue, bodies=["one"])
    seen, address = [], "/groups?by=queue&order=id&limit=1"
    while address:
        answer = await client.get(address.removeprefix("/api/v1"))
        seen += [each["id"] for each in answer.json()]
        address = answer.links.get("next", {}).get("url")
    assert seen == ["a", "b", "c"]


async def test_one_group_is_found_by_its_id(client, fail):
    (first, *_) = await fail()
    assert (await client.get(f"/groups/{first.group}")).json()["count"] == 3
    assert (await client.get("/groups/orders", params={"by": "queue"})).json()["count"] == 3
    assert (await client.get("/groups/0000000000000000")).json()["code"] == "group-not-found"


async def test_a_group_gets_an_owner_and_is_snoozed(client, desk, fail):
    (first, *_) = await fail()
    path = f"/groups/{first.group}"
    asked = {"owner": "ann", "snoozed_until": "2099-01-01T00:00:00Z", "wake_above": 9, "reason": "known"}
    answer = (await client.put(f"{path}/state", json=asked)).json()
    assert answer == views.group_state_view(first.group, await desk.recovery.group_state(first.group))
    assert (answer["owner"], answer["is_snoozed"], answer["wake_above"]) == ("ann", True, 9)
    assert (await client.get(path)).json()["state"] == {name: value for name, value in answer.items() if name != "id"}
    awake = (await client.put(f"{path}/state", json={"snoozed_until": None})).json()
    assert (awake["owner"], awake["is_snoozed"]) == ("ann", False)
    trail = await desk.recovery.trail(subject=f"group:{first.group}")
    assert [each.outcome.partition(";")[0] for each in trail] == ["awake", "owner ann"]


async def test_a_state_that_cannot_be_is_refused(client, fail):
    (first, *_) = await fail()
    for asked in ({}, {"snoozed_until": "soon"}, {"snoozed_until": "2099-01-01"}, {"owner": "a", "wake_above": 1}):
        answer = await client.put(f"/groups/{first.group}/state", json=asked)
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid-setting"), asked
    assert (await client.put("/groups/0000/state", json={"owner": "ann"})).json()["code"] == "group-not-found"


async def test_a_group_with_messages_elsewhere_is_not_for_a_limited_caller_to_decide_about(as_someone, fail, desk):
    (first, *_) = await fail("orders")
    limited = as_someone(Role.OPERATOR, queues=("orders",))
    path = f"/groups/{first.group}/state"
    assert (await limited.put(path, json={"owner": "ann"})).status_code == 200
    (other, *_) = await fail("billing")
    assert other.group == first.group
    refused = await limited.put(path, json={"owner": "bob"})
    assert refused.status_code == 403
    assert "billing" not in refused.text
    assert (await limited.put("/groups/0000/state", json={"owner": "bob"})).status_code == 403
    assert (await desk.recovery.group_state(first.group)).owner == "ann"


async def test_a_limit_to_queues_holds_for_groups(as_someone, fail):
    (other, *_) = await fail("billing", error=KeyError)
    await fail("orders")
    limited = as_someone(Role.VIEWER, queues=("orders",))
    assert [each["id"] for each in (await limited.get("/groups?by=queue")).json()] == ["orders"]
    assert (await limited.get(f"/groups/{other.group}")).status_code == 404
    assert (await limited.get("/groups/billing?by=queue")).status_code == 404
