# SPDX-License-Identifier: MIT
"""Reads failures quickly, many of which are alike. Pure: no I/O, no clock.

In an incident, thousands of messages fail in the same handler. What a worker writes into their headers differs in three
values: when it was, what the exception said, and the trace, which repeats that. All others are read and checked once,
and are kept. Messages of other frameworks, and whatever is unusual, are read one by one by ``failure_formats``.
"""

from collections.abc import Callable
from contextlib import suppress
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
from redrive.recovery.header_values import as_instant

_DIFFERENT = frozenset({FAILED_AT, FAILED_EXCEPTION_MESSAGE, FAILED_STACK_TRACE})
_OpenFailure = unsealed(Failure)
_AT_ANY_TIME = datetime(1970, 1, 1, tzinfo=UTC)
_MOST_SHARED = 8_000
"""How many characters are kept of the headers of failures that are alike; a worker writes a few hundred."""


class _TooLong(Exception):
    """There is more in these headers than a worker writes."""


class _Form(NamedTuple):
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


def read_arrived(received: Received, *, queue: str | None = None, key: str | None = None) -> tuple[Failure, Message]:
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
                failure = _quickly(received, queue, form)
                failure.message_id, failure.key, failure.operation = message.id, key, None
                failure.failed_at = as_instant(at) or received.enqueued_at
                failure.exception_message = stored_text(text, LONGEST_TEXT)
                failure.stack_trace = stored_text(trace, LONGEST_TRACE)
                failure.__class__ = Failure
                return failure, message.relabelled({name: headers[name] for name in form.others})
    return read_failure(received, queue=queue, key=key), clean(message)


def _quickly(received: Received, queue: str | None, form: _Form) -> Any:  # noqa: ANN401 - a failure to be filled
    """Return a failure with everything that others share."""
    headers, failure = received.message.headers, _OpenFailure()
    alike = _shared(
        received.queue, queue, received.message.subject, received.dead_letter_info, form.shared, *form.values(headers)
    )
    failure.queue, failure.message_type, failure.exception_type = alike.queue, alike.message_type, alike.exception_type
    failure.source, failure.reason, failure.description = alike.source, alike.reason, alike.description
    failure.host, failure.worker, failure.tries = alike.host, alike.worker, alike.tries
    failure.vocabulary = alike.vocabulary
    failure.headers = {name: headers[name] for name in form.failure}
    return failure


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
) -> Failure:
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
    return read_failure(received, queue=queue, key=FAILED)
