# SPDX-License-Identifier: MIT
"""The filter that lets a share of the events through."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.errors import InvalidSetting
from redrive.routes.filters.sample import SampleFilter
from tests.routes.filters.events import event, leg

RATES = st.floats(0, 1)


def passes(rate, event_id):
    return bool(SampleFilter(rate).apply(event(b""), leg(event_id)))


@given(RATES, st.text(min_size=1))
def test_a_replay_decides_the_same_whatever_else_has_changed(rate, event_id):
    first = bool(SampleFilter(rate).apply(event(b"a"), leg(event_id)))
    again = bool(SampleFilter(rate).apply(event(b"b", id="x"), leg(event_id, attempt=7, now=0.0, route="other")))
    assert first == again


def test_the_decision_does_not_change_with_the_version():
    assert "".join("+" if passes(0.3, f"event-{number}") else "." for number in range(40)) == (
        ".+.+......+++..+.+.......++.+........+.+"
    )


@given(RATES, RATES, st.text(min_size=1))
def test_a_smaller_rate_passes_some_of_what_a_larger_one_passes(one, another, event_id):
    assert passes(min(one, another), event_id) <= passes(max(one, another), event_id)


@given(st.text())
def test_none_and_all_are_rates_too(event_id):
    assert not passes(0, event_id)
    assert passes(1, event_id)


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.5, 0.9])
def test_about_that_share_of_the_events_passes(rate):
    count = 20_000
    passed = sum(passes(rate, f"e-{number}") for number in range(count))
    assert abs(passed / count - rate) < 4 * (rate * (1 - rate) / count) ** 0.5


@pytest.mark.parametrize("rate", [-0.1, 1.1, "0.5", True, None, float("nan")])
def test_a_rate_is_a_number_from_0_to_1(rate):
    with pytest.raises(InvalidSetting, match="must be a number from 0 to 1"):
        SampleFilter(rate)
