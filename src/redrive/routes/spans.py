# SPDX-License-Identifier: MIT
"""Spans for events, filters and senders, in programs that use OpenTelemetry; the trace goes on in the headers."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace

from redrive.broker import Headers, Message
from redrive.telemetry import is_traced


@contextmanager
def span(name: str, headers: Headers | None = None, **attributes: str | int) -> Generator[None]:
    """Run the block in a span.

    Args:
        name: what happens.
        headers: those of the event, whose trace goes on here; None: inside the current span.
        attributes: facts, by their names without ``redrive.``.
    """
    if not is_traced():
        yield
        return
    from opentelemetry import propagate, trace

    texts = {key: value for key, value in (headers or {}).items() if isinstance(value, str)}
    context = None if headers is None else propagate.extract(texts)
    facts = {f"redrive.{key}": value for key, value in attributes.items()}
    with trace.get_tracer("redrive").start_as_current_span(name, context, attributes=facts):
        yield


def traced(message: Message) -> Message:
    """Return a message whose headers carry the current trace on."""
    if not is_traced():
        return message
    from opentelemetry import propagate

    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    return replace(message, headers={**message.headers, **carrier}) if carrier else message
