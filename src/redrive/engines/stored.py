# SPDX-License-Identifier: MIT
"""Messages as the columns of a database, and columns as messages."""

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import lru_cache, partial
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any, TypeAlias

from redrive.broker.headers import OWN_HEADERS
from redrive.broker.port import (
    DeadLetterInfo,
    Headers,
    Lock,
    Message,
    QueueSettings,
    Received,
    State,
    TopicSettings,
    unsealed,
)
from redrive.broker.rules import LOCKED_STATES, header_text
from redrive.broker.topics import Rule, SubscriptionInfo, TopicInfo
from redrive.clock import utc
from redrive.errors import InvalidMessage, MessageTooLarge, SessionRequired, StorageDamaged
from redrive.tracing import TRACE_HEADERS

Row: TypeAlias = tuple[Any, ...]

_LAST_INSTANT = datetime(9_999, 12, 31, tzinfo=UTC).timestamp()
"""A message may expire later than that; no ``datetime`` can say so."""

_instant = lru_cache(maxsize=256)(partial(datetime.fromtimestamp, tz=UTC))
"""The same for many messages: what is sent together was sent, and what is received together is locked, at once."""

_OpenReceived, _OpenLock = unsealed(Received), unsealed(Lock)


def _json_encoder() -> Callable[[object], str]:
    """Return a function that makes JSON of properties.

    ``JSONEncoder.encode`` builds its encoder in C anew at each call, which costs as much as the encoding of eight
    headers. Where there is one in C, it is built once here.
    """
    plain = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False)  # headers are flat
    build = getattr(json.encoder, "c_make_encoder", None)
    if build is None:
        return plain.encode
    pieces = build(None, plain.default, json.encoder.encode_basestring, None, ":", ",", False, False, True)  # noqa: FBT003
    return lambda properties: "".join(pieces(properties, 0))


_as_json = _json_encoder()
_decoded = json.JSONDecoder().raw_decode  # json.loads without looking for spaces before and behind a value

OWN_HEADERS_BYTES = 131_072
"""What these may take together, where they do not fit into a queue's limit: twice what a failure's have at most."""

_TEXTS = ("content_type", "subject", "correlation_id", "reply_to", "to", "session_id")
_NO_TEXTS = (None,) * len(_TEXTS)
_texts_of = attrgetter(*_TEXTS)


def properties_of(message: Message) -> str | None:
    """Return the properties of a message that have no column, as JSON; None if it has none."""
    return None if message.is_plain else _properties(message, message.headers)


def _properties(message: Message, headers: Headers) -> str | None:
    properties: dict[str, Any] = {}
    if _texts_of(message) != _NO_TEXTS:  # mostly there are none
        properties = {name: value for name in _TEXTS if (value := getattr(message, name)) is not None}
    if message.ttl is not None:
        properties["ttl"] = message.ttl
    if headers:
        properties["headers"] = headers if type(headers) is dict else dict(headers)
    return _as_json(properties) if properties else None


def size_of(message: Message, properties: str | None) -> int:
    """Return how many bytes a message takes, all of it."""
    if not properties:
        return len(message.body)
    return len(message.body) + (len(properties) if properties.isascii() else len(properties.encode()))


def check_size(message: Message, properties: str | None, queue: str, limit: int) -> None:
    """See that a message is not larger than its queue takes.

    The limit is for what a user sends. What Redrive adds on a message's way through failures and recovery does not
    count, so that whatever a queue has taken can go to an error queue and come back. It has a limit of its own, since
    any sender can give a header such a name.
    """
    size = size_of(message, properties)
    if size <= limit:
        return
    theirs = {
        name: value
        for name, value in message.headers.items()
        if not name.startswith(OWN_HEADERS) and name not in TRACE_HEADERS
    }
    counted = size_of(message, _properties(message, theirs))
    if counted > limit:
        raise MessageTooLarge(queue, counted, limit)
    if size - counted > OWN_HEADERS_BYTES:
        expected = f"those that begin with {OWN_HEADERS!r} may have {OWN_HEADERS_BYTES:,} bytes together"
        raise InvalidMessage("headers", f"{size - counted:,} bytes", expected)


def checked_properties(message: Message, queue: str, settings: QueueSettings) -> str | None:
    """Return a message's properties, if its queue takes it."""
    properties = properties_of(message)
    check_message(message, properties, queue, settings)
    return properties


def check_message(message: Message, properties: str | None, queue: str, settings: QueueSettings) -> None:
    """See that a queue takes a message."""
    if message.id is None:
        raise InvalidMessage("id", None, "must be there: the broker names messages, an engine does not")
    if properties is not None or len(message.body) > settings.max_message_bytes:
        check_size(message, properties, queue, settings.max_message_bytes)
    if settings.requires_session and message.session_id is None:
        raise SessionRequired(queue, "give the message a session_id")


