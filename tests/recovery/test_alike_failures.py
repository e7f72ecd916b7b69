# SPDX-License-Identifier: MIT
"""Failures that are alike are read quickly, and exactly as they are read one by one."""

import json
from dataclasses import replace

import pytest

from redrive.broker import DeadLetterInfo, Message, Received
from redrive.broker.lifecycle import State
from redrive.clock import utc
from redrive.engines.sql.recovery.attempt_details import read, trace_of, written
from redrive.recovery.alike_failures import read_arrived
from redrive.recovery.failure_formats import Unreadable, clean, read_failure
from redrive.recovery.fingerprint import exception_group

HEADERS = {
    "redrive-failed-queue": "orders",
    "redrive-failed-at": "2026-11-17T10:00:00+00:00",
    "redrive-failed-exception-type": "ValueError",
    "redrive-failed-exception-message": "no such order",
    "redrive-failed-stack-trace": 'Traceback (most recent call last):\n  File "a.py", line 1, in f\nValueError: no\n',
    "redrive-failed-exception-source": "shop.a:1",
    "redrive-failed-reason": "MaxImmediateRetries",
    "redrive-failed-host": "worker-7",
    "redrive-failed-worker": "orders",
    "redrive-failed-immediate-retries": 5,
    "redrive-failed-delayed-retries": 1,
    "tenant": "t-1",
}

DIFFERENCES = {
    "nothing": {},
    "another time": {"redrive-failed-at": "2026-11-17T11:00:00+01:00"},
    "a time that is none": {"redrive-failed-at": "yesterday"},
    "an empty time": {"redrive-failed-at": ""},
    "a time as a number": {"redrive-failed-at": 1_790_000_000},
    "a long text": {"redrive-failed-exception-message": "ä\0" * 900},
    "a long trace": {"redrive-failed-stack-trace": "x" * 20_000},
    "no text": {"redrive-failed-exception-message": None},
    "True, which is equal to 1": {"redrive-failed-delayed-retries": True},
    "1.0, which is equal, too": {"redrive-failed-delayed-retries": 1.0},
    "more than a worker writes": {"redrive-failed-host": "h" * 9_000},
    "NUL": {"redrive-failed-worker": "a\0b"},
    "another queue": {"redrive-failed-queue": "bills/$dead"},
    "a task of Celery": {"task": "pay", "id": "1", "lang": "py", "exc_type": "OSError"},
    "a message of NServiceBus": {"NServiceBus.EnclosedMessageTypes": "Shop.PlaceOrder, Shop"},
    "a dead letter of RabbitMQ": {"x-death": '[{"queue": "q", "reason": "rejected"}]'},
    "a tag": {"redrive-recovery-tag": "1.2.c.00"},
}


def arrived(headers=HEADERS, **other):
    message = Message(b"{}", id="o-1", subject="placed", headers=dict(headers))
    got = Received(
        message=message, queue="error", sequence=7, state=State.LOCKED, enqueued_at=utc(1.0), delivery_count=1
    )
    return replace(got, **other)


def one_by_one(received, **how):
    return read_failure(received, **how), clean(received.message)


@pytest.mark.parametrize("difference", DIFFERENCES.values(), ids=DIFFERENCES)
def test_failures_that_are_alike_are_read_as_one_by_one(difference):
    for headers in (HEADERS, HEADERS | difference, HEADERS, HEADERS | difference):
        found = read_arrived(arrived(headers), key="k")[:2]
        assert found == one_by_one(arrived(headers), key="k")
        assert list(found[0].headers) == list(one_by_one(arrived(headers), key="k")[0].headers)


@pytest.mark.parametrize("missing", HEADERS)
def test_a_failure_without_one_of_the_headers_is_read_as_one_by_one(missing):
    headers = {name: value for name, value in HEADERS.items() if name != missing}
    how = {"key": "k", "queue": "orders"}
    assert read_arrived(arrived(headers), **how)[:2] == one_by_one(arrived(headers), **how)


def test_what_is_not_in_headers_counts_too():
    dead = DeadLetterInfo("Expired", "too late", "orders")
    for each in (
        arrived(queue="error/$dead", dead_letter_info=dead),
        arrived(message=Message(b"", id="o-2", subject="paid", headers=HEADERS)),
        arrived(message=Message(b"", id="o-3", ttl=60.0, headers=HEADERS)),
    ):
        assert read_arrived(each, key="k")[:2] == one_by_one(each, key="k")
        assert read_arrived(each)[:2] == one_by_one(each), "an engine that does not distinguish failures"


def test_an_impossible_queue_is_refused_every_time():
    headers = HEADERS | {"redrive-failed-queue": "no\nqueue"}
    for _ in range(2):
        with pytest.raises(Unreadable, match="which no queue can be called"):
            read_arrived(arrived(headers), key="k")
    assert read_arrived(arrived(headers), key="k", queue="orders")[0].queue == "orders"


# --- what they share


LONG_TRACE = "Traceback (most recent call last):\n" + '  File "/srv/a.py", line 1, in f\n    call("it")\n' * 5
SAID = {
    "a word": "no",
    "a sentence": "no such order: 7",
    "quotes": 'it said "no", and\\ö',
    "several lines": 'no:\n  File "/srv/b.py", line 2, in g\nKeyError: 1',
    "nothing": "",
    "very much": "n" * 1_500,
}


@pytest.mark.parametrize("said", SAID.values(), ids=SAID)
@pytest.mark.parametrize("end", ["", "\n", "\n\n"], ids=["no end", "a newline", "two"])
def test_what_alike_failures_share_is_what_each_has_by_itself(said, end):
    trace = f"{LONG_TRACE}ValueError: {said}{end}"
    headers = HEADERS | {"redrive-failed-exception-message": said, "redrive-failed-stack-trace": trace}
    for queue in ("orders", "billing"):
        found = read_arrived(arrived(headers | {"redrive-failed-queue": queue}), key="k")
        shared = trace_of(found.failure, found.alike)
        details = written(found.failure, shared, found.alike)
        whole, alone = read(details, shared and shared.text), read(written(found.failure))
        assert (whole, list(whole), list(whole["headers"])) == (alone, list(alone), list(alone["headers"]))
        if found.alike is not None:
            assert len(details) < len(json.dumps(said)) + 150, "what they share is stored once"
            alone = exception_group("ValueError", found.failure.stack_trace, found.failure.reason)
            assert found.alike.groups == (alone,)


def test_the_same_is_shared_by_failures_that_say_something_else():
    found = [
        read_arrived(
            arrived(
                HEADERS
                | {
                    "redrive-failed-exception-message": f"order {number}",
                    "redrive-failed-stack-trace": f"{LONG_TRACE}ValueError: order {number}\n",
                }
            ),
            key="k",
        )
        for number in range(3)
    ]
    assert found[0].alike is not None
    assert found[0].alike is found[1].alike is found[2].alike
