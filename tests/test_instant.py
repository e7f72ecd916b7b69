# SPDX-License-Identifier: MIT
"""An instant has a time zone, and UTC has a name for it."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from redrive import instant
from redrive.errors import InvalidSetting

NAIVE = datetime(2026, 1, 1)  # noqa: DTZ001 - that is what is refused


@pytest.mark.parametrize(("value", "allowed"), [(NAIVE, "must have a time zone"), (5, "must be an instant")])
def test_what_is_no_instant_is_refused_with_how_to_write_one(value, allowed):
    with pytest.raises(InvalidSetting, match=f"not_before=.*{allowed}.*datetime.now"):
        instant.zoned("not_before", value)


def test_an_instant_is_told_in_utc():
    there = datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))
    assert instant.in_utc("at", there) == there
    assert instant.in_utc("at", there).tzinfo is UTC


def test_an_instant_that_utc_has_no_name_for_is_refused():
    with pytest.raises(InvalidSetting, match="years 1 to 9999"):
        instant.in_utc("at", datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=2))))
