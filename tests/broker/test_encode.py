# SPDX-License-Identifier: MIT
"""What is sent is received: what a program sends becomes a body that a handler's annotation makes the same of."""

import subprocess
import sys
from collections import UserDict
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import Enum, IntEnum
from types import MappingProxyType
from typing import Any, get_type_hints
from uuid import UUID

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.broker import Message, Send, decoder
from redrive.broker.encode import JSON, TEXT
from redrive.broker.message import MessageProperties
from redrive.errors import InvalidMessage
from redrive.worker import Context


class Colour(Enum):
    RED = "red"


class Size(IntEnum):
    LARGE = 3


class Customer(pydantic.BaseModel):
    full_name: str = pydantic.Field(alias="fullName")
    since: date = date(2026, 1, 4)


class Point(msgspec.Struct):
    x: int
    y: float = 0.5


@dataclass
class Line:
    item: str
    price: Decimal


@dataclass
class Order:
    number: int
    lines: list[Line] = field(default_factory=list)
    colour: Colour = Colour.RED
    placed: datetime | None = None
    at: time = time(12, 30)
    key: UUID | None = None


KEY = UUID(int=7)
ORDER = Order(7, [Line("lamp", Decimal("19.90"))], placed=datetime(2026, 1, 4, tzinfo=UTC), key=KEY)


@pytest.mark.parametrize(
    ("payload", "kind"),
    [
        (ORDER, Order),
        ([ORDER, ORDER], list[Order]),
        ({"first": ORDER}, dict[str, Order]),
        (Customer(fullName="Ada"), Customer),
        (Point(1), Point),
        ({"a": [1, 2.5, None, True, "é"]}, dict[str, Any]),
        (5, int),
        (2.5, float),
        (True, bool),
        (datetime(2026, 1, 4, tzinfo=UTC), datetime),
        (date(2026, 1, 4), date),
        (Decimal("0.10"), Decimal),
        (KEY, UUID),
        (Colour.RED, Colour),
        (Size.LARGE, Size),
        ([], list[int]),
    ],
    ids=str,
)
def test_what_is_sent_is_received(payload, kind):
    message = Message.of(payload)
    assert message.content_type == JSON
    received = decoder(kind)(message)
    assert received == payload
    assert type(received) is type(payload)


def test_bytes_and_texts_are_what_they_are():
    assert Message.of(b"\x00\xff") == Message(b"\x00\xff")
    assert Message.of("naïve") == Message("naïve".encode(), content_type=TEXT)
    message = Message(b"x", id="m1")
    assert Message.of(message) is message


def test_models_inside_of_other_values_are_sent_as_they_are_received():
    message = Message.of({"who": Customer(fullName="Ada"), "where": Point(1), "what": ORDER.lines[0]})
    received = decoder(dict[str, Any])(message)
    assert received == {
        "who": {"fullName": "Ada", "since": "2026-01-04"},
        "where": {"x": 1, "y": 0.5},
        "what": {"item": "lamp", "price": "19.90"},
    }


@pytest.mark.parametrize("kind", [MappingProxyType, UserDict])
def test_any_mapping_is_an_object(kind):
    assert isinstance(kind({}), Mapping)
    assert Message.of(kind({"a": 1})).body == b'{"a":1}'


def test_what_contains_itself_is_refused():
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(InvalidMessage, match="Circular reference"):
        Message.of(circle)


@given(
    st.recursive(
        st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text() | st.none(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    ).filter(lambda value: value is not None and not isinstance(value, str))
)
def test_every_json_value_is_received_as_it_was_sent(value):
    assert decoder(Any)(Message.of(value)) == value


def test_a_message_is_made_of_a_payload_and_properties():
    message = Message.of(Line("lamp", Decimal(1)), id="m1", session_id="ada", headers={"a": 1})
    expected = Message(b'{"item":"lamp","price":"1"}', id="m1", content_type=JSON, session_id="ada", headers={"a": 1})
    assert message == expected
    assert Message.of(b"x", content_type="image/png").content_type == "image/png"
    assert Message.of({"a": 1}, content_type="application/vnd.order+json").body == b'{"a":1}'
    with pytest.raises(TypeError, match="colour"):
        Message.of(b"x", colour="red")


def test_the_properties_of_a_message_are_its_fields():
    hints = get_type_hints(Message)
    assert get_type_hints(MessageProperties) == {each.name: hints[each.name] for each in fields(Message)[1:]}


async def test_every_way_of_sending_takes_them(broker, worker_of_orders):
    await broker.declare("orders")
    await broker.send("orders", {"n": 1})
    await broker.send_many("orders", [Line("lamp", Decimal(1)), [2], "text"])
    await broker.schedule("orders", Point(3), 0)
    await broker.apply(Send("orders", Customer(fullName="Ada")))
    handled = await worker_of_orders(broker)
    assert handled == [
        (b'{"n":1}', JSON),
        (b'{"item":"lamp","price":"1"}', JSON),
        (b"[2]", JSON),
        (b"text", TEXT),
        (b'{"x":3,"y":0.5}', JSON),
        (b'{"fullName":"Ada","since":"2026-01-04"}', JSON),
        (b'{"sent":"by the handler"}', JSON),
    ]


@pytest.fixture
def worker_of_orders():
    from redrive.worker import Worker

    worker, handled = Worker(), []

    @worker.handler("orders")
    async def handle(message: Message, context: Context):
        handled.append((message.body, message.content_type))
        if message.body == b"text":
            context.send("orders", {"sent": "by the handler"})

    async def work(broker):
        await worker.run(broker, until_idle=True)
        return handled

    return work


def test_no_model_library_is_imported_for_what_is_none():
    script = """
import sys
from redrive.broker import Message
Message.of({"a": 1})
print({"pydantic", "msgspec"} & {*sys.modules})
"""
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout == "set()\n"
