# SPDX-License-Identifier: MIT
"""The events that retries report. Imported at the first failure: ``logging`` and ``dataclasses`` are slow to import."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import ClassVar

from redrive.telemetry import Event


@dataclass(frozen=True, slots=True)
class RetriedCallEvent(Event):
    """What the events of one retried call have in common.

    Attributes:
        request_id: the same for all attempts of one call.
        policy_type: the policy's class.
        operation: what was called.
        operation_start: when the first attempt began, UTC.
        operation_end: when the last attempt so far ended, UTC.
        iteration: which attempt that was, counted from 1.
    """

    labels: ClassVar[tuple[str, ...]] = ("operation", "policy_type")

    request_id: str
    policy_type: str
    operation: str
    operation_start: datetime
    operation_end: datetime
    iteration: int


@dataclass(frozen=True, slots=True)
class AttemptFailed(RetriedCallEvent):
    """An attempt failed. One for each failed attempt, the last included.

    Attributes:
        iteration_sleep: seconds until the next attempt; None if there is none.
        exception_type: the exception's class; None if a result was not accepted.
        exception_message: what it said, redacted if you gave a ``redact``, at most 1,000 characters.
    """

    name = "redrive.retry.attempt_failed"
    histograms: ClassVar[Mapping[str, str]] = MappingProxyType({"iteration_sleep": "redrive.retry.sleep"})

    iteration_sleep: float | None
    exception_type: str | None
    exception_message: str

    def __str__(self) -> str:
        then = "no attempt follows" if self.iteration_sleep is None else f"next attempt in {self.iteration_sleep:.3g} s"
        return f"{self.operation}: attempt {self.iteration} failed with {_failure(self)}; {then}"


@dataclass(frozen=True, slots=True)
class RetryGaveUp(RetriedCallEvent):
    """A call gave up; the caller has the error.

    Attributes:
        exception_type: the exception's class; None if a result was not accepted.
        exception_message: what it said, redacted if you gave a ``redact``, at most 1,000 characters.
        outcome: ``exhausted``, ``deadline``, ``budget``, ``breaker_open``, ``not_retryable`` or ``nested``.
        why: the reason in words.
    """

    name = "redrive.retry.gave_up"
    level = logging.ERROR
    labels = (*RetriedCallEvent.labels, "outcome")

    exception_type: str | None
    exception_message: str
    outcome: str
    why: str

    def __str__(self) -> str:
        return f"{self.operation}: gave up after attempt {self.iteration}: {self.why}; last failure: {_failure(self)}"


@dataclass(frozen=True, slots=True)
class RetrySucceeded(RetriedCallEvent):
    """A call succeeded, but not at the first attempt."""

    name = "redrive.retry.succeeded"

    def __str__(self) -> str:
        return f"{self.operation}: succeeded at attempt {self.iteration}"


@dataclass(frozen=True, slots=True)
class BreakerChanged(Event):
    """A circuit breaker changed its state.

    Attributes:
        breaker: its name.
        before: the state it left.
        after: the state it is in.
        operation: the call that made it change.
    """

    name = "redrive.retry.breaker_changed"
    level = logging.WARNING
    labels = ("breaker", "after", "operation")

    breaker: str
    before: str
    after: str
    operation: str

    def __str__(self) -> str:
        return f"circuit breaker {self.breaker!r}: {self.before} -> {self.after} (by {self.operation})"


@dataclass(frozen=True, slots=True)
class PoliciesReloaded(Event):
    """A policy file was read again and is in force.

    Attributes:
        source: the file.
        policies: the names it defines.
    """

    name = "redrive.retry.policies_reloaded"

    source: str
    policies: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.source}: policies in force: {', '.join(self.policies)}"


@dataclass(frozen=True, slots=True)
class PoliciesRejected(Event):
    """A changed policy file cannot be used; the policies before it stay in force.

    Attributes:
        source: the file.
        line: the line at fault.
        problem: what is wrong there and how to correct it.
    """

    name = "redrive.retry.policies_rejected"
    level = logging.ERROR

    source: str
    line: int
    problem: str

    def __str__(self) -> str:
        return f"{self.source}, line {self.line}: {self.problem} (the policies before it stay in force)"


def _failure(event: AttemptFailed | RetryGaveUp) -> str:
    kind = event.exception_type
    return event.exception_message if kind is None else f"{kind}: {event.exception_message}"
