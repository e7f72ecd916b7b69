# SPDX-License-Identifier: MIT
"""The rules that every engine keeps: names of queues, dead letters, expiry, deliveries. Pure: no I/O, no clock."""

import json
import math
from collections.abc import Iterable
from hashlib import sha256
from typing import Final

from redrive.broker.lifecycle import State
from redrive.errors import InvalidSetting

_LONGEST_NAME = 260
_USE_GRANULARITY_S = 1.0
_SHORTEST_WAIT_S = 0.01
_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/")

LOCKED_STATES: Final = (State.LOCKED, State.DEFERRED_LOCKED)
"""What a message is doing while a consumer has it."""

LARGEST_MESSAGE_BYTES: Final = 1_048_576
"""How large a message may be, unless its queue says otherwise."""

DEAD_LETTER_SUFFIX: Final = "/$dead"
"""A queue's dead letters are the queue of the same name with this behind it."""

OWN_QUEUES: Final = "redrive."
"""How the names of the queues begin that Redrive keeps for itself."""

ERROR_QUEUE: Final = "error"
"""The error queue that recovery reads by default."""

CONFIRMATIONS: Final = "redrive.confirmations"
"""The queue that confirmations go to. No header names it: a message must not choose where a worker sends."""

RECOVERY_HINTS: Final = "redrive.recovery"
"""A message to this queue wakes every process that waits for recovery's work. Nothing depends on it."""

STAGING_QUEUES: Final = "redrive.staging/"
"""How the names of recovery's staging queues begin; the destination follows."""

MAX_DELIVERY_COUNT_EXCEEDED: Final = "MaxDeliveryCountExceeded"
TTL_EXPIRED: Final = "TTLExpiredException"
RULE_FAILED: Final = "RuleFailed"
"""Why a message is a dead letter of a subscription whose rule could not be evaluated for it."""

REFUSED: Final = "MessageRefused"
"""Why a message is a dead letter of a subscription whose queue does not take it."""

NO_SUBSCRIPTION: Final = "NoSubscription"
NO_SUBSCRIPTION_TEXT: Final = "no subscription's rule matched it"
EXPIRED_TEXT: Final = "its time to live was over before it was received"


def over_delivered_text(max_delivery_count: int) -> str:
    """Return why a message was dead-lettered after too many deliveries, for people."""
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


def is_own_queue(queue: str) -> bool:
    """Say whether a queue is one that Redrive keeps for itself."""
    return queue.startswith(OWN_QUEUES)


def staging_queue(destination: str) -> str:
    """Return the name of the queue in which copies for a destination are staged."""
    return STAGING_QUEUES + destination


def expires_at(enqueued_at: float, message_ttl: float | None, queue_ttl: float | None) -> float | None:
    """Return when a message expires: by its own time to live or its queue's, whichever is shorter."""
    limits = [ttl for ttl in (message_ttl, queue_ttl) if ttl is not None]
    return enqueued_at + min(limits) if limits else None


def has_had_its_deliveries(delivery_count: int, max_delivery_count: int) -> bool:
    """Say whether the next delivery would be one too many."""
    return delivery_count >= max_delivery_count


def is_queue_name(name: object) -> bool:
    """Say whether a queue could have that name, a dead-letter queue included. Not every store can be asked for more."""
    return isinstance(name, str) and name != "" and name.isascii() and name.isprintable()


def similar(name: str, known: Iterable[str]) -> str | None:
    """Return the name that was probably meant."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(name, known, 1)), None)


def use_granularity_s(auto_delete_on_idle: float | None) -> float:
    """Return how exactly the last use of a queue is stored; with every message it would cost a fifth of a send."""
    return _USE_GRANULARITY_S if auto_delete_on_idle is None else min(_USE_GRANULARITY_S, auto_delete_on_idle / 10)


def longest_wait_s(auto_delete_on_idle: float | None) -> float:
    """Return how long a receiver may wait without asking: asking is what counts as use."""
    return math.inf if auto_delete_on_idle is None else max(_SHORTEST_WAIT_S, auto_delete_on_idle / 2)


def digest_of(body: bytes) -> str:
    """Return the digest of a body for tags and confirmations."""
    return sha256(body).hexdigest()


def header_text(value: object) -> str | None:
    """Return the value of a header as a text to compare it with; None if it has none. No store looks for a NUL."""
    if value is None or isinstance(value, str):
        return value and value.replace("\0", "\ufffd")
    return json.dumps(value)


def check_deletable(queue: str) -> None:
    """See that a queue can be deleted by itself."""
    if is_dead_letter_queue(queue):
        raise InvalidSetting("queue", queue, "must not be a dead-letter queue: it goes with its queue; purge it")


def check_queue_name(name: str) -> str:
    """Return the name of a queue a person may declare, if it is one."""
    if not isinstance(name, str) or not 1 <= len(name) <= _LONGEST_NAME or not _NAME_CHARACTERS.issuperset(name):
        raise InvalidSetting("queue", name, f"must be 1 to {_LONGEST_NAME} letters, digits, '.', '_', '-' and '/'")
    return name
