# SPDX-License-Identifier: MIT
"""JMESPath over events: what it sees, what is refused when it is written, and what fails for one event."""

import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.broker import Message
from redrive.errors import (
    ExpressionFailed,
    InvalidExpression,
    InvalidPayload,
    InvalidSetting,
    MessageError,
    MissingExtra,
)
from redrive.routes import event_values
from redrive.routes.event_values import (
    EventValues,
    PathSetting,
    body_value,
    compiled_path,
    json_bytes,
    kind_word,
    numbered,
    plain_bytes,
    value_at,
    with_json,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)
ORDER = Message(
    b'{"items": [{"price": 3}, {"price": 4}], "customer": {"name": "Ann"}}',
    id="o-1",
    subject="order",
    headers={"region": "eu", "x-tenant": 7},
)


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("body.items[].price", [3, 4]),
        ("body.items[?price > `3`] | [0].price", 4),
        ("{who: body.customer.name, region: headers.region, id: id}", {"who": "Ann", "region": "eu", "id": "o-1"}),
        ('headers."x-tenant"', 7),
        ("[subject, reply_to, body.missing.deeper]", ["order", None, None]),
        ("sort_by(body.items, &price)[-1].price", 4),
        ("headers.* | length(@)", 2),
        ("contains(keys(@), 'body')", True),
        ("'plain'", "plain"),
    ],
)
def test_a_path_sees_body_headers_and_properties(path, found):
    assert value_at(ORDER, path) == found


@pytest.mark.parametrize(
    ("path", "problem", "position"),
    [
        ("body.items[", "it ends too early", 11),
        ("body..total", "'.' cannot stand here", 5),
        ("headers.x-tenant", """write a name with '-' in double quotes: headers."x-tenant\"""", 9),
        ("headers.region == 'eu", "a text begins here that does not end", 18),
        ("customer.name", "an event has no 'customer'; did you mean 'body.customer' or 'headers.customer'?", 0),
        ("{a: body.a, b: b.body}", "an event has no 'b'; did you mean 'body.b' or 'headers.b'?", 12),
        ("[?total > `1`] || total", "an event has no 'total'; did you mean 'body.total' or 'headers.total'?", 2),
        ('headers.region == "eu"', "double quotes are for names; write 'eu' for a text", 18),
        ("lenght(body)", "there is no function lenght(); did you mean length()?", 0),
        ("body.a || frobnicate(body)", "there is no function frobnicate(); these exist: abs, avg", 10),
        ("length(body, body)", "length() takes 1 arguments, not 2", 0),
        ("merge()", "merge() takes at least 1 arguments, not 0", 0),
        ("", "must be a text of 1 to 4,096 characters", None),
        (f"body.{'a' * 4_100}", "must be a text of 1 to 4,096 characters", None),
        ("!" * 4_000 + "body", "it is nested too deeply", None),
    ],
)
def test_a_path_that_cannot_work_is_refused_when_it_is_written(path, problem, position):
    with pytest.raises(InvalidExpression) as refused:
        compiled_path(path)
    assert refused.value.problem.startswith(problem)
    assert refused.value.position == position


@given(st.text(alphabet="abody.[]{}()*@|&!?<='\"`- 1,:", max_size=30))
def test_a_path_is_refused_with_one_kind_of_error_or_searches_with_one(text):
    try:
        compiled = compiled_path(text)
    except InvalidExpression:
        return
    except PendingDeprecationWarning:  # a literal that is no JSON, which the library still takes
        return
    try:
        EventValues(ORDER).at(compiled.text)
    except MessageError:
        return


def test_a_path_is_compiled_once():
    assert compiled_path("body.items") is compiled_path("body.items")


def test_a_setting_is_a_path():
    assert PathSetting().checked("path", "body.items") == "body.items"
    with pytest.raises(InvalidSetting, match="path=7: must be a JMESPath"):
        PathSetting().checked("path", 7)
    with pytest.raises(InvalidSetting, match="half of a surrogate pair"):
        PathSetting().checked("path", "'\ud800'")
    with pytest.raises(InvalidExpression):
        PathSetting().checked("path", "body.")


