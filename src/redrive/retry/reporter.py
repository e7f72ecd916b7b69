# SPDX-License-Identifier: MIT
"""Makes the telemetry events of an operation. Ask ``is_listened_to`` first: building an event takes time.

Imported at the first failure (see ``call.py``): it imports ``logging`` and ``dataclasses``, which a program without
failures does not need.
"""

import logging
import os

from redrive import telemetry
from redrive.clock import utc
from redrive.printable import class_name
from redrive.retry.events import AttemptFailed, BreakerChanged, RetryGaveUp, RetrySucceeded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from redrive.retry.breaker import Change
    from redrive.retry.call import RetriedCall
    from redrive.retry.policy import AttemptFailure, GiveUp

_LONGEST_MESSAGE = 1_000
_logger = logging.getLogger("redrive.retry")


def is_listened_to(level: int = logging.INFO) -> bool:
    """Say whether logging, OpenTelemetry or an observer would take an event of a retry."""
    return _logger.isEnabledFor(level) or telemetry.is_traced() or telemetry.is_observed()


def attempt_failed(operation: "RetriedCall", failure: "AttemptFailure", sleep: float | None) -> None:
    """Report one failed attempt, and the wait before the next if there is one."""
    plan = operation.plan
    event = AttemptFailed(
        request_id=_request_id(operation),
        policy_type=type(plan.policy).__name__,
        operation=operation.name,
        operation_start=utc(failure.unix_time - failure.elapsed),
        operation_end=utc(failure.unix_time),
        iteration=failure.attempt,
        iteration_sleep=sleep,
        exception_type=_type_of(failure.error),
        exception_message=_message(operation, failure),
    )
    telemetry.report(event, plan.on_event)


def gave_up(operation: "RetriedCall", failure: "AttemptFailure", decision: "GiveUp") -> None:
    """Report that a call gave up."""
    plan = operation.plan
    event = RetryGaveUp(
        request_id=_request_id(operation),
        policy_type=type(plan.policy).__name__,
        operation=operation.name,
        operation_start=utc(failure.unix_time - failure.elapsed),
        operation_end=utc(failure.unix_time),
        iteration=failure.attempt,
        exception_type=_type_of(failure.error),
        exception_message=_message(operation, failure),
        outcome=decision.outcome,
        why=decision.why,
    )
    telemetry.report(event, plan.on_event)


def succeeded(operation: "RetriedCall") -> None:
    """Report that a call succeeded after a retry."""
    plan = operation.plan
    now, elapsed = plan.clock.time(), plan.clock.monotonic() - operation.started
    event = RetrySucceeded(
        request_id=_request_id(operation),
        policy_type=type(plan.policy).__name__,
        operation=operation.name,
        operation_start=utc(now - elapsed),
        operation_end=utc(now),
        iteration=operation.number,
    )
    telemetry.report(event, plan.on_event)


def breaker_changed(operation: "RetriedCall", change: "Change") -> None:
    """Report that a breaker changed its state."""
    plan = operation.plan
    name = plan.breaker.name if plan.breaker is not None else ""
    telemetry.report(BreakerChanged(name, *change, operation.name), plan.on_event)


def _request_id(operation: "RetriedCall") -> str:
    if not operation.request_id:
        operation.request_id = _given_id(operation.plan.request_id) or os.urandom(8).hex()
    return operation.request_id


def _given_id(given: "str | Callable[[], str] | None") -> str | None:
    try:
        return given() if callable(given) else given
    except Exception:  # noqa: BLE001 - a fault of telemetry changes no outcome
        telemetry.logger.exception("the function given as request_id failed; a random id takes its place")
        return None


def _type_of(error: Exception | None) -> str | None:
    return None if error is None else class_name(type(error))


def _message(operation: "RetriedCall", failure: "AttemptFailure") -> str:
    try:
        message = f"result not accepted: {failure.result!r}" if failure.error is None else str(failure.error)
        redact = operation.plan.redact
        return (message if redact is None else redact(message))[:_LONGEST_MESSAGE]
    except Exception as unprintable:  # noqa: BLE001 - an exception without a readable message must still be reported
        return f"(no message: {type(unprintable).__name__})"
