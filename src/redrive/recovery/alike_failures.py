# SPDX-License-Identifier: MIT
"""Reads failures quickly, many of which are alike. Pure: no I/O, no clock.

In an incident, thousands of messages fail in the same handler. What a worker writes into their headers differs in three
values: when it was, what the exception said, and the trace, which repeats that. All others are read and checked once,
and are kept. Messages of other frameworks, and whatever is unusual, are read one by one by ``failure_formats``.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from operator import itemgetter
from typing import Any, NamedTuple

from redrive.broker import DeadLetterInfo, HeaderValue, Message, Received
from redrive.broker.headers import FAILED, FAILED_AT, FAILED_EXCEPTION_MESSAGE, FAILED_QUEUE, FAILED_STACK_TRACE
from redrive.broker.port import State, unsealed
from redrive.recovery.failure_formats import (
    LONGEST_TEXT,
    LONGEST_TRACE,
    Failure,
    clean,
    is_only_ours,
    read_failure,
    stored_text,
)
from redrive.recovery.failure_headers import header_names
from redrive.recovery.fingerprint import Group, exception_group, without_message
from redrive.recovery.header_values import as_instant

_DIFFERENT = frozenset({FAILED_AT, FAILED_EXCEPTION_MESSAGE, FAILED_STACK_TRACE})
_OpenFailure = unsealed(Failure)
_AT_ANY_TIME = datetime(1970, 1, 1, tzinfo=UTC)
_MOST_SHARED = 8_000
"""How many characters are kept of the headers of failures that are alike; a worker writes a few hundred."""


class _TooLong(Exception):
    """There is more in these headers than a worker writes."""


@dataclass(frozen=True, slots=True, eq=False)
class _Form:
    """The headers of messages that a worker moved to an error queue.

    Attributes:
        failure: the names of those about the failure.
        others: the names of the message's own.
        shared: the names of those about the failure that are alike in many.
        values: returns the values of ``shared``.
    """

    failure: tuple[str, ...]
    others: tuple[str, ...]
    shared: tuple[str, ...]
    values: Callable[[Any], tuple[HeaderValue, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class Alike:
    """What failures share that differ in nothing but when they were, what the exception said, and their messages.

    There is one of it for all of them for a while, so that others can keep what they make of it.

    Attributes:
        failure: a failure with everything they share.
        names: the names of the headers about their failures, in the order that they have in a message.
        trace: their trace up to what the exception said.
        groups: the group of their exception.
    """

    failure: Failure
    names: tuple[str, ...]
    trace: str
    groups: tuple[Group, ...]


class Arrived(NamedTuple):
    """A failed message that was read.

    Attributes:
        failure: what it says about its failure.
        message: the message without that.
        alike: what it shares with others; None: it was read by itself.
    """

    failure: Failure
    message: Message
    alike: Alike | None


def read_arrived(received: Received, *, queue: str | None = None, key: str | None = None) -> Arrived:
    """Return what a failed message says about its failure, and the message without that.

    Args:
        received: the message, as it is in an error queue or a dead-letter queue.
        queue: the queue it failed in, from a person; used if the message does not say.
        key: the key of the failure, if the engine distinguishes failures; None: what the message says.

    Raises:
        Unreadable: it has no id, or does not say in which queue it failed.
    """
    message = received.message
    headers = message.headers
    form = _form(tuple(headers))
    if form is not None and key is not None and message.id and message.ttl is None:
        at, text, trace = headers[FAILED_AT], headers[FAILED_EXCEPTION_MESSAGE], headers[FAILED_STACK_TRACE]
        if isinstance(at, str) and isinstance(text, str) and isinstance(trace, str):
            with suppress(_TooLong):
                shared = _shared(
                    received.queue,
                    queue,
                    message.subject,
                    received.dead_letter_info,
                    form.shared,
                    *form.values(headers),
                )
                failure = _like(shared.failure)
                failure.message_id, failure.key, failure.operation = message.id, key, None
                failure.failed_at = as_instant(at) or received.enqueued_at
                failure.exception_message = stored_text(text, LONGEST_TEXT)
                failure.stack_trace = stored_text(trace, LONGEST_TRACE)
                failure.headers = {name: headers[name] for name in form.failure}
                failure.__class__ = Failure
                is_whole = failure.stack_trace == trace and failure.exception_message == text
                alike = _alike(failure, form, shared) if is_whole else None
                return Arrived(failure, message.relabelled({name: headers[name] for name in form.others}), alike)
    return Arrived(read_failure(received, queue=queue, key=key), clean(message), None)


def _like(shared: Failure) -> Any:  # noqa: ANN401 - a failure to be filled
    """Return a failure with everything that others share."""
    failure = _OpenFailure()
    failure.queue, failure.message_type, failure.exception_type = (
        shared.queue,
        shared.message_type,
        shared.exception_type,
    )
    failure.source, failure.reason, failure.description = shared.source, shared.reason, shared.description
    failure.host, failure.worker, failure.tries = shared.host, shared.worker, shared.tries
    failure.vocabulary = shared.vocabulary
    return failure


def _alike(failure: Failure, form: _Form, shared: "_Shared") -> Alike | None:
    """Return what a failure shares with others; None if its trace does not end with what the exception said."""
    said = failure.exception_message
    bare = failure.stack_trace.rstrip("\n")
    if not said or "\n" in said or not bare.endswith(said):
        return None
    return _alike_with(shared, form, bare[: -len(said)])


@lru_cache(maxsize=500)
def _alike_with(shared: "_Shared", form: _Form, trace: str) -> Alike | None:
    compared = without_message(trace)
    if compared == trace:
        return None  # what the exception said may count
    failure = shared.failure
    return Alike(failure, form.failure, trace, (exception_group(failure.exception_type, compared, failure.reason),))


@dataclass(frozen=True, slots=True, eq=False)
class _Shared:
    """What the headers of failures share, compared by identity: to compare all its fields takes a while."""

    failure: Failure


@lru_cache(maxsize=1_000)
def _form(names: tuple[str, ...]) -> _Form | None:
    """Return how messages with these headers are read; None: one by one."""
    if not (_DIFFERENT | {FAILED_QUEUE}).issubset(names) or not is_only_ours(names):
        return None
    failure, others = header_names(dict.fromkeys(names, ""))
    shared = tuple(name for name in failure if name not in _DIFFERENT)
    # two names at least, as one alone would be returned without a tuple
    return _Form(failure, others, shared, itemgetter(*shared, *shared[:1]))


@lru_cache(maxsize=2_000, typed=True)  # 1 and True are equal, and do not say the same
def _shared(
    found_in: str,
    queue: str | None,
    subject: str | None,
    dead: DeadLetterInfo | None,
    names: tuple[str, ...],
    *values: HeaderValue,
) -> "_Shared":
    """Return the failure of all messages that have these values, without what is different in each."""
    if sum(len(value) for value in values if isinstance(value, str)) > _MOST_SHARED:
        raise _TooLong  # which is not kept
    headers = dict(zip(names, values, strict=False))  # the first value comes once more
    received = Received(
        message=Message.stored(b"", FAILED, {"subject": subject, "headers": headers}),
        queue=found_in,
        sequence=0,
        state=State.LOCKED,
        enqueued_at=_AT_ANY_TIME,
        delivery_count=1,
        dead_letter_info=dead,
    )
    return _Shared(read_failure(received, queue=queue, key=FAILED))
