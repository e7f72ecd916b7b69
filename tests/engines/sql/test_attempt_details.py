# SPDX-License-Identifier: MIT
"""What is stored about one failure comes back as it was, and its trace is stored once."""

import json

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


def test_details_of_an_older_version_are_read():
    old = json.dumps({"stack_trace": TRACE, "headers": {"trace": TRACE}})
    assert attempt_details.read(old) == {"stack_trace": TRACE, "headers": {"trace": TRACE}}
