# SPDX-License-Identifier: MIT
"""Layer 2's other half: handlers that receive messages, and what becomes of a message when its handler fails.

The broker **redelivers**; the worker locks, handles and settles, and decides when and how often.
"""

from redrive.worker.confirmation import confirmation_of
from redrive.worker.context import BlockingContext, Context, ContextSession
from redrive.worker.events import (
    DeliveriesTooFew,
    HandlerFailed,
    HandlerHung,
    HandlerOverdue,
    MessageLockLost,
    MessageMoved,
    PrefetchTooLarge,
    WorkerAtFullSpeed,
    WorkerEvent,
    WorkerFault,
    WorkerSlowed,
)
from redrive.worker.recoverability import (
    Classification,
    Decision,
    Discard,
    HandlerFailure,
    MoveToError,
    Postpone,
    Recoverability,
    RedeliverLater,
    RedeliverNow,
    decide,
)
from redrive.worker.slowdown import SlowDown
from redrive.worker.worker import Worker

__all__ = [
    "BlockingContext",
    "Classification",
    "Context",
    "ContextSession",
    "Decision",
    "DeliveriesTooFew",
    "Discard",
    "HandlerFailed",
    "HandlerFailure",
    "HandlerHung",
    "HandlerOverdue",
    "MessageLockLost",
    "MessageMoved",
    "MoveToError",
    "Postpone",
    "PrefetchTooLarge",
    "Recoverability",
    "RedeliverLater",
    "RedeliverNow",
    "SlowDown",
    "Worker",
    "WorkerAtFullSpeed",
    "WorkerEvent",
    "WorkerFault",
    "WorkerSlowed",
    "confirmation_of",
    "decide",
]
