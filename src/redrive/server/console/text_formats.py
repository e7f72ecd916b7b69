# SPDX-License-Identifier: MIT
"""Numbers, times and sizes as people read them. Pure: no I/O, no clock.

Whatever a message brings with it is shown so that it cannot deceive: control and bidirectional characters are spelled
out, by ``printable``.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from markupsafe import Markup

from redrive.printable import one_line, printable

_MINUTE: Final = 60
_HOUR: Final = 3_600
_DAY: Final = 86_400
_UNITS: Final = ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min"), (1, "s"))
_KILO: Final = 1_024
_WORDS: Final = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def visible(value: object) -> object:
    """Return what a template writes: a text without characters that hide or move others, anything else as it is."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def zone_of(name: str) -> tzinfo:
    """Return a zone by its name, as a browser says it; one that is not known is UTC."""
    if not name or not name.isascii() or name.startswith(("/", ".")):
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return UTC


def instant(text: str | datetime) -> datetime:
    """Return a time of a view: a text in ISO 8601."""
    return text if isinstance(text, datetime) else datetime.fromisoformat(text)


def count(number: float) -> str:
    """Return a number with separators between thousands: 4,904."""
    return f"{number:,}" if isinstance(number, int) else f"{number:,.3g}" if number < 1_000 else f"{number:,.0f}"


def short_count(number: int) -> str:
    """Return a number in at most four letters: 6.2k."""
    for size, unit in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if number >= size:
            return (
                f"{number / size:.1f}".removesuffix(".0") + unit if number < 100 * size else f"{number // size}{unit}"
            )
    return str(number)


def many(number: int, noun: str, plural: str = "") -> str:
    """Return a number and its noun: 1 message, 4,904 messages."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def in_words(number: int) -> str:
    """Return a small number as a word, for the beginning of a sentence."""
    return _WORDS[number].capitalize() if 0 <= number < len(_WORDS) else f"{number:,}"


def size(number: int) -> str:
    """Return a number of bytes: 2.1 KB."""
    if number < _KILO:
        return many(number, "byte")
    for power, unit in enumerate(("KB", "MB", "GB"), 1):
        if number < _KILO ** (power + 1) or unit == "GB":
            return f"{number / _KILO**power:.1f} {unit}".replace(".0 ", " ")
    raise AssertionError("every size has a unit")


def length(seconds: float) -> str:
    """Return a length of time in its two largest units: 1 min 10 s, 2 h, 40 s."""
    if seconds < 1:
        return f"{max(seconds, 0) * 1_000:.0f} ms"
    left, parts = round(seconds), list[str]()
    for unit_s, unit in _UNITS:
        if left >= unit_s:
            parts.append(f"{left // unit_s} {unit}")
            left %= unit_s
            if len(parts) == 2 or unit_s <= _MINUTE:
                break
        elif parts:
            break
    if len(parts) == 1 and parts[0].endswith("min") and left and seconds < 10 * _MINUTE:
        parts.append(f"{left} s")
    return " ".join(parts) or "0 s"


def rough_length(seconds: float) -> str:
    """Return a length of time in its largest unit: 47 min."""
    for unit_s, unit in _UNITS:
        if seconds >= unit_s:
            return f"{int(seconds // unit_s)} {unit}"
    return "0 s"


def ago(then: datetime, now: datetime) -> str:
    """Return how long ago a time was, or how far away it is: 2 s ago, in 5 min."""
    seconds = (now - then).total_seconds()
    if seconds < 0:
        return f"in {rough_length(-seconds)}" if seconds < -1 else "now"
    return f"{rough_length(seconds)} ago" if seconds >= 1 else "now"


def moment(then: datetime, now: datetime, zone: tzinfo) -> str:
    """Return a time as short as it can be: 08:41 of today, Thu 08:41 of this week, 16 Nov, 16 Nov 2025."""
    local, today = then.astimezone(zone), now.astimezone(zone)
    days = (today.date() - local.date()).days
    if days == 0:
        return f"{local:%H:%M}"
    if 0 < days < 7:
        return f"{local:%a %H:%M}"
    return f"{local.day} {local:%b}" if local.year == today.year else f"{local.day} {local:%b %Y}"


def full_time(then: datetime, zone: tzinfo) -> str:
    """Return a time with its date and its zone: 16 Nov 2026 09:12:58 CET."""
    local = then.astimezone(zone)
    return f"{local.day} {local:%b %Y %H:%M:%S} {zone_name(local)}"


def zone_name(local: datetime) -> str:
    """Return what a zone is called at a time: CET; one without a name of its own by its distance: UTC+3."""
    name = local.tzname() or "UTC"
    if name[:1] in "+-":
        offset = local.utcoffset()
        hours = (offset.total_seconds() if offset is not None else 0.0) / _HOUR
        return f"UTC{hours:+g}"
    return name


def shortened_id(text: str) -> str:
    """Return the beginning and the end of a long id: 7c1e…b04d."""
    return text if len(text) <= 16 else f"{text[:4]}…{text[-4:]}"


def initials(name: str) -> str:
    """Return up to two letters that stand for a name."""
    words = [each for each in name.replace(".", " ").replace("_", " ").replace("-", " ").split() if each]
    letters = words[0][:1] + words[-1][:1] if len(words) > 1 else name[:2]
    return one_line(letters.upper(), 2)


def joined(texts: Sequence[str], word: str = "and") -> str:
    """Return a list as a sentence has it: a, b and c."""
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} {word} {texts[-1]}" if texts else ""
