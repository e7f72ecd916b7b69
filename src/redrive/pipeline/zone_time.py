# SPDX-License-Identifier: MIT
"""Wall clocks: what a clock on the wall of a zone shows, and when. Pure: no clock, no randomness; zone files are read.

A **wall time** is what such a clock shows, in seconds since it showed 1970-01-01 00:00. An **instant** is seconds since
1970 in UTC. When clocks go forward, some wall times never come: the gap. When they go back, some come twice: the
overlap. ``slot_at`` gives each wall time one instant, and a later wall time never has an earlier one.
"""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, tzinfo
from difflib import get_close_matches
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

from redrive.errors import InvalidSetting

DAY: Final = 86_400

NextWall = Callable[[int], int]
"""Returns the first wall time of a rule that is later than the given one."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_STEP = 6 * 3_600
"""No zone changes its clocks twice within six hours."""


def zone_named(name: str) -> tzinfo:
    """Return a zone of the IANA database. ``UTC`` needs no zone files.

    Raises:
        InvalidSetting: it is unknown; the error names those that are spelled like it.
    """
    if name == "UTC":
        return UTC
    if isinstance(name, str) and name != "localtime" and not name.startswith(("posix/", "right/")):
        try:
            return ZoneInfo(name)
        except (LookupError, ValueError, OSError):  # unknown; no name of a file; a directory, such as "America"
            pass
    raise InvalidSetting("zone", name, f"must be a zone of the IANA database{_zone_instead(name)}")


def wall_at(zone: tzinfo, instant: float) -> int:
    """Return what the clock shows at an instant, without fractions of a second."""
    second = int(instant // 1)
    return second + _offset(zone, second)


def day_at(zone: tzinfo, instant: float) -> date:
    """Return the date at an instant."""
    return at_wall(wall_at(zone, instant)).date()


def slot_at(zone: tzinfo, wall: int) -> int:
    """Return the instant of a wall time: the first of two in an overlap, the end of the gap if it is in one."""
    local = at_wall(wall).replace(tzinfo=zone)
    before, after = _seconds(local), _seconds(local.replace(fold=1))
    if before >= after:
        return wall - before
    return _change(zone, wall - after, wall - before)


def next_slot(zone: tzinfo, instant: float, next_wall: NextWall) -> float:
    """Return the first slot after an instant, of a rule in which each wall time counts once.

    Starting from what the clock shows now misses nothing, because every earlier wall time has an earlier slot. In the
    second half of an overlap it finds slots that are over, and goes on.
    """
    wall = wall_at(zone, instant)
    while True:
        wall = next_wall(wall)
        slot = slot_at(zone, wall)
        if slot > instant:
            return float(slot)


def next_sight(zone: tzinfo, instant: float, next_wall: NextWall) -> float:
    """Return the next instant at which the clock shows a time of a rule: twice in an overlap, never in a gap."""
    at = int(instant // 1)
    wall = wall_at(zone, at)
    while True:
        offset = _offset(zone, at)
        found = next_wall(wall) - offset
        change = _first_change(zone, at, found)
        if change is None:
            return float(found)
        at, wall = change, wall_at(zone, change) - 1  # from there on, with the clock as it is then


def at_wall(wall: int) -> datetime:
    """Return a wall time as a ``datetime``. It says UTC, so that nothing adjusts it."""
    return _EPOCH + timedelta(seconds=wall)


def _first_change(zone: tzinfo, after: int, until: int) -> int | None:
    """Return the first instant in ``(after, until]`` with another offset than before, if there is one."""
    low = after
    while low < until:
        high = min(low + _STEP, until)
        if _offset(zone, low) != _offset(zone, high):
            return _change(zone, low, high)
        low = high
    return None


def _change(zone: tzinfo, low: int, high: int) -> int:
    """Return the instant in ``(low, high]`` at which the offset changes."""
    before = _offset(zone, low)
    while high - low > 1:
        middle = (low + high) // 2
        if _offset(zone, middle) == before:
            low = middle
        else:
            high = middle
    return high


def _offset(zone: tzinfo, instant: int) -> int:
    return _seconds((_EPOCH + timedelta(seconds=instant)).astimezone(zone))


def _seconds(local: datetime) -> int:
    offset = local.utcoffset()
    return 0 if offset is None else int(offset.total_seconds())


def _zone_instead(name: object) -> str:
    """Return the end of the error for an unknown zone: what to write or to install."""
    known = available_timezones()
    if not known:
        return "; this machine has none: pip install tzdata"
    by_name = {each.lower(): each for each in sorted(known)}
    by_place = {each.rpartition("/")[2].lower(): each for each in sorted(known, reverse=True)}
    wanted = str(name)[:64].strip().replace(" ", "_").lower()
    near = get_close_matches(wanted, by_name, 3, 0.75)
    places = [by_place[each] for each in get_close_matches(wanted.rpartition("/")[2], by_place, 2, 0.8)]
    found = list(dict.fromkeys([*places[:1], *(by_name[each] for each in near), *places]))[:3]
    return f", such as {' or '.join(map(repr, found or ['Europe/Berlin']))}"
