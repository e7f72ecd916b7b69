# SPDX-License-Identifier: MIT
"""Rules of redaction over HTTP: they count at once, and who may not see what is hidden cannot remove them."""

from dataclasses import replace

from redrive.access import Redaction, RedactionRules
from redrive.access.redaction import HIDDEN
from tests.server.conftest import Someone, client_of, principal


async def body_of(client):
    return (await client.get("/queues/orders/messages")).json()[0]["body"]


async def test_a_rule_hides_from_the_next_answer_on(client, as_someone, desk):
    await desk.broker.declare("orders")
    await desk.broker.send("orders", "card 4111111111111111")
    asked = {"kind": "pattern", "value": r"\d{16}"}
    made = (await client.post("/redactions", json=asked)).json()
    assert await body_of(client) == f"card {HIDDEN}"
    assert (await client.post("/redactions", json=asked)).json() == made
    assert (await client.get("/redactions")).json() == [made]
    refused = await client.delete(f"/redactions/{made['number']}")
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert (await as_someone(may_see_bodies=True).delete(f"/redactions/{made['number']}")).json() == made
    assert await body_of(client) == "card 4111111111111111"
    assert (await client.delete("/redactions/99")).json()["code"] == "redaction-not-found"


async def test_rules_of_the_file_are_listed_and_count_beside_stored_ones(desk):
    own = Redaction(RedactionRules(patterns=("Card",)))
    client = client_of(replace(desk, redaction=own), Someone(principal()))
    await desk.broker.declare("orders")
    await desk.broker.send("orders", "Card 1234 header")
    for kind, value in (("pattern", r"\d+"), ("header", "authorization"), ("pointer", "/a")):
        assert (await client.post("/redactions", json={"kind": kind, "value": value})).status_code == 200
    assert await body_of(client) == f"{HIDDEN} {HIDDEN} header"
    listed = (await client.get("/redactions")).json()
    assert [(each["number"] is None, each["kind"]) for each in listed] == [
        (True, "pattern"),
        (False, "pattern"),
        (False, "header"),
        (False, "pointer"),
    ]


async def test_a_rule_that_cannot_be_used_is_refused(client):
    for kind, value in (("pattern", "("), ("pattern", "(?=a)"), ("pointer", "card"), ("header", ""), ("header", "\0")):
        refused = await client.post("/redactions", json={"kind": kind, "value": value})
        assert refused.json()["code"] == "invalid-setting", value
    assert (await client.get("/redactions")).json() == []


async def test_a_rule_that_matches_a_token_does_not_spoil_it(client, desk):
    await client.post("/redactions", json={"kind": "pattern", "value": "redrive_"})
    made = (await client.post("/tokens", json={"name": "ci"})).json()
    assert await desk.access.token_principal(made["token"], "") is not None
