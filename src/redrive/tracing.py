# SPDX-License-Identifier: MIT
"""Spans, and the W3C trace context in headers, in programs that use OpenTelemetry. Elsewhere this does nothing.

OpenTelemetry is never imported here first: only a program that has imported it can have an exporter.
"""

from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from redrive.telemetry import is_traced

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Link

TRACEPARENT: Final = "traceparent"
TRACE_HEADERS: Final = (TRACEPARENT, "tracestate")
"""The headers that carry a trace from one program to the next, as W3C names them."""

Carrier: TypeAlias = Mapping[str, object]
"""The headers of a message, among which there may be those of a trace."""

Kind: TypeAlias = Literal["INTERNAL", "PRODUCER", "CONSUMER", "CLIENT"]
Facts: TypeAlias = Mapping[str, str | int]

_MOST_LINKS: Final = 128
"""How many links a span has by default at most, in OpenTelemetry."""


@contextmanager
def span(
    name: str,
    facts: Facts,
    *,
    kind: Kind = "INTERNAL",
    parent: Carrier | None = None,
    links: Iterable[Carrier] = (),
    times: tuple[float, float] | None = None,
) -> Generator[None]:
    """Run the block in a span.

    Args:
        name: what happens.
        facts: the attributes of the span.
        kind: which part of a conversation it is.
        parent: the headers whose trace goes on here, without which a new trace begins; None: inside the current span.
        links: headers with other spans that this one has to do with.
        times: when it began and ended, in seconds since 1970, if that is over already.
    """
    if not is_traced():
        yield
        return
    from opentelemetry import trace

    context = None if parent is None else _context_in(parent)
    span_kind = trace.SpanKind[kind]
    began, ended = (None, None) if times is None else (int(each * 1e9) for each in times)
    tracer = trace.get_tracer("redrive")
    made = tracer.start_span(name, context, span_kind, dict(facts), list(_links(links)), began)
    try:
        with trace.use_span(made):
            try:
                yield
            except Exception as error:
                made.set_attribute("error.type", type(error).__qualname__)
                raise
    finally:
        made.end(ended)


def is_in_span() -> bool:
    """Say whether there is a current span, whose trace can go on in a message."""
    if not is_traced():
        return False
    from opentelemetry import trace

    return trace.get_current_span().get_span_context().is_valid


def here() -> dict[str, str]:
    """Return the headers that carry the current trace on; none if there is no current span."""
    carrier: dict[str, str] = {}
    if is_traced():
        from opentelemetry import propagate

        propagate.inject(carrier)
    return carrier


def passed_on(headers: Carrier) -> dict[str, str]:
    """Return the headers that carry the current trace on or, if there is no current span, the trace of a message."""
    if is_traced() and TRACEPARENT in (found := here()):
        return found
    if not headers:  # as most have none
        return {}
    return {name: text for name in TRACE_HEADERS if isinstance(text := headers.get(name), str)}


def note_failure(error: Exception) -> None:
    """Note on the current span that what it stands for has failed, where the exception itself does not leave it."""
    if not is_traced():
        return
    from opentelemetry import trace

    current = trace.get_current_span()
    current.record_exception(error)
    current.set_attribute("error.type", type(error).__qualname__)
    current.set_status(trace.Status(trace.StatusCode.ERROR, str(error)))


def _context_in(headers: Carrier) -> "Context":
    from opentelemetry import propagate
    from opentelemetry.context import Context

    texts = {key: value for key, value in headers.items() if isinstance(value, str)}
    return propagate.extract(texts, Context())


def _links(carriers: Iterable[Carrier]) -> "Generator[Link]":
    from opentelemetry import trace

    found = 0
    for headers in carriers:
        linked = (
            trace.get_current_span(_context_in(headers)).get_span_context() if headers else trace.INVALID_SPAN_CONTEXT
        )
        if linked.is_valid:
            yield trace.Link(linked)
            if (found := found + 1) >= _MOST_LINKS:
                return
