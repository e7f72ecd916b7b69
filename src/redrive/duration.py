# SPDX-License-Identifier: MIT
"""Lengths of time, from what people write to seconds. Pure: no I/O, no clock.

A bare number is seconds, as in the standard library; a ``timedelta`` has its own unit; files write
``"100ms"``, ``"1.5s"``, ``"2m"``, ``"1h"``, ``"1d"`` or .NET's ``"[d.]hh:mm:ss[.fff]"``.
"""

from datetime import timedelta

from redrive.errors import InvalidSetting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

Duration: "TypeAlias" = float | timedelta
"""What people write: seconds, or a ``timedelta``."""

LONGEST = 366 * 86_400.0
"""A year. Longer waits are a mistake in the unit, and ``time.sleep`` refuses much longer ones."""

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}


def seconds(
    setting: str, value: "Duration", *, zero: bool = False, longest: float = LONGEST, otherwise: str = ""
) -> float:
    """Check a length of time and return it in seconds.

    Args:
        setting: the name to blame in the error.
        value: seconds or a ``timedelta``.
        zero: whether 0 is allowed.
        longest: the longest that is allowed.
        otherwise: what to do if that is not enough.

    Raises:
        InvalidSetting: it is negative, not finite, too long, or not a length of time.
    """
    number = value.total_seconds() if isinstance(value, timedelta) else value
    is_number = isinstance(number, int | float) and not isinstance(number, bool)
    if is_number and (0.0 if zero else 5e-324) <= number <= longest:  # refuses NaN too, which compares false
        return float(number)
    allowed = f"must be {'0' if zero else 'more than 0'} to {longest:,.0f} seconds, or a timedelta"
    if is_number and number > longest and otherwise:
        allowed = f"{allowed}; {otherwise}"
    raise InvalidSetting(setting, value, allowed + _instead(value))


def _instead(value: object) -> str:
    """Return how code writes a length of time that was given in the form for files."""
    try:
        meant = parse("", value) if isinstance(value, str) else None
    except InvalidSetting:
        meant = None
    return "" if meant is None else f"; write {meant:g}: texts are for files and the command line"


def parse(setting: str, text: object) -> float:
    """Return the seconds that a file's value stands for; only its form is checked."""
    if isinstance(text, int | float) and not isinstance(text, bool) and abs(text) < 1e300:  # float() takes no more
        return float(text)
    if isinstance(text, str) and len(text) <= 32:
        found = _parse_timespan(text) if ":" in text else _parse_unit(text)
        if found is not None:
            return found
    raise InvalidSetting(setting, text, 'write seconds as a number, or "100ms", "1.5s", "2m", "1h", "1d", "00:00:30"')


def _parse_unit(text: str) -> float | None:
    number = text.strip().rstrip("msh d")
    unit = text.strip()[len(number) :].strip()
    try:
        return float(number) * _UNITS[unit]
    except (ValueError, KeyError):
        return None


def _parse_timespan(text: str) -> float | None:
    parts = text.strip().split(":")
    if len(parts) != 3:
        return None
    days, _, hours = parts[0].rpartition(".")
    figures = (days or "0", hours, parts[1], parts[2].replace(".", "", 1))
    if not all(figure.isascii() and figure.isdigit() for figure in figures):  # int() would take "-0" and "1_0" as well
        return None
    minutes, secs = int(parts[1]), float(parts[2])
    if minutes >= 60 or secs >= 60.0:
        return None
    return int(days or 0) * 86_400.0 + int(hours) * 3_600.0 + minutes * 60.0 + secs
