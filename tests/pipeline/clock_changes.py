# SPDX-License-Identifier: MIT
"""Where the clocks of the world change, found by looking at them; and what a rule means there, spelled out."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import NamedTuple
from zoneinfo import ZoneInfo, available_timezones

DAY = 86_400
YEARS = (datetime(2020, 1, 1, tzinfo=UTC), datetime(2030, 1, 1, tzinfo=UTC))
WEEK = 7 * DAY


class ClockChange(NamedTuple):
    """From one instant on, the clocks of a zone are ``after`` seconds ahead of UTC, and were ``before`` until then."""

    at: int
    before: int
    after: int

    def instant(self, wall: int) -> int:
        """Return when a wall time near the change is: the first time, or the change itself if it is skipped."""
        if wall - self.before < self.at:
            return wall - self.before
        return max(wall - self.after, self.at)

    def slots(self, walls: Iterable[int], after: float, until: float) -> list[float]:
        """Return when the slots of some wall times are, within a span around the change."""
        return sorted({float(at) for at in map(self.instant, walls) if after < at <= until})

    def sights(self, minute: int, after: int, until: int) -> list[float]:
        """Return when the clock shows a minute of the hour, within a span around the change."""
        first = after - after % 60 + 60
        offsets = ((at, self.before if at < self.at else self.after) for at in range(first, until + 1, 60))
        return [float(at) for at, offset in offsets if (at + offset) % 3_600 == minute * 60]


def zone_names() -> list[str]:
    """Return the names of all zones, without the one that is another on every machine."""
    return sorted(available_timezones() - {"localtime"})


def offset(zone: ZoneInfo, instant: int) -> timedelta:
    """Return how far a zone is ahead of UTC."""
    return datetime.fromtimestamp(instant, zone).utcoffset()


def changes(name: str, every: int = WEEK, years: tuple[datetime, datetime] = YEARS) -> Iterator[ClockChange]:
    """Yield the changes of a zone's clocks, from a look at them every so many seconds."""
    zone = ZoneInfo(name)
    first, last = (int(year.timestamp()) for year in years)
    before = offset(zone, first)
    for at in range(first + every, last, every):
        if (after := offset(zone, at)) != before:
            ahead = (int(each.total_seconds()) for each in (before, after))
            yield ClockChange(_bisected(zone, at - every, at), *ahead)
            before = after


def _bisected(zone: ZoneInfo, low: int, high: int) -> int:
    before = offset(zone, low)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if offset(zone, middle) == before else (low, middle)
    return high


@cache
def different_changes() -> dict[ClockChange, str]:
    """Return all changes of all zones, each with one zone that has it: many zones change alike."""
    found: dict[ClockChange, str] = {}
    for name in zone_names():
        for change in changes(name):
            found.setdefault(change, name)
    return found
