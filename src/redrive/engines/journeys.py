# SPDX-License-Identifier: MIT
"""What engines note of the journeys of messages: the words, and which messages are in a sample. Pure: no I/O, no clock.

What concerns a message that had trouble is always noted, unless its queue says ``none``. That it was sent, completed or
deferred is noted where the queue says ``all``, or for a share of the messages, chosen by their ids.
"""

from collections.abc import Iterable
from hashlib import md5
from typing import Any, Final, NamedTuple

from redrive.broker.headers import (
    FAILED_DELAYED_RETRIES,
    FAILED_EXCEPTION_MESSAGE,
    FAILED_EXCEPTION_TYPE,
    FAILED_IMMEDIATE_RETRIES,
    FAILED_QUEUE,
    PARENT,
)
from redrive.broker.port import Message, Send

SENT: Final = "sent"
COMPLETED: Final = "completed"
DEFERRED: Final = "deferred"
ABANDONED: Final = "abandoned"
FAILED: Final = "failed"
DEAD_LETTERED: Final = "dead-lettered"
LOCK_EXPIRED: Final = "lock-expired"
EXPIRED: Final = "expired"

REDELIVER: Final = "redeliver"
"""The layer of all of them."""

COLUMNS: Final = "message_id, parent, at, since, until, layer, event, place, attempt, reason"
KEPT_S: Final = 30 * 86_400.0
"""How long an entry is kept."""


class Failed(NamedTuple):
    """A message that a worker moves to an error queue: what is noted of it.

    Attributes:
        message_id: its id.
        parent: the message that was handled when it was sent.
        place: the queue it failed in.
        attempt: how often it was tried.
        reason: why.
    """

    message_id: str
    parent: str | None
    place: str
    attempt: int
    reason: str


def is_followed(message_id: str, share: float) -> bool:
    """Say whether a message is among a share of all messages; it is so in every queue with that share, or a larger."""
    if share >= 1.0:
        return True
    return int(md5(message_id.encode(), usedforsecurity=False).hexdigest()[:8], 16) / 2**32 < share


def failed_among(sends: Iterable[Send]) -> list[Failed]:
    """Return what is noted of messages that are moved to an error queue, among those that are sent."""
    return [
        _failed(effect.message) for effect in sends if effect.even_if_seen and FAILED_QUEUE in effect.message.headers
    ]


def _failed(message: Message) -> Failed:
    headers: Any = message.headers
    parent = headers.get(PARENT)
    counts = [headers.get(name) for name in (FAILED_IMMEDIATE_RETRIES, FAILED_DELAYED_RETRIES)]
    attempt = 1 + sum(each for each in counts if isinstance(each, int))
    reason = f"{headers.get(FAILED_EXCEPTION_TYPE, '')}: {headers.get(FAILED_EXCEPTION_MESSAGE, '')}"
    place = str(headers[FAILED_QUEUE])
    plain_parent = parent if isinstance(parent, str) else None
    return Failed(message.id or "", plain_parent, place, min(attempt, 2**31 - 1), reason[:500])
