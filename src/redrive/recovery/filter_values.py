# SPDX-License-Identifier: MIT
"""Checks for the values of a filter: each returns the value in its normal form, or raises. Pure: no I/O."""

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, TypeAlias

from redrive import duration
from redrive.errors import InvalidSetting
from redrive.recovery.states import Status

_LONGEST_TEXT = 1_024
_MOST_VALUES = 10_000
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")  # PostgreSQL takes no NUL, no encoding half of a surrogate pair
Check: TypeAlias = Callable[[str, object], Any]

NO_MESSAGE = "0" * 32
"""The id of no failed message: an empty list of ids matches no message, where no list matches every message."""


def check_text(name: str, value: object) -> str:
    """Return the text, if every store can keep it."""
    if isinstance(value, str) and 1 <= len(value) <= _LONGEST_TEXT and not _UNSTORABLE.search(value):
        return value
    raise InvalidSetting(name, value, f"must be a text of 1 to {_LONGEST_TEXT:,} characters, without NUL")


def texts(shape: str = ".+", allowed: str = "", tidy: Callable[[str], str] = str) -> Check:
    """Return a check for one text or several; it sorts them."""

    def check(name: str, value: object) -> tuple[str, ...]:
        listed = list(value) if isinstance(value, Iterable) and not isinstance(value, str) else [value]
        if len(listed) > _MOST_VALUES:
            raise InvalidSetting(name, f"{len(listed):,} values", f"must be {_MOST_VALUES:,} at most")
        found = sorted({tidy(check_text(name, each)) for each in listed})
        for each in found:
            if not re.fullmatch(shape, each, re.DOTALL):
                raise InvalidSetting(name, each, f"must be {allowed}")
        return tuple(found)

    return check


NAMES = texts(r"[^*]*\*?", "a name, with a * at its end only")
"""Names, each of which may stand for all that begin like it."""


def check_headers(name: str, value: object) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the values of headers by the names of these, in order; a mapping or pairs of them are given."""
    try:
        listed = dict(value)  # type: ignore[call-overload]  # whatever a caller passes
    except (TypeError, ValueError):
        raise InvalidSetting(name, value, "must be values by the names of headers: {'tenant': ['acme']}") from None
    found = {check_text(name, each): NAMES(name, values) for each, values in listed.items()}
    if not all(found.values()):
        raise InvalidSetting(name, value, "must have a value for each header; * stands for any")
    return tuple(sorted(found.items()))


def words(known: Iterable[str]) -> Check:
    """Return a check for one or more of the known words."""
    return texts("|".join(known), f"one of {', '.join(known)}", lambda word: word.lower().replace("_", "-"))


def check_status(name: str, value: object) -> frozenset[Status]:
    """Return the statuses that are meant; none, or ``any``: all of them."""
    given = value if isinstance(value, Iterable) and not isinstance(value, str) else [value]
    said = words([*(each.word for each in Status), "any"])(name, [getattr(each, "word", each) for each in given])
    return frozenset(each for each in Status if not said or "any" in said or each.word in said)


def check_instant(name: str, value: object) -> datetime | None:
    """Return an instant in UTC."""
    try:
        if value is None or (isinstance(value, datetime) and value.utcoffset() is not None):
            return value and value.astimezone(UTC)
    except OverflowError:  # the first and the last day of the calendar have no UTC in some zones
        pass
    raise InvalidSetting(name, value, "must be a datetime with a zone, such as datetime(2026, 11, 1, tzinfo=UTC)")


def check_age(name: str, value: Any) -> float | None:  # noqa: ANN401 - any value that a caller passes
    """Return an age in seconds; it must be more than 0."""
    try:
        return None if value is None else duration.seconds(name, _as_duration(name, value))
    except InvalidSetting:
        instead = "failed<" if name == "age_min" else "failed>"
        shown = value if _is_date(value) else "2026-11-01"
        allowed = f"must be an age such as 30m, 2h or 30d, up to a year; for a date write {instead}{shown}"
        raise InvalidSetting(name, value, allowed) from None


def check_number(name: str, value: object) -> object:
    """Return a whole number that the engines' columns hold."""
    highest = 2**63 - 1 if name == "operation" else 2**31 - 1
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= highest):
        return value
    raise InvalidSetting(name, value, f"must be a whole number from 0 to {highest:,}")


def read_instant(name: str, value: object) -> Any:  # noqa: ANN401 - an instant, or what it was
    """Return the instant that a text stands for.

    An age is refused. ``failed>2h`` could mean *in the last two hours*, to a reader who thinks of instants, or *longer
    than two hours ago*, to one who looks at a column of ages: one archives what the other wants to keep.
    """
    if not isinstance(value, str):
        return value
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        allowed = "must be a date such as 2026-11-01 or 2026-11-01T10:00Z; for an age write age<2h"
        if _is_age(value):
            allowed = f"{value} is an age, not a date: write age<{value} for younger ones, age>{value} for older ones"
        raise InvalidSetting(name, value, allowed) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _as_duration(name: str, value: Any) -> duration.Duration:  # noqa: ANN401 - any value that a caller passes
    return duration.parse(name, value) if isinstance(value, str) else value


def _is_age(text: str) -> bool:
    try:
        return duration.parse("age", text) > 0
    except InvalidSetting:
        return False


def _is_date(value: object) -> bool:
    try:
        return isinstance(value, str) and bool(datetime.fromisoformat(value))
    except ValueError:
        return False
