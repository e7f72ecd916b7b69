# SPDX-License-Identifier: MIT
"""Transforms: what they change, what they refuse, and how it is shown."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.broker import Message
from redrive.errors import InvalidSetting, TransformFailed
from redrive.recovery.transform import PROTECTED, Transform, diff, is_protected

BODY = b'{"customer": {"name": "acme"}, "items": [1, 2, 3], "a/b": {"~": 0}}'
MESSAGE = Message(BODY, id="m-1", subject="order.placed", headers={"tenant": "acme", "NServiceBus.MessageId": "7"})

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)
headers = st.dictionaries(texts.map("x-{}".format), st.none() | st.booleans() | st.integers() | texts, max_size=3)
pointers = st.lists(st.text("ab0~/", max_size=3), min_size=1, max_size=3).map(
    lambda parts: "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in parts)
)


@st.composite
def transforms(draw):
    set_headers, set_json = draw(headers), draw(st.dictionaries(pointers | st.just(""), values, max_size=3))
    return Transform(
        set_headers=set_headers,
        remove_headers=draw(st.lists(texts.map("y-{}".format), max_size=2)),
        set_json=set_json,
        remove_json=[each for each in draw(st.lists(pointers, max_size=2)) if each not in set_json],
        replace=draw(st.lists(st.tuples(texts, texts | st.just("")), max_size=2)),
        body=draw(st.none() | st.binary()),
        subject=draw(st.sampled_from([None, "", "order.placed"])),
        content_type=draw(st.sampled_from([None, "", "text/plain"])),
        reply_to=draw(st.sampled_from([None, "", "answers"])),
        function=draw(st.sampled_from([None, "shop.mending:add", "a:b.c"])),
    )


def changed(body, /, **changes):
    return Transform(**changes).apply(Message(body)).body


def refused(message=MESSAGE, load=None, **changes):
    with pytest.raises(TransformFailed) as caught:
        Transform(**changes).apply(message, load)
    return caught.value.reason


@given(transforms())
def test_json_of_a_transform_reads_as_that_transform(each):
    told = json.dumps(each.to_json())
    assert Transform.from_json(json.loads(told)) == each
    assert json.dumps(Transform.from_json(json.loads(told)).to_json()) == told


@given(transforms(), st.binary() | values.map(lambda value: json.dumps(value).encode()))
def test_a_message_is_changed_or_refused_with_a_reason(each, body):
    try:
        after = each.apply(replace(MESSAGE, body=body), lambda _: lambda message: message)
    except TransformFailed as error:
        assert error.reason  # noqa: PT017 - most can be changed
    else:
        assert after.id == "m-1"
        assert after.headers["NServiceBus.MessageId"] == "7"
        assert isinstance(diff(MESSAGE, after), list)


@given(values, values)
def test_what_is_set_is_there_and_the_rest_stays(before, value):
    body = json.dumps({"before": before, "value": 0}).encode()
    assert json.loads(changed(body, set_json={"/value": value})) == {"before": before, "value": value}


def test_by_itself_it_changes_nothing():
    assert Transform().is_nothing
    assert Transform().apply(MESSAGE) == MESSAGE
    assert Transform().to_json() == {}
    assert not Transform(body=b"").is_nothing
    assert not Transform(subject="").is_nothing


def test_headers_are_set_and_removed():
    after = Transform(set_headers={"x": 1, "y": None}, remove_headers=("tenant", "not-there")).apply(MESSAGE)
    assert after.headers == {"NServiceBus.MessageId": "7", "x": 1, "y": None}
    assert MESSAGE.headers["tenant"] == "acme"


def test_properties_are_set_or_emptied():
    after = Transform(subject="", content_type="text/plain", reply_to="answers").apply(MESSAGE)
    assert (after.subject, after.content_type, after.reply_to) == (None, "text/plain", "answers")
    assert after.id == "m-1"


@pytest.mark.parametrize(
    ("pointer", "value", "after"),
    [
        ("/customer/name", "other", {"customer": {"name": "other"}}),
        ("/customer/age", 5, {"customer": {"name": "acme", "age": 5}}),
        ("/items/1", [0], {"items": [1, [0], 3]}),
        ("/items/-", 4, {"items": [1, 2, 3, 4]}),
        ("/a~1b/~0", 1, {"a/b": {"~": 1}}),
        ("/~01", 1, {"~1": 1}),
        ("/", 1, {"": 1}),
        ("/-", 1, {"-": 1}),
    ],
)
def test_a_value_is_set_where_the_pointer_says(pointer, value, after):
    assert json.loads(changed(BODY, set_json={pointer: value})) == json.loads(BODY) | after


def test_the_whole_document_can_be_set():
    assert changed(b"[]", set_json={"": {"a": 1}}) == b'{"a":1}'


def test_shorter_pointers_come_first_and_the_transform_stays_as_it_was():
    transform = Transform(set_json={"/a/b": 1, "/a": {"c": 2}})
    assert transform.apply(Message(b"{}")).body == b'{"a":{"c":2,"b":1}}'
    assert transform == Transform(set_json={"/a": {"c": 2}, "/a/b": 1})
    assert transform.apply(Message(b"{}")).body == b'{"a":{"c":2,"b":1}}'


def test_what_was_given_may_change_afterwards():
    given = {"/a": [1]}
    transform = Transform(set_json=given)
    given["/a"].append(2)
    assert changed(b"{}", set_json=transform.set_json) == b'{"a":[1]}'


def test_values_are_removed_by_where_they_were():
    removed = ("/items/0", "/items/2", "/customer/name", "/nobody/there", "/items/9", "/items/-", "/customer/name/x")
    assert changed(BODY, remove_json=removed) == b'{"customer":{},"items":[2],"a/b":{"~":0}}'


def test_setting_does_not_move_what_is_removed():
    assert changed(b"[1,2,3]", set_json={"/-": 4, "/1": 9}, remove_json="/0") == b"[9,3,4]"


def test_a_body_that_stays_the_same_stays_so_to_the_byte():
    assert changed(BODY, set_json={"/customer/name": "acme"}, remove_json="/nothing") == BODY


def test_numbers_keep_their_digits_and_keys_their_order():
    body = b'{"z": 1.10, "a": 12345678901234567890.123456789, "e": 1E400, "n": NaN, "i": %s}' % (b"9" * 5_000)
    after = changed(body, set_json={"/new": 0.5})
    assert after == body.replace(b" ", b"")[:-1] + b',"new":0.5}'


def test_letters_stay_letters_and_half_a_pair_stays_escaped():
    assert changed('{"a": "ü"}'.encode(), set_json={"/b": "é"}) == '{"a":"ü","b":"é"}'.encode()
    assert changed(rb'{"a": "\ud800"}', set_json={"/b": 1}) == rb'{"a":"\ud800","b":1}'


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
def test_a_body_keeps_its_encoding(encoding):
    assert changed('{"a":"ü"}'.encode(encoding), set_json={"/a": "é"}) == '{"a":"é"}'.encode(encoding)


def test_text_is_replaced_in_order():
    assert changed("aübc".encode(), replace=[("ü", "bb"), ("bbb", "x")]) == b"axc"
    assert changed(b"abc", replace=[("z", "x")]) == b"abc"


def test_body_text_and_json_are_changed_in_this_order():
    after = changed(b"\xff", body=b'{"a": "old"}', replace=[("old", "new")], set_json={"/b": 1}, remove_json="/c")
    assert after == b'{"a":"new","b":1}'


@pytest.mark.parametrize(
    ("body", "changes", "reason"),
    [
        (b"<xml/>", {"set_json": {"/a": 1}}, "the body is not JSON: "),
        (b"\xff\xff", {"remove_json": "/a"}, "the body is not JSON: "),
        (b"", {"set_json": {"": 1}}, "the body is not JSON: "),
        (b'{"a": 1, "a": 2}', {"set_json": {"/b": 1}}, "the same key twice"),
        (b"[" * 100_000, {"set_json": {"/b": 1}}, "nested too deeply"),
        (b"[" * 2_000 + b"]" * 2_000, {"set_json": {"/-": 1}}, "nested too deeply"),
        (BODY, {"set_json": {"/client/name": 1}}, "/client/name is not in the body: there is no 'client' in an object"),
        (BODY, {"set_json": {"/items/3": 1}}, "/items/3 is not in the body: there is no '3' in a list of 3"),
        (BODY, {"set_json": {"/items/01": 1}}, "there is no '01' in a list of 3"),
        (BODY, {"set_json": {"/items/-/x": 1}}, "there is no '-' in a list of 3"),
        (BODY, {"set_json": {"/items/0/x": 1}}, "there is no 'x' in what is neither an object nor a list"),
        (BODY, {"set_json": {"/customer/name/0": 1}}, "there is no '0' in what is neither"),
        (b"a\xffb", {"replace": [("a", "b")]}, "the body is not in UTF-8, at byte 1"),
    ],
)
def test_what_cannot_be_changed_has_a_reason(body, changes, reason):
    assert reason in refused(Message(body), **changes)


@pytest.mark.parametrize(
    ("changes", "blamed", "allowed"),
    [
        ({"set_headers": {"redrive-failed-queue": "x"}}, "set_headers", "must stay as it is"),
        ({"set_headers": {"Redrive-Anything": "x"}}, "set_headers", "must stay as it is"),
        ({"set_headers": {"nservicebus.messageid": "x"}}, "set_headers", "must stay as it is"),
        ({"remove_headers": ("NSERVICEBUS.CONVERSATIONID",)}, "remove_headers", "must stay as it is"),
        ({"remove_headers": "NServiceBus.MessageId"}, "remove_headers", "must stay as it is"),
        ({"remove_headers": [1]}, "remove_headers", "must be texts"),
        ({"remove_headers": None}, "remove_headers", "must be texts"),
        ({"set_headers": {"": 1}}, "set_headers", "must be texts"),
        ({"set_headers": ["a"]}, "set_headers", "must be values by their names"),
        ({"set_headers": {"a": [1]}}, "header 'a'", "must be a text, a number, a boolean or None"),
        ({"set_headers": {"a": float("nan")}}, "set_headers", "values that JSON has"),
        ({"set_headers": {"a": 1}, "remove_headers": "a"}, "remove_headers", "is in set_headers too"),
        ({"set_json": {"/a": 1}, "remove_json": "/a"}, "remove_json", "is in set_json too"),
        ({"set_json": {"a": 1}}, "set_json", "JSON pointers"),
        ({"set_json": {"/a~2": 1}}, "set_json", "JSON pointers"),
        ({"set_json": {1: 1}}, "set_json", "must be texts"),
        ({"set_json": {"/a": {1, 2}}}, "set_json", "values that JSON has"),
        ({"set_json": {"/a": float("inf")}}, "set_json", "values that JSON has"),
        ({"remove_json": ""}, "remove_json", "must be texts"),
        ({"remove_json": ["a"]}, "remove_json", "JSON pointers"),
        ({"replace": [("", "x")]}, "replace", "pairs of texts"),
        ({"replace": [("a",)]}, "replace", "pairs of texts"),
        ({"replace": [("a", "b", 1)]}, "replace", "pairs of texts"),
        ({"replace": ["ab"]}, "replace", "pairs of texts"),
        ({"replace": "ab"}, "replace", "pairs of texts"),
        ({"replace": [("a", "\ud800")]}, "replace", "pairs of texts"),
        ({"body": "text"}, "body", "must be bytes"),
        ({"subject": 0}, "subject", "must be a text"),
        ({"subject": "x" * 1_025}, "subject", "1 to 1,024"),
        ({"content_type": b"x"}, "content_type", "must be a text"),
        ({"function": "shop.mending"}, "function", "shop.mending:add_currency"),
        ({"function": "shop:1"}, "function", "shop.mending:add_currency"),
        ({"function": ""}, "function", "shop.mending:add_currency"),
    ],
)
def test_what_cannot_be_is_refused(changes, blamed, allowed):
    with pytest.raises(InvalidSetting) as caught:
        Transform(**changes)
    assert caught.value.setting == blamed
    assert allowed in str(caught.value)


def test_protected_headers_are_so_in_any_case():
    for name in (each for names in PROTECTED.values() for each in names):
        assert is_protected(name)
        assert is_protected(name.upper())
    assert is_protected("redrive-anything")
    assert not is_protected("redriver")
    assert not is_protected("NServiceBus.EnclosedMessageTypes")


def test_the_function_comes_last_and_is_found_by_its_name():
    asked = []

    def load(name):
        asked.append(name)
        return lambda message: replace(message, body=message.body.upper(), subject="new")

    after = Transform(body=b"abc", set_headers={"x": 1}, function="shop.mending:shout").apply(MESSAGE, load)
    assert asked == ["shop.mending:shout"]
    assert (after.body, after.subject, after.headers["x"]) == (b"ABC", "new", 1)


def test_a_function_needs_somebody_who_finds_it():
    with pytest.raises(InvalidSetting, match="load"):
        Transform(function="a:b").apply(MESSAGE)


def boom(_):
    raise LookupError("no such thing")


@pytest.mark.parametrize(
    ("load", "reason"),
    [
        (boom, "a:b cannot be loaded: LookupError: no such thing"),
        (lambda _: boom, "a:b raised LookupError: no such thing"),
        (lambda _: lambda message: message.body, "a:b returned bytes, not a Message"),
        (lambda _: lambda message: replace(message, id="m-2"), "a:b changed the id from 'm-1' to 'm-2'"),
        (lambda _: lambda message: replace(message, headers={}), "a:b changed the header 'NServiceBus.MessageId'"),
        (
            lambda _: lambda message: replace(message, headers={"NServiceBus.MessageId": "8"}),
            "a:b changed the header 'NServiceBus.MessageId'",
        ),
        (
            lambda _: lambda message: replace(message, headers={"nservicebus.messageid": "7"}),
            "a:b changed the header 'NServiceBus.MessageId'",
        ),
        (
            lambda _: lambda message: replace(message, headers={**message.headers, "redrive-x": 1}),
            "a:b changed the header 'redrive-x'",
        ),
    ],
    ids=[
        "not found",
        "raises",
        "returns bytes",
        "new id",
        "header gone",
        "header new",
        "header re-cased",
        "header ours",
    ],
)
def test_what_a_function_may_not_do_has_a_reason(load, reason):
    assert reason in refused(load=load, function="a:b")


def test_json_has_bytes_in_base64():
    transform = Transform(body=b"\xff", replace=[("a", "b")], set_json={"/a": [1]}, remove_headers="x")
    assert transform.to_json() == {
        "remove_headers": ["x"],
        "set_json": {"/a": [1]},
        "replace": [["a", "b"]],
        "body": "/w==",
    }


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("x", "must be an object"),
        ({"sett_json": {}}, "is no key of a transform; there are set_headers, remove_headers"),
        ({"body": "?"}, "must be in base64"),
        ({"body": 5}, "must be in base64"),
        ({"replace": [["a"]]}, "pairs of texts"),
    ],
)
def test_json_that_is_no_transform_is_refused(value, told):
    with pytest.raises(InvalidSetting) as caught:
        Transform.from_json(value)
    assert told in str(caught.value)


def test_json_may_say_that_there_is_no_body():
    assert Transform.from_json({"body": None}) == Transform()


def test_a_difference_is_told_for_people():
    after = replace(
        MESSAGE,
        body=BODY.replace(b"acme", b"other"),
        subject=None,
        headers={"NServiceBus.MessageId": "8", "x": True},
    )
    assert diff(MESSAGE, after) == [
        "subject: 'order.placed' -> None",
        "header 'tenant' removed: 'acme'",
        "header 'NServiceBus.MessageId': '7' -> '8'",
        "header 'x' added: True",
        "body: 67 bytes -> 68 bytes",
        "--- before",
        "+++ after",
        "@@ -1,6 +1,6 @@",
        " {",
        '   "customer": {',
        '-    "name": "acme"',
        '+    "name": "other"',
        "   },",
        '   "items": [',
        "     1,",
    ]


def test_a_header_of_another_kind_is_a_difference():
    assert diff(Message(b"", headers={"x": 1}), Message(b"", headers={"x": True})) == ["header 'x': 1 -> True"]


def test_no_difference_takes_no_lines():
    assert diff(MESSAGE, replace(MESSAGE)) == []


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        (
            b"a\nb",
            b"a\nc",
            ["body: 3 bytes -> 3 bytes", "--- before", "+++ after", "@@ -1,2 +1,2 @@", " a", "-b", "+c"],
        ),
        (b'{"a": 1}', b'{"a":1}', ["body, in its layout only: 8 bytes -> 7 bytes"]),
        (b"\xff", b"abc", ["body, which is not text: 1 bytes -> 3 bytes"]),
        (b"x", b"\n" * 5_001, ["body, too long to compare: 1 bytes -> 5,001 bytes"]),
        (b"[]", b"{}", ["body: 2 bytes -> 2 bytes", "--- before", "+++ after", "@@ -1 +1 @@", "-[]", "+{}"]),
    ],
)
def test_a_difference_of_bodies_fits_what_they_are(before, after, lines):
    assert diff(Message(before), Message(after)) == lines
