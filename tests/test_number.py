# SPDX-License-Identifier: MIT
"""Whole numbers and flags are checked in one place, and the error says what they may be."""

import pytest

from redrive import number
from redrive.errors import InvalidSetting


@pytest.mark.parametrize("value", [True, False, 0, -1, 1.0, "1", None, 10**30])
def test_what_is_no_whole_number_within_its_limits_is_refused(value):
    with pytest.raises(InvalidSetting, match=r"must be a whole number from 1 to 1,000$") as caught:
        number.whole("most", value, 1, 1_000)
    assert (caught.value.setting, caught.value.value) == ("most", value)


def test_a_whole_number_without_a_highest_may_be_any():
    assert number.whole("most", 10**30) == 10**30
    with pytest.raises(InvalidSetting, match=r"must be a whole number from 1$"):
        number.whole("most", 0)


def test_true_is_no_whole_number():
    assert [number.is_whole(value) for value in (1, -1, True, 1.0, "1")] == [True, True, False, False, False]


def test_a_flag_is_true_or_false_and_nothing_that_counts_as_it():
    assert number.flag("is_on", True) is True
    for value in (1, 0, "yes", None):
        with pytest.raises(InvalidSetting, match="must be True or False"):
            number.flag("is_on", value)
