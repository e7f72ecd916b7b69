# SPDX-License-Identifier: MIT
"""Numbers, lists and times in sentences."""

import pytest

from redrive.cli.output.sentences import count, length, some, verb
from redrive.cli.output.table import age
from redrive.clock import system_clock, utc


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(-1, "0 s"), (0.2, "0 s"), (59, "59 s"), (119, "119 s"), (121, "2 m"), (7_300, "2 h"), (200_000, "2 d")],
)
def test_a_length_of_time_is_short(seconds, shown):
    assert length(seconds) == shown


def test_an_age_counts_from_now():
    assert age(utc(system_clock.time() - 180)) == "3 m"
    assert age(None) == "-"


def test_numbers_have_the_nouns_and_verbs_that_fit():
    assert [count(number, "message") for number in (0, 1, 1_995)] == ["0 messages", "1 message", "1,995 messages"]
    assert (count(2, "policy"), count(2, "process"), count(2, "key")) == ("2 policies", "2 processes", "2 keys")
    assert (verb(1, "is"), verb(2, "is")) == ("is", "are")


def test_only_the_first_few_of_many_are_named():
    assert some(["a", "b", "c"]) == "a, b, c"
    assert some(["a", "b", "c", "d\n"]) == "a, b, c and 1 more"
