# SPDX-License-Identifier: MIT
"""Whole numbers and flags that callers give as settings, checked in one place. Pure: no I/O, no clock."""

from redrive.errors import InvalidSetting


def is_whole(value: object) -> bool:
    """Say whether a value is a whole number; ``True`` is not, although Python counts it as one."""
    return isinstance(value, int) and not isinstance(value, bool)


def whole(setting: str, value: object, low: int = 1, high: int | None = None) -> int:
    """Check a whole number and return it.

    Args:
        setting: the name to blame in the error.
        value: what was given.
        low: the least that is allowed.
        high: the most that is allowed; None: no limit.

    Raises:
        InvalidSetting: it is not a whole number, or outside its limits.
    """
    if isinstance(value, int) and not isinstance(value, bool) and low <= value and (high is None or value <= high):
        return value
    highest = "" if high is None else f" to {high:,}"
    raise InvalidSetting(setting, value, f"must be a whole number from {low:,}{highest}")


def flag(setting: str, value: object) -> bool:
    """Check a flag and return it.

    Raises:
        InvalidSetting: it is neither ``True`` nor ``False``.
    """
    if isinstance(value, bool):
        return value
    raise InvalidSetting(setting, value, "must be True or False")
