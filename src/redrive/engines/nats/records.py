# SPDX-License-Identifier: MIT
"""A message as JetStream holds it: its body, and one header with everything else.

NATS cuts blanks off header values and takes text only, so all of ours is one JSON object in ASCII.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from redrive.broker import rules
from redrive.broker.port import Headers, Lock, Received, State
from redrive.engines import stored
from redrive.engines.nats.subjects import MessageLane, MessagePlace
from redrive.errors import StorageDamaged

HEADER: Final = "Redrive"
_LONGEST_LOCK_S: Final = 301.0
GONE: Final = "Redrive-Gone"
"""Marks what is left of a message for a second after it was settled. Its value is the commit that settled it."""

_LONG: Final = "Redrive-Length"
"""How many bytes of the body are ours, where they are too many for a header: a server takes 64 KiB of these."""

_LONGEST_HEADER: Final = 16_384

_OVERHEAD_BYTES: Final = 1_024
"""What the headers for the server take at most, beside ours."""


@dataclass(frozen=True, slots=True)
class MessageRecord:
    """A message and what is known about it.

    Attributes:
        place: where it is.
        id: its id.
        properties: whatever else it has beside its body, as JSON.
        body: what it carries.
        enqueued_at: when it was sent.
        expires_at: when it expires.
        count: how often it was delivered before it was stored like this.
        dead: why it is a dead letter, as JSON.
        due_at: when it becomes available.
        is_aside: whether it is received by its number only.
        token: the lock on it, where a lock is part of the record.
        until: when that lock ends.
        sequence: the stream's number of this version of it: what a change is fenced by. 0: not stored yet.
        is_only: whether there was never another version: it was sent to be ready, and nothing has happened to it.
    """

    place: MessagePlace
    id: str
    properties: str | None
    body: bytes
    enqueued_at: float
    expires_at: float | None = None
    count: int = 0
    dead: str | None = None
    due_at: float | None = None
    is_aside: bool = False
    token: str | None = None
    until: float = 0.0
    sequence: int = 0
    is_only: bool = False

    @property
    def header(self) -> str:
        """Everything but the body, as it is stored."""
        values = [
            self.id,
            self.properties,
            self.enqueued_at,
            self.expires_at,
            self.count,
            self.dead,
            self.due_at,
            self.is_aside,
            self.token,
            self.until,
            self.is_only,
        ]
        return json.dumps(values)

    @property
    def stored(self) -> tuple[dict[str, str], bytes]:
        """What is stored of it: headers and body."""
        header = self.header
        if len(header) <= _LONGEST_HEADER:
            return {HEADER: header}, self.body
        return {_LONG: str(len(header))}, header.encode() + self.body

    @property
    def size(self) -> int:
        """How many bytes the server must take at once."""
        return len(self.body) + len(self.header) + _OVERHEAD_BYTES

    def state(self, now: float) -> State:
        """Return what it is doing, as far as the record says."""
        if self.token is not None and now < self.until <= now + _LONGEST_LOCK_S:  # later: the clock was set back
            return State.DEFERRED_LOCKED if self.is_aside else State.LOCKED
        if self.is_aside:
            return State.DEFERRED
        return State.READY if self.due_at is None or self.due_at <= now else State.SCHEDULED

    def has_expired(self, now: float) -> bool:
        """Say whether its time is over."""
        return self.expires_at is not None and self.expires_at <= now

    def with_headers(self, changes: Headers | None) -> "MessageRecord":
        """Return it with some headers changed."""
        if not changes:
            return self
        return replace(self, properties=stored.with_headers(self.properties, changes))

    def moved(self, lane: MessageLane, **changes: Any) -> "MessageRecord":
        """Return it in another lane, without a lock."""
        kept: dict[str, Any] = {"due_at": None, "is_aside": False, "token": None, "until": 0.0} | changes
        kept["is_only"] = False
        return replace(self, place=self.place.moved(lane), **kept)

    def buried(self, reason: str, description: str, queue: str) -> "MessageRecord":
        """Return it as a dead letter of its queue; one that is dead already stays that of its queue."""
        source = json.loads(self.dead)[2] if self.dead is not None else rules.source_queue(queue)
        why = stored.dead_letter_json(reason, description, source)
        return self.moved(MessageLane.DEAD, dead=why, count=0, expires_at=None)

    def received(
        self, queue: str, state: State, *, count: int, lock: Lock | None = None, until: float | None = None
    ) -> Received:
        """Return it as callers see it."""
        row = (
            self.place.number,
            self.enqueued_at,
            self.expires_at,
            self.id,
            self.properties,
            self.dead,
            self.body,
        )
        due = self.due_at if state is State.SCHEDULED else None
        ends = None if until is None else stored.instant(until)
        return stored.received(row, queue, state, count, lock, locked_until=ends, due_at=due)


def is_message(headers: Mapping[str, str]) -> bool:
    """Say whether something that is stored with these headers is a message."""
    return HEADER in headers or _LONG in headers


def record_of(
    place: MessagePlace, headers: Mapping[str, str] | None, body: bytes, sequence: int
) -> MessageRecord | None:
    """Return the record that a stored message is; None if it is what is left of one that was settled."""
    if headers is None or GONE in headers:
        return None
    try:
        if (length := int(headers.get(_LONG, 0))) > 0:
            return _record(place, body[:length].decode(), body[length:], sequence)
        return _record(place, headers[HEADER], body, sequence)
    except (KeyError, ValueError, TypeError) as error:
        problem = f"what is stored as message {place.number} is damaged or of another program ({error!r})"
        raise StorageDamaged(problem) from error


def _record(place: MessagePlace, header: str, body: bytes, sequence: int) -> MessageRecord:
    values = json.loads(header)
    message_id, properties, enqueued_at, expires_at, count, dead, due_at, is_aside, token, until, *since = values
    return MessageRecord(
        place,
        message_id,
        properties,
        body,
        enqueued_at,
        expires_at=expires_at,
        count=count,
        dead=dead,
        due_at=due_at,
        is_aside=is_aside,
        token=token,
        until=until,
        sequence=sequence,
        is_only=bool(since and since[0]),
    )
