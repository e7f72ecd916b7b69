# SPDX-License-Identifier: MIT
"""Redirects, notes, the audit trail, what is not read yet and what could not be, over HTTP."""

from redrive.access import Role
from redrive.broker import Message
from redrive.recovery import views


async def test_redirects_are_added_listed_and_removed(client, desk):
    await desk.broker.declare("orders-v2")
    assert (await client.put("/redirects/orders", json={"to": "orders-v2"})).json() == {
        "from": "orders",
        "to": "orders-v2",
    }
    assert (await client.get("/redirects")).json() == [{"from": "orders", "to": "orders-v2"}]
    assert (await client.put("/redirects/a", json={"to": "none"})).json()["code"] == "queue-not-found"
    assert (await client.delete("/redirects/orders")).json() == {"from": "orders", "to": None}
    assert (await client.get("/redirects")).json() == []


async def test_notes_are_written_read_and_removed(client, fail):
    (first, *_) = await fail()
    asked = {"subject": f"failure:{first.id}", "text": "called them"}
    note = (await client.post("/notes", json=asked)).json()
    assert (note["text"], note["actor"]) == ("called them", "ann (10.0.0.7)")
    assert (await client.get("/notes", params={"subject": asked["subject"]})).json() == [note]
    assert (await client.delete(f"/notes/{note['number']}")).json() == {"note": note["number"], "removed": True}
    assert (await client.delete(f"/notes/{note['number']}")).json()["code"] == "note-not-found"
    assert (await client.post("/notes", json={"subject": "odd", "text": "x"})).status_code == 422


async def test_the_trail_is_asked_by_actor_action_subject_and_time(client, desk):
    await desk.recovery.audit("queues.delete", "queue:orders", actor="ann")
    await desk.recovery.audit("queues.update", "queue:orders", actor="bob")

    async def found(**asked):
        return [each["actor"] for each in (await client.get("/audit", params=asked)).json()]

    assert await found(actor="ann") == await found(action="queues.delete") == ["ann"]
    assert await found(subject="queue:orders", actor="bob", since="2000-01-01T00:00:00Z") == ["bob"]
    assert await found(until="2000-01-01T00:00:00+02:00") == []
    for wrong in ("today", "2000-01-01"):
        refused = await client.get("/audit", params={"since": wrong})
        assert (refused.status_code, refused.json()["code"]) == (400, "invalid-setting")


async def test_the_trail_has_who_did_what_and_pages(client, desk, fail):
    await fail()
    await client.put("/queues/more", json={})
    await client.post("/operations", json={"filter": "queue:orders", "kind": "archive"})
    entries = (await client.get("/audit")).json()
    assert entries == views.records_view(await desk.recovery.trail())
    assert {each["action"] for each in entries} >= {"queues.declare", "archive"}
    page = await client.get("/audit", params={"limit": 1, "subject": "queue:more"})
    assert [each["outcome"] for each in page.json()] == ["done"]
    assert [each["outcome"] for each in (await client.get(page.links["next"]["url"][7:])).json()] == ["begun"]


async def test_what_could_not_be_read_is_listed_and_read_again(client, desk):
    await desk.broker.declare("error")
    await desk.broker.send("error", Message(b"what is this", id="odd"))
    assert (await client.post("/ingest", json={})).json() == {
        "read": 0,
        "set_aside": 1,
        "sources": ["error"],
    }
    (aside,) = (await client.get("/asides")).json()
    assert aside["message"]["body"] == "what is this"
    assert (await client.post("/asides/reimport", json={})).json() == {"read": 0, "left": 1}
    assert (await client.post("/asides/reimport", json={"queue": "orders"})).json() == {"read": 1, "left": 0}


async def test_dead_letters_are_read_when_asked_for(client, desk):
    await desk.broker.declare("orders")
    await desk.broker.send("orders", b"1")
    (delivery,) = await desk.broker.receive("orders")
    await delivery.dead_letter("odd", "by hand")
    assert (await client.post("/ingest", json={"dead": True})).json()["read"] == 1
    assert (await client.post("/ingest", json={"queues": ["none"]})).json()["code"] == "queue-not-found"


async def test_old_records_are_swept_by_an_admin_only(client, as_someone, desk, fail):
    await fail()
    await client.post("/operations", json={"filter": "queue:orders", "kind": "archive"})
    await desk.recovery.step()
    assert (await as_someone(Role.OPERATOR).post("/sweep", json={"older_than": 0})).status_code == 403
    assert (await client.post("/sweep", json={"older_than": 3600})).json() == {"deleted": 0}
    assert (await client.post("/sweep", json={"older_than": 0})).json()["deleted"] >= 3


async def test_a_limited_principal_has_nothing_of_the_whole(as_someone, fail):
    (other, *_) = await fail("billing", error=KeyError)
    await fail("orders")
    limited = as_someone(Role.OPERATOR, queues=("orders",))
    for answer in (
        await limited.get("/audit"),
        await limited.get("/asides"),
        await limited.post("/ingest", json={}),
        await limited.delete("/notes/1"),
        await limited.put("/redirects/orders", json={"to": "billing"}),
        await limited.delete("/redirects/billing"),
    ):
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    for subject in (f"failure:{other.id}", f"group:{other.group}", "operation:1", "operation:x"):
        assert (await limited.get("/notes", params={"subject": subject})).status_code == 404
        assert (await limited.post("/notes", json={"subject": subject, "text": "x"})).status_code == 404
