# SPDX-License-Identifier: MIT
"""The span of messages that are sent again, in programs that use OpenTelemetry."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from redrive import tracing
from redrive.broker import Message, spans
from redrive.recovery.records import Batch
from redrive.telemetry import is_traced


def recovering(batch: Batch, lane: str, messages: Sequence[Message]) -> AbstractContextManager[None]:
    """Return the span in which copies are forwarded; it is linked to their traces, which they keep.

    Args:
        batch: their batch.
        lane: the destination.
        messages: the copies.
    """
    if not messages or not is_traced():
        return nullcontext()
    facts = spans.facts_of("send", "recover", lane, messages) | {"redrive.operation": batch.operation}
    links = [message.headers for message in messages]
    return tracing.span(f"recover {lane}", facts, kind="PRODUCER", parent={}, links=links)
