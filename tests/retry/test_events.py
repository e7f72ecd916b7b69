# SPDX-License-Identifier: MIT
"""What happens to a retried call is reported once, with exactly the promised fields, and changes nothing."""

import dataclasses
import json
import logging
import sys
from datetime import UTC, datetime

import pytest

from redrive.retry import (
    AttemptFailed,
    BreakerChanged,
    CircuitBreaker,
    Fixed,
    PoliciesRejected,
    PoliciesReloaded,
    RetryBudget,
    RetryGaveUp,
    RetrySucceeded,
    reporter,
    retry,
)
from redrive.telemetry import Event, report
from redrive.testing import ManualClock

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@pytest.fixture
def clock():
    return ManualClock(NOON.timestamp())


@pytest.fixture(autouse=True)
def without_opentelemetry(monkeypatch):
    """Other tests may have imported it; here it is absent until a test says otherwise."""
    monkeypatch.delitem(sys.modules, "opentelemetry.trace", raising=False)


@pytest.fixture
def events():
    return []


@pytest.fixture
def retrying(clock, events):
    return retry(
        on=ConnectionError,
        policy=Fixed(2.0, jitter="none", max_attempts=3),
        clock=clock,
        operation="fetch",
        request_id="r-1",
        on_event=events.append,
    )


class Flaky:
    """Fails so many times, taking a second each; then returns."""

    def __init__(self, clock, failures, error=ConnectionError):
        self.clock, self.failures, self.error = clock, failures, error

    def __call__(self):
        self.clock.advance(1.0)
        self.failures -= 1
        if self.failures >= 0:
            raise self.error("it is down")
        return "done"


# --- the fields -------------------------------------------------------------------------------------------------------


def test_a_failed_attempt_has_exactly_the_promised_fields():
    assert [field.name for field in dataclasses.fields(AttemptFailed)] == [
        "request_id",
        "policy_type",
        "operation",
        "operation_start",
        "operation_end",
        "iteration",
        "iteration_sleep",
        "exception_type",
        "exception_message",
    ]


def test_the_fields_of_a_failed_attempt_tell_what_happened(retrying, clock, events):
    retrying.call(Flaky(clock, 1))
    assert events[0] == AttemptFailed(
        request_id="r-1",
        policy_type="Fixed",
        operation="fetch",
        operation_start=NOON,
        operation_end=NOON.replace(second=1),
        iteration=1,
        iteration_sleep=2.0,
        exception_type="ConnectionError",
        exception_message="it is down",
    )


def test_a_call_that_succeeds_at_once_is_not_worth_an_event(retrying, clock, events):
    retrying.call(Flaky(clock, 0))
    assert events == []


def test_a_late_success_is_reported_after_its_failures(retrying, clock, events):
    retrying.call(Flaky(clock, 2))
    assert [type(event) for event in events] == [AttemptFailed, AttemptFailed, RetrySucceeded]
    assert events[2] == RetrySucceeded(
        request_id="r-1",
        policy_type="Fixed",
        operation="fetch",
        operation_start=NOON,
        operation_end=NOON.replace(second=7),
        iteration=3,
    )


def test_giving_up_is_reported_once_after_every_failure(retrying, clock, events):
    with pytest.raises(ConnectionError):
        retrying.call(Flaky(clock, 99))
    assert [type(event) for event in events] == [AttemptFailed] * 3 + [RetryGaveUp]
    assert [event.iteration for event in events] == [1, 2, 3, 3]
    assert [event.iteration_sleep for event in events[:3]] == [2.0, 2.0, None]
    assert events[3] == RetryGaveUp(
        request_id="r-1",
        policy_type="Fixed",
        operation="fetch",
        operation_start=NOON,
        operation_end=NOON.replace(second=7),
        iteration=3,
        exception_type="ConnectionError",
        exception_message="it is down",
        outcome="exhausted",
        why="all 3 attempts failed",
    )


