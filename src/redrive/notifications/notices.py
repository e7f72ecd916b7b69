# SPDX-License-Identifier: MIT
"""What webhooks are called for, out of what the rules of attention look at. Pure: no I/O, no clock."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from redrive.attention import Facts, Thresholds, items_of
from redrive.recovery import Operation

OPERATION_FINISHED: Final = "operation-finished"
_OF_ATTENTION: Final = ("new-group", "group-rises", "route-parked", "pipeline-overdue", "queue-unread")
EVENTS: Final = (*_OF_ATTENTION, OPERATION_FINISHED)
"""What a webhook can be called for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Something that webhooks are called for, once for as long as it is so.

    Attributes:
        event: one of ``EVENTS``.
        subject: what it is about: ``group:1f3a``, ``operation:128``, ``route:copy``.
        sentence: what a person reads.
        since: since when it is so, if that is known.
        count: how many messages it concerns.
    """

    event: str
    subject: str
    sentence: str
    since: datetime | None
    count: int

    @property
    def name(self) -> str:
        """Names it for as long as it is so."""
        return f"{self.event} {self.subject}"


def notices_of(facts: Facts, thresholds: Thresholds | None = None) -> list[Notice]:
    """Return what webhooks are called for."""
    needed = [
        Notice(event=each.rule, subject=each.subject, sentence=each.sentence, since=each.since, count=each.count)
        for each in items_of(facts, thresholds)
        if each.rule in _OF_ATTENTION
    ]
    return [*needed, *_ended(facts)]


def _ended(facts: Facts) -> Iterator[Notice]:
    for operation in facts.operations:
        if operation.is_over and operation.ended_at is not None:
            yield Notice(
                event=OPERATION_FINISHED,
                subject=f"operation:{operation.number}",
                sentence=_sentence(operation),
                since=operation.ended_at,
                count=operation.progress.total,
            )


def _sentence(operation: Operation) -> str:
    kind, state = operation.plan.kind.value, operation.state.word
    return f"Operation {operation.number} ({kind}) has ended: {state}, {operation.progress.total:,} messages"
