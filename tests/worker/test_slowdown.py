# SPDX-License-Identifier: MIT
"""Slowing down when everything fails."""

import pytest

from redrive.errors import InvalidSetting
from redrive.worker import SlowDown
from redrive.worker.slowdown import FULL_SPEED, SlowdownState, after_failure, after_success


def after(failures, policy, *, is_probe=False, pace=FULL_SPEED):
    for _ in range(failures):
        pace = after_failure(pace, policy, 0.5, is_probe=is_probe)
    return pace


def test_few_failures_change_nothing():
    assert after(2, SlowDown(after=3)) == SlowdownState(failures=2)
    assert not after(2, SlowDown(after=3)).is_slow


def test_enough_failures_in_a_row_slow_it_down():
    assert after(3, SlowDown(after=3, first=2)) == SlowdownState(failures=3, pauses=1, pause=2.0)
    assert after(3, SlowDown(after=3)).is_slow


def test_only_a_probe_makes_the_pause_longer():
    slow = after(3, SlowDown(after=3))
    assert after(5, SlowDown(after=3), pace=slow) == SlowdownState(failures=8, pauses=1, pause=1.0)
    assert after(2, SlowDown(after=3), pace=slow, is_probe=True) == SlowdownState(failures=5, pauses=3, pause=4.0)


def test_a_pause_has_a_longest_length_and_some_jitter():
    policy = SlowDown(first=1, longest=10)
    assert [policy.pause(n, 0.5) for n in (1, 2, 3, 4, 5, 100)] == [1, 2, 4, 8, 10, 10]
    assert policy.pause(100, 0.0) == pytest.approx(8)


def test_a_success_brings_it_back():
    assert after_success(after(9, SlowDown(after=3))) == FULL_SPEED


def test_without_a_policy_it_never_slows_down():
    assert after(1_000, None) == SlowdownState(failures=1_000)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"after": 0}, "after=0: must be a whole number from 1"),
        ({"after": True}, "must be a whole number"),
        ({"first": 0}, "first=0: must be more than 0"),
        ({"first": 5, "longest": 4}, r"longest=4.0: must be at least first \(5 s\)"),
    ],
)
def test_a_wrong_setting_is_refused(wrong, says):
    with pytest.raises(InvalidSetting, match=says):
        SlowDown(**wrong)
