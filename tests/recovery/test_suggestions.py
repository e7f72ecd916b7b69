# SPDX-License-Identifier: MIT
"""What a filter could go on with."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.recovery.filter import Filter
from redrive.recovery.states import Status
from redrive.recovery.suggestions import KindValue, counted_filter, read_typed, suggestions_of

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)


def terms(text, *values):
    return [each.term for each in suggestions_of(read_typed(text), values)]


def test_a_term_without_a_key_is_completed_with_keys():
    assert terms("q") == ["queue:"]
    assert terms("queue:orders ex") == ["exception:"]
    assert {"failed>=", "header."} <= set(terms("queue:orders "))
    assert terms("nothing") == []


def test_a_term_with_a_key_is_completed_with_values_and_keeps_what_is_written_before():
    (found,) = suggestions_of(read_typed("age<2h queue:billing,or"), [KindValue(value="orders", count=3)])
    assert (found.term, found.filter) == ("queue:billing,orders", "age<2h queue:billing,orders")
    assert found.count == 3


def test_a_value_that_needs_quotes_gets_them():
    assert terms("queue:o", KindValue(value='or "d" ers', count=1)) == [r'queue:"or \"d\" ers"']
    assert read_typed('queue:"or d').part == "or d"


def test_words_are_completed_without_counts():
    assert terms("status:") == [f"status:{each}" for each in (*(status.word for status in Status), "any")]
    assert terms("operation:3 outcome:again") == ["outcome:failed-again"]


def test_values_are_counted_of_what_is_written_before_as_far_as_it_is_counted():
    before = counted_filter(read_typed("status:any age<2h queue:orders type:a text queue:b"), NOW)
    assert before == Filter(status=frozenset(Status), types=("a",))  # its own key is left out
    assert counted_filter(read_typed("qeue:x exception:V"), NOW) == Filter()


@given(st.text(max_size=60))
@pytest.mark.parametrize("begin", ["", "queue:", 'type:"a', "queue:a,"])
def test_whatever_is_written_nothing_is_lost_before_the_last_term(begin, text):
    typed = read_typed(begin + text)
    assert (begin + text).startswith(typed.before)
    assert counted_filter(typed, NOW).is_about_kinds
    for each in suggestions_of(typed, [KindValue(value="x", count=1)]):
        assert each.filter.startswith(typed.before)
