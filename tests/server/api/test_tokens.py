# SPDX-License-Identifier: MIT
"""Tokens and users over HTTP: a secret is shown once, and the last admin stays."""

import pytest

from redrive.access import rights_of

PASSWORD = "correct horse battery"  # noqa: S105 - for tests


async def test_a_new_token_is_shown_once_and_works(client, desk):
    made = (await client.post("/tokens", json={"name": "ci", "role": "operator", "queues": ["orders"]})).json()
    (listed,) = (await client.get("/tokens")).json()
    found = await desk.access.token_principal(made["token"], "")
    assert (found.name, found.role.value, found.queues) == ("token:ci", "operator", ("orders",))
    assert listed == {name: value for name, value in made.items() if name != "token"}
    assert listed["created_by"] == "ann (10.0.0.7)"


async def test_the_same_key_makes_one_token(client):
    answers = [await client.post("/tokens", json={"name": "ci"}, headers={"idempotency-key": "k"}) for _ in range(2)]
    assert [each.status_code for each in answers] == [200, 409]
    assert answers[1].json()["code"] == "request-repeated"
    assert len((await client.get("/tokens")).json()) == 1


async def test_a_token_is_revoked_at_once_and_written_down(client, desk):
    made = (await client.post("/tokens", json={"name": "ci"})).json()
    assert (await client.delete(f"/tokens/{made['id']}")).json()["revoked_at"] is not None
    assert await desk.access.token_principal(made["token"], "") is None
    assert (await client.delete("/tokens/redrive_none")).json()["code"] == "token-not-found"
    trail = [(each.action, each.subject, each.outcome) for each in await desk.recovery.trail()]
    assert ("tokens.write", f"token:{made['id']}", "done") in trail
    assert made["token"] not in str(trail)


async def test_only_who_may_see_what_is_hidden_lets_others_see_it(client, as_someone):
    for path, body in (("/tokens", {"name": "x"}), ("/users", {"name": "x", "password": PASSWORD})):
        refused = await client.post(path, json={**body, "may_see_bodies": True})
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
        allowed = await as_someone(may_see_bodies=True).post(path, json={**body, "may_see_bodies": True})
        assert allowed.json()["may_see_bodies"] is True


@pytest.mark.parametrize("body", [{"name": "ci", "role": "root"}, {"name": ""}, {"name": "ci", "queues": ["a*b"]}])
async def test_a_token_that_makes_no_sense_is_refused(client, body):
    assert (await client.post("/tokens", json=body)).json()["code"] == "invalid-setting"


async def test_a_user_is_added_gets_another_password_and_is_removed(client, desk):
    added = await client.post("/users", json={"name": "bob", "password": PASSWORD})
    assert added.json()["role"] == "viewer"
    session = await desk.access.sign_in("bob", PASSWORD, "")
    changed = await client.put("/users/bob/password", json={"password": "another password"})
    assert changed.json() == {"name": "bob", "changed": True}
    assert await desk.access.session_principal(session.secret, "") is None
    assert PASSWORD not in (await client.get("/users")).text
    assert (await client.delete("/users/bob")).json() == {"name": "bob", "removed": True}
    assert (await client.delete("/users/bob")).json()["code"] == "user-not-found"
    short = await client.post("/users", json={"name": "bob", "password": "hunter2"})
    assert short.status_code == 400
    assert "hunter2" not in short.text


async def test_the_last_admin_is_not_removed_by_accident(client, desk):
    await desk.access.add_user("ann", PASSWORD, rights_of("admin"))
    await desk.access.add_user("bob", PASSWORD, rights_of("operator"))
    await desk.access.create_token("some", rights_of("admin", ["orders"]))
    refused = await client.delete("/users/ann")
    assert (refused.status_code, refused.json()["code"]) == (409, "last-admin")
    token = (await desk.access.create_token("ci", rights_of("admin"))).info.id
    assert (await client.delete("/users/ann")).status_code == 200
    assert (await client.delete(f"/tokens/{token}")).json()["code"] == "last-admin"
    assert (await client.delete(f"/tokens/{token}?even_last=true")).status_code == 200
    assert (await client.delete("/users/bob")).status_code == 200
