# SPDX-License-Identifier: MIT
"""Numbers as a line of small bars."""

from hypothesis import given
from hypothesis import strategies as st

from redrive.cli.output.sparkline import sparkline


def test_the_highest_is_a_full_bar_and_nothing_is_the_lowest():
    assert sparkline([0, 5, 10, None]) == "▁▅█ "


def test_nothing_at_all_is_no_line():
    assert sparkline([]) == ""
    assert sparkline([None, 0]) == " ▁"


@given(values=st.lists(st.none() | st.integers(0, 10**9), min_size=1), width=st.integers(1, 100))
def test_a_line_has_as_many_bars_as_fit(values, width):
    assert len(sparkline(values, width)) == min(width, len(values))


def test_what_does_not_fit_is_drawn_by_its_highest():
    assert sparkline([0, 9, 0, 0], 2) == "█▁"
