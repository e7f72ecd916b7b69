# SPDX-License-Identifier: MIT
"""Numbers and lists in sentences: one message, 1,995 messages, a, b and 7 more. Pure: no I/O."""

from collections.abc import Sequence
from datetime import datetime

from redrive.printable import one_line
from redrive.recovery.filter import Filter

_SEVERAL = {
    "is": "are",
    "has": "have",
    "was": "were",
    "waits": "wait",
    "matches": "match",
    "serves": "serve",
    "stays": "stay",
}


def count(many: int, one: str) -> str:
    """Return how many there are of something, and what: ``1 failed message``, ``1,995 failed messages``."""
    return f"{many:,} {one if many == 1 else _plural(one)}"


def verb(many: int, one: str) -> str:
    """Return a verb as it stands beside so many."""
    return one if many == 1 else _SEVERAL[one]


def some(texts: Sequence[str], most: int = 3) -> str:
    """Return the first few of many, each on one line."""
    more = f" and {len(texts) - most:,} more" if len(texts) > most else ""
    return ", ".join(one_line(each, 200) for each in texts[:most]) + more


def both(texts: Sequence[str]) -> str:
    """Return a list as a sentence has it: ``1``, ``1 and 2``, ``1, 2 and 3``."""
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"


def span(chosen: Filter) -> str:
    """Return between which instants messages must have failed; empty if that does not matter."""
    parts = [f"at {instant(chosen.failed_from)} or later"] if chosen.failed_from else []
    parts += [f"before {instant(chosen.failed_until)}"] if chosen.failed_until else []
    return " and ".join(parts)


def instant(at: datetime) -> str:
    """Return an instant to the second."""
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def _plural(one: str) -> str:
    if one.endswith("s"):
        return f"{one}es"
    stem = one.removesuffix("y")
    return f"{stem}ies" if stem != one and stem[-1:] not in "aeiou" else f"{one}s"
