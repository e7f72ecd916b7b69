# SPDX-License-Identifier: MIT
"""From a decision about a failed message to the effects that carry it out. No I/O, no clock."""

from dataclasses import replace

from redrive.broker import Abandon, Complete, DeadLetter, Effect, Headers, Lock, Message, Send
from redrive.printable import encodable, one_line
from redrive.worker.recoverability import (
    Decision,
    Discard,
    HandlerFailure,
    MoveToError,
    Postpone,
    RedeliverLater,
    RedeliverNow,
    failure_headers,
    postponing_headers,
)

_LONGEST_REASON = 500


def effects_of(decision: Decision, failure: HandlerFailure, lock: Lock) -> list[Effect]:
    """Return the effects, to be applied in one transaction."""
    match decision:
        case RedeliverNow():
            return [Abandon(lock, reason=_said(failure))]
        case RedeliverLater(delay, headers):
            return [
                Abandon(
                    lock, delay, {**headers, **postponing_headers(failure)}, reset_count=True, reason=_said(failure)
                )
            ]
        case Postpone(delay, headers):
            return [Abandon(lock, delay, headers or None, uncount=True)]
        case Discard():
            return [Complete(lock)]
        case MoveToError(reason, _, str(queue), headers):
            headers = {**headers, **failure_headers(failure, reason)}
            # even if the error queue has seen its id: this message, or another with the same id, may have failed before
            return [Complete(lock), Send(queue, _copy(failure.message, headers), even_if_seen=True)]
        case MoveToError():
            return [buried(decision, failure, lock)]


def buried(decision: MoveToError, failure: HandlerFailure, lock: Lock) -> DeadLetter:
    """Return the effect that moves a message to the dead-letter queue of its own queue."""
    headers = {**decision.headers, **failure_headers(failure, decision.reason)}
    return DeadLetter(lock, encodable(decision.reason), encodable(decision.description), headers)


def _copy(message: Message, changes: Headers) -> Message:
    """Return the copy of a message for an error queue: with its failure, and without a time to live."""
    headers = {**message.headers, **changes}
    kept = {name: value for name, value in headers.items() if not (name in changes and value is None)}
    return replace(message, headers=kept, ttl=None)


def _said(failure: HandlerFailure) -> str:
    return encodable(one_line(f"{failure.exception_type}: {failure.exception_message}", _LONGEST_REASON))
