# SPDX-License-Identifier: MIT
"""Expressions about messages: what they say, what they refuse, and that nothing in a message can hurt them."""

import copy
import gc
import json
import math
import pickle
import re
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive import expression
from redrive.errors import ExpressionFailed, InvalidExpression, MissingExtra
from redrive.expression import DEEPEST_BODY, LONGEST_TEXT, Expression, MessageValues

ORDER = {
    "total": 100.5,
    "count": 7,
    "whole": 100.0,
    "huge": 2**70,
    "least": -(2**63),
    "nothing": None,
    "paid": True,
    "name": "Zoë 😀",
    "grid": [[1, 2], [3]],
    "items": [{"sku": "a", "price": 9.5, "quantity": 3}, {"sku": "b", "price": 2, "quantity": 1}],
    "customer": {"full name": "Zoë", "address": {"city": "Köln"}},
    "cut": "eu\0x",
    "half": "\ud800",
}
PROPERTIES = {"id": "m-1", "subject": "order.placed", "session_id": None}
HEADERS = {"region": "eu", "x-tenant": "acme", "priority": 3, "weight": 1.5, "urgent": True, "none": None}
EVENT = MessageValues(json.dumps(ORDER).encode(), PROPERTIES, HEADERS)


def event(body=b"null", **headers):
    return MessageValues(body if isinstance(body, bytes) else json.dumps(body).encode(), {}, headers)


def nested(levels):
    return b"[" * levels + b"1" + b"]" * levels


def problem(text, about=EVENT):
    with pytest.raises(ExpressionFailed) as caught:
        Expression(text).matches(about)
    assert caught.value.text == text
    return caught.value.problem


TRUE = [
    # numbers, whole or not
    "body.total > 100",
    "body.total > 100 && headers.region == 'eu'",
    "body.whole == 100",
    "body.count == 7.0",
    "body.count > 6.5 && 6.5 < body.count",
    "1 < 1.5 && 1 <= 1.5 && 1.5 > 1 && 1.5 >= 1 && 1 == 1.0 && 1 != 1.5",
    "body.total + 1 == 101.5 && 1 + body.total == 101.5",
    "body.total - 1 == 99.5",
    "body.total * 2 == 201",
    "body.total / 2 == 50.25",
    "body.count / 2 == 3 && body.count / 2.0 == 3.5",
    "body.count % 2 == 1",
    "body.items[0].price * body.items[0].quantity > 28",
    "body.huge > 9223372036854775807 && body.least < 0",
    "body.least == -9223372036854775808",
    "headers.priority + headers.weight == 4.5",
    # texts
    "size(body.name) == 5 && body.name.size() == 5",
    "body.name.startsWith('Zoë') && body.name.endsWith('😀') && body.name.contains('oë')",
    "body.name.matches('^Z..')",
    "subject.matches(r'^order\\.\\w+$')",
    # lists and objects
    "body.grid[0][1] == 2 && size(body.grid) == 2",
    "2 in body.grid[0] && 2.0 in body.grid[0] && !(5 in body.grid[0])",
    "headers.region in ['eu', 'us']",
    "'total' in body && body['total'] > 100",
    "body.customer['full name'] == 'Zoë'",
    "body.customer.address.city == 'Köln'",
    "body.items.exists(item, item.price * item.quantity > 28)",
    "body.items.all(item, item.price > 1)",
    "body.items.exists_one(item, item.sku == 'a')",
    "body.items.filter(item, item.price < 5).size() == 1",
    "body.items.map(item, item.sku) == ['a', 'b']",
    # null, and what is missing
    "body.nothing == null && headers.none == null && session_id == null && reply_to == null",
    "has(body.total) && !has(body.missing) && !has(headers.missing)",
    "has(body.customer.address) && !has(body.customer.missing)",
    "body.missing > 1 || true",
    "!(body.missing > 1 && false)",
    "!has(body.missing) || body.missing > 1",
    # properties and headers
    "id == 'm-1' && subject == 'order.placed'",
    "headers['x-tenant'] == 'acme'",
    "headers.urgent && body.paid",
    "body.paid ? headers.urgent : false",
    # characters that the library would cut a text off at, or fail at
    "body.cut != 'eu' && size(body.cut) == 4 && body.cut == 'eu\ufffdx'",
    "body.half == '\ufffd'",
    "true // and a remark",
]


