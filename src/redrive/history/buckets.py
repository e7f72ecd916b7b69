# SPDX-License-Identifier: MIT
"""Spans of time that numbers are kept by: minutes, later hours, later days. Pure: no I/O, no clock.

A number is kept in one row only. When minutes have been kept long enough, they are added up to hours and removed, in
one transaction; so the sum over all rows is always what was counted, whatever has been rolled up already.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from redrive import duration
from redrive.errors import InvalidSetting
from redrive.history.metrics import GAUGES

MINUTE: Final = 60
HOUR: Final = 3_600
DAY: Final = 86_400
STEPS: Final = (MINUTE, HOUR, DAY)
"""How long the span of a row may be, in seconds."""

LONGEST_S: Final = 3_660 * DAY
"""Ten years."""


class TallyRow(NamedTuple):
    """A number for a span of time, as it is stored."""

    topic: str
    name: str
    metric: str
    step: int
    """How long the span is, in seconds."""
    began: int
    """When it began, in seconds since 1970."""
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long the history is kept, in seconds.

    Attributes:
        minutes: by the minute; then by the hour.
        hours: by the hour; then by the day.
        days: by the day; then not at all.
    """

    minutes: float = 48 * HOUR
    hours: float = 35 * DAY
    days: float = 400 * DAY

    def __post_init__(self) -> None:
        for name in ("minutes", "hours", "days"):
            object.__setattr__(self, name, duration.seconds(name, getattr(self, name), longest=LONGEST_S))
        if not HOUR <= self.minutes <= self.hours <= self.days:
            problem = "must be an hour at least, and no longer than hours, which must be no longer than days"
            raise InvalidSetting("minutes", self.minutes, problem)

    def finest_step(self, age: float) -> int:
        """Return the shortest span that is kept of what happened that many seconds ago."""
        return MINUTE if age <= self.minutes else HOUR if age <= self.hours else DAY


def began_at(time: float, step: int) -> int:
    """Return when the span began that a time is in; days begin at midnight UTC."""
    return int(time // step) * step


def merged(metric: str, numbers: Iterable[int]) -> int:
    """Return the number for a longer span: the sum of what was counted, the highest of what was noted."""
    return max(numbers) if metric in GAUGES else sum(numbers)


def rolled_up(rows: Iterable[TallyRow], step: int) -> list[TallyRow]:
    """Return what rows amount to in longer spans, in the order of their names."""
    found: dict[tuple[str, str, str, int], list[int]] = {}
    for row in rows:
        found.setdefault((row.topic, row.name, row.metric, began_at(row.began, step)), []).append(row.n)
    return [
        TallyRow(topic, name, metric, step, began, merged(metric, numbers))
        for (topic, name, metric, began), numbers in sorted(found.items())
    ]


def next_steps() -> Sequence[tuple[int, int]]:
    """Return which spans are rolled up to which."""
    return list(pairwise(STEPS))
