# SPDX-License-Identifier: MIT
"""What is stored about one failure comes back as it was, and its trace is stored once."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.clock import utc
from redrive.engines.sql.recovery import attempt_details
from redrive.recovery import Failure

TRACE = "Traceback (most recent call last):\n" + "  a line\n" * 100
VALUES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.just(TRACE)


def failure(**told):
    return Failure(message_id="m", queue="orders", failed_at=utc(0), key="k", **told)


@given(st.dictionaries(st.text(), VALUES), st.text() | st.just(TRACE), st.text())
def test_details_come_back_as_they_were(headers, trace, said):
    found = attempt_details.read(attempt_details.written(failure(headers=headers, stack_trace=trace, reason=said)))
    assert found["headers"] == headers
    assert (found.get("stack_trace", ""), found.get("reason", "")) == (trace, said)
    assert (found["queue"], found["vocabulary"]) == ("orders", "redrive")


def test_a_trace_that_is_also_a_header_is_stored_once():
    text = attempt_details.written(failure(headers={"redrive-failed-stack-trace": TRACE}, stack_trace=TRACE))
    assert text.count("Traceback") == 1


WORKERS = {
    "redrive-failed-queue": "orders",
    "redrive-failed-exception-type": "shop.NoStock",
    "redrive-failed-exception-message": "none left",
    "redrive-failed-stack-trace": TRACE + "shop.NoStock: none left\n",
    "redrive-failed-host": "worker-7",
}
FIELDS = {"exception_type": "shop.NoStock", "stack_trace": WORKERS["redrive-failed-stack-trace"], "host": "worker-7"}


@given(
    st.text(),
    st.sampled_from(["", "\n", "\n\n", " "]),
    st.dictionaries(st.text(), st.none() | st.integers() | st.text()),
)
def test_details_come_back_as_they_were_when_their_trace_is_shared(said, end, others):
    trace = f"{TRACE}shop.NoStock: {said}{end}"
    mine = {"redrive-failed-exception-message": said, "redrive-failed-stack-trace": trace}
    made = failure(
        **FIELDS | {"stack_trace": trace}, exception_message=said, headers={**others, **WORKERS, **mine}, tries=3
    )
    shared = attempt_details.trace_of(made)
    alone = attempt_details.read(attempt_details.written(made))
    if shared is None:  # a text that no database can store
        assert any(0xD800 <= ord(each) < 0xE000 for each in trace)
        return
    text = attempt_details.written(made, shared)
    assert "  a line" not in text
    found = attempt_details.read(text, shared.text)
    assert (found, list(found), list(found["headers"])) == (alone, list(alone), list(alone["headers"]))
    assert attempt_details.read(attempt_details.in_full(text, shared.text)) == alone


def test_traces_that_differ_in_what_the_exception_said_are_shared():
    texts = {
        attempt_details.trace_of(
            failure(
                **FIELDS | {"stack_trace": f"{TRACE}shop.NoStock: {said}\n"},
                exception_message=said,
                headers=WORKERS
                | {
                    "redrive-failed-exception-message": said,
                    "redrive-failed-stack-trace": f"{TRACE}shop.NoStock: {said}\n",
                },
            )
        )
        for said in ("none left", "none left of 7", "first line\nsecond line")
    }
    assert len(texts) == 1


@pytest.mark.parametrize(
    "other",
    [{"reason": "Expired"}, {"host": "cut…"}, {"vocabulary": "celery"}, {"stack_trace": TRACE}, {"source": "a:1"}],
    ids=str,
)
def test_a_failure_that_says_something_else_than_its_headers_keeps_its_trace(other):
    made = failure(**{**FIELDS, "exception_message": "none left", "headers": WORKERS} | other)
    assert attempt_details.trace_of(made) is None


def test_details_of_an_older_version_are_read():
    old = json.dumps({"stack_trace": TRACE, "headers": {"trace": TRACE}})
    assert attempt_details.read(old) == {"stack_trace": TRACE, "headers": {"trace": TRACE}}


def test_what_alike_failures_share_is_needed_for_all_but_what_is_their_own():
    """A store whose shared texts are lost still tells when it was, what the exception said, and where."""
    found = attempt_details.read('{"alike": 1, "at": "2026-11-17", "said": "none left", "host": "worker-7"}')
    assert (found["exception_message"], found["host"]) == ("none left", "worker-7")
    assert found["stack_trace"] == "none left\n"
    assert found["headers"]["redrive-failed-at"] == "2026-11-17"
