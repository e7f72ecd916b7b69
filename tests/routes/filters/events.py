# SPDX-License-Identifier: MIT
"""What the tests of filters need: events, legs, and an environment with nothing but what a filter asks for."""

import json
from types import SimpleNamespace

from redrive.broker import Message
from redrive.routes.parts import LegFacts
from redrive.testing import ManualClock

NOW = 1_767_484_800.0


def event(body=None, **properties):
    """Return an event; a body that is not bytes is written as JSON."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Message(content, **{"id": "o-1", **properties})


def leg(event_id="o-1", *, application="shop", route="big", accepted_at=NOW, now=NOW, attempt=1):
    return LegFacts(application, route, event_id, accepted_at, now, attempt)


def environment(ledger=None, clock=None):
    """Return an environment without a broker; a filter that asked for it would fail."""
    return SimpleNamespace(application="shop", name="big", ledger=ledger, clock=clock or ManualClock())


def bodies(messages):
    return [json.loads(each.body) for each in messages]