@pytest.mark.parametrize(
    ("outcome", "settings"),
    [
        ("exhausted", {}),
        ("deadline", {"deadline": 4.0}),
        ("budget", {"budget": RetryBudget(burst=1, ratio=0.0, per_second=0.0)}),
        ("breaker_open", {"breaker": CircuitBreaker(failures=2)}),
        ("nested", {"retry_exhausted": False}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_reason_for_giving_up_is_one_word(retrying, clock, events, outcome, settings):
    inner = retry(on=ConnectionError if outcome == "nested" else KeyError, policy=Fixed(0.0), clock=clock)
    with pytest.raises(ConnectionError):
        retrying.using(**settings).call(inner.call, Flaky(clock, 99))
    assert events[-1].outcome == outcome
    assert sum(isinstance(event, RetryGaveUp) for event in events) == 1


def test_an_error_that_is_not_retried_is_the_callers_business(retrying, clock, events):
    with pytest.raises(KeyError):
        retrying.call(Flaky(clock, 1, KeyError))
    assert events == []


def test_an_error_that_is_not_retried_ends_retries_that_had_begun(retrying, events):
    errors = iter([ConnectionError, KeyError])

    def function():
        raise next(errors)("no")

    with pytest.raises(KeyError):
        retrying.call(function)
    assert [type(event) for event in events] == [AttemptFailed, AttemptFailed, RetryGaveUp]
    assert (events[-1].outcome, events[-1].exception_type) == ("not_retryable", "KeyError")


def test_a_result_that_was_not_accepted_is_described(retrying, events):
    retrying.using(on_result=lambda result: result == 503).call(lambda: 503)
    assert (events[0].exception_type, events[0].exception_message) == (None, "result not accepted: 503")
    assert str(events[0]) == "fetch: attempt 1 failed with result not accepted: 503; next attempt in 2 s"


def test_the_type_of_an_error_is_its_full_name(retrying, events):
    def function():
        raise json.JSONDecodeError("no", "", 0)

    with pytest.raises(json.JSONDecodeError):
        retrying.using(on=ValueError, max_attempts=1).call(function)
    assert events[0].exception_type == "json.decoder.JSONDecodeError"


def test_times_follow_the_wall_clock_through_a_step(retrying, clock, events):
    flaky = Flaky(clock, 2)

    def stepping():
        clock.jump(3_600.0)
        return flaky()

    retrying.call(stepping)
    for event in events:
        assert event.operation_start <= event.operation_end
    assert (events[1].operation_end - events[1].operation_start).total_seconds() == 4.0


# --- request ids ------------------------------------------------------------------------------------------------------


def ids(events):
    return [event.request_id for event in events]


def test_a_request_id_is_the_same_for_one_call_and_another_for_the_next(retrying, clock, events):
    anonymous = retrying.using(request_id=None)
    for _ in range(2):
        anonymous.call(Flaky(clock, 1))
    first, also_first, second, also_second = ids(events)
    assert first == also_first != second == also_second
    assert len(bytes.fromhex(first)) == 8


def test_a_request_id_may_come_from_a_function_that_is_asked_once_per_call(retrying, clock, events):
    numbers = iter(range(100))
    retrying = retrying.using(request_id=lambda: f"r-{next(numbers)}")
    retrying.call(Flaky(clock, 0))
    for _ in range(2):
        retrying.call(Flaky(clock, 2))
    assert ids(events) == ["r-0"] * 3 + ["r-1"] * 3


def test_a_request_id_that_cannot_be_had_is_a_random_one(retrying, clock, events):
    def broken():
        raise ZeroDivisionError

    for function in (broken, lambda: "", lambda: None):
        events.clear()
        assert retrying.using(request_id=function).call(Flaky(clock, 2)) == "done"
        assert len(set(ids(events))) == 1
        assert len(bytes.fromhex(ids(events)[0])) == 8


# --- messages ---------------------------------------------------------------------------------------------------------


def message_of(retrying, error, events, **settings):
    def function():
        raise error

    with pytest.raises(type(error)):
        retrying.using(on=type(error), max_attempts=1, **settings).call(function)
    assert events[0].exception_message == events[1].exception_message
    return events[0].exception_message


def test_a_message_is_cut_to_a_thousand_characters(retrying, events):
    assert message_of(retrying, ConnectionError("x" * 10_000), events) == "x" * 1_000


def test_secrets_are_taken_out_before_a_message_is_cut(retrying, events):
    message = message_of(
        retrying, ConnectionError("token=abc" * 200), events, redact=lambda text: text.replace("abc", "*")
    )
    assert message == ("token=*" * 200)[:1_000]


def test_a_redact_that_fails_lets_nothing_through(retrying, events):
    def broken(_text):
        raise ZeroDivisionError

    assert message_of(retrying, ConnectionError("secret"), events, redact=broken) == "(no message: ZeroDivisionError)"


def test_results_are_redacted_too(retrying, events):
    redacting = retrying.using(redact=lambda text: text.replace("secret", "***"), on_result=bool)
    redacting.call(lambda: ["secret"])
    assert events[0].exception_message == "result not accepted: ['***']"


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("no")

    __repr__ = __str__


def test_an_error_that_cannot_be_printed_is_still_reported(retrying, events):
    assert message_of(retrying, Unprintable(), events) == "(no message: RuntimeError)"


# --- breakers ---------------------------------------------------------------------------------------------------------


def test_every_change_of_a_breaker_is_reported(retrying, clock, events):
    guarded = retrying.using(breaker=CircuitBreaker("api", failures=2, open_for=30.0))
    with pytest.raises(ConnectionError):
        guarded.call(Flaky(clock, 99))
    clock.advance(60.0)
    with pytest.raises(ConnectionError):
        guarded.call(Flaky(clock, 99))
    clock.advance(60.0)
    guarded.call(Flaky(clock, 0))
    assert [event for event in events if isinstance(event, BreakerChanged)] == [
        BreakerChanged("api", "closed", "open", "fetch"),
        BreakerChanged("api", "open", "half_open", "fetch"),
        BreakerChanged("api", "half_open", "open", "fetch"),
        BreakerChanged("api", "open", "half_open", "fetch"),
        BreakerChanged("api", "half_open", "closed", "fetch"),
    ]


# --- observers --------------------------------------------------------------------------------------------------------


def test_an_observer_that_fails_is_logged_and_changes_nothing(retrying, clock, caplog):
    def broken(_event):
        raise ZeroDivisionError

    assert retrying.using(on_event=broken).call(Flaky(clock, 2)) == "done"
    assert clock.slept == [2.0, 2.0]
    failures = [record for record in caplog.records if "observer" in record.message]
    assert len(failures) == 3
    assert failures[0].exc_info[0] is ZeroDivisionError
    assert "redrive.retry.attempt_failed" in failures[0].message


def test_an_observer_is_not_shielded_from_an_interruption(retrying, clock):
    def interrupted(_event):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        retrying.using(on_event=interrupted).call(Flaky(clock, 1))


def test_without_observers_nothing_but_logging_hears(clock, caplog):
    caplog.set_level(logging.CRITICAL, "redrive.retry")
    assert retry(on=ConnectionError, clock=clock).call(Flaky(clock, 2)) == "done"
    assert caplog.records == []


# --- logging ----------------------------------------------------------------------------------------------------------


def test_events_are_logged_with_their_levels(retrying, clock, caplog):
    caplog.set_level(logging.DEBUG, "redrive")
    with pytest.raises(ConnectionError):
        retrying.using(breaker=CircuitBreaker("api", failures=3)).call(Flaky(clock, 99))
    retrying.call(Flaky(clock, 2))
    assert [(record.levelname, record.redrive_event) for record in caplog.records] == [
        ("INFO", "redrive.retry.attempt_failed"),
        ("INFO", "redrive.retry.attempt_failed"),
        ("WARNING", "redrive.retry.breaker_changed"),
        ("INFO", "redrive.retry.attempt_failed"),
        ("ERROR", "redrive.retry.gave_up"),
        ("INFO", "redrive.retry.attempt_failed"),
        ("INFO", "redrive.retry.attempt_failed"),
        ("INFO", "redrive.retry.succeeded"),
    ]
    assert {record.name for record in caplog.records} == {"redrive.retry"}


def test_a_log_record_reads_as_a_sentence_and_carries_the_fields(retrying, clock, events, caplog):
    caplog.set_level(logging.INFO, "redrive")
    with pytest.raises(ConnectionError):
        retrying.using(max_attempts=2).call(Flaky(clock, 99))
    assert [record.getMessage() for record in caplog.records] == [
        "fetch: attempt 1 failed with ConnectionError: it is down; next attempt in 2 s",
        "fetch: attempt 2 failed with ConnectionError: it is down; no attempt follows",
        "fetch: gave up after attempt 2: all 2 attempts failed; last failure: ConnectionError: it is down",
    ]
    assert [record.redrive for record in caplog.records] == [event.fields() for event in events]
    assert caplog.records[0].redrive["iteration"] == 1


def test_by_default_only_what_went_wrong_is_logged(retrying, clock, caplog):
    """With logging as Python configures it, warnings and errors are shown."""
    caplog.set_level(logging.WARNING, "redrive")
    with pytest.raises(ConnectionError):
        retrying.using(on_event=None).call(Flaky(clock, 99))
    assert [record.levelname for record in caplog.records] == ["ERROR"]


@pytest.mark.parametrize(
    ("event", "level", "sentence"),
    [
        (BreakerChanged("api", "closed", "open", "go"), "WARNING", "circuit breaker 'api': closed -> open (by go)"),
        (PoliciesReloaded("p.toml", ("fast", "slow")), "INFO", "p.toml: policies in force: fast, slow"),
        (
            PoliciesRejected("p.toml", 3, "write a number"),
            "ERROR",
            "p.toml, line 3: write a number (the policies before it stay in force)",
        ),
        (RetrySucceeded("r", "Fixed", "fetch", NOON, NOON, 3), "INFO", "fetch: succeeded at attempt 3"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Event) else "",
)
def test_an_event_reads_as_a_sentence(event, level, sentence, caplog):
    caplog.set_level(logging.DEBUG, "redrive")
    report(event)
    assert str(event) == sentence
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [(level, sentence)]


def test_events_are_values():
    event = BreakerChanged("api", "closed", "open", "fetch")
    assert event == BreakerChanged("api", "closed", "open", "fetch")
    with pytest.raises(dataclasses.FrozenInstanceError):
        event.breaker = "other"
    assert event.fields() == {"breaker": "api", "before": "closed", "after": "open", "operation": "fetch"}


def test_an_event_is_listened_to_if_logging_or_opentelemetry_would_take_it(caplog, monkeypatch):
    caplog.set_level(logging.WARNING, "redrive.retry")
    assert not reporter.is_listened_to()
    assert reporter.is_listened_to(logging.ERROR)
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", sys)
    assert reporter.is_listened_to()