@pytest.mark.parametrize("text", TRUE)
def test_an_expression_is_true_of_a_message_and_its_negation_is_not(text):
    assert Expression(text).matches(EVENT) is True
    assert Expression(f"!({text}\n)").matches(EVENT) is False


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("body.missing > 1", "there is no 'missing'; if it may be missing, ask first: has(body.missing) && ..."),
        ("body.customer.age > 1", "there is no 'age'; if it may be missing, ask first: has(body.customer.age) && ..."),
        ("headers.missing == 1", "there is no 'missing'; if it may be missing, ask first: has(headers.missing) && ..."),
        ("headers['x-y'] == 1", "there is no 'x-y'; if it may be missing, ask first: 'x-y' in ... && ..."),
        ("body.nothing > 1", "'>' is not defined for (null, int); if it may be null, ask first: ... != null && ..."),
        (
            "session_id.startsWith('a')",
            "(null).startsWith(string) is not defined; if it may be null, ask first: ... != null && ...",
        ),
        (
            "body.count > 'a'",
            "'>' is not defined for (int, string); convert one of them with int(), double() or string()",
        ),
        ("body.total % 2 == 0", "'%' is not defined for (double, int)"),
        ("body.count in body.name", "'in' is not defined for that"),
        ("body.count.startsWith('a')", "(int).startsWith(string) is not defined"),
        ("body.count && true", "what stands beside '&&' must be true or false"),
        ("!body.count", "what stands beside '!' must be true or false"),
        ("body.count ? true : false", "what stands beside '?' must be true or false"),
        ("body.count.exists(each, true)", "something is gone through that is neither a list nor an object"),
        ("body.grid[9] == 1", "there is no element 9 in a list of 2"),
        ("body.count.a == 1", "a name stands behind a '.', and what stands before it is no object"),
        ("int(body.name) == 1", "cannot convert string to int"),
        ("1 / (body.count - 7) == 1", "divide by zero"),
        ("body.total / 0 > 1", "float division by zero"),
        ("body.count + 9223372036854775807 > 0", "integer overflow"),
        ("body.name.matches(body.cut + '(')", "invalid regular expression: missing ): eu\ufffdx("),
        ("body.count", "its result is int, and must be true or false"),
        ("body.nothing", "its result is null, and must be true or false"),
        ("body.name", "its result is string, and must be true or false"),
    ],
)
def test_what_cannot_be_said_of_a_message_is_an_error_that_says_why(text, expected):
    assert problem(text) == expected


