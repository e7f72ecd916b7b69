# SPDX-License-Identifier: MIT
"""Rows of the table ``messages`` as messages."""

from collections.abc import Iterable

from redrive.broker.port import Lock, Received, State
from redrive.engines.stored import Row, instant, received

BODY = (
    "coalesce(m.body, (SELECT body FROM redrive_bodies WHERE sequence = m.sequence),"
    " (SELECT body FROM redrive_contents WHERE id = m.content))"
)
"""A message's body: in its row if it is small, apart if it is large, shared with others if a topic got it."""

COLUMNS = (
    f"m.sequence, m.enqueued_at, m.expires, m.id, m.properties, m.dead_letter, {BODY}, m.state, m.due, m.delivery_count"
)
"""What ``StoredMessage`` has of a message; ``EXPIRES`` and ``DELIVERY_COUNT`` say where in a row these are."""

EXPIRES, DELIVERY_COUNT = 2, 9
_PROPERTIES, _BODY, _STATE = 4, 6, 7

SMALL_BODY_BYTES = 1_024
"""Up to this size a body is in its message's row: writing it anew with each lock costs less than a row of its own."""


def locked(found: Iterable[Row], queue: str, state: State, token: int, until: float) -> list[Received]:
    """Return messages that have just been locked, from rows of ``COLUMNS`` as they were before."""
    locked_until = instant(until)
    return [
        received(
            row[:_STATE], queue, state, row[DELIVERY_COUNT] + 1, Lock(queue, row[0], token), locked_until=locked_until
        )
        for row in found
    ]


def taken(found: Iterable[Row], queue: str) -> list[Received]:
    """Return messages that have just been taken out, from rows of ``COLUMNS`` as they were before."""
    return [received(row[:_STATE], queue, State.READY, row[DELIVERY_COUNT] + 1) for row in found]


def fitting(found: Iterable[Row], max_bytes: int | None) -> list[Row]:
    """Return the first of some rows of ``COLUMNS``, no more than fit into some bytes, but one at least."""
    if max_bytes is None:
        return list(found)
    fit: list[Row] = []
    size = 0
    for row in found:
        size += len(row[_BODY]) + len(row[_PROPERTIES] or "")
        if fit and size > max_bytes:
            break
        fit.append(row)
    return fit
