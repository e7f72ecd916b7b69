# SPDX-License-Identifier: MIT
"""When the slots of a destination are. Pure: no I/O, no clock, no randomness.

A **slot** is an instant at which a destination gets what has been waiting for it, in seconds since 1970. A timing says
when they are; the same timing gives the same slots in every process, from wherever it starts to count.

``PerDay`` and ``Cron`` go by the clock on a wall: each wall time of their rule is one slot. If clocks skip it, the slot
is the first instant after the gap, together with all others that are skipped; if it comes twice, the slot is the first.
A cron rule for every hour of the day is the exception: it has a slot in every hour that passes, 23, 24 or 25 of them.
``Every`` counts elapsed time and knows no zones.
"""

import re
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal, Self, TypeAlias

from redrive import duration, number
from redrive.errors import InvalidSetting
from redrive.pipeline.cron_walls import checked_expression, fires_every_hour, in_words, longest_gap, next_cron_wall
from redrive.pipeline.setting_tables import SettingTable, renamed, stated
from redrive.pipeline.zone_time import DAY, day_at, next_sight, next_slot, zone_named

CatchUp: TypeAlias = Literal["latest", "all", "none"]
WhenEmpty: TypeAlias = Literal["skip", "send", "send_once_per_day"]
EarlyClose: TypeAlias = Literal["size", "bytes", "age"]

_START = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")
_CENTURY = 36_525.0 * DAY
_EARLIEST, _LATEST = -50_000_000_000.0, 250_000_000_000.0  # in the years 385 and 9892; Python's calendar ends in 9999


class Timing(ABC):
    """When the slots of a destination are: ``PerDay``, ``Cron`` or ``Every``."""

    __slots__ = ()

    @property
    @abstractmethod
    def period(self) -> float:
        """The seconds from slot to slot; the longest, if they differ. Days on which clocks change are not counted."""

    @abstractmethod
    def next_after(self, instant: float) -> float:
        """Return the first slot that is later than an instant."""

    @abstractmethod
    def to_table(self) -> SettingTable:
        """Return it as JSON values, which ``timing_of`` reads."""

    def slots(self, after: float, until: float) -> list[float]:
        """Return the slots later than ``after`` and not later than ``until``, in order."""
        found: list[float] = []
        slot = self.next_after(after)
        while slot <= until:
            found.append(slot)
            slot = self.next_after(slot)
        return found

    def previous(self, instant: float) -> float | None:
        """Return the last slot that is not later than an instant; None: there was none for a hundred years."""
        back = 60.0
        while (low := self.next_after(instant - back)) > instant:
            back *= 2
            if back > _CENTURY:
                return None
        high = instant  # the slot is low, or lies between them
        while self.next_after(low) <= instant:
            middle = (low + high) / 2
            later = self.next_after(middle)
            low, high = (later, high) if later <= instant else (low, middle)
        return low


