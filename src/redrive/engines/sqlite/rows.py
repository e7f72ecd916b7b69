# SPDX-License-Identifier: MIT
"""Messages as rows, and rows as messages."""

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, TypeAlias

from redrive.broker.lifecycle import State
from redrive.broker.message import DeadLetterInfo, Headers, Lock, Message, Received
from redrive.errors import StorageDamaged

Row: TypeAlias = tuple[Any, ...]

COLUMNS = (
    "m.sequence, m.state, m.due, m.token, m.delivery_count, m.enqueued_at, m.expires, m.id, m.properties,"
    " m.dead_letter, coalesce(m.body, (SELECT body FROM bodies WHERE sequence = m.sequence))"
)
"""What ``received`` reads, in its order."""

SMALL_BODY_BYTES = 1_024
"""Up to this size a body is in its message's row: writing it anew with each lock costs less than a row of its own."""

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


def locked(found: Iterable[Row], queue: str, state: State, token: int, until: float) -> list[Received]:
    """Return messages that have just been locked, from rows of ``COLUMNS`` as they were before."""
    locked_until = _instant(until)
    return [
        _received(row, queue, state, row[4] + 1, Lock(queue, row[0], token), locked_until=locked_until) for row in found
    ]


def taken(found: Iterable[Row], queue: str) -> list[Received]:
    """Return messages that have just been taken out, from rows of ``COLUMNS`` as they were before."""
    return [_received(row, queue, State.READY, row[4] + 1) for row in found]


def seen(row: Row, queue: str) -> Received:
    """Return a message as it is in its queue, from a row of ``COLUMNS``."""
    return _received(row, queue, State(row[1]), row[4], due_at=row[2] if row[1] == State.SCHEDULED else None)


def _received(
    row: Row,
    queue: str,
    state: State,
    delivery_count: int,
    lock: Lock | None = None,
    *,
    locked_until: datetime | None = None,
    due_at: float | None = None,
) -> Received:
    sequence, _, _, _, _, enqueued_at, expires, message_id, properties, dead_letter, body = row
    try:
        return Received(
            message_of(message_id, properties, body),
            queue,
            sequence,
            state,
            datetime.fromtimestamp(enqueued_at, UTC),
            delivery_count,
            lock,
            locked_until,
            None if due_at is None else _instant(due_at),
            None if expires is None else _instant(expires),
            None if dead_letter is None else DeadLetterInfo(*json.loads(dead_letter)),
        )
    except (TypeError, ValueError, OverflowError) as error:
        raise StorageDamaged(f"message {sequence} in {queue!r} is damaged; restore a backup ({error})") from error


def _instant(seconds: float) -> datetime:
    return datetime.fromtimestamp(min(seconds, _LAST_INSTANT), UTC)