@pytest.mark.parametrize(
    ("text", "position", "expected"),
    [
        # what other languages write
        ("body.total = 1", 11, "write == instead of ="),
        ("body.total === 1", 11, "write == instead of ==="),
        ("body.total <> 1", 11, "write != instead of <>"),
        ("body.paid & true", 10, "write && instead of &"),
        ("body.paid and true", 10, "write && instead of and"),
        ("body.a == 'x = y' OR body.b", 18, "write || instead of OR"),
        ("not body.paid", 0, "write ! instead of not"),
        ("body.paid == True", 13, "write true instead of True"),
        ("body.total == None", 14, "write null instead of None"),
        ("body.total IS NULL", 11, "write == instead of IS"),
        ("headers.region IN ['eu']", 15, "write in instead of IN"),
        ("headers.region LIKE 'e%'", 15, "write .startsWith() or .matches() instead of LIKE"),
        ("body.total > `100`", 13, "write 100 for a number, 'eu' for a text instead of `"),
        ("headers.region == \u201ceu\u201d", 18, 'write " instead of \u201c'),
        # names
        ("total > 100", 0, "there is no 'total'; did you mean 'body.total' or 'headers.total'?"),
        ("body.not == total", 12, "there is no 'total'; did you mean 'body.total' or 'headers.total'?"),
        ("true &&\n  total > 100", 10, "there is no 'total'; did you mean 'body.total' or 'headers.total'?"),
        ("'é😀' == total", 8, "there is no 'total'; did you mean 'body.total' or 'headers.total'?"),
        ("order.total > 100", 0, "there is no 'order'; did you mean 'body.order' or 'headers.order'?"),
        ("header.region == 'eu'", 0, "there is no 'header'; did you mean 'headers'?"),
        ("Body.total > 100", 0, "there is no 'Body'; did you mean 'body'?"),
        ("headers.x-tenant == 'a'", 0, "write headers['x-tenant'] for a name with '-'"),
        ("subject.startswith('a')", 18, "there is no function startswith(); did you mean startsWith()?"),
        ("startsWith(subject, 'a')", 10, "startsWith() takes other arguments"),
        # types
        (
            "subject > 5",
            8,
            "'>' is not defined for (string, int); convert one of them with int(), double() or string()",
        ),
        ("headers > 5", 8, "'>' is not defined for (map(string, dyn), int)"),
        ("size(1) == 1", 4, "size(int) is not defined"),
        ("1 + 1.5", None, "its result is double, and must be true or false"),
        ("subject", None, "its result is string, and must be true or false"),
        # form
        ("body.total >", 12, "it ends too early"),
        (" ", 1, "it ends too early"),
        ("(body.paid", 10, "')' is missing at the end"),
        ("body.paid)", 9, "')' cannot stand here"),
        ("$.body.paid", 0, "'$' cannot stand here"),
        (
            "body.a == 'x",
            10,
            r"a text begins here that does not end, or has a '\' that means nothing: write '\\', or r'...'",
        ),
        (
            r"subject.matches('\d')",
            16,
            r"a text begins here that does not end, or has a '\' that means nothing: write '\\', or r'...'",
        ),
        ("subject.matches('(')", 16, "'(' is no pattern of RE2: missing ): ("),
        ("true && subject.matches( r'a(?!b)')", 25, "r'a(?!b)' is no pattern of RE2: invalid perl operator: (?!"),
        (
            "has(headers['x-y'])",
            11,
            "has() takes a name behind a dot, as in has(body.total); for other names write 'x-id' in headers",
        ),
        ("9223372036854775808 > 1", 0, "invalid int literal"),
        ("'a\0' == 'a'", 2, r"'\x00' is no character of a text"),
        ("'\ud800' == 'a'", 1, r"'\ud800' is no character of a text"),
        # size
        ("(" * 40 + "true" + ")" * 40, None, "it is nested more than 32 levels deep"),
        ("body" + ".a" * 40 + " == 1", None, "it is nested more than 32 levels deep"),
        ("", None, "must be a text of 1 to 4,096 characters"),
    ],
)
def test_a_text_that_is_no_expression_is_refused_with_the_place_and_the_way_out(text, position, expected):
    with pytest.raises(InvalidExpression) as caught:
        Expression(text)
    assert (caught.value.text, caught.value.position, caught.value.problem) == (text, position, expected)


def test_an_unknown_function_is_refused_with_those_that_exist():
    with pytest.raises(InvalidExpression, match=r"there is no function lower\(\); these exist: all, .*, type$"):
        Expression("body.name.lower() == 'a'")


@pytest.mark.parametrize("text", [None, 1, b"true", ["true"]])
def test_something_else_than_a_text_is_refused(text):
    with pytest.raises(InvalidExpression, match="must be a text of"):
        Expression(text)


def test_a_text_is_refused_when_it_is_longer_than_allowed():
    fits = "true" + " " * (LONGEST_TEXT - 4)
    assert Expression(fits).matches(EVENT)
    with pytest.raises(InvalidExpression, match=r"must be a text of 1 to 4,096 characters") as caught:
        Expression(fits + " ")
    assert len(str(caught.value)) < 200


def test_without_the_extra_an_expression_says_what_to_install(monkeypatch):
    monkeypatch.setattr(expression, "_language", expression._language.__wrapped__)
    monkeypatch.setitem(sys.modules, "cel_expr_python.cel", None)
    with pytest.raises(MissingExtra, match=re.escape("pip install 'redrive[routes]'")):
        Expression("true")


def test_expressions_with_the_same_text_are_the_same():
    one, same, other = Expression("body.paid"), Expression("body.paid"), Expression("body.paid ")
    assert one == same
    assert hash(one) == hash(same)
    assert one not in (other, "body.paid")
    assert {one, same, other} == {one, other}
    assert (one.text, repr(one)) == ("body.paid", "Expression('body.paid')")


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])  # noqa: S301
def test_an_expression_can_be_copied_and_sent_to_another_process(copied):
    again = copied(Expression("body.total > 100"))
    assert again == Expression("body.total > 100")
    assert again.matches(EVENT)


