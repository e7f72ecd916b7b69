# SPDX-License-Identifier: MIT
"""Queues and messages as JSON: what the command line prints and what an HTTP API returns. Pure: no I/O, no clock.

A view is made of texts, numbers, booleans, None, lists and dicts. Times are texts in ISO 8601; states are words.
"""

import base64
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeAlias

from redrive.broker.message import Message, Received
from redrive.broker.port import QueueInfo, TopicInfo

if TYPE_CHECKING:
    from redrive.broker.bulk import Resubmitted
    from redrive.broker.delivery import Delivery

View: TypeAlias = dict[str, Any]

_MESSAGE_FIELDS = ("id", "content_type", "subject", "correlation_id", "reply_to", "to", "session_id", "ttl")
_TIMES = ("due_at", "locked_until", "expires_at")


def queue_view(queue: QueueInfo) -> View:
    """Return a queue: its name, its settings and its counts."""
    return {
        **asdict(queue),
        "oldest_at": queue.oldest_at and queue.oldest_at.isoformat(),
        "created_at": queue.created_at.isoformat(),
        "used_at": queue.used_at.isoformat(),
    }


def topic_view(topic: TopicInfo) -> View:
    """Return a topic: its settings, its subscriptions and their rules."""
    return {
        "name": topic.name,
        "settings": asdict(topic.settings),
        "subscriptions": [
            {
                "name": each.name,
                "queue": each.queue,
                "rule": {"equals": dict(each.rule.equals), "expression": each.rule.expression},
            }
            for each in topic.subscriptions
        ],
        "unmatched": topic.unmatched,
        "created_at": topic.created_at.isoformat(),
    }


def message_view(message: Message) -> View:
    """Return a message as it was sent."""
    properties = {name: getattr(message, name) for name in _MESSAGE_FIELDS}
    return {**properties, "headers": dict(message.headers), **body_view(message.body)}


def body_view(body: bytes) -> View:
    """Return a body: as text, or in base64 if it is not UTF-8; ``body_encoding`` says which."""
    try:
        return {"body": body.decode(), "body_encoding": "utf-8"}
    except UnicodeDecodeError:
        return {"body": base64.b64encode(body).decode(), "body_encoding": "base64"}


def received_view(received: "Received | Delivery") -> View:
    """Return a message as it is in a queue; only a peeked one has its times."""
    info = received.dead_letter_info
    return {
        "queue": received.queue,
        "sequence": received.sequence,
        "id": received.id,
        "state": received.state.name.lower(),
        "delivery_count": received.delivery_count,
        "enqueued_at": received.enqueued_at.isoformat(),
        **(_times(received) if isinstance(received, Received) else {}),
        **message_view(received.message),
        "dead_letter": info and {"reason": info.reason, "description": info.description, "source": info.source},
    }


def _times(received: Received) -> View:
    instants = {name: getattr(received, name) for name in _TIMES}
    return {name: instant and instant.isoformat() for name, instant in instants.items()}


# --- what came of a request


def sent_view(
    queue: str, *, sent: int, duplicates: int, first_sequence: int | None, last_sequence: int | None, not_sent: int = 0
) -> View:
    """Return how many messages were sent; ``not_sent`` is there only if sending stopped before the end."""
    return {
        "queue": queue,
        "sent": sent,
        "duplicates": duplicates,
        "first_sequence": first_sequence,
        "last_sequence": last_sequence,
        **({"not_sent": not_sent} if not_sent else {}),
    }


def purged_view(queue: str, removed: int, *, interrupted: bool = False) -> View:
    """Return how many messages were removed from a queue."""
    return {"queue": queue, "removed": removed, **_interrupted(interrupted)}


def resubmitted_view(queue: str, resubmitted: "Resubmitted", *, interrupted: bool = False) -> View:
    """Return how many dead letters were sent again, and which were not."""
    until = resubmitted.locked_until
    return {
        "queue": queue,
        "resubmitted": int(resubmitted),
        "stayed": [{"number": each.sequence, "id": each.id, "reason": each.reason} for each in resubmitted.stayed],
        "locked": resubmitted.locked,
        "locked_until": until and until.isoformat(),
        **_interrupted(interrupted),
    }


def _interrupted(interrupted: bool) -> View:  # noqa: FBT001 - the value of a key
    return {"interrupted": True} if interrupted else {}


def cancelled_view(queue: str, sequence: int) -> View:
    """Return that a scheduled message was removed."""
    return {"queue": queue, "sequence": sequence, "cancelled": True}


def deleted_view(queue: str, messages: int) -> View:
    """Return that a queue was deleted, with so many messages."""
    return {"queue": queue, "deleted": True, "messages": messages}