def fitting(sizes: Sequence[int], limit: int, max_bytes: int) -> int:
    """Return how many messages to take, of which the next ones have these sizes, so that they fit into some bytes."""
    return max(1, min(limit, max_bytes // max([*sizes, 1])))


def with_headers(properties: str | None, changes: Headers) -> str | None:
    """Return properties with some headers changed or, where the change is None, removed."""
    changed = json.loads(properties) if properties else {}
    headers = changed.pop("headers", {}) | changes
    for name, value in changes.items():
        if value is None:
            del headers[name]
    if headers:
        changed["headers"] = headers
    return _as_json(changed) if changed else None


def storable(number: object) -> int:
    """Return a number that a database can compare: what is no number of 64 bits belongs to no message and no lock."""
    return number if isinstance(number, int) and -(2**63) <= number < 2**63 else -1


def nearest(number: int) -> int:
    """Return the nearest number that 64 bits can hold, to begin from."""
    return max(-(2**63), min(number, 2**63 - 1))


def bounded(limit: int) -> int:
    """Return a limit as a number that every database can hold; a negative one becomes 0."""
    return max(0, min(limit, 2**31 - 1))


def dead_letter_json(reason: str, description: str, source: str) -> str:
    """Return why a message is dead, as it is stored: in ASCII, as a description may have half of a surrogate pair."""
    return json.dumps([reason, description, source])


def message_of(message_id: str, properties: str | None, body: bytes) -> Message:
    """Return the message that a row holds."""
    if properties is None and type(body) is bytes and type(message_id) is str:
        return Message.plain(body, message_id)
    if properties is None:
        return Message(body, id=message_id)
    return Message.stored(body, message_id, _value(properties))


def _value(properties: str) -> dict[str, Any]:
    """Return what stored properties say.

    Raises:
        ValueError: they are damaged.
    """
    value, end = _decoded(properties)
    if end != len(properties):
        raise ValueError("there is something behind the properties")
    found: dict[str, Any] = value
    return found


def header_in(properties: str | None, name: str) -> str | None:
    """Return a header of stored properties as a text to compare it with; None if there is none."""
    headers = _value(properties).get("headers", {}) if properties else {}
    return header_text(headers.get(name))


def received(
    row: Row,
    queue: str,
    state: State,
    delivery_count: int,
    lock: Lock | None = None,
    *,
    locked_until: datetime | None = None,
    due_at: float | None = None,
) -> Received:
    """Return a message as it is in its queue.

    Args:
        row: its sequence number, when it was sent, when it expires, its id, properties, reason of death and body.
        queue: where it is.
        state: what it is doing.
        delivery_count: how often it has been locked.
        lock: the right to settle it.
        locked_until: when that ends.
        due_at: when it becomes available.
    """
    sequence, enqueued_at, expires, message_id, properties, dead_letter, body = row
    one = _OpenReceived()
    try:
        one.message = message_of(message_id, properties, body)
        one.queue = queue
        one.sequence = sequence
        one.state = state
        one.enqueued_at = _instant(enqueued_at)
        one.delivery_count = delivery_count
        one.lock = lock
        one.locked_until = locked_until
        one.due_at = None if due_at is None else instant(due_at)
        one.expires_at = None if expires is None else instant(expires)
        one.dead_letter_info = None if dead_letter is None else DeadLetterInfo(*json.loads(dead_letter))
    except (TypeError, ValueError, OverflowError) as error:
        raise StorageDamaged(f"message {sequence} in {queue!r} is damaged; restore a backup ({error})") from error
    one.__class__ = Received
    return one  # type: ignore[no-any-return]  # now it is one


def seen(stored: Row, queue: str) -> Received:
    """Return a message as it is in its queue, from all columns of a ``StoredMessage``."""
    *row, number, due, delivery_count = stored
    state = State(number)
    due_at = due if state == State.SCHEDULED else None
    locked_until = instant(due) if state in LOCKED_STATES else None
    return received(tuple(row), queue, state, delivery_count, due_at=due_at, locked_until=locked_until)


def lock(queue: str, sequence: int, token: int) -> Lock:
    """Return the right to settle a message that was just received."""
    one = _OpenLock()
    one.queue = queue
    one.sequence = sequence
    one.token = token
    one.__class__ = Lock
    return one  # type: ignore[no-any-return]  # now it is one


def instant(seconds: float) -> datetime:
    """Return an instant for seconds since 1970, the last one there is if it is later than that."""
    return _instant(min(seconds, _LAST_INSTANT))


def topics_of(rows: Iterable[Row]) -> list[TopicInfo]:
    """Return topics, from a row for each of their subscriptions, or one without, in order of the topics' names.

    The columns are the name, the settings, how many messages matched no rule, and when it was declared; and the name
    and the rule of a subscription.
    """
    found: list[TopicInfo] = []
    for (name, settings, unmatched, created_at), of_topic in groupby(rows, itemgetter(0, 1, 2, 3)):
        subscriptions = [
            SubscriptionInfo(name=queue.removeprefix(f"{name}/"), queue=queue, rule=Rule.from_json(rule))
            for *_, queue, rule in of_topic
            if queue is not None
        ]
        found.append(
            TopicInfo(
                name=name,
                settings=TopicSettings.from_json(settings),
                subscriptions=tuple(subscriptions),
                unmatched=unmatched,
                created_at=utc(created_at),
            )
        )
    return found
