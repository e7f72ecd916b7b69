# SPDX-License-Identifier: MIT
"""Every endpoint and everybody who could ask, made of the OpenAPI document: a new endpoint without a rule fails.

What is asked need not make sense. It is enough to see whether the answer is *you may not*, or anything else.
"""

from datetime import timedelta

import httpx
import pytest

from redrive.access import ACTIONS, Reach, Role, rights_of
from redrive.server import ServerSettings, create_app
from redrive.server.door import GuardedDoor

SETTINGS = ServerSettings(require_sign_in=True)
ASKERS = ("none", "nonsense", "revoked", "expired", "viewer", "operator", "admin", "limited")
STREAMS = {"/api/v1/events"}


def endpoints(document):
    for path, methods in document["paths"].items():
        for method, found in methods.items():
            yield method.upper(), path, found


@pytest.fixture
async def askers(desk):
    """Return the headers of everybody who could ask."""
    made = {role.value: await desk.access.create_token(role.value, rights_of(role)) for role in Role}
    made["revoked"] = await desk.access.create_token("revoked", rights_of("admin"))
    await desk.access.revoke_token(made["revoked"].info.id)
    made["expired"] = await desk.access.create_token("expired", rights_of("admin"), expires_in=timedelta(seconds=0.001))
    made["limited"] = await desk.access.create_token("limited", rights_of("admin", ["elsewhere"]))
    headers = {name: {"authorization": f"Bearer {each.secret}"} for name, each in made.items()}
    return {"none": {}, "nonsense": {"authorization": "Bearer redrive_none"}, **headers}


@pytest.fixture
async def asked(desk):
    app = create_app(desk, SETTINGS, GuardedDoor(desk.access, SETTINGS))
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        yield client, app.openapi()


def url_of(path, found):
    for each in found.get("parameters", ()):
        if each["in"] == "path":
            value = "1" if each["schema"].get("type") == "integer" else "none"
            path = path.replace(f"{{{each['name']}}}", value)
    return path


def expected(asker, found):
    """Return the status that must be the answer; None: any but 401 and 403."""
    if asker in ("none", "nonsense", "revoked", "expired"):
        return 401
    action = ACTIONS[found["x-redrive-action"]]
    role = Role.ADMIN if asker == "limited" else Role(asker)
    if not role.includes(action.role):
        return 403
    if asker == "limited" and action.reach is Reach.WHOLE:
        return 403
    return None


async def test_everybody_may_do_what_the_table_says_and_nothing_else(asked, askers, desk):
    client, document = asked
    await desk.broker.declare("none")
    wrong = []
    for asker in ASKERS:
        for method, path, found in endpoints(document):
            if found.get("x-redrive-public") or (path in STREAMS and expected(asker, found) is None):
                continue
            body = None if method in ("GET", "DELETE") else {}
            answer = await client.request(method, url_of(path, found), headers=askers[asker], json=body)
            wanted = expected(asker, found)
            is_right = answer.status_code == wanted if wanted else answer.status_code not in (401, 500)
            if wanted is None and asker != "limited":
                is_right = is_right and answer.status_code != 403
            if wanted == 403 and answer.status_code == 422:
                is_right = True  # it was refused before it was known what it is about; nothing was done
            if not is_right:
                wrong.append((asker, method, path, answer.status_code, wanted))
    assert wrong == []


async def test_whoever_is_limited_to_another_queue_gets_nothing_of_this_one(asked, askers, desk):
    client, _ = asked
    await desk.broker.declare("orders")
    for method, path in (("GET", "/api/v1/queues/orders"), ("DELETE", "/api/v1/queues/orders")):
        assert (await client.request(method, path, headers=askers["limited"])).status_code == 403
    assert (await client.get("/api/v1/queues", headers=askers["limited"])).json() == []


async def test_every_endpoint_has_a_rule(asked):
    _, document = asked
    public = [path for _, path, found in endpoints(document) if found.get("x-redrive-public")]
    assert public == ["/api/v1/session", "/api/v1/session/provider", "/api/v1/session/provider/return"]
    for method, path, found in endpoints(document):
        assert found["x-redrive-action"] in ACTIONS, (method, path)
