# SPDX-License-Identifier: MIT
"""Routes as JSON."""

import json
from datetime import UTC, datetime

from redrive.broker import Message
from redrive.routes import LegStep, RouteInfo, from_queue, match, route, to_queue, views, webhook
from redrive.routes.ledger import StoredRoute

NOW = datetime(2026, 11, 17, 9, 30, tzinfo=UTC)
BIG = route("big", source=from_queue("orders"), max_attempts=3) | match("body.total > 100") >> to_queue("big")


def test_a_route_has_its_parts_its_state_and_what_waits():
    info = RouteInfo(
        route=BIG,
        version=2,
        state="paused",
        reason="why",
        queue="q",
        queues=("q",),
        waiting=3,
        dead=1,
        oldest_at=NOW,
        changed_at=None,
    )
    view = views.route_view(info)
    assert json.loads(json.dumps(view)) == view
    assert view["source"] == {"kind": "queue", "address": "orders", "text": "queue(queue='orders')"}
    assert view["filters"] == [{"kind": "match", "text": "match(expression='body.total > 100')"}]
    assert view["sender"] == {"kind": "queue", "destination": "queue big", "text": "queue(queue='big')"}
    assert view["settings"] == {"max_attempts": 3}
    assert (view["oldest_at"], view["changed_at"]) == ("2026-11-17T09:30:00+00:00", None)
    assert (view["delivery"], view["guarantee"], view["waiting"], view["dead"]) == ("durable", "at_least_once", 3, 1)


def test_a_secret_is_in_no_view():
    secret = route("a", source=from_queue("orders")) >> webhook("https://x.org/", headers={"Authorization": "hunter2"})
    stored = StoredRoute(application="default", name="a", version=1, state="running", definition=secret.to_json())
    assert "hunter2" not in json.dumps([views.definition_view(secret), views.version_view(stored, secret)])


def test_a_version_that_cannot_be_read_here_is_shown_without_its_definition():
    stored = StoredRoute(
        application="default", name="a", version=1, state="running", definition='{"name": "a"}', changed_at=NOW
    )
    view = views.version_view(stored, None)
    assert (view["definition"], view["changed_at"]) == (None, "2026-11-17T09:30:00+00:00")


def test_steps_have_the_messages_that_went_on():
    view = views.steps_view(BIG, [LegStep("filter 1 (match)", "passed", (Message(b"\xff", id="1"),))])
    assert json.loads(json.dumps(view)) == view
    assert (view["route"], view["steps"][0]["outcome"]) == ("big", "passed")
    assert view["steps"][0]["messages"][0]["body_encoding"] == "base64"
