# SPDX-License-Identifier: MIT
"""Settings are checked when a retry is made, and every wrong one is named with what it may be."""

import ast
import asyncio
import inspect
import math
from datetime import timedelta
from pathlib import Path

import pytest

from redrive.errors import InvalidSetting, RedriveError, UsageError
from redrive.retry import (
    Adaptive,
    CircuitBreaker,
    Delays,
    Exponential,
    Fixed,
    Linear,
    Policy,
    RetryAfter,
    RetryBudget,
    retry,
)
from redrive.retry import settings as settings_module
from redrive.retry.settings import DEFAULT_DEADLINE, RetryPlan
from redrive.testing import ManualClock

WRONG = [
    ("on", BaseException, "never retried"),
    ("on", KeyboardInterrupt, "never retried"),
    ("on", asyncio.CancelledError, "never retried"),
    ("on", BaseExceptionGroup, "never retried"),
    ("on", int, "never retried"),
    ("on", (ValueError, SystemExit), "never retried"),
    ("on", [], "at least one"),
    ("on", (), "at least one"),
    ("on", 5, "exception types"),
    ("on", None, "exception types"),
    ("on", "ValueError", "exception types"),
    ("on", ValueError("an object"), "exception types"),
    ("on", (ValueError, (KeyError,)), "exception types"),
    ("on_result", 5, "a function"),
    ("policy", Exponential, "a policy object"),
    ("policy", "exponential", "a policy object"),
    ("policy", 3, "a policy object"),
    ("max_attempts", 0, "whole number from 1"),
    ("max_attempts", -1, "whole number from 1"),
    ("max_attempts", 2.5, "whole number from 1"),
    ("max_attempts", True, "whole number from 1"),
    ("max_attempts", "3", "whole number from 1"),
    ("deadline", 0, "more than 0"),
    ("deadline", -1, "more than 0"),
    ("deadline", math.nan, "more than 0"),
    ("deadline", math.inf, "more than 0"),
    ("deadline", "5", "more than 0"),
    ("deadline", True, "more than 0"),
    ("deadline", timedelta(seconds=-5), "more than 0"),
    ("deadline", 10**10, "more than 0"),
    ("attempt_timeout", 0, "more than 0"),
    ("attempt_timeout", -0.5, "more than 0"),
    ("attempt_timeout", math.nan, "more than 0"),
    ("attempt_timeout", "1s", "more than 0"),
    ("breaker", "x", "a CircuitBreaker"),
    ("breaker", CircuitBreaker, "a CircuitBreaker"),
    ("when_open", "x", '"fail" or "wait"'),
    ("when_open", None, '"fail" or "wait"'),
    ("budget", 0.2, "a RetryBudget"),
    ("budget", RetryBudget, "a RetryBudget"),
    ("on_event", "log", "a function"),
    ("redact", "***", "a function"),
    ("clock", "system", "a clock"),
    ("clock", ManualClock, "a clock"),
    ("clock", None, "a clock"),
    ("chance", 0.5, "a function"),
    ("chance", None, "a function"),
]


@pytest.mark.parametrize(
    ("setting", "value", "allowed"), WRONG, ids=[f"{number} {row[0]}={row[1]!r}" for number, row in enumerate(WRONG)]
)
def test_a_wrong_setting_is_named_with_what_it_may_be(setting, value, allowed):
    with pytest.raises(InvalidSetting) as refused:
        retry(**{"on": ValueError, setting: value})
    assert refused.value.setting == setting
    assert allowed in str(refused.value)
    assert isinstance(refused.value, (RedriveError, ValueError))
    assert isinstance(refused.value, UsageError)


@pytest.mark.parametrize(
    ("setting", "value", "allowed"), WRONG, ids=[f"{number} {row[0]}={row[1]!r}" for number, row in enumerate(WRONG)]
)
def test_an_override_is_checked_in_the_same_way(setting, value, allowed):
    with pytest.raises(InvalidSetting) as refused:
        retry(on=ValueError).using(**{setting: value})
    assert allowed in str(refused.value)


def test_what_to_retry_must_be_said():
    with pytest.raises(TypeError, match="on"):
        retry()


def test_nothing_is_taken_by_position():
    with pytest.raises(UsageError, match=r"write retry\(on=ValueError\)"):
        retry(ValueError)


def test_an_unknown_setting_is_refused():
    with pytest.raises(TypeError, match="attempts"):
        retry(on=ValueError, attempts=3)


