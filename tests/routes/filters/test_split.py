# SPDX-License-Identifier: MIT
"""The filter that makes several events of one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.errors import ExpressionFailed, InvalidPayload
from redrive.routes.filters.split import SplitFilter
from tests.routes.filters.events import bodies, event, leg


@given(st.lists(st.none() | st.integers() | st.text() | st.dictionaries(st.text(), st.integers())))
def test_each_element_makes_an_event_with_an_id_of_its_own_and_a_replay_the_same_ones(elements):
    whole = event({"items": elements}, subject="order", headers={"region": "eu"})
    made = SplitFilter("body.items").apply(whole, leg())
    assert bodies(made) == elements
    assert [each.id for each in made] == [f"o-1:{index}" for index in range(len(elements))]
    assert {(each.subject, each.headers["region"], each.content_type) for each in made} <= {
        ("order", "eu", "application/json")
    }
    assert SplitFilter("body.items").apply(whole, leg(attempt=2)) == made


def test_a_body_that_is_a_list_is_split_without_a_path():
    assert bodies(SplitFilter().apply(event([1, [2]]), leg())) == [1, [2]]


def test_an_empty_list_consumes_the_event():
    assert list(SplitFilter("body.items").apply(event({"items": []}), leg())) == []


@pytest.mark.parametrize(("body", "kind"), [({}, "null"), ({"items": {}}, "an object"), ({"items": "ab"}, "a text")])
def test_what_is_no_list_is_an_error(body, kind):
    with pytest.raises(ExpressionFailed, match=f"'body.items' failed: its result is {kind}, and split needs a list"):
        SplitFilter("body.items").apply(event(body), leg())


def test_a_body_that_is_no_json_is_an_error():
    with pytest.raises(InvalidPayload):
        SplitFilter().apply(event(b"a,b"), leg())
