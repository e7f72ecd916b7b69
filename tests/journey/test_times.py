# SPDX-License-Identifier: MIT
"""Each moment of a journey counts once, so its parts add up to the whole; what is not known is a gap."""

from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from redrive.journey.times import GAP, KINDS, Interval, parted, totals

instants = st.integers(0, 100).map(float)
intervals = st.builds(
    lambda kind, begin, length: Interval(kind, begin, begin + length, kind),
    st.sampled_from([kind for kind in KINDS if kind != GAP]),
    instants,
    st.integers(0, 40).map(float),
)


@given(st.lists(intervals, max_size=12), instants, st.integers(0, 100).map(float))
def test_parts_follow_each_other_and_add_up_to_the_total(found, begin, length):
    parts = parted(found, begin, begin + length)
    assert sum(totals(parts).values()) == pytest.approx(length)
    assert [part.begin for part in parts[:1]] == [begin] * bool(length)
    assert all(before.end == after.begin for before, after in pairwise(parts))
    assert all(part.begin < part.end for part in parts)


@given(st.lists(intervals, max_size=12), instants, st.integers(1, 100).map(float), st.floats(0, 1, exclude_max=True))
def test_each_moment_counts_for_the_first_kind_that_is_under_way_then(found, begin, length, share):
    parts = parted(found, begin, begin + length)
    at = begin + share * length
    assume(at < begin + length)  # it may be rounded up to the end
    (part,) = [each for each in parts if each.begin <= at < each.end]
    under_way = [each.kind for each in found if each.begin <= at < each.end]
    assert part.kind == min(under_way, key=KINDS.index, default=GAP)


@given(st.lists(intervals, max_size=12), instants, st.integers(1, 100).map(float))
def test_the_order_of_intervals_does_not_matter(found, begin, length):
    ends = begin, begin + length
    assert totals(parted(found, *ends)) == totals(parted(found[::-1], *ends))


def test_time_without_a_record_is_a_gap():
    parts = parted([Interval("waiting", 0.0, 2.0), Interval("handling", 5.0, 6.0)], 0.0, 6.0)
    assert [(part.kind, part.begin, part.end) for part in parts] == [
        ("waiting", 0.0, 2.0),
        ("no record", 2.0, 5.0),
        ("handling", 5.0, 6.0),
    ]
