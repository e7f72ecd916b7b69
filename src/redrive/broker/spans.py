# SPDX-License-Identifier: MIT
"""The spans of messages, by OpenTelemetry's conventions for messaging: send, receive, process, settle.

================  ========  ========================================  ========================================
name              kind      its parent                                its links
================  ========  ========================================  ========================================
send QUEUE        producer  the current span, or the message's trace  the traces that the messages had already
receive QUEUE     client    the current span; of a worker none        the messages
process QUEUE     consumer  the message                               the attempt before this one
complete QUEUE    client    the span that processes the message       the message
================  ========  ========================================  ========================================

The other ways to settle have their own names: ``abandon``, ``defer``, ``dead_letter``. A message that has no trace yet
gets the one of its send; redeliveries and recovered copies keep it.
"""

from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Final

from redrive import tracing
from redrive.broker.effects import Abandon, Complete, DeadLetter, Defer, Effect, Send
from redrive.broker.headers import ATTEMPT_TRACE
from redrive.broker.message import Headers, Message, Received

_SETTLES: Final = {Complete: "complete", Abandon: "abandon", Defer: "defer", DeadLetter: "dead_letter"}


def facts_of(operation: str, name: str, queue: str | None, messages: Sequence[Message]) -> dict[str, str | int]:
    """Return the attributes of a span by the conventions.

    Args:
        operation: the type of the operation: ``send``, ``receive``, ``process`` or ``settle``.
        name: what it is called here.
        queue: where; None: in several queues.
        messages: the messages.
    """
    facts: dict[str, str | int] = {
        "messaging.system": "redrive",
        "messaging.operation.type": operation,
        "messaging.operation.name": name,
    }
    if queue is not None:
        facts["messaging.destination.name"] = queue
    if len(messages) != 1:
        return facts | {"messaging.batch.message_count": len(messages)}
    (message,) = messages
    facts["messaging.message.body.size"] = len(message.body)
    if message.id is not None:
        facts["messaging.message.id"] = message.id
    if message.correlation_id is not None:
        facts["messaging.message.conversation_id"] = message.correlation_id
    return facts


@contextmanager
def sending(effects: Sequence[Effect]) -> Generator[Sequence[Effect]]:
    """Run what applies effects in a span, if they send something; yield them with the trace in the messages."""
    messages = [effect.message for effect in effects if type(effect) is Send]
    if not messages:
        yield effects
        return
    queues = {str(effect.queue) for effect in effects if type(effect) is Send}
    queue = next(iter(queues)) if len(queues) == 1 else None
    own = [message.headers for message in messages if tracing.TRACEPARENT in message.headers]
    parent = own[0] if own and len(messages) == 1 and not tracing.is_in_span() else None
    facts = facts_of("send", "send", queue, messages)
    name = "send" if queue is None else f"send {queue}"
    with tracing.span(name, facts, kind="PRODUCER", parent=parent, links=own):
        trace = tracing.here()
        yield [_carrying(effect, trace) for effect in effects]


def _carrying(effect: Effect, trace: dict[str, str]) -> Effect:
    if type(effect) is not Send or not trace or tracing.TRACEPARENT in effect.message.headers:
        return effect
    headers: Headers = {**effect.message.headers, **trace}
    return replace(effect, message=replace(effect.message, headers=headers))


def received(
    queue: str, found: Sequence[Received], times: tuple[float, float], parent: tracing.Carrier | None = None
) -> None:
    """Make the span of a receive that has brought messages.

    Args:
        queue: where from.
        found: the messages.
        times: when it began and ended, in seconds since 1970.
        parent: as for ``tracing.span``.
    """
    messages = [each.message for each in found]
    facts = facts_of("receive", "receive", queue, messages)
    links = [message.headers for message in messages]
    with tracing.span(f"receive {queue}", facts, kind="CLIENT", parent=parent, links=links, times=times):
        return


def processing(found: Received) -> AbstractContextManager[None]:
    """Return the span in which a message is handled: part of its trace, and linked to the attempt before."""
    facts = facts_of("process", "process", found.queue, [found.message])
    facts["redrive.delivery_count"] = found.delivery_count
    before = found.headers.get(ATTEMPT_TRACE)
    links = [{tracing.TRACEPARENT: before}] if isinstance(before, str) else []
    return tracing.span(f"process {found.queue}", facts, kind="CONSUMER", parent=found.headers, links=links)


def settling(
    effects: Sequence[Effect], messages: Sequence[Message], parent: tracing.Carrier | None = None
) -> AbstractContextManager[None]:
    """Return the span in which messages of one queue are settled.

    Args:
        effects: the first of them says how.
        messages: the messages.
        parent: as for ``tracing.span``.
    """
    first = effects[0]
    if not isinstance(first, Complete | Abandon | Defer | DeadLetter):
        raise TypeError(first)
    name, queue = _SETTLES[type(first)], first.lock.queue
    facts = facts_of("settle", name, queue, messages)
    links = [message.headers for message in messages]
    return tracing.span(f"{name} {queue}", facts, kind="CLIENT", parent=parent, links=links)


def with_attempt(effects: Sequence[Effect]) -> list[Effect]:
    """Return the effects of a failed attempt so that the next attempt can be linked to it."""
    trace = tracing.here().get(tracing.TRACEPARENT)
    if trace is None:
        return list(effects)
    return [_after_attempt(effect, {ATTEMPT_TRACE: trace}) for effect in effects]


def _after_attempt(effect: Effect, changes: Headers) -> Effect:
    match effect:
        case Abandon(headers=headers) | DeadLetter(headers=headers):
            return replace(effect, headers={**(headers or {}), **changes})
        case Send(message=message):
            return replace(effect, message=replace(message, headers={**message.headers, **changes}))
        case _:
            return effect
