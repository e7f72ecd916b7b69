# SPDX-License-Identifier: MIT
"""The filter that lets through what a pattern is found in."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.errors import InvalidExpression, InvalidPayload, InvalidSetting, MissingExtra
from redrive.pattern import compiled_pattern
from redrive.routes.filters.regex import RegexFilter
from tests.routes.filters.events import event, leg


@pytest.mark.parametrize(
    ("settings", "passes"),
    [
        ({"pattern": "ERROR"}, True),
        ({"pattern": "^ERROR"}, False),
        ({"pattern": "(?i)error.*é"}, True),
        ({"pattern": "DEBUG", "negate": True}, True),
        ({"pattern": "ERROR", "negate": True}, False),
        ({"pattern": "^eu-", "path": "headers.region"}, True),
        ({"pattern": "^us-", "path": "headers.region"}, False),
        ({"pattern": "^7$", "path": "headers.number"}, True),
        ({"pattern": ".*", "path": "headers.missing"}, False),
        ({"pattern": ".*", "path": "headers.missing", "negate": True}, True),
    ],
)
def test_an_event_passes_if_the_pattern_is_found(settings, passes):
    line = event("12:00 ERROR no café".encode(), headers={"region": "eu-1", "number": 7})
    assert list(RegexFilter(**settings).apply(line, leg())) == ([line] if passes else [])


def test_lists_and_objects_are_searched_as_json():
    order = event({"b": 1, "a": ["x"]})
    assert RegexFilter(r'^\{"a":\["x"\],"b":1\}$', path="body").apply(order, leg())


def test_a_body_that_is_no_text_is_searched_all_the_same():
    assert RegexFilter("b").apply(event(b"\xffb"), leg())
    assert not RegexFilter("c").apply(event(b"\xffb"), leg())


def test_named_groups_become_headers():
    made = RegexFilter(r"(?P<level>[A-Z]+) (?P<code>\d+)?(?P<rest>.*)", headers=True)
    (passed,) = made.apply(event("WARN café".encode(), headers={"region": "eu", "level": "old"}), leg())
    assert passed.headers == {"region": "eu", "level": "WARN", "rest": "café"}
    assert passed.id == "o-1"


def test_a_group_that_is_no_text_becomes_one():
    (passed,) = RegexFilter(r"a(?P<rest>\C*)", headers=True).apply(event(b"a\xff"), leg())
    assert passed.headers == {"rest": "\ufffd"}


def test_a_body_that_is_no_json_is_an_error_if_the_path_looks_at_it():
    with pytest.raises(InvalidPayload, match="the body is no JSON"):
        RegexFilter("a", path="body.text").apply(event(b"no json"), leg())


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("(?P<a>x", "missing )"),
        ("(?=x)", "RE2 has no look-around"),
        (r"(a)\1", "RE2 has no back references"),
    ],
)
def test_a_pattern_that_cannot_be_read_is_refused_and_nothing_is_printed(pattern, problem, capfd):
    with pytest.raises(InvalidExpression) as refused:
        RegexFilter(pattern)
    assert problem in refused.value.problem
    assert capfd.readouterr() == ("", "")


def test_a_pattern_that_cannot_be_stored_is_refused():
    with pytest.raises(InvalidSetting, match="half of a surrogate pair"):
        RegexFilter("\ud800")


def test_groups_are_needed_for_headers_and_found_ones():
    with pytest.raises(InvalidSetting, match="needs a pattern with named groups"):
        RegexFilter("(a)", headers=True)
    with pytest.raises(InvalidSetting, match="needs negate = false"):
        RegexFilter("(?P<a>a)", headers=True, negate=True)


def test_without_the_extra_a_pattern_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(MissingExtra, match=r"a pattern needs the extra 'routes'"):
        compiled_pattern("never compiled before")


@given(st.text(alphabet="ab", max_size=20), st.sampled_from(["a+b", "^b", "aba$", "(a|b){3}"]))
def test_negation_turns_the_decision_around(text, pattern):
    found = RegexFilter(pattern).apply(event(text.encode()), leg())
    missed = RegexFilter(pattern, negate=True).apply(event(text.encode()), leg())
    assert len(found) + len(missed) == 1
