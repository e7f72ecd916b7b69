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

__all__ = [
    "Adaptive",
    "Attempt",
    "AttemptFailure",
    "Backoff",
    "BlockAttempt",
    "CircuitBreaker",
    "Delays",
    "Exponential",
    "Fixed",
    "GiveUp",
    "Linear",
    "Policies",
    "Policy",
    "PolicyPreview",
    "Retry",
    "RetryAfter",
    "RetryBudget",
    "current_attempt",
    "deadline",
    "is_transient",
    "retry",
]


def __getattr__(name: str) -> object:
    # Policies brings tomllib and pathlib, which only those who keep their policies in a file need
    if name == "Policies":
        from redrive.retry.config import Policies

        return Policies
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
