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

import msgspec
import pydantic
import pytest

from redrive.broker import Message
from redrive.broker.decode import decoder
from redrive.errors import InvalidPayload, InvalidSetting


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


class Model(pydantic.BaseModel):
    number: int
    placed: datetime | None = None


class Struct(msgspec.Struct):
    number: int
    placed: datetime | None = None


PLACED = "2026-01-04T12:00:00Z"


@pytest.mark.parametrize("model", [Model, Struct])
def test_a_model_is_built_with_what_it_contains(model):
    found = decoded(model, {"number": 7, "placed": PLACED, "added later": True})
    assert found == model(number=7, placed=datetime(2026, 1, 4, 12, tzinfo=UTC))
    assert type(found) is model


def test_a_pydantic_model_checks_by_its_own_rules():
    assert decoded(Model, {"number": "7"}) == Model(number=7)
    with pytest.raises(InvalidPayload, match="Field required"):
        decoded(Model, {})


def test_a_msgspec_struct_checks_by_its_own_rules():
    with pytest.raises(InvalidPayload, match="Expected `int`, got `str`"):
        decoded(Struct, {"number": "7"})
    with pytest.raises(InvalidPayload, match="missing required field `number`"):
        decoded(Struct, {})


@pytest.mark.parametrize("model", [Model, Struct])
@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[" * 100_000])
def test_a_model_refuses_what_is_no_json(model, body):
    with pytest.raises(InvalidPayload, match="the body cannot be decoded"):
        decoded(model, body)


def test_a_pydantic_model_may_check_its_values_itself():
    class Positive(pydantic.BaseModel):
        number: int

        @pydantic.field_validator("number")
        @classmethod
        def is_positive(cls, value):
            if value < 0:
                raise ValueError("negative")
            return value

    assert decoded(Positive, {"number": 1}).number == 1
    with pytest.raises(InvalidPayload, match="negative"):
        decoded(Positive, {"number": -1})


def test_a_msgspec_struct_may_check_its_values_itself():
    class Positive(msgspec.Struct):
        number: int

        def __post_init__(self):
            if self.number < 0:
                raise ValueError("negative")

    assert decoded(Positive, {"number": 1}).number == 1
    with pytest.raises(InvalidPayload, match="negative"):
        decoded(Positive, {"number": -1})


@pytest.mark.parametrize("model", [Model, Struct])
def test_a_model_inside_something_else_is_refused_when_it_is_declared(model):
    """It would be taken apart by our rules, not by its own."""
    for annotation in (list[model], model | None, dict[str, model]):
        with pytest.raises(InvalidSetting, match="cannot be made from a body"):
            decoder(annotation)