def test_an_expression_never_changes():
    with pytest.raises(AttributeError):
        Expression("true").text = "false"


# --- the body ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", "the body is no JSON: Expecting value: line 1 column 1 (char 0)"),
        (b"{nope", "the body is no JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        (b"\xff", "the body is no JSON: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
        (nested(DEEPEST_BODY + 1), "the body has more than 100 lists and objects inside one another"),
        (nested(200_000), "the body has more than 100 lists and objects inside one another"),
    ],
    ids=lambda each: f"{str(each)[:30]}{len(each)}",
)
def test_a_body_that_cannot_be_read_fails_those_expressions_only_that_use_it(body, expected):
    about = MessageValues(body, {"subject": "s"}, {"region": "eu"})
    assert problem("body.total > 100", about) == expected
    assert problem("has(body.total)", about) == expected
    assert Expression("subject == 's' && headers.region == 'eu'").matches(about)
    assert Expression("headers.region == 'eu' || body.total > 100").matches(about)


def test_a_body_is_read_once_and_only_for_an_expression_that_uses_it(monkeypatch):
    read = []
    monkeypatch.setattr(expression, "_read", lambda body: read.append(body) or json.loads(body))
    about = MessageValues(b'{"paid": true}', {}, {"region": "eu"})
    assert Expression("headers.region == 'eu'").matches(about)
    assert read == []
    assert all(Expression(text).matches(about) for text in ("body.paid", "body.paid == true", "headers.region == 'eu'"))
    assert read == [b'{"paid": true}']


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (nested(DEEPEST_BODY), "body == body"),
        (b"[[], " + nested(DEEPEST_BODY - 1) + b"]", "body == body"),
        (json.dumps([{"a": [each]} for each in range(500)]).encode(), "size(body) == 500"),
        (b"\xef\xbb\xbf1", "body == 1"),
        (b'"text"', "body == 'text'"),
        (b"null", "body == null"),
        (b"1e999", "body > 1"),
        (b"9" * 400, "body > 1"),
        (b"9" * 10_000, "body > 1"),
        (b"-" + b"9" * 30, "body < -9223372036854775807"),
        (b"9223372036854775807", "body == 9223372036854775807"),
        (b"9223372036854775808", "body > 9223372036854770000 && type(body) == double"),
        (b'{"a\\u0000b": 1}', "body['a\ufffdb'] == 1"),
        (b'"\\ud83d\\ude00"', "body == '😀'"),
        (b'"\\\\u0000"', r"body == '\\u0000'"),
    ],
    ids=lambda each: f"{repr(each)[:40]}{len(each)}",
)
def test_every_json_value_can_be_asked_about(body, text):
    assert Expression(text).matches(event(body)) is True


def test_a_header_is_not_cut_off_at_a_nul_character():
    assert not Expression("headers.region == 'eu'").matches(event(region="eu\0x"))


def test_a_header_that_is_no_value_is_an_error():
    assert problem("headers.when == 1", event(when=object())).startswith("Non-CEL value type")
    assert problem("headers.huge == 1", event(huge=2**64)).startswith(
        "Integer value '18446744073709551616' out of range"
    )


# --- it ends, and the process does not --------------------------------------------------------------------------------


def test_going_through_lists_ends_after_ten_thousand_steps():
    through = Expression("body.all(a, body.all(b, body.all(c, true)))")
    assert through.matches(event([1] * 20))
    assert problem(through.text, event([1] * 100)) == "it takes more than 10,000 steps through lists"


def test_a_pattern_takes_no_longer_than_the_text_is_long():
    assert not Expression("body.matches('(x+x+)+y')").matches(event("x" * 100_000))  # re would take for ever


def test_results_that_are_null_do_not_use_up_none():
    gc.collect()
    gc.disable()  # what other tests have left would go in between, and None with it
    try:
        before = sys.getrefcount(None)
        for _ in range(2_000):
            assert problem("body", event(None)) == "its result is null, and must be true or false"
        assert sys.getrefcount(None) > before - 1_000
    finally:
        gc.enable()


