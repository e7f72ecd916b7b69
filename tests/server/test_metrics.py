# SPDX-License-Identifier: MIT
"""Metrics: true figures, and a bounded number of time series whatever names there are."""

import json
import re
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from redrive.access import Role
from redrive.recovery import MessageFailed
from redrive.server import ServerSettings, create_app
from redrive.server.app import Observed
from redrive.server.event_tally import event_kinds
from redrive.server.metrics import OTHER
from redrive.testing import ManualClock
from tests.server.conftest import Someone, client_of, principal

DASHBOARD = Path(__file__).parents[2] / "docs" / "grafana" / "redrive.json"


async def scraped(client):
    answer = await client.get("http://127.0.0.1/metrics")
    assert answer.status_code == 200, answer.text
    families = text_string_to_metric_families(answer.text)
    return {(each.name, tuple(sorted(each.labels.items()))): each.value for one in families for each in one.samples}


def value(found, name, **labels):
    return found[name, tuple(sorted(labels.items()))]


async def test_queues_and_failures_are_counted_when_they_are_asked_for(client, desk):
    await desk.broker.declare("orders")
    await desk.broker.send_many("orders", [b"1", b"2"])
    found = await scraped(client)
    assert value(found, "redrive_queue_messages", queue="orders", state="ready") == 2
    assert value(found, "redrive_queue_oldest_seconds", queue="orders") >= 0
    assert value(found, "redrive_failures_unresolved") == 0
    assert value(found, "redrive_operations_open") == 0
    assert value(found, "redrive_store_up") == 1
    assert not any("redrive." in dict(labels).get("queue", "") for _, labels in found)


async def test_requests_are_measured_by_endpoint_not_by_path(client, desk):
    await desk.broker.declare("orders")
    for name in ("orders", "billing", "orders"):
        await client.get(f"/queues/{name}")
    await client.get("/nothing/at/all")
    found = await scraped(client)
    endpoint = "/api/v1/queues/{name}"
    assert value(found, "redrive_server_request_seconds_count", method="GET", endpoint=endpoint, status="200") == 2
    assert value(found, "redrive_server_request_seconds_count", method="GET", endpoint=endpoint, status="404") == 1
    assert value(found, "redrive_server_request_seconds_count", method="GET", endpoint=OTHER, status="404") == 1


async def test_an_event_is_counted_by_its_labels_and_too_many_labels_are_counted_together(desk):
    observed = Observed.by(ManualClock())
    app = create_app(desk, ServerSettings(), Someone(principal(Role.VIEWER)), observed)
    for number in range(1_000):
        observed.metrics.note(MessageFailed("1", "m", f"queue-{number}", "E", "g", None))
    import httpx

    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        found = await scraped(client)
    name = "redrive_recovery_message_failed_total"
    assert value(found, name, queue="queue-0") == 1
    assert value(found, name, queue=OTHER) == 800
    assert sum(1 for each, _ in found if each == name) == 201


async def test_only_the_fullest_queues_have_series_of_their_own(client, desk):
    for number in range(205):
        await desk.broker.declare(f"queue-{number:03}")
    await desk.broker.send("queue-204", b"1")
    found = await scraped(client)
    queues = {dict(labels)["queue"] for name, labels in found if name == "redrive_queue_messages"}
    assert len(queues) == 201
    assert {"queue-204", OTHER} <= queues


async def test_the_store_is_asked_once_in_a_while_however_many_ask(desk, monkeypatch):
    asked = 0
    queues = desk.broker.queues

    async def counted():
        nonlocal asked
        asked += 1
        return await queues()

    monkeypatch.setattr(desk.broker, "queues", counted)
    client = client_of(desk)
    for _ in range(5):
        await scraped(client)
    assert asked == 1


async def test_whoever_is_limited_to_queues_gets_no_metrics(as_someone):
    answer = await as_someone(Role.VIEWER, queues=("orders",)).get("http://127.0.0.1/metrics")
    assert answer.status_code == 403


async def test_every_metric_of_the_dashboard_exists(client):
    texts = re.findall(r'"expr": "([^"]+)"', DASHBOARD.read_text().replace('\\"', "'"))
    used = {name for text in texts for name in re.findall(r"\b(?:redrive|process)_[a-z_]+", text)}
    answer = await client.get("http://127.0.0.1/metrics")
    known = set(re.findall(r"^# TYPE (\S+)", answer.text, re.MULTILINE))
    known |= {f"{name}{end}" for name in known for end in ("_bucket", "_count", "_sum")}
    assert used
    assert used - known == set()
    assert json.loads(DASHBOARD.read_text())["title"] == "Redrive"


def test_every_event_has_a_counter_of_its_own():
    assert len({kind.name for kind in event_kinds()}) == len(event_kinds()) > 15
