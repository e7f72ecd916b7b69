# SPDX-License-Identifier: MIT
"""The history over HTTP."""

from redrive.access import Role


async def test_what_happened_is_a_list_of_numbers_for_each_queue(client, desk, as_someone):
    for queue in ("orders", "billing"):
        await desk.broker.declare(queue)
        await desk.broker.send_many(queue, ["1", "2"])
    await desk.history.flush()
    found = (await client.get("/series", params={"metric": "sent", "span": 3600})).json()
    assert {each["name"]: sum(filter(None, each["values"])) for each in found}["orders"] == 2
    (one,) = (await client.get("/series", params={"name": "billing"})).json()
    assert (one["name"], one["topic"], one["metric"]) == ("billing", "queue", "sent")
    limited = as_someone(Role.VIEWER, queues=("orders",))
    assert [each["name"] for each in (await limited.get("/series")).json()] == ["orders"]
    for more in ({"name": "billing"}, {"topic": "group"}):
        assert (await limited.get("/series", params=more)).json()["code"] == "forbidden"


async def test_a_series_that_there_is_not_is_refused(client):
    for more in ({"metric": "odd"}, {"topic": "odd"}, {"span": 0}, {"step": 61}, {"name": "a\0b"}):
        assert (await client.get("/series", params=more)).status_code in (400, 422)