def test_without_the_extra_a_path_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "jmespath", None)
    with pytest.raises(MissingExtra, match=r"a JMESPath needs the extra 'routes'"):
        event_values.EventPath("body")


def test_a_function_that_is_given_the_wrong_value_is_an_error_of_the_event():
    with pytest.raises(ExpressionFailed, match=r"'abs\(body.customer\)' failed: In function abs\(\), invalid type"):
        value_at(ORDER, "abs(body.customer)")


def test_a_slice_without_a_step_is_an_error_of_the_event():
    with pytest.raises(ExpressionFailed):
        value_at(ORDER, "body.items[::0]")


@pytest.mark.parametrize("path", ["headers.region", "headers.*", "id", "[subject]", "headers | keys(@)"])
def test_a_path_that_does_not_look_at_the_body_works_whatever_that_is(path):
    assert value_at(Message(b"\xff", id="o-1", subject="s", headers={"region": "eu"}), path) is not None


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"", "Expecting value"),
        (b"\xff", "can't decode byte 0xff"),
        (b"{", "Expecting property name"),
        (b"[NaN]", "NaN is no number of JSON"),
        (b"-Infinity", "-Infinity is no number of JSON"),
        (b"[" * 100_000, "it is nested too deeply"),
        (b"1" * 5_000, "Exceeds the limit"),
    ],
)
def test_a_body_that_is_no_json_is_an_error_of_the_event_and_shows_its_beginning(body, problem):
    with pytest.raises(InvalidPayload, match=problem) as refused:
        value_at(Message(body), "body.total")
    assert "; it begins with b'" in str(refused.value)
    assert len(str(refused.value)) < 400


def test_a_body_may_begin_with_a_byte_order_mark():
    assert body_value(Message(b"\xef\xbb\xbf[1]")) == [1]


def test_a_body_is_read_once_for_all_paths(monkeypatch):
    read = []
    monkeypatch.setattr(event_values, "body_value", lambda message: read.append(message) or {"a": 1})
    values = EventValues(ORDER)
    assert (values.at("id"), values.at("body.a"), values.at("body.b")) == ("o-1", 1, None)
    assert len(read) == 1


def test_what_is_required_must_be_there():
    assert EventValues(ORDER).required("body.customer.name") == "Ann"
    with pytest.raises(ExpressionFailed, match=r"'body.total' failed: its result is null"):
        EventValues(ORDER).required("body.total")


@given(JSON)
def test_what_is_written_as_json_is_read_as_the_same(value):
    assert body_value(Message(json_bytes(value))) == value


def test_half_of_a_surrogate_pair_is_written_as_its_escape():
    assert json_bytes(["é", "\ud800"]) == b'["\\u00e9","\\ud800"]'
    assert json_bytes("é") == '"é"'.encode()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), {1: {2}}])
def test_what_is_no_json_is_not_written(value):
    with pytest.raises(InvalidPayload, match="cannot be written as JSON"):
        json_bytes(value)


@given(st.dictionaries(st.text(), JSON, min_size=2))
def test_equal_values_have_equal_bytes(value):
    assert plain_bytes(dict(reversed(value.items()))) == plain_bytes(value)


def test_a_text_has_its_own_bytes():
    assert plain_bytes("é") == "é".encode()
    assert plain_bytes("\ud800") == b"\xed\xa0\x80"
    assert plain_bytes(1.5) == b"1.5"


def test_a_new_body_leaves_all_else():
    made = with_json(ORDER, {"a": 1})
    assert made.body == b'{"a":1}'
    assert made.content_type == "application/json"
    assert (made.id, made.subject, made.headers) == (ORDER.id, ORDER.subject, ORDER.headers)


def test_parts_are_numbered_unless_the_event_has_no_id():
    assert [part.id for part in numbered(ORDER, [ORDER, ORDER])] == ["o-1:0", "o-1:1"]
    assert [part.id for part in numbered(Message(b""), [Message(b"a")])] == [None]


def test_values_have_a_word_for_their_kind():
    words = ["a text", "a number", "a number", "a boolean", "a list", "an object", "null"]
    assert [kind_word(json.loads(text)) for text in ('""', "1", "1.5", "true", "[]", "{}", "null")] == words
