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


class MessageEvent(Enum):
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


_S, _E = State, MessageEvent

TRANSITIONS: Final[dict[tuple[State, MessageEvent], State | End]] = {
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
