# SPDX-License-Identifier: MIT
"""Every endpoint and everybody who could ask, made of the OpenAPI document: a new endpoint without a rule fails.

What is asked is valid, as the document has it, so that it is refused for one reason only: who asks. It need not make
sense beyond that. An admin's requests show that they are valid.
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
    made = {
        role.value: await desk.access.create_token(role.value, rights_of(role, may_see_bodies=role is Role.ADMIN))
        for role in Role
    }
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


def request_of(document, path, found):
    """Return a valid request: its address, and its body."""
    query = {}
    for each in found.get("parameters", ()):
        if each["in"] == "path":
            path = path.replace(f"{{{each['name']}}}", str(valid(document, each["schema"], each)))
        elif each["in"] == "query" and each.get("required"):
            query[each["name"]] = valid(document, each["schema"], each)
    body = found.get("requestBody")
    json = None if body is None else valid(document, body["content"]["application/json"]["schema"])
    return {"url": path, "params": query, "json": json}


def valid(document, schema, described=None):  # noqa: PLR0911 - a line for each kind of schema
    """Return the simplest value that a schema allows: its example, or what is required of it."""
    if "$ref" in schema:
        return valid(document, document["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
    for given in (described or {}, schema):
        if given.get("examples"):
            return given["examples"][0]
    if "const" in schema or "enum" in schema:
        return schema["const"] if "const" in schema else schema["enum"][0]
    if "anyOf" in schema:
        return valid(document, schema["anyOf"][0])
    kind = schema.get("type")
    if kind == "object":
        wanted = {*schema.get("required", ()), *schema.get("oneOf", [{}])[0].get("required", ())}
        return {name: valid(document, schema["properties"][name]) for name in sorted(wanted)}
    if kind == "array":
        return [valid(document, schema["items"]) for _ in range(schema.get("minItems", 0))]
    if kind in ("integer", "number"):
        return int(schema.get("minimum", 1)) or 1
    return {"boolean": False, "null": None}.get(kind, "none")


def test_a_valid_value_is_made_of_what_a_schema_requires():
    chosen = {"type": "object", "properties": {"a": {"anyOf": [{"type": "array", "items": {}, "minItems": 0}]}}}
    schema = {**chosen, "oneOf": [{"required": ["a"]}], "properties": {**chosen["properties"], "b": {"type": "string"}}}
    assert valid({}, schema) == {"a": []}
    assert valid({}, {**schema, "required": ["b"]}) == {"a": [], "b": "none"}


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
            answer = await client.request(method, headers=askers[asker], **request_of(document, path, found))
            wanted = expected(asker, found)
            refused = (401, 422, 500) if asker == "limited" else (401, 403, 422, 500)
            is_right = answer.status_code == wanted if wanted else answer.status_code not in refused
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


ASK_BY_POST = {"/api/v1/dry-runs", "/api/v1/previews"}
"""What is asked with a body, and changes nothing."""


async def test_what_changes_something_is_declared_as_a_change(asked):
    _, document = asked
    for method, path, found in endpoints(document):
        if not found.get("x-redrive-public"):
            is_change = ACTIONS[found["x-redrive-action"]].is_change
            assert is_change == (method != "GET" and path not in ASK_BY_POST), (method, path)
