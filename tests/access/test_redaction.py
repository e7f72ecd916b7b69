# SPDX-License-Identifier: MIT
"""What rules hide is hidden wherever it is, and everything else stays as it is."""

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.access import Redaction, RedactionRules
from redrive.access.redaction import HIDDEN
from redrive.broker import Message
from redrive.broker.views import message_view
from redrive.errors import InvalidSetting
from redrive.testing import ManualClock


def redaction(**rules):
    return Redaction(RedactionRules(**rules))


def test_headers_are_hidden_by_their_names_whatever_the_case():
    hides = redaction(headers=["authorization", "x-*-token"])
    shown = hides.headers({"Authorization": "secret", "X-Shop-Token": "1", "x-token": "2", "tenant": "a", "n": 3})
    assert shown == {"Authorization": HIDDEN, "X-Shop-Token": HIDDEN, "x-token": "2", "tenant": "a", "n": 3}


@pytest.mark.parametrize(
    ("pointer", "body", "shown"),
    [
        ("/card/number", {"card": {"number": 1, "name": "a"}}, {"card": {"number": HIDDEN, "name": "a"}}),
        ("/people/*/name", {"people": [{"name": "a"}, {"x": 1}]}, {"people": [{"name": HIDDEN}, {"x": 1}]}),
        ("/1", [1, {"a": 2}], [1, HIDDEN]),
        ("/*", {"a": 1, "b": [2]}, {"a": HIDDEN, "b": HIDDEN}),
        ("/a~1b/~0", {"a/b": {"~": 1}}, {"a/b": {"~": HIDDEN}}),
        ("/", {"": 1}, {"": HIDDEN}),
    ],
)
def test_places_in_a_json_body_are_hidden(pointer, body, shown):
    assert json.loads(redaction(pointers=[pointer]).body(json.dumps(body).encode())) == shown


def test_a_pattern_hides_in_bodies_headers_and_other_texts():
    hides = redaction(patterns=[r"\d{16}"])
    view = {
        "headers": {"note": "card 4111111111111111"},
        "body": "pay 4111111111111111 now",
        "body_encoding": "utf-8",
        "attempts": [{"details": {"exception_message": "no 4111111111111111", "count": 4111111111111111}}],
    }
    assert "4111111111111111" not in json.dumps({**view, **hides.view(view), "attempts": []})
    assert hides.view(view)["attempts"][0]["details"]["exception_message"] == f"no {HIDDEN}"


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+$", "(.*a){12}$"])
def test_a_pattern_that_would_keep_python_busy_for_years_does_not(pattern):
    body = b"a" * 50_000 + b"!"
    assert HIDDEN not in redaction(patterns=[pattern]).body(body + b"\n").decode()


class Hurry(ManualClock):
    """A clock on which every look takes a second."""

    def monotonic(self):
        self.advance(1.0)
        return super().monotonic()


def test_what_would_take_too_long_to_search_is_hidden_as_a_whole():
    hides = Redaction(RedactionRules(patterns=["a.*b|a"]), Hurry())
    assert hides.text("x" + "a" * 1_000) == HIDDEN
    view = {"texts": ["none"] * 5, "body": "none"}
    assert hides.view(view) == {"texts": ["none", *[HIDDEN] * 4], "body": HIDDEN}


def test_words_and_times_of_ours_stay_as_programs_read_them():
    view = {"state": "ready", "failed_at": "2031-05-04", "kind": "recover", "subject": "ready 2031"}
    assert redaction(patterns=["ready|recover|2031"]).view(view) == {**view, "subject": f"{HIDDEN} {HIDDEN}"}


def test_half_a_surrogate_pair_is_searched_and_kept():
    assert redaction(patterns=["key"]).text("\ud800 key") == f"\ud800 {HIDDEN}"


async def test_other_tasks_go_on_while_patterns_are_searched():
    hides = redaction(patterns=[r"\d+"], pointers=["/a"])
    assert await hides.shown({"text": "7"}) == {"text": HIDDEN}
    assert await hides.shown_body(b'{"a": 1, "b": "7"}') == f'{{"a": "{HIDDEN}", "b": "{HIDDEN}"}}'.encode()
    assert await redaction(pointers=["/a"]).shown_body(b"7") == b"7"


def test_a_body_that_is_no_text_is_searched_too():
    view = message_view(Message(b"\xff key=abc123 \xfe"))
    shown = redaction(patterns=["key=[a-z0-9]+"]).view(view)
    assert base64.b64decode(shown["body"]) == b"\xff " + HIDDEN.encode() + b" \xfe"


@given(st.binary())
def test_a_body_with_nothing_to_hide_stays_as_it_is_byte_for_byte(body):
    hides = redaction(pointers=["/card/number"], patterns=["4111111111111111"])
    assert hides.body(body) == body


def test_numbers_of_a_body_with_nothing_to_hide_keep_their_digits():
    body = b'{"total": 1.10, "n": 1e400}'
    assert redaction(pointers=["/card"]).body(body) == body


def test_no_rule_hides_nothing():
    view = {"body": "secret", "headers": {"authorization": "x"}}
    assert redaction().view(view) is view
    assert not redaction()


def test_rules_of_two_places_are_added():
    both = RedactionRules(headers=("a",)).and_also(RedactionRules(headers=("b",), patterns=("c",)))
    assert both == RedactionRules(headers=("a", "b"), patterns=("c",))


@pytest.mark.parametrize(
    "rules",
    [
        {"patterns": ["("]},
        {"patterns": ["(?=a)"]},
        {"patterns": ["(?:a{1000}){100}"]},
        {"patterns": ["\\pL{9}"]},
        {"pointers": ["card"]},
        {"headers": "authorization"},
        {"headers": [""]},
    ],
)
def test_a_rule_that_cannot_be_used_is_refused(rules):
    with pytest.raises(InvalidSetting):
        RedactionRules(**rules)
