# SPDX-License-Identifier: MIT
"""Spans of time: where they begin, and what they amount to in longer ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.errors import InvalidSetting
from redrive.history import Retention, TallyRow, metrics
from redrive.history.buckets import DAY, HOUR, MINUTE, STEPS, began_at, rolled_up

TIMES = st.integers(0, 4_000_000_000)
ROWS = st.lists(
    st.builds(
        TallyRow,
        st.just("queue"),
        st.sampled_from(["orders", "bills"]),
        st.sampled_from(["sent", "ready", "made-up"]),
        st.just(MINUTE),
        st.integers(0, 5_000).map(lambda minute: minute * MINUTE),
        st.integers(0, 1_000),
    )
)


@given(time=TIMES, step=st.sampled_from(STEPS))
def test_a_span_begins_before_what_is_in_it_and_ends_after_it(time, step):
    began = began_at(time, step)
    assert began <= time < began + step
    assert began % step == 0


@given(rows=ROWS, step=st.sampled_from([HOUR, DAY]))
def test_what_was_counted_is_the_same_sum_in_longer_spans(rows, step):
    longer = rolled_up(rows, step)
    for metric in ("sent", "made-up"):
        assert sum(row.n for row in longer if row.metric == metric) == sum(
            row.n for row in rows if row.metric == metric
        )
    assert len({row[:5] for row in longer}) == len(longer)


@given(rows=ROWS)
def test_of_what_was_noted_the_highest_stays(rows):
    highest = max((row.n for row in rows if row.metric == metrics.READY), default=None)
    assert max((row.n for row in rolled_up(rows, DAY) if row.metric == metrics.READY), default=None) == highest


@given(rows=ROWS)
def test_hours_first_and_then_days_is_the_same_as_days_at_once(rows):
    assert rolled_up(rolled_up(rows, HOUR), DAY) == rolled_up(rows, DAY)


def test_what_is_kept_for_less_than_what_is_finer_is_refused():
    with pytest.raises(InvalidSetting, match="no longer than hours"):
        Retention(minutes=10 * DAY, hours=5 * DAY)


@pytest.mark.parametrize(("age", "step"), [(HOUR, MINUTE), (48 * HOUR, MINUTE), (3 * DAY, HOUR), (40 * DAY, DAY)])
def test_what_is_older_is_kept_in_longer_spans(age, step):
    assert Retention().finest_step(age) == step
