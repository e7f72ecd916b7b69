# SPDX-License-Identifier: MIT
"""The life of a message as one table, and the rules around it. Pure: no I/O, no clock.

A message in a queue is in one of five states. Everything that can happen to it is an event; the table says what comes
of it. Engines do it in SQL, the tests' model does it with this table, and both are compared.
"""

from enum import Enum, IntEnum
from typing import Final


class State(IntEnum):
    """Where a message is. The numbers are stored; they never change."""

    READY = 0
    SCHEDULED = 1
    LOCKED = 2
    DEFERRED = 3
    DEFERRED_LOCKED = 4


class End(Enum):
    """How a message leaves its queue."""

    GONE = "gone"
    DEAD = "dead"
    """In the queue's dead-letter queue, as a new message there."""


class Event(Enum):
    """What can happen to a message."""

    LOCK = "lock"
    TAKE = "take"
    COMPLETE = "complete"
    ABANDON = "abandon"
    POSTPONE = "postpone"
    DEFER = "defer"
    DEAD_LETTER = "dead-letter"
    LOSE_LOCK = "lose lock"
    COME_DUE = "come due"
    CANCEL = "cancel"
    EXPIRE = "expire"
    EXPIRE_TO_DEAD_LETTER = "expire to dead-letter"
    EXCEED_DELIVERIES = "exceed deliveries"


_S, _E = State, Event

TRANSITIONS: Final[dict[tuple[State, Event], State | End]] = {
    (_S.READY, _E.LOCK): _S.LOCKED,
    (_S.READY, _E.TAKE): End.GONE,
    (_S.READY, _E.EXPIRE): End.GONE,
    (_S.READY, _E.EXPIRE_TO_DEAD_LETTER): End.DEAD,
    (_S.READY, _E.EXCEED_DELIVERIES): End.DEAD,
    (_S.SCHEDULED, _E.COME_DUE): _S.READY,
    (_S.SCHEDULED, _E.CANCEL): End.GONE,
    (_S.LOCKED, _E.COMPLETE): End.GONE,
    (_S.LOCKED, _E.ABANDON): _S.READY,
    (_S.LOCKED, _E.POSTPONE): _S.SCHEDULED,
    (_S.LOCKED, _E.DEFER): _S.DEFERRED,
    (_S.LOCKED, _E.DEAD_LETTER): End.DEAD,
    (_S.LOCKED, _E.LOSE_LOCK): _S.READY,
    (_S.LOCKED, _E.EXCEED_DELIVERIES): End.DEAD,
    (_S.DEFERRED, _E.LOCK): _S.DEFERRED_LOCKED,
    (_S.DEFERRED, _E.TAKE): End.GONE,
    (_S.DEFERRED, _E.EXPIRE): End.GONE,
    (_S.DEFERRED, _E.EXPIRE_TO_DEAD_LETTER): End.DEAD,
    (_S.DEFERRED, _E.EXCEED_DELIVERIES): End.DEAD,
    (_S.DEFERRED_LOCKED, _E.COMPLETE): End.GONE,
    (_S.DEFERRED_LOCKED, _E.ABANDON): _S.DEFERRED,
    (_S.DEFERRED_LOCKED, _E.POSTPONE): _S.SCHEDULED,
    (_S.DEFERRED_LOCKED, _E.DEFER): _S.DEFERRED,
    (_S.DEFERRED_LOCKED, _E.DEAD_LETTER): End.DEAD,
    (_S.DEFERRED_LOCKED, _E.LOSE_LOCK): _S.DEFERRED,
    (_S.DEFERRED_LOCKED, _E.EXCEED_DELIVERIES): End.DEAD,
}
"""What comes of an event. A pair that is not here cannot happen."""

LOCKED_STATES: Final = (State.LOCKED, State.DEFERRED_LOCKED)

DEAD_LETTER_SUFFIX: Final = "/$dead"
"""A queue's dead letters are the queue of the same name with this behind it."""

MAX_DELIVERY_COUNT_EXCEEDED: Final = "MaxDeliveryCountExceeded"
TTL_EXPIRED: Final = "TTLExpiredException"
EXPIRED_TEXT: Final = "its time to live was over before it was received"


def over_delivered_text(max_delivery_count: int) -> str:
    """Return what a person is told of a message that died of too many deliveries."""
    return f"delivered {max_delivery_count} times and never completed"


def dead_letter_queue(queue: str) -> str:
    """Return the name of a queue's dead-letter queue; a dead-letter queue is its own."""
    return queue if is_dead_letter_queue(queue) else queue + DEAD_LETTER_SUFFIX


def is_dead_letter_queue(queue: str) -> bool:
    """Say whether a queue is the dead-letter queue of another."""
    return queue.endswith(DEAD_LETTER_SUFFIX)


def source_queue(queue: str) -> str:
    """Return the queue whose dead letters these are; a queue that is no dead-letter queue is its own."""
    return queue.removesuffix(DEAD_LETTER_SUFFIX)


def expires_at(enqueued_at: float, message_ttl: float | None, queue_ttl: float | None) -> float | None:
    """Return when a message expires: by its own time to live or its queue's, whichever is shorter."""
    limits = [ttl for ttl in (message_ttl, queue_ttl) if ttl is not None]
    return enqueued_at + min(limits) if limits else None


def has_had_its_deliveries(delivery_count: int, max_delivery_count: int) -> bool:
    """Say whether the next delivery would be one too many."""
    return delivery_count >= max_delivery_count
