# SPDX-License-Identifier: MIT
"""Failures that are recognised by the text of their properties are exactly as if they had been decoded and read."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.broker import DeadLetterInfo, Message, Received
from redrive.broker.lifecycle import State
from redrive.broker.port import StoredMessage
from redrive.broker.rules import digest_of
from redrive.clock import utc
from redrive.engines import stored
from redrive.recovery.alike_failures import read_arrived
from redrive.recovery.alike_texts import AlikeTexts
from redrive.recovery.arrivals import Arrival
from redrive.recovery.identity import exact_key, failure_id
from redrive.worker.recoverability import HandlerFailure, failure_headers
from tests.recovery.test_alike_failures import DIFFERENCES, LONG_TRACE

OWN = {"tenant": "t-1", "number": 7}
MARK = ',"redrive-failed-at":"'


def failed(said="no such order", own=OWN, trace="{trace}ValueError: {said}\n", **changes):
    """Return a message as a worker moves it to an error queue."""
    failure = HandlerFailure(
        error=ValueError(said),
        queue="orders",
        message=Message(b"{}", id="o-1"),
        delivery_count=3,
        failed_at=utc(1_790_000_000.25),
        source="shop.a:1",
        stack_trace=trace.format(trace=LONG_TRACE, said=said),
        host="worker-7",
        worker="orders",
    )
    told = {name: value for name, value in failure_headers(failure, "MaxImmediateRetries").items() if value is not None}
    headers = {**own, **told, **changes.pop("headers", {})}
    return replace(Message(b"{}", id="o-1", subject="placed", headers=headers), **changes)


def as_stored(message, **changes):
    row = StoredMessage(
        7, 1.5, None, message.id, stored.properties_of(message), None, message.body, State.READY, None, 0
    )
    return row._replace(**changes)


def one_by_one(row):
    """Return the failure of a message that is decoded and read as any other."""
    received = stored.seen(row, "error")
    key = exact_key("error", received.sequence, received.enqueued_at)
    failure, message, alike = read_arrived(received, key=key)
    id_ = failure_id(failure, message, digest_of(message.body))
    groups = () if alike is None else alike.groups
    return Arrival(id=id_, failure=failure, message=message, source="error", groups=groups, alike=alike)


def taught(*messages):
    texts = AlikeTexts()
    for message in messages or (failed(),):
        texts.learn(as_stored(message), one_by_one(as_stored(message)))
    return texts


def is_read_as_any_other(texts, row):
    """Say that a message is not recognised, or is read as it would be if it were decoded; return whether it was."""
    found = texts.read(row, "error")
    if found is None:
        return False
    alone = one_by_one(row)
    assert found.whole == alone
    assert list(found.failure.headers) == list(alone.failure.headers)
    assert found.alike is alone.alike
    assert found.properties in (None, stored.properties_of(alone.message))
    assert (found.id, found.key, found.failed_at) == (alone.id, alone.failure.key, alone.failure.failed_at)
    return True


ALIKE = {
    "the same": failed(),
    "it said something else": failed("no such order: 8"),
    "one letter that Python has once or twice": failed("\x80"),
    "quotes and backslashes": failed('it said "no" \\ \\n and \\'),
    "what ends a header": failed(f'a","b{MARK}2020'),
    "a trace without a newline": failed(trace="{trace}ValueError: {said}"),
    "other values of its own": failed(own={"tenant": "ä\0", "number": True}),
    "a mark in a header of its own": failed(own={"tenant": MARK, "number": 1}),
    "another id, body and reply": failed(id="ä", body=b"\xff", reply_to="answers", session_id="s"),
    "another time": failed(headers={"redrive-failed-at": "2026-11-17T11:00:00+01:00"}),
    "a time that is none": failed(headers={"redrive-failed-at": "yesterday"}),
}


@pytest.mark.parametrize("message", ALIKE.values(), ids=ALIKE)
def test_a_failure_that_is_alike_is_recognised(message):
    assert is_read_as_any_other(taught(), as_stored(message))


@pytest.mark.parametrize("forged", ['","other":"', '"', '","other":1,"a":"', "\t"])
def test_a_text_that_no_worker_has_written_is_not_recognised(forged):
    row = as_stored(failed("no FORGED order"))
    forged_row = row._replace(properties=row.properties.replace("FORGED", forged))
    assert taught().read(forged_row, "error") is None


def test_messages_without_headers_of_their_own_are_recognised():
    texts = taught(failed(own={}))
    assert is_read_as_any_other(texts, as_stored(failed("eight", own={})))
    assert is_read_as_any_other(texts, as_stored(failed("nine", own={}, correlation_id="c")))
    assert not is_read_as_any_other(texts, as_stored(failed("ten")))


OTHERS = {
    **{f"header: {name}": failed(headers=headers) for name, headers in DIFFERENCES.items() if headers},
    "another header of its own": failed(own={**OWN, "more": 1}),
    "headers in another order": failed(own=dict(reversed(OWN.items()))),
    "another subject": failed(subject="paid"),
    "a time to live": failed(ttl=60.0),
    "another trace": failed(trace="{trace}{trace}ValueError: {said}\n"),
    "a trace that ends in another way": failed(trace="{trace}ValueError: {said}\n\n"),
    "a trace that does not say it": failed(trace="{trace}ValueError\n"),
    "several lines": failed("no\nyes"),
    "nothing said": failed(""),
    "much said": failed("n" * 1_500),
    "a letter that is not ASCII": failed("nö"),
    "NUL": failed("a\0b"),
    "an escaped quote as a time": failed(headers={"redrive-failed-at": 'a"b'}),
    "a counter of its own": failed(own={**OWN, "redrive-delayed-retries": 1}),
    "a tag of its own": failed(own={**OWN, "redrive-recovery-tag": "1.2.c.00"}),
    "a task of Celery": failed(own={"task": "pay", "id": "1", "lang": "py"}),
    "headers of its own behind": failed(own={}, headers=OWN),
}


@pytest.mark.parametrize("message", OTHERS.values(), ids=OTHERS)
def test_whatever_is_different_is_read_as_any_other(message):
    """It may be learnt; whatever is recognised then is as it would be if it were decoded."""
    is_read_as_any_other(taught(), as_stored(message))
    texts = taught(failed(), message)
    for each in (message, failed(), *ALIKE.values(), *OTHERS.values()):
        is_read_as_any_other(texts, as_stored(each))


@pytest.mark.parametrize("headers", [{}, OWN], ids=["none", "others"])
def test_a_message_that_is_no_failure_is_not_recognised(headers):
    assert taught().read(as_stored(Message(b"{}", id="o-1", headers=headers)), "error") is None


def test_a_dead_letter_is_read_as_any_other():
    dead = stored.dead_letter_json("Expired", "too late", "orders")
    row = as_stored(failed(), dead_letter=dead)
    assert stored.seen(row, "error").dead_letter_info == DeadLetterInfo("Expired", "too late", "orders")
    assert taught().read(row, "error") is None


DAMAGES = {
    "cut off": lambda text: text[:-1],
    "cut off in its own headers": lambda text: text[:20],
    "something behind": lambda text: text + "}",
    "a header of its own": lambda text: text.replace('"t-1"', '"t'),
    "a property that no message has": lambda text: text.replace('"subject"', '"object"'),
    "the end of what was said": lambda text: text.replace('order",', 'order\\",'),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_text_is_not_recognised(damage):
    row = as_stored(failed())
    assert taught().read(row._replace(properties=damage(row.properties)), "error") is None


def test_one_that_is_found_in_another_queue_is_not_recognised():
    assert taught().read(as_stored(failed()), "bills/$dead") is None


def test_only_some_texts_are_remembered():
    texts = AlikeTexts()
    for number in range(600):
        message = failed(own={f"h-{number}": 1})
        texts.learn(as_stored(message), one_by_one(as_stored(message)))
    assert texts.read(as_stored(message), "error") is not None
    assert texts.read(as_stored(failed(own={"h-0": 1})), "error") is None


def test_traces_that_differ_in_each_failure_are_not_remembered_without_end():
    messages = [failed(trace=f"{{trace}}  at {number}\nValueError: {{said}}\n") for number in range(30)]
    texts = taught(*messages)
    found = [texts.read(as_stored(each), "error") for each in messages]
    assert 0 < len([each for each in found if each is not None]) < 30


TEXTS = st.text(st.sampled_from('aä"\\\n,:{}n\0') | st.characters(exclude_categories=["Cs"]), max_size=12)


@given(TEXTS, TEXTS, st.dictionaries(st.sampled_from(["a", "tenant", "x-death", "redrive-failed-"]), TEXTS, max_size=3))
def test_any_two_failures(first, second, own):
    texts = taught(failed(first, own=own))
    for said in (first, second, f"{first}{second}"):
        is_read_as_any_other(texts, as_stored(failed(said, own=own)))
        is_read_as_any_other(texts, as_stored(failed(said)))


def test_json_of_another_kind_is_read_as_any_other():
    row = as_stored(failed())
    spaced = row._replace(properties=json.dumps(json.loads(row.properties)))
    assert taught().read(spaced, "error") is None
    assert isinstance(stored.seen(spaced, "error"), Received)