@dataclass(frozen=True, slots=True)
class PerDay(Timing):
    """A number of slots a day, at equal distances on the wall clock; each of them once a day, however long the day is.

    Attributes:
        times: how many, 1 to 1,440.
        start: when one of them is, as ``"HH:MM"``.
        zone: whose clock, such as ``"America/New_York"``.
    """

    times: int
    start: str = "00:00"
    zone: str = "UTC"

    def __post_init__(self) -> None:
        number.whole("times", self.times, 1, 1_440)
        _check_start(self.start)
        zone_named(self.zone)

    @property
    def period(self) -> float:
        """The seconds from slot to slot."""
        return float(-(-DAY // self.times))

    def next_after(self, instant: float) -> float:
        """Return the first slot that is later than an instant."""
        return next_slot(zone_named(self.zone), _checked(instant), self._next_wall)

    def _next_wall(self, wall: int) -> int:
        day, second = divmod(wall, DAY)
        times = _times_of_day(self.times, self.start)
        index = bisect_right(times, second)
        return day * DAY + times[index] if index < len(times) else (day + 1) * DAY + times[0]

    def to_table(self) -> SettingTable:
        """Return it as JSON values, which ``timing_of`` reads."""
        return {"per_day": self.times, "start": self.start, "zone": self.zone}

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> Self:
        """Return the timing that ``{"per_day": 24, "start": "02:07", "zone": "America/New_York"}`` describes."""
        found = stated("a timing with 'per_day'", table, ("per_day", "start", "zone"))
        try:
            return cls(found.pop("per_day"), **found)
        except InvalidSetting as error:
            raise renamed(error, "times", "per_day") from None

    def __str__(self) -> str:
        often = "once a day at" if self.times == 1 else f"{self.times:,} times a day from"
        return f"{often} {self.start} {self.zone}"


@dataclass(frozen=True, slots=True)
class Cron(Timing):
    """Slots by a cron expression: minute, hour, day of the month, month, day of the week. Needs the extra ``pipeline``.

    Attributes:
        expression: such as ``"30 2 * * MON-FRI"``.
        zone: whose clock, such as ``"America/New_York"``.
    """

    expression: str
    zone: str = "UTC"

    def __post_init__(self) -> None:
        object.__setattr__(self, "expression", checked_expression(self.expression))
        zone_named(self.zone)

    @property
    def period(self) -> float:
        """The seconds from slot to slot; the longest, if they differ."""
        return longest_gap(self.expression)

    def next_after(self, instant: float) -> float:
        """Return the first slot that is later than an instant."""
        find = next_sight if fires_every_hour(self.expression) else next_slot
        return find(zone_named(self.zone), _checked(instant), self._next_wall)

    def _next_wall(self, wall: int) -> int:
        return next_cron_wall(self.expression, wall)

    def to_table(self) -> SettingTable:
        """Return it as JSON values, which ``timing_of`` reads."""
        return {"cron": self.expression, "zone": self.zone}

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> Self:
        """Return the timing that ``{"cron": "30 2 * * MON-FRI", "zone": "America/New_York"}`` describes."""
        found = stated("a timing with 'cron'", table, ("cron", "zone"))
        try:
            return cls(found.pop("cron"), **found)
        except InvalidSetting as error:
            raise renamed(error, "expression", "cron") from None

    def __str__(self) -> str:
        return f"{in_words(self.expression)} ({self.expression}), {self.zone}"


@dataclass(frozen=True, slots=True)
class Every(Timing):
    """A slot every so many seconds of elapsed time. It knows no zones, and no change of clocks moves it.

    Attributes:
        interval: the seconds from slot to slot, 1 or more.
        start: when one of them is, in seconds since 1970; there are slots before it, too.
    """

    interval: float
    start: float = 0.0

    def __post_init__(self) -> None:
        interval = duration.seconds("interval", self.interval)
        if interval < 1.0:
            raise InvalidSetting("interval", self.interval, "must be 1 second or more; without a timing nothing waits")
        object.__setattr__(self, "interval", interval)
        object.__setattr__(self, "start", _checked(self.start, "start"))

    @property
    def period(self) -> float:
        """The seconds from slot to slot."""
        return self.interval

    def next_after(self, instant: float) -> float:
        """Return the first slot that is later than an instant."""
        count = (_checked(instant) - self.start) // self.interval  # one too few or too many, where floats are rounded
        while self.start + count * self.interval > instant:
            count -= 1
        while self.start + count * self.interval <= instant:
            count += 1
        return self.start + count * self.interval

    def to_table(self) -> SettingTable:
        """Return it as JSON values, which ``timing_of`` reads."""
        return {"every": self.interval, "start": self.start}

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> Self:
        """Return the timing that ``{"every": "15m"}`` describes."""
        found = stated("a timing with 'every'", table, ("every", "start"), "every")
        try:
            return cls(found.pop("every"), **found)
        except InvalidSetting as error:
            raise renamed(error, "interval", "every") from None

    def __str__(self) -> str:
        return f"every {_spelled(self.interval)}"


_KINDS: Final[dict[str, type[PerDay | Cron | Every]]] = {"per_day": PerDay, "cron": Cron, "every": Every}


def timing_of(table: Mapping[str, Any]) -> PerDay | Cron | Every:
    """Return the timing that a table describes, in a file or as ``to_table`` made it.

    Raises:
        InvalidSetting: it has none of ``per_day``, ``cron`` and ``every`` or more than one, or a value is not allowed.
        UnknownSetting: it has a setting that does not exist.
    """
    named = [name for name in _KINDS if isinstance(table, Mapping) and name in table]
    if len(named) != 1:
        allowed = 'must have one of per_day, cron and every: {per_day = 24, start = "02:07", zone = "America/New_York"}'
        raise InvalidSetting("timing", table, allowed)
    return _KINDS[named[0]].from_table(table)


def catch_up(timing: Timing, last_served: float | None, now: float, how: CatchUp, window: float) -> list[float]:
    """Return the slots that were missed and are still to be served, oldest first.

    Args:
        timing: when the slots are.
        last_served: the last slot that was served, or when the destination was made; None: it is new and missed none.
        now: the present instant.
        how: ``latest``: the last one only, which takes everything that waits; ``all``: each of them; ``none``: none.
        window: how many seconds ago a slot may be; one that is older is not served any more.
    """
    if how not in ("latest", "all", "none"):
        raise InvalidSetting("catch_up", how, 'must be "latest", "all" or "none"')
    since = now - duration.seconds("window", window, zero=True)
    if last_served is None or how == "none":
        return []
    after = max(last_served, since)
    if how == "all":
        return timing.slots(after, now)
    latest = timing.previous(now)
    return [latest] if latest is not None and latest > after else []


def sends_empty(when_empty: WhenEmpty, slot: float, served_empty: Iterable[float], zone: str = "UTC") -> bool:
    """Say whether a slot for which nothing waits is served all the same, with an empty batch.

    Args:
        when_empty: ``skip``: never; ``send``: always; ``send_once_per_day``: unless one of that day was.
        slot: the slot.
        served_empty: slots that were served empty; those of other days do not matter.
        zone: whose days are meant: that of the destination.
    """
    if when_empty not in ("skip", "send", "send_once_per_day"):
        raise InvalidSetting("when_empty", when_empty, 'must be "skip", "send" or "send_once_per_day"')
    if when_empty != "send_once_per_day":
        return when_empty == "send"
    place = zone_named(zone)
    return day_at(place, slot) not in {day_at(place, each) for each in served_empty}


@dataclass(frozen=True, slots=True)
class Backstop:
    """How long work may wait for a batch that succeeds. After that it is not tried again, but shown to a person.

    Attributes:
        retries: how many slots after the first one are to try it.
        padding: seconds on top, for outages and days of 25 hours.
    """

    retries: int = 2
    padding: float = 10_800.0

    def __post_init__(self) -> None:
        number.whole("retries", self.retries, 0, 1_000)
        object.__setattr__(self, "padding", duration.seconds("padding", self.padding, zero=True))

    def not_after(self, due_at: float, period: float) -> float:
        """Return until when work is tried that is due at an instant, at a destination with such a period."""
        return due_at + (self.retries + 1) * period + self.padding

    def to_table(self) -> SettingTable:
        """Return it as JSON values."""
        return {"retries": self.retries, "padding": self.padding}

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> Self:
        """Return the backstop that ``{"retries": 2, "padding": "3h"}`` describes."""
        return cls(**stated("a backstop", table, ("retries", "padding"), "padding"))


@dataclass(frozen=True, slots=True)
class Limits:
    """When a batch is closed before its slot: as soon as one of these is reached. None: no limit.

    Attributes:
        max_items: how many items may wait.
        max_bytes: how many bytes they may have in all.
        max_wait: how many seconds the oldest of them may wait.
    """

    max_items: int | None = None
    max_bytes: int | None = None
    max_wait: float | None = None

    def __post_init__(self) -> None:
        for name in ("max_items", "max_bytes"):
            if getattr(self, name) is not None:
                number.whole(name, getattr(self, name))
        if self.max_wait is not None:
            object.__setattr__(self, "max_wait", duration.seconds("max_wait", self.max_wait))

    def reason(self, items: int, nbytes: int, oldest_age: float) -> EarlyClose | None:
        """Return why a batch must be closed now; None: it can wait for its slot. An empty one always can."""
        if items == 0:
            return None
        if self.max_items is not None and items >= self.max_items:
            return "size"
        if self.max_bytes is not None and nbytes >= self.max_bytes:
            return "bytes"
        if self.max_wait is not None and oldest_age >= self.max_wait:
            return "age"
        return None

    def to_table(self) -> SettingTable:
        """Return it as JSON values."""
        return {"max_items": self.max_items, "max_bytes": self.max_bytes, "max_wait": self.max_wait}

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> Self:
        """Return the limits that ``{"max_items": 100, "max_wait": "1h"}`` describes."""
        return cls(**stated("limits", table, ("max_items", "max_bytes", "max_wait"), "max_wait"))


@lru_cache(maxsize=1_024)
def _times_of_day(times: int, start: str) -> tuple[int, ...]:
    """Return the seconds of the day of a number of slots at equal distances, to the second below."""
    hours, minutes = start.split(":")
    first = int(hours) * 3_600 + int(minutes) * 60
    return tuple(sorted((first + each * DAY // times) % DAY for each in range(times)))


def _check_start(start: object) -> None:
    if not isinstance(start, str) or _START.fullmatch(start) is None:
        raise InvalidSetting(
            "start", start, 'must be a time from "00:00" to "23:59" with four figures, such as "02:07"'
        )


def _checked(instant: float, setting: str = "instant") -> float:
    """Return an instant that the calendar has."""
    if isinstance(instant, int | float) and not isinstance(instant, bool) and _EARLIEST <= instant <= _LATEST:
        return float(instant)
    raise InvalidSetting(setting, instant, "must be seconds since 1970 in UTC, such as 1_793_000_000.0")


def _spelled(interval: float) -> str:
    """Return a length of time in words, in the largest unit that fits."""
    for unit, size in (("day", DAY), ("hour", 3_600), ("minute", 60)):
        if interval % size == 0:
            return unit if interval == size else f"{interval / size:,.0f} {unit}s"
    return "second" if interval == 1 else f"{interval:,g} seconds"
