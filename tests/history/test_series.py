# SPDX-License-Identifier: MIT
"""Numbers over time: a point for every step, and none left out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.clock import utc
from redrive.errors import InvalidSetting
from redrive.history import Point, Retention, metrics
from redrive.history.buckets import DAY, HOUR, MINUTE
from redrive.history.series import MOST_POINTS, filled, span_of

NOW = 1_767_484_800.0 + 12 * HOUR + 34 * MINUTE + 5
SENT, READY = metrics.metric("sent"), metrics.metric("ready")


@given(seconds=st.floats(MINUTE, 300 * DAY), step=st.sampled_from([None, DAY, 7 * DAY]))
def test_a_span_has_a_step_for_now_and_whole_steps_before_it(seconds, step):
    span = span_of(NOW, seconds, step, Retention())
    assert span.start <= NOW < span.end <= NOW + span.step
    assert (span.end - span.start) % span.step == 0
    assert span.end - span.start >= min(seconds, span.step)
    assert (span.end - span.start) / span.step <= MOST_POINTS + 1


def test_every_step_has_a_point_and_nothing_is_a_zero():
    span = span_of(NOW, 5 * MINUTE, MINUTE, Retention())
    points = filled(span, SENT, [(span.start + MINUTE, 7)])
    assert [point.value for point in points] == [0, 7, 0, 0, 0]
    assert points[0] == Point(utc(span.start), 0)


def test_what_was_counted_in_a_step_is_added_up_and_what_was_noted_is_the_highest():
    span = span_of(NOW, 2 * HOUR, HOUR, Retention())
    rows = [(span.start, 3), (span.start + MINUTE, 5)]
    assert [point.value for point in filled(span, SENT, rows)] == [8, 0]
    assert [point.value for point in filled(span, READY, rows, seen=[span.start])] == [5, None]


def test_a_level_that_nobody_noted_is_a_gap_and_an_empty_queue_is_a_zero():
    span = span_of(NOW, 3 * MINUTE, MINUTE, Retention())
    points = filled(span, READY, [(span.start, 4)], seen=[span.start, span.start + MINUTE])
    assert [point.value for point in points] == [4, 0, None]


@pytest.mark.parametrize(
    ("seconds", "step", "said"),
    [
        (HOUR, 30, "whole minutes"),
        (HOUR, 90, "whole minutes"),
        (10 * DAY, MINUTE, "no finer numbers are kept"),
        (48 * HOUR + 1, MINUTE, "no finer numbers are kept"),
    ],
)
def test_a_step_that_does_not_fit_is_refused_with_the_reason(seconds, step, said):
    with pytest.raises(InvalidSetting, match=said):
        span_of(NOW, seconds, step, Retention())


def test_too_many_points_are_refused():
    with pytest.raises(InvalidSetting, match="more than 5,000 points"):
        span_of(NOW, 5_001 * MINUTE, MINUTE, Retention(minutes=10 * DAY))


@pytest.mark.parametrize("name", ["Sent", "", 3, "gauged"])
def test_a_metric_that_is_not_there_is_refused_with_those_that_are(name):
    with pytest.raises(InvalidSetting, match="must be one of sent, delivered"):
        metrics.metric(name)


def test_a_topic_that_is_not_there_is_refused_with_those_that_are():
    with pytest.raises(InvalidSetting, match="must be one of queue, group"):
        metrics.check_topic("store")
