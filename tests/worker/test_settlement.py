# SPDX-License-Identifier: MIT
"""From a decision to effects."""

from redrive.broker import Abandon, Complete, DeadLetter, Lock, Message, Send
from redrive.broker.headers import DELAYED_RETRIES, EARLIER_DELIVERIES
from redrive.worker import Discard, HandlerFailure, MoveToError, Postpone, RedeliverLater, RedeliverNow
from redrive.worker.recoverability import failure_headers
from redrive.worker.settlement import effects_of

LOCK = Lock("orders", 7, 42)
MESSAGE = Message(b"x", id="1", ttl=9, subject="s", headers={"tenant": "acme", "nothing": None, DELAYED_RETRIES: 5})
FAILURE = HandlerFailure(error=ValueError("bad"), queue="orders", message=MESSAGE, delivery_count=3)


def test_retrying_now_abandons():
    assert effects_of(RedeliverNow(), FAILURE, LOCK) == [Abandon(LOCK, reason="ValueError: bad")]


def test_retrying_later_abandons_with_a_delay_and_counts_in_headers():
    counted = {DELAYED_RETRIES: 6, EARLIER_DELIVERIES: 3}
    assert effects_of(RedeliverLater(5), FAILURE, LOCK) == [
        Abandon(LOCK, 5, counted, reset_count=True, reason="ValueError: bad")
    ]


def test_your_headers_go_with_it_but_do_not_replace_the_counters():
    (effect,) = effects_of(RedeliverLater(5, {"why": "down", DELAYED_RETRIES: 0}), FAILURE, LOCK)
    assert effect.headers == {"why": "down", DELAYED_RETRIES: 6, EARLIER_DELIVERIES: 3}


def test_postponing_abandons_with_a_delay_and_counts_nothing():
    assert effects_of(Postpone(5), FAILURE, LOCK) == [Abandon(LOCK, 5, uncount=True)]
    assert effects_of(Postpone(5, {"why": "down"}), FAILURE, LOCK) == [Abandon(LOCK, 5, {"why": "down"}, uncount=True)]


def test_discarding_completes():
    assert effects_of(Discard(), FAILURE, LOCK) == [Complete(LOCK)]


def test_moving_dead_letters_with_the_failure():
    told = {"mine": 1} | failure_headers(FAILURE, "Poison")
    moved = MoveToError("Poison", "half a pair: \ud800", headers={"mine": 1})
    assert effects_of(moved, FAILURE, LOCK) == [DeadLetter(LOCK, "Poison", "half a pair: \\ud800", told)]


def test_moving_to_an_error_queue_completes_and_sends_a_copy_that_stays():
    complete, send = effects_of(MoveToError("Poison", queue="errors"), FAILURE, LOCK)
    assert complete == Complete(LOCK)
    assert isinstance(send, Send)
    assert send.queue == "errors"
    copy = send.message
    assert (copy.body, copy.id, copy.subject, copy.ttl) == (b"x", "1", "s", None)
    assert copy.headers["tenant"] == "acme"
    assert copy.headers["nothing"] is None
    assert DELAYED_RETRIES not in copy.headers
    assert copy.headers["redrive-failed-delayed-retries"] == 5
