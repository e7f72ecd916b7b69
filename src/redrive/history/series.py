# SPDX-License-Identifier: MIT
"""Numbers over time, without holes: a point for every step of a span. Pure: no I/O, no clock."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from redrive import duration
from redrive.broker import tallies
from redrive.errors import InvalidSetting
from redrive.history.buckets import DAY, HOUR, MINUTE, Retention, began_at
from redrive.history.metrics import Metric

MOST_POINTS: Final = 5_000
_NEAT: Final = (MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 6 * HOUR, DAY, 7 * DAY)
"""The steps that are chosen from if none is given."""
_ENOUGH: Final = 300
"""About how many points a line should have."""


@dataclass(frozen=True, slots=True)
class Point:
    """A number for a step.

    Attributes:
        at: when the step began.
        value: the number; None if no process was there to note it.
    """

    at: datetime
    value: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A number over time.

    Attributes:
        metric: what.
        topic: of what kind of thing.
        name: of which; None: of all of them together.
        start: when the first step began.
        end: when the last step ends; that may be in the future: it is not over yet.
        step_s: how long a step is, in seconds.
        points: a point for every step, the oldest first.
    """

    metric: str
    topic: str
    name: str | None
    start: datetime
    end: datetime
    step_s: int
    points: tuple[Point, ...]

    @property
    def total(self) -> int:
        """All of them added up; of a gauge, which is a level, that means nothing."""
        return sum(point.value or 0 for point in self.points)

    @property
    def highest(self) -> int:
        """The highest."""
        return max((point.value or 0 for point in self.points), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesQuestion:
    """A number over time that is asked for, of several things.

    Attributes:
        metric: what was counted or noted.
        topic: of what kind of thing.
        names: of which; None: of all that have any.
        span: how long back from now.
        step: how long a step is, in whole minutes; None: as fits the span.
    """

    metric: str
    topic: str = tallies.QUEUE
    names: Sequence[str] | None = None
    span: duration.Duration = DAY
    step: duration.Duration | None = None


@dataclass(frozen=True, slots=True)
class Span:
    """A time that ends now, in steps.

    Attributes:
        start: when the first step began, in seconds since 1970.
        end: when the last step ends.
        step: how long a step is, in seconds.
        empty: a point for each step, in which nothing happened; those of all lines of a page are the same.
    """

    start: int
    end: int
    step: int
    empty: tuple[Point, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        steps = range(self.start, self.end, self.step)
        object.__setattr__(self, "empty", tuple(Point(datetime.fromtimestamp(at, UTC), 0) for at in steps))


def span_of(now: float, seconds: float, step: float | None, retention: Retention) -> Span:
    """Return the steps of the last seconds, the one that it is now included.

    Args:
        now: the time.
        seconds: how long.
        step: how long a step is; None: as fits.
        retention: what is kept.

    Raises:
        InvalidSetting: a step is no whole number of minutes, is finer than what is kept, or there are too many.
    """
    finest = retention.finest_step(seconds)
    if step is None:
        wanted = [each for each in _NEAT if each >= finest and seconds / each <= _ENOUGH]
        chosen = wanted[0] if wanted else _NEAT[-1]
    else:
        chosen = _checked_step(step, seconds, finest)
    start = began_at(min(now, now - seconds + chosen), chosen)
    return Span(start, began_at(now, chosen) + chosen, chosen)


def _checked_step(step: float, seconds: float, finest: int) -> int:
    whole = int(step)
    if whole < MINUTE or whole != step or whole % MINUTE:
        raise InvalidSetting("step", step, "must be whole minutes, in seconds: 60, 300, 3600")
    if whole % finest:
        problem = f"must be a multiple of {finest:,} seconds: of a span of that length no finer numbers are kept"
        raise InvalidSetting("step", step, problem)
    if seconds / whole > MOST_POINTS:
        raise InvalidSetting(
            "step", step, f"gives more than {MOST_POINTS:,} points; make it longer, or the span shorter"
        )
    return whole


def filled(
    span: Span, metric: Metric, rows: Iterable[tuple[int, int]], seen: Collection[int] = ()
) -> tuple[Point, ...]:
    """Return a point for every step.

    Args:
        span: the steps.
        metric: what the numbers are.
        rows: when a stored span began, and its number; what began at the same time is given as one.
        seen: of a gauge: the starts of the stored spans in which it was noted.
    """
    found: dict[int, int | None] = {}
    if metric.is_gauge:
        found = dict.fromkeys(range(span.start, span.end, span.step))
        found |= dict.fromkeys((began_at(began, span.step) for began in seen), 0)
    for began, n in rows:
        at = began_at(began, span.step)
        before = found.get(at) or 0
        found[at] = max(before, n) if metric.is_gauge else before + n
    empty = span.empty
    points = list(empty)
    for at, value in found.items():
        place = (at - span.start) // span.step
        if value != 0 and 0 <= place < len(points):
            points[place] = Point(empty[place].at, value)
    return tuple(points)
