# SPDX-License-Identifier: MIT
"""Headers that other programs wrote are read as far as they make sense, and never raise."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.recovery.header_values import (
    as_instant,
    as_json,
    as_number,
    as_text,
    first_type,
    queue_of_address,
)

NOON = datetime(2024, 5, 1, 12, 30, tzinfo=UTC)
ANYTHING = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()


@pytest.mark.parametrize(
    ("value", "text"),
    [("a", "a"), (7, "7"), (1.5, "1.5"), (None, ""), (True, ""), (b"a", ""), (10**5_000, "")],
    ids=["text", "int", "float", "none", "bool", "bytes", "endless"],
)
def test_a_text_may_be_a_number(value, text):
    assert as_text(value) == text


def test_a_number_is_whole_and_not_negative():
    assert [as_number(each) for each in (3, "3", 0)] == [3, 3, 0]
    assert [as_number(each) for each in (-1, "-1", "\u0663", True, 2**63, "9" * 19)] == [None] * 6


@pytest.mark.parametrize(
    "value",
    ["2024-05-01T12:30:00Z", "2024-05-01T14:30:00+02:00", "2024-05-01 12:30:00", "2024-05-01 12:30:00:000000 Z",
     NOON.timestamp(), int(NOON.timestamp() * 1_000)],
)  # fmt: skip
def test_an_instant_is_in_utc_however_it_is_written(value):
    assert as_instant(value) == NOON
    assert as_instant(value).tzinfo is UTC


@given(ANYTHING)
def test_what_makes_no_sense_is_nothing(value):
    assert isinstance(as_text(value), str)
    assert isinstance(as_number(value), int | None)
    assert isinstance(as_instant(value), datetime | None)
    as_json(value)


def test_json_that_is_none_or_too_deep_or_too_long_is_nothing():
    assert as_json('[{"count": 1}]') == [{"count": 1}]
    assert [as_json(text) for text in ("{", "[" * 100_000, f'"{"x" * 300_000}"', 7)] == [None] * 4


def test_a_queue_is_the_last_part_of_its_address():
    addresses = ["rabbitmq://host/vhost/orders?durable=true", "sb://host/a%20b", "queue:orders", "orders"]
    assert [queue_of_address(each) for each in addresses] == ["orders", "a b", "orders", "orders"]


def test_the_first_type_goes_without_its_assembly():
    assert first_type("Shop.PlaceOrder, Shop, Version=1.0.0.0;Shop.ICommand, Shop") == "Shop.PlaceOrder"
    assert first_type("Shop.Batch`1[[Shop.Order, Shop]], Shop") == "Shop.Batch`1[[Shop.Order, Shop]]"
