# SPDX-License-Identifier: MIT
"""Errors say what to do, carry the figures as fields, and survive a trip between processes."""

import copy
import pickle
from pathlib import Path

import pytest

from redrive import errors
from redrive.errors import (
    AttemptTimeout,
    CircuitOpen,
    DeadlineExceeded,
    InvalidSetting,
    MessageError,
    MissingExtra,
    PolicyFileError,
    RedriveError,
    Unavailable,
    UnknownPolicy,
    UsageError,
)

SENTENCES = [
    (InvalidSetting("delay", -1, "must be 0 or more"), "delay=-1: must be 0 or more"),
    (MissingExtra("PostgreSQL", "postgres"), "PostgreSQL needs the extra 'postgres': pip install 'redrive[postgres]'"),
    (PolicyFileError(Path("p.toml"), 3, "write a number"), "p.toml, line 3: write a number"),
    (PolicyFileError(None, 1, "it is empty"), "policies, line 1: it is empty"),
    (UnknownPolicy("fats", ("fast", "slow")), "no policy is called 'fats'; the file defines: fast, slow"),
    (UnknownPolicy("fast", ()), "no policy is called 'fast'; the file defines: none"),
    (CircuitOpen("billing", 12.3456), "circuit breaker 'billing' is open; come back in 12.3 s"),
    (AttemptTimeout("fetch", 2.5), "an attempt of fetch was cut off after 2.5 s (attempt_timeout)"),
    (DeadlineExceeded("fetch", 60.0), "fetch was cut off: its 60 s for all attempts are over (deadline)"),
]
each_error = pytest.mark.parametrize(("error", "text"), SENTENCES, ids=[text for _, text in SENTENCES])


@each_error
def test_an_error_says_what_to_do(error, text):
    assert str(error) == text


@each_error
def test_an_error_survives_a_copy_and_a_pickle(error, text):
    for twin in (copy.copy(error), pickle.loads(pickle.dumps(error))):  # noqa: S301 - our own bytes
        assert type(twin) is type(error)
        assert vars(twin) == vars(error)
        assert str(twin) == text


def test_every_error_is_listed_and_has_the_one_base():
    listed = {getattr(errors, name) for name in errors.__all__}
    defined = {kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)}
    assert listed == defined
    assert all(issubclass(kind, RedriveError) for kind in listed)


@pytest.mark.parametrize(
    ("error", "standard"),
    [
        (InvalidSetting, ValueError),
        (MissingExtra, ImportError),
        (UnknownPolicy, LookupError),
        (AttemptTimeout, TimeoutError),
        (DeadlineExceeded, TimeoutError),
    ],
)
def test_an_error_is_also_the_standard_error_people_expect(error, standard):
    assert issubclass(error, standard)


def test_an_error_says_whose_it_is_the_users_the_messages_or_the_worlds():
    for name in errors.__all__:
        kind = getattr(errors, name)
        if kind is not RedriveError:
            assert sum(issubclass(kind, branch) for branch in (UsageError, MessageError, Unavailable)) == 1


def test_a_huge_value_does_not_become_a_huge_error():
    error = InvalidSetting("header", "x" * 10_000, "must be short")
    assert len(str(error)) < 200
    assert error.value == "x" * 10_000


def test_the_figures_of_an_error_are_fields():
    error = CircuitOpen("billing", 12.5)
    assert (error.breaker, error.retry_after) == ("billing", 12.5)
    cut_off = AttemptTimeout("fetch", 2.0)
    assert (cut_off.operation, cut_off.timeout) == ("fetch", 2.0)
    late = DeadlineExceeded("fetch", 3.0)
    assert (late.operation, late.deadline) == ("fetch", 3.0)
    wrong = InvalidSetting("delay", -1, "must be more")
    assert (wrong.setting, wrong.value, wrong.allowed) == ("delay", -1, "must be more")
    missing = MissingExtra("telemetry", "otel")
    assert (missing.feature, missing.extra) == ("telemetry", "otel")
    unknown = UnknownPolicy("a", ("b",))
    assert (unknown.name, unknown.known) == ("a", ("b",))
    broken = PolicyFileError(None, 4, "mend it")
    assert (broken.source, broken.line, broken.problem) == (None, 4, "mend it")


@pytest.mark.parametrize("error", [AttemptTimeout("weigh", 1.0), DeadlineExceeded("weigh", 1.0)])
def test_a_time_out_has_no_errno_of_its_own(error):
    assert error.errno is None
    assert pickle.loads(pickle.dumps(error)).operation == "weigh"  # noqa: S301 - our own
