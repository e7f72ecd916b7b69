# SPDX-License-Identifier: MIT
"""Numbers, lists and times in sentences: 1 message, 1,995 messages, "a, b and 7 more", 3 h. Pure: no I/O."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from redrive.printable import one_line

if TYPE_CHECKING:
    from redrive.recovery import Filter

_SEVERAL = {
    "is": "are",
    "has": "have",
    "was": "were",
    "matches": "match",
    "continues": "continue",
    "stays": "stay",
}


def count(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 failed message``, ``1,995 failed messages``."""
    return f"{number:,} {noun if number == 1 else _plural(noun)}"


def verb(number: int, singular: str) -> str:
    """Return a verb in the form that fits a number."""
    return singular if number == 1 else _SEVERAL[singular]


def them(number: int) -> str:
    """Return the pronoun for so many things."""
    return "it" if number == 1 else "them"


def some(texts: Sequence[str], most: int = 3) -> str:
    """Return the first few of many, each on one line."""
    more = f" and {len(texts) - most:,} more" if len(texts) > most else ""
    return ", ".join(one_line(each, 200) for each in texts[:most]) + more


def span(chosen: "Filter") -> str:
    """Return between which instants messages must have failed; empty if the filter does not say."""
    parts = [f"at {instant(chosen.failed_from)} or later"] if chosen.failed_from else []
    parts += [f"before {instant(chosen.failed_until)}"] if chosen.failed_until else []
    return " and ".join(parts)


def instant(at: datetime) -> str:
    """Return an instant to the second."""
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def length(seconds: float) -> str:
    """Return a length of time, short enough for a column."""
    left = max(0.0, seconds)
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if left >= 2 * size:
            return f"{left / size:.0f} {unit}"
    return f"{left:.0f} s"


def _plural(noun: str) -> str:
    if noun.endswith("s"):
        return f"{noun}es"
    stem = noun.removesuffix("y")
    return f"{stem}ies" if stem != noun and stem[-1:] not in "aeiou" else f"{noun}s"
