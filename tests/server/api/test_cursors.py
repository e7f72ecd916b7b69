# SPDX-License-Identifier: MIT
"""A cursor goes with its question, and nothing else is one."""

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.errors import InvalidCursor
from redrive.server.api.cursors import _check, read_cursor, write_cursor


@given(st.integers(0, 2**63 - 1))
def test_a_position_comes_back(position):
    assert read_cursor("q", write_cursor("q", position), int) == position


def test_a_cursor_of_another_question_or_kind_is_refused():
    with pytest.raises(InvalidCursor):
        read_cursor("other", write_cursor("q", 1), int)
    with pytest.raises(InvalidCursor):
        read_cursor("q", write_cursor("q", "a"), int)


@pytest.mark.parametrize("position", [-1, 2**63, True, 1.5, None, [1], {"a": 1}])
def test_one_that_somebody_has_made_up_is_refused(position):
    content = json.dumps(position).encode()
    made_up = base64.urlsafe_b64encode(_check("q", content) + content).decode()
    with pytest.raises(InvalidCursor):
        read_cursor("q", made_up, int)


@pytest.mark.parametrize("text", ["a\0b", "x" * 3_000, "a\nb"])
def test_a_text_that_no_store_takes_is_refused(text):
    with pytest.raises(InvalidCursor):
        read_cursor("q", write_cursor("q", text), str)


@given(st.text())
def test_any_other_text_is_refused(text):
    with pytest.raises(InvalidCursor):
        read_cursor("q", text, int)
