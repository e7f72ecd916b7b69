# SPDX-License-Identifier: MIT
"""The events that Redrive reports, and where they go.

An event is a value; its fields are an API. By default it goes to ``logging`` (loggers below ``redrive``), and to
OpenTelemetry in programs that use it: as an event on the current span, and as metrics. A callback gets it as it is.
"""

import logging
import sys
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, ClassVar

from redrive.printable import one_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.metrics import Counter, Histogram
    from opentelemetry.util.types import AttributeValue

__all__ = [
    "AttemptFailed",
    "BreakerChanged",
    "Event",
    "PoliciesRejected",
    "PoliciesReloaded",
    "RetryGaveUp",
    "RetrySucceeded",
]

logger = logging.getLogger("redrive")
# A library is silent until the program says where its logs go; without this, Python prints them to stderr.
logger.addHandler(logging.NullHandler())
_retry_logger = logging.getLogger("redrive.retry")


_LONGEST_TEXT = 2_000


@dataclass(frozen=True, slots=True)
class Event:
    """What every event is.

    Its text is one line of at most 2,000 characters, whatever is in its fields: they come from messages and exceptions,
    and must not be able to forge a line of a log. The fields themselves stay as they are.

    Attributes:
        name: its name in logs and traces.
        level: the logging level.
    """

    name: ClassVar[str] = "redrive.event"
    level: ClassVar[int] = logging.INFO

    def __init_subclass__(cls) -> None:
        sentence = cls.__dict__.get("__str__")
        if sentence is not None:  # here, so that no event can forget it
            cls.__str__ = lambda self: one_line(sentence(self), _LONGEST_TEXT)  # type: ignore[method-assign]

    @property
    def layer(self) -> str:
        """The logger and the metrics it goes to, such as ``redrive.retry``."""
        return self.name.rpartition(".")[0]

    def fields(self) -> dict[str, object]:
        """Return the fields by name."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class AttemptFailed(Event):
    """An attempt failed. One for each failed attempt, the last included.

    Attributes:
        request_id: the same for all attempts of one call.
        policy_type: the policy's class.
        operation: what was called.
        operation_start: when the first attempt began, UTC.
        operation_end: when this attempt ended, UTC.
        iteration: which attempt it was, counted from 1.
        iteration_sleep: seconds until the next attempt; None if there is none.
        last_exception_type: the exception's class; None if a result was not accepted.
        exception_message: what it said, redacted if you gave a ``redact``, at most 1,000 characters.
    """

    name = "redrive.retry.attempt_failed"

    request_id: str
    policy_type: str
    operation: str
    operation_start: datetime
    operation_end: datetime
    iteration: int
    iteration_sleep: float | None
    last_exception_type: str | None
    exception_message: str

    def __str__(self) -> str:
        then = "no attempt follows" if self.iteration_sleep is None else f"next attempt in {self.iteration_sleep:.3g} s"
        return f"{self.operation}: attempt {self.iteration} failed with {_failure(self)}; {then}"


@dataclass(frozen=True, slots=True)
class RetryGaveUp(Event):
    """A call failed for good; the caller has the error.

    Attributes:
        outcome: ``exhausted``, ``deadline``, ``budget``, ``breaker_open``, ``not_retryable`` or ``nested``.
        why: the reason in words.
    """

    name = "redrive.retry.gave_up"
    level = logging.ERROR

    request_id: str
    policy_type: str
    operation: str
    operation_start: datetime
    operation_end: datetime
    iteration: int
    last_exception_type: str | None
    exception_message: str
    outcome: str
    why: str

    def __str__(self) -> str:
        return f"{self.operation}: gave up after attempt {self.iteration}: {self.why}; last failure: {_failure(self)}"


@dataclass(frozen=True, slots=True)
class RetrySucceeded(Event):
    """A call succeeded, but not at the first attempt."""

    name = "redrive.retry.succeeded"

    request_id: str
    policy_type: str
    operation: str
    operation_start: datetime
    operation_end: datetime
    iteration: int

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
        problem: what is wrong there and how to mend it.
    """

    name = "redrive.retry.policies_rejected"
    level = logging.ERROR

    source: str
    line: int
    problem: str

    def __str__(self) -> str:
        return f"{self.source}, line {self.line}: {self.problem} (the policies before it stay in force)"


def _failure(event: AttemptFailed | RetryGaveUp) -> str:
    kind = event.last_exception_type
    return event.exception_message if kind is None else f"{kind}: {event.exception_message}"


def is_listened_to(level: int = logging.INFO) -> bool:
    """Say whether logging or OpenTelemetry would take an event of a retry; building one for nobody is a waste."""
    return _retry_logger.isEnabledFor(level) or _TRACE in sys.modules


def report(event: Event, on_event: "Callable[[Event], object] | None" = None) -> None:
    """Hand an event to everybody who listens. An observer that fails is logged and changes nothing."""
    for observe in (_log, _trace, on_event):
        try:
            if observe is not None:
                observe(event)
        except Exception:
            logger.exception("an observer of %s failed; the operation goes on", event.name)


def _log(event: Event) -> None:
    layer = logging.getLogger(event.layer)
    if layer.isEnabledFor(event.level):
        layer.log(event.level, "%s", event, extra={"redrive_event": event.name, "redrive": event.fields()})


_TRACE = "opentelemetry.trace"
"""Only where the program has imported it is there an exporter that could hear us; so we never import it first."""


def _trace(event: Event) -> None:
    if _TRACE not in sys.modules:
        return
    from opentelemetry import trace

    told = {name: _as_attribute(value) for name, value in event.fields().items() if value is not None}
    trace.get_current_span().add_event(event.name, {f"redrive.{name}": value for name, value in told.items()})
    counter, sleeps = _instruments(event.layer)
    series = {name: told[name] for name in _SERIES if isinstance(told.get(name), str)}
    counter.add(1, {"event": event.name, **series})
    if isinstance(event, AttemptFailed) and event.iteration_sleep is not None:
        sleeps.record(event.iteration_sleep, series)


_SERIES = ("operation", "policy_type", "outcome", "breaker", "after")
"""The fields that tell one time series from another; the others have too many values for that, and so have numbers."""


@cache
def _instruments(layer: str) -> "tuple[Counter, Histogram]":
    from opentelemetry import metrics

    meter = metrics.get_meter("redrive")
    return (
        meter.create_counter(f"{layer}.events", description="What this layer of Redrive reported"),
        meter.create_histogram(f"{layer}.sleep", unit="s", description="Waits between attempts"),
    )


def _as_attribute(value: object) -> "AttributeValue":
    if isinstance(value, datetime):
        return value.isoformat()
    return value if isinstance(value, str | bool | int | float) else str(value)
