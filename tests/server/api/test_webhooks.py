# SPDX-License-Identifier: MIT
"""Webhooks over HTTP: a secret is shown once."""

ASKED = {"name": "chat", "url": "http://127.0.0.1:9/hook", "events": ["new-group"]}


async def test_a_webhook_is_added_tried_and_removed(client, desk):
    made = (await client.post("/webhooks", json=ASKED)).json()
    assert made["secret"].startswith("whsec_")
    listed = await client.get("/webhooks")
    assert listed.json() == [{name: value for name, value in made.items() if name != "secret"}]
    assert (await client.post("/webhooks", json=ASKED)).json()["code"] == "webhook-conflict"
    tried = (await client.post("/webhooks/chat/test")).json()
    assert (tried["delivered"], "private_networks" in tried["problem"]) == (False, True)
    assert (await client.delete("/webhooks/chat")).json() == listed.json()[0]
    assert (await client.delete("/webhooks/chat")).json()["code"] == "webhook-not-found"
    trail = str([(each.action, each.subject, each.outcome) for each in await desk.recovery.trail()])
    assert "webhook:chat" in trail
    assert made["secret"] not in trail


async def test_a_webhook_that_makes_no_sense_is_refused(client):
    for odd in ({"name": "a b"}, {"url": "x"}, {"events": ["none"]}, {"secret": "s3cret"}):
        refused = await client.post("/webhooks", json={**ASKED, **odd})
        assert (refused.status_code, "s3cret" in refused.text) == (400, False)
