# SPDX-License-Identifier: MIT
"""Topics and their subscriptions over HTTP."""

from redrive.access import Role
from redrive.broker.views import topic_view


async def test_a_topic_is_declared_changed_and_deleted(client, desk):
    answer = await client.put("/topics/orders", json={"keep_unmatched": True})
    (topic,) = await desk.broker.topics()
    assert answer.json() == topic_view(topic) == (await client.get("/topics/orders")).json()
    assert (await client.get("/topics")).json() == [answer.json()]
    assert (await client.patch("/topics/orders", json={"keep_unmatched": False})).status_code == 200
    assert (await client.put("/topics/orders", json={"keep_unmatched": True})).json()["code"] == "topic-conflict"
    assert (await client.delete("/topics/orders")).json() == {"queue": "orders", "deleted": True, "messages": 0}
    assert (await client.get("/topics/orders")).json()["code"] == "topic-not-found"


async def test_a_subscription_gets_what_its_rule_says(client, desk):
    await client.put("/topics/orders", json={})
    rule = {"equals": {"region": "eu"}, "expression": "body.total > 100"}
    path = "/topics/orders/subscriptions/big"
    answer = await client.put(path, json={"rule": rule, "max_delivery_count": 3})
    assert answer.json()["subscriptions"] == [{"name": "big", "queue": "orders/big", "rule": rule}]
    asked = {"messages": [{"body": '{"total": 250}', "headers": {"region": "eu"}}, {"body": "{}"}]}
    assert (await client.post("/queues/orders/messages", json=asked)).json()["sent"] == 1
    assert (await desk.broker.inspect("orders/big")).ready == 1
    assert (await client.delete(path)).json() == {"queue": "orders/big", "deleted": True, "messages": 1}
    assert (await client.delete(path)).json()["code"] == "subscription-not-found"
    odd = await client.put(path, json={"rule": {"expression": "body.("}})
    assert (odd.status_code, odd.json()["code"]) == (400, "invalid-expression")


async def test_topics_beyond_a_limit_are_not_shown(as_someone, desk):
    for name in ("orders", "billing"):
        await desk.broker.declare_topic(name)
        await desk.broker.subscribe(name, "all")
    limited = as_someone(Role.VIEWER, queues=("orders",))
    (topic,) = (await limited.get("/topics")).json()
    assert (topic["name"], topic["subscriptions"]) == ("orders", [])
    assert (await limited.get("/topics/billing")).json()["code"] == "forbidden"
