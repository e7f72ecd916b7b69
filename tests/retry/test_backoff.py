# SPDX-License-Identifier: MIT
"""The arithmetic of waiting: bounded, never falling before the cap, finite at every attempt for every allowed float."""

import math
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from redrive.duration import LONGEST
from redrive.errors import InvalidSetting
from redrive.retry import backoff

waits = st.integers(1, 200) | st.sampled_from([62, 63, 64, 1_023, 1_024, 1_025, 10**6, 2**31, 2**63]) | st.integers(1)
lengths = st.floats(5e-324, LONGEST)
lengths_or_zero = st.floats(0.0, LONGEST)
chances = st.floats(0.0, 1.0, exclude_max=True)
jitters = st.sampled_from(["full", "equal", "none"]) | st.floats(0.0, 1.0)


def is_sound(delay):
    return type(delay) is float and math.isfinite(delay) and delay >= 0.0


# --- curves -----------------------------------------------------------------------------------------------------------


def test_exponential_is_min_plus_a_doubling_multiple_of_delta():
    assert [backoff.exponential(n, 1.0, 10.0, 1_000.0) for n in range(1, 7)] == [1.0, 11.0, 31.0, 71.0, 151.0, 311.0]


def test_exponential_doubles_when_delta_is_min():
    assert [backoff.exponential(n, 0.5, 0.5, 30.0) for n in range(1, 9)] == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]


@given(waits, lengths, lengths_or_zero, lengths)
@example(1_024, 1.0, 0.0, 1.0)
@example(2**31, LONGEST, LONGEST, LONGEST)
@example(10**6, 5e-324, 5e-324, LONGEST)
def test_exponential_stays_between_min_and_max_for_every_attempt(n, low, delta, cap):
    cap = max(low, cap)
    delay = backoff.exponential(n, low, delta, cap)
    assert is_sound(delay)
    assert low <= delay <= cap


@given(waits, lengths, lengths_or_zero, lengths)
def test_exponential_never_falls(n, low, delta, cap):
    cap = max(low, cap)
    assert backoff.exponential(n, low, delta, cap) <= backoff.exponential(n + 1, low, delta, cap)


@given(st.floats(1e-6, 1.0), st.floats(1e-6, 1.0))
def test_exponential_grows_until_it_reaches_the_cap_and_stays_there(low, delta):
    curve = [backoff.exponential(n, low, delta, LONGEST) for n in range(1, 80)]
    for earlier, later in pairwise(curve):
        assert later > earlier or earlier == later == LONGEST
    assert curve[-1] == LONGEST


@given(waits, lengths)
def test_exponential_without_delta_is_fixed(n, low):
    assert backoff.exponential(n, low, 0.0, LONGEST) == low


def test_linear_grows_by_its_step():
    assert [backoff.linear(n, 1.0, 0.5, 2.2) for n in range(1, 6)] == [1.0, 1.5, 2.0, 2.2, 2.2]


@given(waits, lengths, lengths_or_zero, lengths)
@example(10**400, 1.0, 0.0, 2.0)
@example(10**400, 1.0, 1.0, 2.0)
def test_linear_stays_between_start_and_max_for_every_attempt(n, start, step, cap):
    cap = max(start, cap)
    delay = backoff.linear(n, start, step, cap)
    assert is_sound(delay)
    assert start <= delay <= cap


@given(waits, lengths, lengths_or_zero, lengths)
def test_linear_never_falls(n, start, step, cap):
    cap = max(start, cap)
    assert backoff.linear(n, start, step, cap) <= backoff.linear(n + 1, start, step, cap)


@given(waits, st.lists(lengths_or_zero, min_size=1, max_size=5).map(tuple))
def test_listed_follows_its_list_and_repeats_the_last(n, delays):
    delay = backoff.listed(n, delays)
    assert is_sound(delay)
    assert delay == (delays[n - 1] if n <= len(delays) else delays[-1])


