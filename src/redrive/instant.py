# SPDX-License-Identifier: MIT
"""Instants that callers give, checked in one place: an aware ``datetime``. Pure: no I/O, no clock."""

from datetime import UTC, datetime

from redrive.errors import InvalidSetting


def zoned(setting: str, at: datetime) -> datetime:
    """Return an instant, if it is one that has a time zone.

    Args:
        setting: the name to blame in the error.
        at: what was given.

    Raises:
        InvalidSetting: it is not a ``datetime``, or has no time zone.
    """
    if not isinstance(at, datetime):
        raise InvalidSetting(setting, at, "must be an instant: datetime.now(UTC) + timedelta(seconds=30)")
    if at.utcoffset() is None:
        raise InvalidSetting(setting, at, "must have a time zone: datetime.now(UTC) + timedelta(hours=1)")
    return at


def in_utc(setting: str, at: datetime) -> datetime:
    """Return an instant in UTC.

    Raises:
        InvalidSetting: as in ``zoned``, or UTC cannot express it.
    """
    try:
        return zoned(setting, at).astimezone(UTC)
    except OverflowError:
        raise InvalidSetting(setting, at, "must be a time of the years 1 to 9999 in UTC too") from None
