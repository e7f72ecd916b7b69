# SPDX-License-Identifier: MIT
"""The retry budget never grants more than it promises, whatever comes in whatever order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.errors import InvalidSetting
from redrive.retry import RetryBudget

steps = st.lists(st.tuples(st.sampled_from(["call", "retry"]), st.floats(-5.0, 20.0)), max_size=200)
"""What happens, and how many seconds after (or, reported late, before) what happened last."""


def test_a_new_budget_is_full():
    budget = RetryBudget(burst=3)
    assert (budget.tokens, budget.short) == (3.0, False)
    assert [budget.grants_retry(0.0) for _ in range(4)] == [True, True, True, False]
    assert budget.short


def test_calls_pay_for_retries():
    budget = RetryBudget(ratio=0.25, per_second=0.0, burst=1)
    assert budget.grants_retry(0.0)
    for _ in range(3):
        budget.called(0.0)
    assert not budget.grants_retry(0.0)
    budget.called(0.0)
    assert budget.grants_retry(0.0)


def test_time_pays_for_retries():
    budget = RetryBudget(ratio=0.0, per_second=0.5, burst=1)
    assert budget.grants_retry(10.0)
    assert not budget.grants_retry(11.0)
    assert budget.grants_retry(12.0)


def test_a_budget_holds_no_more_than_its_burst():
    budget = RetryBudget(ratio=1.0, per_second=1_000.0, burst=2)
    for now in range(100):
        budget.called(float(now))
    assert budget.tokens == 2.0
    assert [budget.grants_retry(99.0) for _ in range(3)] == [True, True, False]


def test_time_reported_out_of_order_counts_once():
    budget = RetryBudget(ratio=0.0, per_second=1.0, burst=10)
    for _ in range(10):
        budget.grants_retry(100.0)
    for now in (101.0, 100.0, 101.0, 100.5, 101.0):
        budget.called(now)
    assert budget.tokens == 1.0


def test_a_late_report_takes_nothing_away():
    budget = RetryBudget(ratio=0.0, per_second=1.0, burst=10)
    budget.called(100.0)
    budget.called(50.0)
    assert (budget.tokens, budget.short) == (10.0, False)


def test_a_budget_that_is_full_again_needs_no_reports():
    budget = RetryBudget(ratio=1.0, per_second=0.0, burst=5)
    budget.grants_retry(0.0)
    assert budget.short
    budget.called(0.0)
    assert not budget.short


@given(steps, st.floats(0.0, 1.0), st.floats(0.0, 5.0), st.floats(1.0, 20.0))
def test_retries_never_exceed_what_the_formula_allows(steps, ratio, per_second, burst):
    budget = RetryBudget(ratio=ratio, per_second=per_second, burst=burst)
    calls = retries = 0
    now = first = last = 1_000.0
    budget.called(now)
    for what, wait in steps:
        now = max(0.0, now + wait)
        last = max(last, now)
        if what == "call":
            calls += 1
            budget.called(now)
        else:
            retries += budget.grants_retry(now)
        allowed = burst + ratio * calls + per_second * (last - first)
        assert retries <= allowed + 1e-9 * (1.0 + allowed)  # floats add up to a little more or less


@given(steps)
def test_the_flag_and_the_figure_are_always_true(steps):
    budget = RetryBudget(ratio=0.5, per_second=0.25, burst=4)
    now = 0.0
    for what, wait in steps:
        now = max(0.0, now + wait)
        before = budget.tokens
        granted = budget.called(now) if what == "call" else budget.grants_retry(now)
        assert 0.0 <= budget.tokens <= budget.burst
        assert budget.short == (budget.tokens < budget.burst)
        if granted is False:
            assert before < 1.0
        if what == "call":
            assert budget.tokens >= before


@given(steps)
def test_not_reporting_calls_while_it_is_full_changes_nothing(steps):
    """The short way through a decorated function relies on it."""
    told_all, told_when_short = (RetryBudget(ratio=0.5, per_second=0.25, burst=4) for _ in range(2))
    now = 0.0
    for what, wait in steps:
        now += round(abs(wait))  # whole seconds, so that both add up exactly
        if what == "retry":
            assert told_all.grants_retry(now) == told_when_short.grants_retry(now)
            continue
        told_all.called(now)
        if told_when_short.short:
            told_when_short.called(now)
        assert told_all.tokens == told_when_short.tokens


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("ratio", -0.1),
        ("ratio", 1.1),
        ("ratio", float("nan")),
        ("ratio", True),
        ("per_second", -1),
        ("per_second", float("inf")),
        ("burst", 0),
        ("burst", 0.99),
        ("burst", "10"),
    ],
)
def test_a_wrong_setting_is_named(setting, value):
    with pytest.raises(InvalidSetting) as refused:
        RetryBudget(**{setting: value})
    assert refused.value.setting == setting
