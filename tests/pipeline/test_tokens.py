# SPDX-License-Identifier: MIT
"""What the messages and the history of a pipeline carry, written by hand where that is faster, is JSON all the same."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.engines.sql.pipeline.tasks import action_values
from redrive.pipeline.records import NewAction
from redrive.pipeline.stage import StageError, token_of
from redrive.pipeline.task_token import TaskToken, message_for

COUNTS = st.integers(0, 2**31)
TOKENS = st.builds(
    TaskToken,
    st.one_of(st.from_regex(r"[0-9a-f]{28}", fullmatch=True), st.text()),
    COUNTS,
    COUNTS,
    st.lists(COUNTS, max_size=3).map(tuple),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(TOKENS)
def test_a_message_carries_its_token(token):
    body = message_for(token).body
    assert json.loads(body) == token.to_json()
    assert token_of(body) == token


@given(TOKENS)
def test_a_token_is_read_however_its_json_is_written(token):
    assert token_of(json.dumps(token.to_json(), indent=1).encode()) == token


@pytest.mark.parametrize("body", [b"", b"x", b"[]", b"{}", b'{"task":"a","epoch":"x"}', b"\xff", b'{"task":"a"'])
def test_what_carries_no_token_is_set_aside(body):
    with pytest.raises(StageError, match="it is no message of a pipeline"):
        token_of(body)


def test_a_message_has_the_id_and_the_headers_that_it_is_given():
    plain, traced = message_for(TaskToken("a"), "m-1"), message_for(TaskToken("a"), "m-1", {"traceparent": "00-1"})
    assert (plain.id, plain.headers) == ("m-1", {})
    assert (traced.id, traced.headers) == ("m-1", {"traceparent": "00-1"})
    assert message_for(TaskToken("a")).id is None


@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_the_detail_of_an_entry_is_stored_as_json_in_ascii(detail):
    *_, stored = action_values("t", "p", "d", NewAction(name="process", detail=detail))
    assert stored == json.dumps(detail)
