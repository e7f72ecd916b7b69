# SPDX-License-Identifier: MIT
"""The parts of a split event: their paths, their keys, and the note of those that were delivered."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.broker import Message
from redrive.broker.headers import ROUTE_DELIVERED
from redrive.routes.children import Child, delivered_before, delivered_header, delivery_key

PATHS = st.lists(st.integers(0, 30), min_size=1, max_size=3).map(lambda parts: ".".join(map(str, parts)))


def messages(number):
    return [Message(str(each).encode()) for each in range(number)]


def test_one_message_is_the_event_itself():
    (only,) = Child(Message(b"whole")).parts(messages(1))
    assert (only.path, only.message.body) == ("", b"0")
    assert [each.path for each in Child(Message(b"part"), "2").parts(messages(1))] == ["2"]


def test_several_messages_are_children_and_theirs_are_grandchildren():
    children = Child(Message(b"whole")).parts(iter(messages(3)))
    assert [(each.path, each.message.body) for each in children] == [("0", b"0"), ("1", b"1"), ("2", b"2")]
    assert [each.path for each in children[2].parts(messages(2))] == ["2.0", "2.1"]


def test_no_message_is_no_child():
    assert Child(Message(b"whole")).parts([]) == []


@pytest.mark.parametrize(("path", "expected"), [("", "e-1:big"), ("0", "e-1:big:0"), ("2.10", "e-1:big:2.10")])
def test_a_key_names_event_route_and_part(path, expected):
    assert delivery_key("e-1", "big", path) == expected


@given(st.lists(st.integers(0, 4), max_size=3))
def test_all_parts_of_an_event_have_keys_of_their_own(sizes):
    parts = [Child(Message(b""))]
    for size in sizes:
        parts = [each for part in parts for each in part.parts(messages(size))]
    keys = [delivery_key("e", "r", each.path) for each in parts]
    assert len(set(keys)) == len(keys)


@given(st.sets(PATHS))
def test_what_was_noted_is_known_in_the_next_attempt(paths):
    assert delivered_before(delivered_header(paths)) == paths


def test_the_note_is_in_order_and_missing_if_there_is_nothing_to_note():
    assert delivered_header(["10", "2", "2.1", ""]) == {ROUTE_DELIVERED: "2,2.1,10"}
    assert delivered_header([]) == delivered_header([""]) == {}


@given(st.none() | st.booleans() | st.integers() | st.text(st.sampled_from("0123,.x- ٣"), max_size=8))
def test_a_note_of_somebody_else_is_no_obstacle(noted):
    found = delivered_before({ROUTE_DELIVERED: noted})
    assert delivered_before(delivered_header(found)) == found