def test_the_type_checker_knows_the_settings_of_the_signature():
    """Nothing can make a TypedDict of a signature; and it is not there at run time, where typing is not imported."""
    tree = ast.parse(Path(settings_module.__file__).read_text())
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name.endswith("Options")]
    stated = {line.target.id: ast.unparse(line.annotation) for each in classes for line in each.body[1:]}
    parameters = inspect.signature(retry, eval_str=False).parameters
    assert {name: kind.strip("'") for name, kind in stated.items()} == {
        name: each.annotation if isinstance(each.annotation, str) else inspect.formatannotation(each.annotation)
        for name, each in parameters.items()
    }
    assert {key.value for key in keys_of(tree)} == set(parameters), "each setting is checked"


def keys_of(tree):
    """Return the keys with which a plan looks for settings."""
    asked = [node for node in ast.walk(tree) if isinstance(node, ast.Subscript) and node.value.id == "settings"]
    return [node.slice for node in asked]


# --- what a plan makes of its settings --------------------------------------------------------------------------------


def plan(**settings):
    made = retry(**{"on": ValueError, **settings})
    assert isinstance(made._live.plan, RetryPlan)
    return made._live.plan


def test_what_to_retry_is_sorted_into_types_and_tests():
    def test(_error):
        return True

    sorted_out = plan(on=[ValueError, test, KeyError])
    assert (sorted_out.errors, sorted_out.tests) == ((ValueError, KeyError), (test,))
    assert plan(on=test).errors == ()


@pytest.mark.parametrize(
    "policy", [Exponential(), Linear(), Fixed(), Delays([1.0, 2.0]), Adaptive(), Adaptive(Fixed(3.0))], ids=repr
)
def test_max_attempts_overrides_the_policys_limit_and_leaves_the_policy_alone(policy):
    before = repr(policy)
    limited = plan(policy=policy, max_attempts=9)
    assert limited.policy.max_attempts == 9
    assert limited.max_attempts is None  # the policy itself watches it
    assert type(limited.policy) is type(policy)
    assert repr(policy) == before


def test_max_attempts_limits_a_custom_policy_from_outside():
    class Forever(Policy):
        def decide(self, failure):
            return RetryAfter(0.0)

    forever = Forever()
    limited = plan(policy=forever, max_attempts=9)
    assert limited.policy is forever
    assert limited.max_attempts == 9


def test_max_attempts_limits_whatever_quacks_like_a_policy():
    class Quacking:
        def create_instance(self):
            return self

        def decide(self, _failure):
            return RetryAfter(0.0)

    assert plan(policy=Quacking(), max_attempts=4).max_attempts == 4


def test_the_defaults_are_safe():
    defaults = plan()
    assert defaults.policy == Exponential()
    assert defaults.policy.max_attempts == 5
    assert defaults.policy.jitter == 0.2
    assert defaults.policy.max == 30.0
    assert defaults.deadline == DEFAULT_DEADLINE == 60.0


@pytest.mark.parametrize(
    ("settings", "is_stated"),
    [
        ({}, False),
        ({"deadline": None}, False),
        ({"deadline": 60.0}, True),
        ({"deadline": timedelta(minutes=1)}, True),
        ({"attempt_timeout": 1.0}, True),
        ({"deadline": None, "attempt_timeout": 1.0}, True),
    ],
    ids=str,
)
def test_only_a_limit_that_somebody_stated_is_a_promise(settings, is_stated):
    assert plan(**settings).is_announced == is_stated


def test_whoever_leaves_exhausted_failures_alone_announces_itself_to_the_retries_inside():
    assert plan(retry_exhausted=False).is_announced


async def _answers_later(_subject):
    return False


@pytest.mark.parametrize("setting", ["on", "on_result", "on_event"])
def test_an_async_test_is_refused_because_a_coroutine_is_always_true(setting):
    with pytest.raises(InvalidSetting, match="must not be async"):
        plan(**{setting: _answers_later})


def test_a_default_that_is_stated_again_is_still_not_stated():
    assert not retry(on=ValueError).using(max_attempts=3)._live.plan.is_announced


def test_times_may_be_timedeltas():
    timed = plan(deadline=timedelta(minutes=2), attempt_timeout=timedelta(milliseconds=500))
    assert (timed.deadline, timed.attempt_timeout) == (120.0, 0.5)


def test_a_plan_is_quiet_while_a_success_has_nothing_to_announce_admit_or_count():
    breaker, budget = CircuitBreaker(failures=2), RetryBudget(burst=2)
    assert plan().is_quiet()
    assert not plan(deadline=5.0).is_quiet()
    assert not plan(on_result=bool).is_quiet()
    both = plan(breaker=breaker, budget=budget)
    assert both.is_quiet()
    breaker.failed(breaker.admit(0.0), 0.0)
    assert not both.is_quiet()
    breaker.succeeded(breaker.admit(0.0), 0.0)
    assert both.is_quiet()
    budget.grants_retry(0.0)
    assert not both.is_quiet()
