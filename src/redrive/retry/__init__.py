# SPDX-License-Identifier: MIT
"""Layer 1: **retry** a call that failed.

The other layers use other words: a message is *redelivered*, an event *replayed*, a stage *re-run*, and failures are
*recovered* in bulk by a person.
"""

from redrive.retry.adaptive import Adaptive
from redrive.retry.ambient import Attempt, current_attempt, deadline
from redrive.retry.block import BlockAttempt
from redrive.retry.breaker import CircuitBreaker
from redrive.retry.budget import RetryBudget
from redrive.retry.hints import is_transient
from redrive.retry.policy import (
    AttemptFailure,
    Backoff,
    Delays,
    Exponential,
    Fixed,
    GiveUp,
    Linear,
    Policy,
    PolicyPreview,
    RetryAfter,
)
from redrive.retry.retrier import Retry, retry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from redrive.retry.config import Policies
    from redrive.retry.events import (
        AttemptFailed,
        BreakerChanged,
        PoliciesRejected,
        PoliciesReloaded,
        RetriedCallEvent,
        RetryGaveUp,
        RetrySucceeded,
    )

__all__ = [
    "Adaptive",
    "Attempt",
    "AttemptFailed",
    "AttemptFailure",
    "Backoff",
    "BlockAttempt",
    "BreakerChanged",
    "CircuitBreaker",
    "Delays",
    "Exponential",
    "Fixed",
    "GiveUp",
    "Linear",
    "Policies",
    "PoliciesRejected",
    "PoliciesReloaded",
    "Policy",
    "PolicyPreview",
    "RetriedCallEvent",
    "Retry",
    "RetryAfter",
    "RetryBudget",
    "RetryGaveUp",
    "RetrySucceeded",
    "current_attempt",
    "deadline",
    "is_transient",
    "retry",
]


def __getattr__(name: str) -> object:
    # Policies imports tomllib and pathlib, events import dataclasses and logging: load them only when they are used
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "Policies":
        from redrive.retry.config import Policies

        return Policies
    from redrive.retry import events

    found: object = getattr(events, name)
    return found
