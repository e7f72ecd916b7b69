# SPDX-License-Identifier: MIT
"""Messages as rows, and rows as messages."""

import json
from datetime import UTC, datetime
from typing import Any, TypeAlias

from redrive.broker.lifecycle import State
from redrive.broker.message import DeadLetterInfo, Headers, Lock, Message, Received
from redrive.errors import StorageDamaged

Row: TypeAlias = tuple[Any, ...]

COLUMNS = (
    "m.sequence, m.state, m.due, m.token, m.delivery_count, m.enqueued_at, m.expires, m.id, m.properties,"
    " m.dead_letter, b.body"
)
"""What ``received`` reads, in its order."""

_LAST_INSTANT = datetime(9_999, 12, 31, tzinfo=UTC).timestamp()
"""A message may expire later than that; no ``datetime`` can say so."""

_TEXTS = ("content_type", "subject", "correlation_id", "reply_to", "to", "session_id")


def properties_of(message: Message) -> str | None:
    """Return everything about a message that has no column, as JSON; None if there is nothing."""
    if message.is_plain:
        return None
    told: dict[str, Any] = {name: value for name in _TEXTS if (value := getattr(message, name)) is not None}
    if message.ttl is not None:
        told["ttl"] = message.ttl
    if message.headers:
        told["headers"] = dict(message.headers)
    return json.dumps(told, ensure_ascii=False, separators=(",", ":")) if told else None


def size_of(message: Message, properties: str | None) -> int:
    """Return how many bytes of a queue's limit a message takes."""
    return len(message.body) + (len(properties.encode()) if properties else 0)


def with_headers(properties: str | None, changes: Headers) -> str | None:
    """Return properties with some headers changed or, where the change is None, removed."""
    told = json.loads(properties) if properties else {}
    headers = told.pop("headers", {}) | changes
    for name, value in changes.items():
        if value is None:
            del headers[name]
    if headers:
        told["headers"] = headers
    return json.dumps(told, ensure_ascii=False, separators=(",", ":")) if told else None


def storable(number: int) -> int:
    """Return a number that SQLite can compare: one it cannot hold is nobody's."""
    return number if -(2**63) <= number < 2**63 else -1


def dead_letter_json(reason: str, description: str, source: str) -> str:
    """Return why a message is dead, as it is stored: in ASCII, as a description may have half of a surrogate pair."""
    return json.dumps([reason, description, source])


def message_of(message_id: str, properties: str | None, body: bytes) -> Message:
    """Return the message that a row holds."""
    if properties is None and type(body) is bytes and type(message_id) is str:
        return Message.plain(body, message_id)
    if properties is None:
        return Message(body, id=message_id)
    return Message(body, id=message_id, **json.loads(properties))


def received(row: Row, queue: str) -> Received:
    """Return a message as it is in its queue, from a row of ``COLUMNS``."""
    try:
        return _received(row, queue)
    except (TypeError, ValueError, OverflowError) as error:
        raise StorageDamaged(f"message {row[0]} in {queue!r} is damaged; restore a backup ({error})") from error


def _received(row: Row, queue: str) -> Received:
    sequence, state, due, token, count, enqueued_at, expires, message_id, properties, dead_letter, body = row
    is_locked = token is not None
    return Received(
        message=message_of(message_id, properties, body),
        queue=queue,
        sequence=sequence,
        state=State(state),
        enqueued_at=_utc(enqueued_at),
        delivery_count=count,
        lock=Lock(queue, sequence, token) if is_locked else None,
        locked_until=_instant(due) if is_locked else None,
        due_at=_instant(due) if state == State.SCHEDULED else None,
        expires_at=_instant(expires),
        dead_letter=DeadLetterInfo(*json.loads(dead_letter)) if dead_letter else None,
    )


def _instant(seconds: float | None) -> datetime | None:
    return None if seconds is None else _utc(min(seconds, _LAST_INSTANT))


def _utc(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