# --- jitter -----------------------------------------------------------------------------------------------------------


@given(lengths_or_zero, jitters, chances | st.just(1.0))
@example(LONGEST, 1.0, 1.0)
@example(5e-324, 1.0, 0.0)
def test_jittered_is_never_negative_nor_infinite_nor_more_than_double(base, jitter, chance):
    delay = backoff.jittered(base, jitter, chance)
    assert is_sound(delay)
    assert delay <= 2.0 * base


@given(lengths, st.floats(0.0, 1.0), chances)
def test_jitter_of_a_share_stays_within_it_on_both_sides(base, share, chance):
    delay = backoff.jittered(base, share, chance)
    room = 1e-9 * base + 5e-324
    assert base * (1.0 - share) - room <= delay <= base * (1.0 + share) + room


@given(lengths, chances)
def test_full_jitter_spreads_from_zero_to_the_delay(base, chance):
    assert 0.0 <= backoff.jittered(base, "full", chance) <= base


@given(lengths, chances)
def test_equal_jitter_keeps_half_of_the_delay(base, chance):
    assert base / 2 <= backoff.jittered(base, "equal", chance) <= base


@given(lengths_or_zero, chances)
def test_no_jitter_changes_nothing(base, chance):
    assert backoff.jittered(base, "none", chance) == base
    assert backoff.jittered(base, 0.0, chance) == base


@pytest.mark.parametrize(
    ("jitter", "low", "middle", "high"),
    [(0.2, 8.0, 10.0, 12.0), (1.0, 0.0, 10.0, 20.0), ("full", 0.0, 5.0, 10.0), ("equal", 5.0, 7.5, 10.0)],
)
def test_jittered_reaches_both_ends_of_its_range(jitter, low, middle, high):
    assert [backoff.jittered(10.0, jitter, chance) for chance in (0.0, 0.5, 1.0)] == pytest.approx([low, middle, high])


@given(st.floats(1e-3, 10.0), st.floats(1e-3, 10.0), jitters)
def test_spread_at_attempt_50_is_the_spread_at_attempt_5_once_both_are_capped(low, delta, jitter):
    cap = low + delta  # reached at the second wait
    ends = [
        [backoff.jittered(backoff.exponential(n, low, delta, cap), jitter, chance) for chance in (0.0, 1.0)]
        for n in (5, 50, 10**6)
    ]
    assert ends[0] == ends[1] == ends[2]
    if jitter not in {"none", 0.0} and not (isinstance(jitter, float) and jitter < 1e-9):
        assert ends[0][1] > ends[0][0]


@given(waits, st.floats(1e-3, 10.0), st.floats(1e-3, 10.0))
def test_spread_relative_to_the_delay_is_the_same_at_every_attempt(n, low, delta):
    base = backoff.exponential(n, low, delta, 60.0)
    low_end, high_end = backoff.jittered(base, 0.2, 0.0), backoff.jittered(base, 0.2, 1.0)
    assert (high_end - low_end) / base == pytest.approx(0.4)


@pytest.mark.parametrize("jitter", ["full", "equal", "none", 0.0, 0.2, 1.0])
def test_check_jitter_returns_what_is_allowed(jitter):
    assert backoff.check_jitter(jitter) == jitter


def test_check_jitter_turns_whole_numbers_into_shares():
    assert [type(backoff.check_jitter(n)) for n in (0, 1)] == [float, float]


@pytest.mark.parametrize(
    "jitter",
    [-0.1, 1.1, 2, math.nan, math.inf, True, False, None, "half", "Full", "", "0.2", b"full", [], {}, 1j],
    ids=repr,
)
def test_check_jitter_refuses_everything_else(jitter):
    with pytest.raises(InvalidSetting, match='must be "full", "equal", "none" or a share from 0 to 1') as caught:
        backoff.check_jitter(jitter)
    assert caught.value.setting == "jitter"