def test_the_result_does_not_depend_on_how_the_library_prints_it(monkeypatch):
    monkeypatch.setattr(expression, "_OUTCOMES", {})
    assert Expression("body.total > 100").matches(EVENT) is True
    assert Expression("body.total < 100").matches(EVENT) is False


def test_threads_share_expressions_and_events():
    texts = [
        "body.total > 100",
        "body.total < 100",
        "headers.region == 'eu'",
        "body.items.exists(each, each.price > 9)",
    ]
    expressions = [Expression(text) for text in texts]

    def ask(number):
        about = EVENT if number % 2 else MessageValues(json.dumps(ORDER).encode(), PROPERTIES, HEADERS)
        return [each.matches(about) for each in expressions]

    with ThreadPoolExecutor(4) as threads:
        assert set(map(tuple, threads.map(ask, range(400)))) == {(True, False, True, True)}


# --- properties -------------------------------------------------------------------------------------------------------

PIECES = st.sampled_from(
    [
        *("body", "body.a", "body.b.a", "body['a']", "body[0]", "headers.a", "subject", "x", "1", "1.5", "'a'", "null"),
        *("true", "[1, 2.5]", "{'a': 1}", "+", "-", "*", "/", "%", "<", ">=", "==", "!=", "&&", "||", "!", "?", ":"),
        *("in", "(", ")", "has(body.a)", "size(body)", ".size()", ".exists(x,", ".all(x,", ".map(x,", ".matches("),
        *("=", "and", "`", "'", '"', "\\", "\n", "//", "not", "\0", "é"),
    ]
)
TEXTS = st.text(max_size=60) | st.lists(PIECES, max_size=12).map(" ".join) | st.lists(PIECES, max_size=3).map("".join)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**80), 2**80)
    | st.floats()
    | st.text(st.characters(codec=None, exclude_categories=()), max_size=8)
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("ab\0"), inner, max_size=3)
)
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)


def outcome(text, about):
    """Return the answer, or one of the two errors; others are raised."""
    try:
        return Expression(text).matches(about)
    except (InvalidExpression, ExpressionFailed) as error:
        return error


@given(TEXTS, st.binary(max_size=20) | VALUES, SCALARS)
def test_any_text_about_any_message_is_refused_or_fails_or_is_true_or_false(text, body, header):
    found = outcome(text, event(body, a=header))
    if not isinstance(found, bool):
        assert found.problem
        assert getattr(found, "position", None) in (None, *range(len(text) + 1))


@given(VALUES)
def test_every_body_is_what_it_is(body):
    about = event(body)
    assert Expression("body == null").matches(about) is (body is None)
    for name, kind in {"list": list, "string": str, "bool": bool, "map": dict}.items():
        assert Expression(f"type(body) == {name}").matches(about) is isinstance(body, kind)


@given(NUMBERS, NUMBERS)
def test_numbers_compare_as_in_python_and_as_decimals_if_one_of_them_is_one(one, other):
    about = event({"one": one, "other": other})
    if type(one) is not type(other):
        one, other = float(one), float(other)
    for sign, expected in {"<": one < other, "<=": one <= other, ">": one > other, "==": one == other}.items():
        assert Expression(f"body.one {sign} body.other").matches(about) is expected


@given(st.integers(-(2**53), 2**53), st.floats(allow_nan=False, allow_infinity=False))
def test_whole_numbers_and_decimals_calculate_with_each_other(whole, decimal):
    results = {"+": whole + decimal, "-": whole - decimal, "*": whole * decimal}
    about = event({"whole": whole, "decimal": decimal, **results})
    for sign, result in results.items():
        assert Expression(f"body.whole {sign} body.decimal == body['{sign}']").matches(about), result
    if decimal and not math.isinf(whole / decimal):
        about = event({"whole": whole, "decimal": decimal, "/": whole / decimal})
        assert Expression("body.whole / body.decimal == body['/']").matches(about)


@given(st.text(st.characters(codec=None, exclude_categories=()), max_size=20))
def test_a_text_keeps_its_length_whatever_is_in_it(text):
    about = event({"text": text, "length": len(text)}, text=text)
    assert Expression("size(body.text) == body.length && body.text == headers.text").matches(about)
