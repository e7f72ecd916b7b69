# SPDX-License-Identifier: MIT
"""The filter that stops events that are too old."""

import pytest

from redrive.clock import utc
from redrive.errors import ExpressionFailed, InvalidSetting, MessageError
from redrive.routes.filters.ttl import TtlFilter
from tests.routes.filters.events import NOW, event, leg


def passes(settings, body=None, **facts):
    return bool(TtlFilter(**settings).apply(event(body), leg(**facts)))


@pytest.mark.parametrize(("age", "is_young"), [(0, True), (60, True), (60.1, False), (-5, True)])
def test_without_a_path_the_age_counts_from_when_the_event_was_taken_over(age, is_young):
    assert passes({"max_age": 60}, accepted_at=NOW - age) is is_young


@pytest.mark.parametrize(("age", "is_young"), [(59, True), (61, False), (-1_000, True)])
@pytest.mark.parametrize(
    "written",
    [
        lambda at: at,
        int,
        lambda at: utc(at).isoformat(),
        lambda at: utc(at).isoformat().replace("+00:00", "Z"),
        lambda at: utc(at).replace(tzinfo=None).isoformat(),
        lambda at: utc(at + 7_200).isoformat().replace("+00:00", "+02:00"),
    ],
    ids=["seconds", "whole-seconds", "iso", "zulu", "no-zone", "other-zone"],
)
def test_with_a_path_the_age_counts_from_the_time_there(written, age, is_young):
    settings = {"max_age": 60, "path": "body.at"}
    assert passes(settings, {"at": written(NOW - age)}, accepted_at=NOW - 10_000) is is_young


def test_an_old_event_is_rejected_if_that_is_wanted():
    with pytest.raises(MessageError, match="the event is 90 s old, and its route delivers none older than 60 s"):
        passes({"max_age": 60, "on_expired": "reject"}, accepted_at=NOW - 90)
    assert passes({"max_age": 60, "on_expired": "reject"}, accepted_at=NOW - 30)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (None, "its result is null"),
        ("yesterday", "'yesterday' is no time; write it as"),
        (NOW * 1_000, "is it in milliseconds?"),
        (True, "its result is a boolean, and must be a time"),
        ([], "its result is a list, and must be a time"),
    ],
)
def test_what_is_no_time_is_an_error(value, problem):
    with pytest.raises(ExpressionFailed) as failed:
        passes({"max_age": 60, "path": "body.at"}, {"at": value})
    assert problem in str(failed.value)


def test_times_at_the_ends_of_the_calendar_are_times():
    assert not passes({"max_age": 60, "path": "body.at"}, {"at": "0001-01-01"})
    assert passes({"max_age": 60, "path": "body.at"}, {"at": "9999-12-31T23:59:59-12:00"})


def test_a_file_writes_the_age_with_its_unit():
    assert TtlFilter.from_table({"kind": "ttl", "max_age": "2m"}) == TtlFilter(120)
    with pytest.raises(InvalidSetting, match="max_age"):
        TtlFilter(0)
