# SPDX-License-Identifier: MIT
"""Webhooks as they are stored and listed, and what their requests say. Pure: no I/O, no clock."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

from redrive.broker.views import View
from redrive.errors import InvalidSetting
from redrive.http import request_rules
from redrive.http.signing import signature, signing_key
from redrive.notifications.notices import EVENTS, OPERATION_FINISHED, Notice

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
TEST: Final = "test"
"""The event of a request that is made to try a webhook."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookInfo:
    """A webhook, without its secret.

    Attributes:
        name: its name.
        url: where it is called.
        events: what for.
        created_at: when it was added.
        created_by: who added it.
    """

    name: str
    url: str
    events: tuple[str, ...]
    created_at: datetime
    created_by: str

    def wants(self, notice: Notice) -> bool:
        """Say whether it is called for something; not for operations that had ended before it was added."""
        if notice.event == OPERATION_FINISHED and notice.since is not None and notice.since < self.created_at:
            return False
        return notice.event in self.events

    def view(self) -> View:
        """Return it as JSON."""
        created = {"created_by": self.created_by, "created_at": self.created_at.isoformat()}
        return {"name": self.name, "url": self.url, "events": list(self.events), **created}


class NewWebhook(NamedTuple):
    """A webhook that was just added: the only moment at which its secret can be seen.

    Attributes:
        info: what is listed of it.
        secret: what signs its requests.
    """

    info: WebhookInfo
    secret: str


@dataclass(frozen=True, slots=True)
class WebhookTest:
    """What came of a call that was made to try a webhook.

    Attributes:
        name: the webhook.
        delivered: whether it has answered with 2xx.
        problem: what was wrong; empty: nothing.
    """

    name: str
    delivered: bool
    problem: str

    def view(self) -> View:
        """Return it as JSON."""
        return {"name": self.name, "delivered": self.delivered, "problem": self.problem}


def check_webhook(name: object, url: object, events: object) -> tuple[str, str, tuple[str, ...]]:
    """Return name, URL and events of a webhook, if they can be used.

    Raises:
        InvalidSetting: one of them cannot.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidSetting("name", name, "must be 1 to 100 letters, digits, dots, dashes or underscores")
    if not isinstance(url, str) or len(url) > 2_000:
        raise InvalidSetting("url", url, "must be a URL of at most 2,000 characters")
    request_rules.check_url("url", url)
    wanted = tuple(dict.fromkeys(events)) if isinstance(events, Sequence) and not isinstance(events, str) else ()
    if not wanted or any(each not in EVENTS for each in wanted):
        raise InvalidSetting("events", events, f"must be some of: {', '.join(EVENTS)}")
    return name, url, wanted


def body_of(event_id: str, notice: Notice, at: datetime) -> dict[str, Any]:
    """Return what a request says."""
    since = None if notice.since is None else notice.since.isoformat()
    said = {"type": notice.event, "subject": notice.subject, "sentence": notice.sentence, "count": notice.count}
    return {"id": event_id, **said, "since": since, "at": at.isoformat()}


def headers_of(secret: str, event_id: str, body: bytes, now: int) -> dict[str, str]:
    """Return the headers of a request, with its signature."""
    return {
        "user-agent": "redrive",
        "accept-encoding": "identity",
        "content-type": "application/json",
        "idempotency-key": event_id,
        "webhook-id": event_id,
        "webhook-timestamp": str(now),
        "webhook-signature": signature(signing_key(secret), event_id, now, body),
    }


def encoded(said: dict[str, Any]) -> bytes:
    """Return what a request says, as bytes."""
    return json.dumps(said, ensure_ascii=False).encode(errors="backslashreplace")
