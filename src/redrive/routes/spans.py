# SPDX-License-Identifier: MIT
"""Spans for legs, filters and senders, in programs that use OpenTelemetry; the trace goes on in the headers."""

from contextlib import AbstractContextManager, nullcontext

from redrive import tracing
from redrive.broker import Headers, Message
from redrive.telemetry import is_traced


def leg_span(route: str, event: str, headers: Headers) -> AbstractContextManager[None]:
    """Return the span of one attempt to deliver an event on a route.

    Args:
        route: the route.
        event: the event's id.
        headers: those of the event, whose trace goes on here, unless a worker has begun a span for it already.
    """
    if not is_traced():
        return nullcontext()
    facts = {"redrive.route": route, "redrive.event": event, "messaging.system": "redrive"}
    return tracing.span(f"leg {route}", facts, parent=None if tracing.is_in_span() else headers)


def step_span(step: str, route: str, **facts: str) -> AbstractContextManager[None]:
    """Return the span of a filter or a sender."""
    if not is_traced():
        return nullcontext()
    named = {f"redrive.{name}": fact for name, fact in facts.items()}
    kind: tracing.Kind = "PRODUCER" if step.startswith("sender") else "INTERNAL"
    return tracing.span(f"{step} {route}", {"redrive.route": route, **named}, kind=kind)


def traced(message: Message) -> Message:
    """Return a message whose headers carry the current trace on."""
    carrier = tracing.here()
    return message.with_headers({**message.headers, **carrier}) if carrier else message
