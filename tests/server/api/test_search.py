# SPDX-License-Identifier: MIT
"""What a filter could go on with, and where a name or a number is."""

import pytest

from redrive.access import Role
from redrive.routes.route_file import route_of
from tests.server.api.pipeline_functions import make_pipeline


@pytest.fixture
async def failures(fail):
    return [*await fail("orders"), *await fail("billing", bodies=["one"], error=KeyError)]


async def suggested(client, q):
    return {each["term"]: each["count"] for each in (await client.get("/suggest", params={"q": q})).json()}


async def test_a_filter_is_completed_with_values_and_their_counts(client, failures, as_someone):
    assert await suggested(client, "queue:") == {"queue:orders": 3, "queue:billing": 1}
    assert await suggested(client, "queue:ILL") == {"queue:billing": 1}
    assert await suggested(client, "queue:billing exception:") == {"exception:KeyError": 1}
    assert await suggested(client, "age<2h type:") == {}
    (group,) = (await client.get("/suggest", params={"q": "group:connectionerror"})).json()
    assert "ConnectionError" in group["title"]
    assert group["term"] == f"group:{failures[0].group}"
    limited = as_someone(Role.VIEWER, queues=("billing",))
    assert await suggested(limited, "queue:") == {"queue:billing": 1}
    assert await suggested(as_someone(Role.VIEWER, queues=("none",)), "queue:") == {}
    assert await suggested(as_someone(Role.VIEWER, queues=("none*",)), "queue:") == {}


@pytest.mark.usefixtures("failures")
async def test_suggestions_read_no_failure(client, desk, monkeypatch):
    asked = []
    look = desk.broker.engine.look

    async def noting(script):
        return await look(lambda: _noted(script(), asked))

    monkeypatch.setattr(desk.broker.engine, "look", noting)
    await suggested(client, "status:any age>1d text exception:Value group:o")
    assert asked
    assert not [text for text in asked if "@.failures" in text or "failure_contents" in text]


def _noted(script, asked):
    answer = None
    while True:
        try:
            step = script.send(answer)
        except StopIteration as end:
            return end.value
        asked.append(getattr(step, "text", ""))
        answer = yield step


async def places(client, q):
    found = (await client.get("/jump", params={"q": q})).json()
    for each in found:
        path = each["path"].removeprefix("/api/v1")
        assert (await client.get(path)).status_code == 200, each  # what it names is there
    return [each["subject"] for each in found]


async def test_whatever_has_a_name_or_a_number_is_found(client, failures, desk):
    first = failures[0]
    operation = await desk.recovery.recover("queue:orders", at=3_600)
    parts = {"source": {"kind": "queue", "queue": "orders"}, "sender": {"kind": "queue", "queue": "billing"}}
    await desk.routes.add(route_of({"name": "orders-copy", **parts}))
    await desk.broker.declare_topic("events")
    await make_pipeline(desk, [b"one"])
    (task, *_) = await desk.pipelines.tasks("reports")
    assert await places(client, f"{operation.number}") == [f"operation:{operation.number}"]
    assert await places(client, first.id[:12]) == [f"failure:{first.id}"]
    assert await places(client, first.message_id) == [f"failure:{first.id}"]
    assert await places(client, first.group) == [f"group:{first.group}"]
    assert (await places(client, "orders"))[:2] == ["queue:orders", "route:orders-copy"]
    assert await places(client, "VENTS") == ["topic:events"]
    assert "pipeline:reports" in await places(client, "reports")
    assert await places(client, task.id) == [f"task:{task.id}"]
    assert await places(client, "nothing has this name") == await places(client, "a\0b") == []


async def test_who_is_limited_to_queues_finds_what_is_in_them(failures, desk, as_someone):
    await desk.broker.declare_topic("billing-events")
    limited = as_someone(Role.VIEWER, queues=("billing",))
    orders, billing = failures[0], failures[-1]
    for text in (orders.id, orders.message_id, orders.group, "orders", "events"):
        assert await places(limited, text) == []
    for text in (billing.id, billing.message_id):
        assert await places(limited, text) == [f"failure:{billing.id}"]
    assert await places(limited, "billing") == ["queue:billing"]
