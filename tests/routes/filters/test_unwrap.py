# SPDX-License-Identifier: MIT
"""The filter that takes a body out of an envelope."""

from base64 import b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.errors import ExpressionFailed, InvalidSetting
from redrive.routes.filters.unwrap import UnwrapFilter
from tests.routes.filters.events import bodies, event, leg


@given(st.text())
def test_a_text_becomes_the_body_as_it_is(text):
    (made,) = UnwrapFilter("body.Message").apply(event({"Message": text}, content_type="application/json"), leg())
    assert (made.body, made.content_type, made.id) == (text.encode(), None, "o-1")


@given(st.binary())
def test_base64_is_decoded(data):
    wrapped = event({"data": b64encode(data).decode()}, content_type="application/json")
    (made,) = UnwrapFilter("body.data", encoding="base64").apply(wrapped, leg())
    assert (made.body, made.content_type) == (data, None)


@pytest.mark.parametrize("value", [{"a": [1]}, [1], 7, False])
def test_another_value_becomes_a_json_body(value):
    (made,) = UnwrapFilter("body.detail").apply(event({"detail": value}), leg())
    assert bodies([made]) == [value]
    assert made.content_type == "application/json"


@pytest.mark.parametrize(
    ("encoding", "value", "problem"),
    [
        ("none", None, "its result is null"),
        ("none", "\ud800", "half of a surrogate pair"),
        ("base64", "a", "its result is no base64"),
        ("base64", "YQ==!", "its result is no base64"),
        ("base64", "é", "its result is no base64"),
        ("base64", {"a": 1}, "its result is an object, and base64 is a text"),
    ],
)
def test_what_cannot_be_unwrapped_is_an_error(encoding, value, problem):
    with pytest.raises(ExpressionFailed, match=problem):
        UnwrapFilter("body.data", encoding=encoding).apply(event({"data": value}), leg())


def test_the_encoding_is_a_known_one():
    with pytest.raises(InvalidSetting, match="must be one of: none, base64"):
        UnwrapFilter("body.data", encoding="gzip")
