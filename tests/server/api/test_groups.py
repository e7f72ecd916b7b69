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


async def test_a_limit_to_queues_holds_for_groups(as_someone, fail):
    (other, *_) = await fail("billing", error=KeyError)
    await fail("orders")
    limited = as_someone(Role.VIEWER, queues=("orders",))
    assert [each["id"] for each in (await limited.get("/groups?by=queue")).json()] == ["orders"]
    assert (await limited.get(f"/groups/{other.group}")).status_code == 404
    assert (await limited.get("/groups/billing?by=queue")).status_code == 404
