# SPDX-License-Identifier: MIT
"""Payloads: from a body to what the handler's annotation says."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, Literal, Optional, TypedDict
from uuid import UUID

import pytest

from redrive.broker import Message
from redrive.errors import InvalidPayload, InvalidSetting
from redrive.worker.payload import decoder


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Line:
    item: str
    count: int = 1


@dataclass
class Order:
    number: int
    lines: list[Line] = field(default_factory=list)
    total: float | None = None
    colour: Colour = Colour.RED
    placed: datetime | None = None
    parent: Optional["Order"] = None
    secret: str = field(default="", init=False)


@dataclass
class Picky:
    number: int

    def __post_init__(self):
        if self.number < 0:
            raise ValueError("negative")


class Loose(TypedDict):
    a: int


def decoded(annotation, body):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    return decoder(annotation)(Message(body))


def test_bytes_are_the_body_as_it_is():
    assert decoded(bytes, b"\xff") == b"\xff"


def test_a_text_is_utf_8():
    assert decoded(str, "größe".encode()) == "größe"
    with pytest.raises(InvalidPayload, match="cannot be decoded"):
        decoded(str, b"\xff")


def test_a_message_is_itself():
    assert decoder(Message)(Message(b"x", id="1")) == Message(b"x", id="1")


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Any, {"a": [1, None]}),
        (object, 7),
        (dict, {"a": 1}),
        (list, [1, "a"]),
        (dict[str, Any], {"a": 1}),
        (dict[str, int], {"a": 1}),
        (Mapping[str, list[int]], {"a": [1]}),
        (Sequence[str], ["a"]),
        (Loose, {"a": 1}),
        (int, 7),
        (bool, True),
        (None, None),
        (str | int, 7),
        (Literal["a", 1], 1),
    ],
)
def test_json_types_are_checked_and_kept(annotation, value):
    if annotation is not str:
        assert decoded(annotation, value) == value


def test_a_float_may_be_written_as_a_whole_number():
    assert isinstance(decoded(float, 1), float)


def test_texts_become_what_they_stand_for():
    assert decoded(datetime, "2026-01-04T12:00:00+00:00") == datetime(2026, 1, 4, 12, tzinfo=UTC)
    assert decoded(date, "2026-01-04") == date(2026, 1, 4)
    assert decoded(Decimal, "1.10") == Decimal("1.10")
    assert decoded(UUID, "00000000-0000-0000-0000-000000000001") == UUID(int=1)
    assert decoded(Colour, "blue") is Colour.BLUE


def test_a_dataclass_is_built_with_all_it_contains():
    body = {
        "number": 1,
        "lines": [{"item": "tea"}, {"item": "cup", "count": 2}],
        "total": 3,
        "colour": "blue",
        "placed": "2026-01-04T12:00:00Z",
        "parent": {"number": 0},
        "secret": "is not set by a body",
        "added later": True,
    }
    assert decoded(Order, body) == Order(
        1, [Line("tea"), Line("cup", 2)], 3.0, Colour.BLUE, datetime(2026, 1, 4, 12, tzinfo=UTC), Order(0)
    )


@pytest.mark.parametrize(
    ("annotation", "body", "says"),
    [
        (Any, b"{", "the body cannot be decoded: .* it begins with b'{'"),
        (Any, b"[" * 100_000, "the body cannot be decoded"),
        (dict, [], "body must be an object, not a list"),
        (list[int], [1, "a"], r"body\[1\] must be a whole number, not a text"),
        (dict[str, int], {"a": None}, r"body\['a'\] must be a whole number, not null"),
        (int, True, "body must be a whole number, not a boolean"),
        (int, 1.5, "body must be a whole number, not a number"),
        (float, "1", "body must be a number, not a text"),
        (None, 1, "body must be null"),
        (date, "soon", "body is no date: 'soon'"),
        (Decimal, "x", "body is no Decimal"),
        (Colour, "green", "body must be one of 'red', 'blue', not 'green'"),
        (Literal["a", 1], True, "body must be one of 'a', 1, not True"),
        (int | None, "a", "body fits none of its types: .*whole number.*; .*null"),
        (Order, {}, "body has no 'number', which Order needs"),
        (Order, {"number": "1"}, "body.number must be a whole number"),
        (Order, {"number": 1, "lines": [{}]}, r"body.lines\[0\] has no 'item'"),
        (Picky, {"number": -1}, "body is no Picky: negative"),
    ],
)
def test_a_body_that_does_not_fit_says_where_and_why(annotation, body, says):
    with pytest.raises(InvalidPayload, match=says):
        decoded(annotation, body)


@pytest.mark.parametrize("annotation", [complex, dict[int, str], set[int], list[complex], "unknown"])
def test_an_annotation_that_no_body_can_become_is_refused(annotation):
    with pytest.raises(InvalidSetting, match="cannot be made from a body"):
        decoder(annotation)


def test_a_dataclass_with_such_a_field_is_refused_when_it_is_declared():
    @dataclass
    class Odd:
        number: complex

    with pytest.raises(InvalidSetting, match="cannot be made from a body"):
        decoder(Odd)


def test_a_pydantic_model_checks_by_its_own_rules():
    pydantic = pytest.importorskip("pydantic")

    class Model(pydantic.BaseModel):
        number: int

    assert decoded(Model, {"number": "7"}) == Model(number=7)
    with pytest.raises(InvalidPayload, match="validation error"):
        decoded(Model, {})


def test_a_msgspec_struct_checks_by_its_own_rules(monkeypatch):
    class Struct:
        __struct_fields__ = ("number",)

    class FakeDecoder:  # the shape of msgspec.json.Decoder; the package itself is no dependency
        def __init__(self, kind):
            self.kind = kind

        def decode(self, body):
            if body == b"bad":
                raise ValueError("Object missing required field")
            return self.kind, json.loads(body)

    import sys
    from types import ModuleType

    fake, fake_json = ModuleType("msgspec"), ModuleType("msgspec.json")
    fake_json.Decoder = FakeDecoder
    monkeypatch.setitem(sys.modules, "msgspec", fake)
    monkeypatch.setitem(sys.modules, "msgspec.json", fake_json)
    assert decoded(Struct, {"number": 7}) == (Struct, {"number": 7})
    with pytest.raises(InvalidPayload, match="missing required field"):
        decoded(Struct, b"bad")
