# SPDX-License-Identifier: MIT
"""Recoverability: facts in, a decision out."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.broker import Message
from redrive.broker.headers import DELAYED_RETRIES, EARLIER_DELIVERIES, FAILED
from redrive.errors import InvalidPayload, InvalidSetting
from redrive.retry import Exponential, Fixed
from redrive.worker import Discard, HandlerFailure, MoveToError, Recoverability, RedeliverLater, RedeliverNow, decide
from redrive.worker.recoverability import (
    failure_headers,
    postponing_headers,
    shortened,
)
from tools.header_table import sections


def failed(error=None, *, delivery=1, delayed=0, earlier=0, **facts):
    headers = {"tenant": "acme"}
    if delayed:
        headers |= {DELAYED_RETRIES: delayed, EARLIER_DELIVERIES: earlier}
    return HandlerFailure(
        error=ConnectionError("down") if error is None else error,
        queue="orders",
        message=Message(b"{}", headers=headers),
        delivery_count=delivery,
        **facts,
    )


def test_the_first_failures_are_redelivered_at_once():
    assert [decide(failed(delivery=n), Recoverability()) for n in (1, 2)] == [RedeliverNow(), RedeliverNow()]


def test_after_the_immediate_ones_it_is_postponed_longer_each_time():
    delays = [decide(failed(delivery=3, delayed=n), Recoverability()).delay for n in range(5)]
    assert delays == [5, 10, 20, 40, 80]


def test_jitter_comes_from_the_chance_it_is_given():
    assert decide(failed(delivery=3, chance=0.0), Recoverability()).delay == pytest.approx(4)
    assert decide(failed(delivery=3, chance=1.0), Recoverability()).delay == pytest.approx(6)


def test_after_the_last_delay_it_is_moved():
    decision = decide(failed(delivery=3, delayed=5, earlier=15), Recoverability())
    assert decision == MoveToError(
        "MaxDelayedRetries",
        "5 delayed redeliveries did not help; attempt 18 failed with ConnectionError: down",
    )


def test_each_round_begins_with_immediate_ones():
    assert decide(failed(delivery=1, delayed=5), Recoverability()) == RedeliverNow()


def test_without_delayed_ones_it_is_moved_after_the_immediate_ones():
    for none in (None, (), [], Fixed(1, max_attempts=1)):
        decision = decide(failed(delivery=3), Recoverability(delayed=none))
        assert (decision.reason, decision.queue) == ("MaxImmediateRetries", None)


def test_immediate_ones_that_the_queue_would_not_deliver_are_skipped():
    policy = Recoverability(immediate=5)
    assert decide(failed(delivery=1, max_delivery_count=2), policy) == RedeliverNow()
    assert decide(failed(delivery=2, max_delivery_count=2), policy) == RedeliverLater(5.0)


def test_it_goes_to_the_error_queue_where_there_is_one():
    policy = Recoverability(immediate=0, delayed=None, error_queue="errors")
    assert decide(failed(), policy).queue == "errors"
    assert decide(failed(InvalidPayload("bad")), policy).queue == "errors"


def test_poison_is_moved_at_once():
    decision = decide(failed(InvalidPayload("the body is no JSON")), Recoverability())
    assert decision == MoveToError("Poison", "no redelivery repairs redrive.errors.InvalidPayload: the body is no JSON")


@pytest.mark.parametrize(
    "poison", [ValueError, "ValueError", ("ValueError",), [KeyError, ValueError], {"ValueError"}], ids=repr
)
def test_poison_is_given_by_type_or_by_name(poison):
    policy = Recoverability(poison=poison)
    assert isinstance(decide(failed(UnicodeError("it is a ValueError")), policy), MoveToError)
    assert decide(failed(OSError()), policy) == RedeliverNow()


def test_poison_is_given_by_a_name_with_its_module():
    policy = Recoverability(poison=["json.decoder.JSONDecodeError"])
    import json

    assert isinstance(decide(failed(json.JSONDecodeError("no", "x", 0)), policy), MoveToError)


@pytest.mark.parametrize(
    ("kind", "decision"),
    [
        ("retry", RedeliverNow),
        ("delay", RedeliverLater),
        ("poison", MoveToError),
        ("ignore", Discard),
        (None, RedeliverNow),
    ],
)
def test_a_classification_of_your_own_comes_first(kind, decision):
    assert isinstance(decide(failed(), Recoverability(classify=lambda _: kind)), decision)


def test_a_classification_without_opinion_leaves_poison_poison():
    policy = Recoverability(classify=lambda _: None)
    assert isinstance(decide(failed(InvalidPayload("bad")), policy), MoveToError)


def test_an_unknown_classification_is_an_error_that_lists_the_known_ones():
    with pytest.raises(InvalidSetting, match="must return one of retry, delay, poison, ignore, or None"):
        decide(failed(), Recoverability(classify=lambda _: "maybe"))


def test_delays_can_be_listed():
    policy = Recoverability(immediate=0, delayed=[1, timedelta(minutes=1)])
    assert [decide(failed(delayed=n), policy) for n in (0, 1)] == [RedeliverLater(1), RedeliverLater(60)]
    assert isinstance(decide(failed(delayed=2), policy), MoveToError)


@given(
    immediate=st.integers(0, 5),
    delayed=st.integers(0, 5),
    limit=st.integers(1, 10),
    chance=st.floats(0, 1, exclude_max=True),
)
def test_no_message_is_redelivered_for_ever(immediate, delayed, limit, chance):
    policy = Recoverability(immediate=immediate, delayed=Exponential(min=1, max_attempts=delayed + 1))
    delivery, headers, deliveries = 1, {}, 1
    while not isinstance(
        decision := decide(
            HandlerFailure(
                error=OSError(),
                queue="q",
                message=Message(b"", headers=headers),
                delivery_count=delivery,
                max_delivery_count=limit,
                chance=chance,
            ),
            policy,
        ),
        MoveToError,
    ):
        if isinstance(decision, RedeliverLater):
            headers = postponing_headers(failed(delivery=delivery, delayed=headers.get(DELAYED_RETRIES, 0)))
            delivery = 0
        delivery += 1
        deliveries += 1
    assert deliveries == (min(immediate, limit - 1) + 1) * (delayed + 1)


def test_postponing_counts_rounds_and_deliveries():
    assert postponing_headers(failed(delivery=3)) == {DELAYED_RETRIES: 1, EARLIER_DELIVERIES: 3}
    assert postponing_headers(failed(delivery=3, delayed=1, earlier=3)) == {DELAYED_RETRIES: 2, EARLIER_DELIVERIES: 6}


@pytest.mark.parametrize("nonsense", ["7", True, -1, 1.5, None])
def test_a_counter_that_is_no_counter_counts_as_none(nonsense):
    failure = HandlerFailure(error=OSError(), queue="q", message=Message(b"", headers={DELAYED_RETRIES: nonsense}))
    assert failure.delayed_retries == 0


def test_failure_headers_tell_everything_and_make_room_for_a_new_beginning():
    failure = failed(
        ValueError("bad total"),
        delivery=3,
        delayed=2,
        earlier=6,
        failed_at=datetime(2026, 1, 4, 12, 30, tzinfo=UTC),
        source="app.charge:7",
        stack_trace="Traceback ...",
        host="box",
        worker="billing",
    )
    assert failure_headers(failure, "MaxDelayedRetries") == {
        DELAYED_RETRIES: None,
        EARLIER_DELIVERIES: None,
        "redrive-failed-queue": "orders",
        "redrive-failed-at": "2026-01-04T12:30:00+00:00",
        "redrive-failed-reason": "MaxDelayedRetries",
        "redrive-failed-exception-type": "ValueError",
        "redrive-failed-exception-message": "bad total",
        "redrive-failed-exception-source": "app.charge:7",
        "redrive-failed-stack-trace": "Traceback ...",
        "redrive-failed-immediate-retries": 6,
        "redrive-failed-delayed-retries": 2,
        "redrive-failed-host": "box",
        "redrive-failed-worker": "billing",
    }


def test_a_moved_message_carries_all_failure_headers():
    declared = {name for section in sections().values() for name in section if name.startswith(FAILED)}
    assert set(failure_headers(failed(), "Poison")) == {DELAYED_RETRIES, EARLIER_DELIVERIES, *declared}


def test_an_exception_that_cannot_be_printed_says_so():
    class Silent(Exception):
        def __str__(self):
            raise RuntimeError

    assert failed(Silent()).exception_message == (
        f"({__name__}.test_an_exception_that_cannot_be_printed_says_so.<locals>.Silent cannot be printed: RuntimeError)"
    )


def test_half_a_surrogate_pair_is_spelled_out():
    message = failed(ValueError("\ud800")).exception_message
    assert message == "\\ud800"
    Message(b"", headers={"x": message})


@given(st.text(st.characters(), max_size=400), st.integers(100, 300))
def test_a_long_text_loses_its_middle(text, longest):
    short = shortened(text, longest)
    assert len(short) <= longest
    assert short == text.encode(errors="backslashreplace").decode() or "cut here" in short


def test_a_shortened_text_keeps_its_beginning_and_end():
    short = shortened("begin" + "x" * 10_000 + "end", 100)
    assert short.startswith("begin")
    assert short.endswith("end")
    assert "cut here, 10,008 characters in all" in short
    assert len(short) == 100
    assert shortened("x" * 100, 100) == "x" * 100


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"immediate": -1}, "immediate=-1: must be a whole number from 0 to 1,000"),
        ({"immediate": 1_001}, "must be a whole number from 0 to 1,000"),
        ({"immediate": True}, "immediate=True: must be a whole number"),
        ({"immediate": 1.5}, "must be a whole number"),
        ({"delayed": 5}, "delayed=5: must be a policy such as"),
        ({"delayed": [-1]}, r"delays\[0\]=-1: must be"),
        ({"delayed": Exponential(max_attempts=None)}, "must have max_attempts: redeliveries must end"),
        ({"poison": (KeyboardInterrupt,)}, "must be exception types, or their names"),
        ({"poison": ("",)}, "must be exception types, or their names"),
        ({"poison": 7}, "poison=7: must be exception types"),
        ({"error_queue": ""}, "error_queue='': must be the name of a queue, or None"),
        ({"error_queue": 7}, "must be the name of a queue"),
        ({"classify": "retry"}, "classify='retry': must be a function of an exception"),
    ],
)
def test_a_wrong_setting_is_refused_with_what_it_may_be(wrong, says):
    with pytest.raises(InvalidSetting, match=says):
        Recoverability(**wrong)


def test_a_wrong_decision_is_refused():
    with pytest.raises(InvalidSetting, match="delay=-1"):
        RedeliverLater(-1)
    with pytest.raises(InvalidSetting, match="reason=''"):
        MoveToError("")
