# SPDX-License-Identifier: MIT
"""Spans of a test, collected by OpenTelemetry's own SDK."""

from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


class Spans:
    """The spans that have ended."""

    def __init__(self, exporter):
        self._exporter = exporter

    def all(self):
        """Return all of them."""
        return list(self._exporter.get_finished_spans())

    def named(self, name):
        """Return those with a name, in the order in which they began."""
        return sorted((each for each in self.all() if each.name == name), key=lambda each: each.start_time)

    def one(self, name):
        """Return the only one with a name."""
        (found,) = self.named(name)
        return found

    @contextmanager
    def program(self, name="program"):
        """Run the block in a span of the program's own."""
        with trace.get_tracer("program").start_as_current_span(name) as span:
            yield span


@contextmanager
def collected(monkeypatch):
    """Collect the spans of a block; other tests of this process see no provider."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with monkeypatch.context() as patched:
        patched.setattr(trace, "_TRACER_PROVIDER", provider)
        yield Spans(exporter)


def parent_of(span):
    """Return the number of the span that a span is part of."""
    return None if span.parent is None else span.parent.span_id


def links_of(span):
    """Return the numbers of the spans that a span is linked to."""
    return {link.context.span_id for link in span.links}
