# SPDX-License-Identifier: MIT
"""Which errors of a handler say that the message's body is bad, and which are about something else."""

import json

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.broker import Message
from redrive.retry import Fixed
from redrive.worker import (
    HandlerFailed,
    HandlerFailure,
    MessageMoved,
    MoveToError,
    Recoverability,
    RedeliverNow,
    decide,
)
from redrive.worker.bad_bodies import blames_body


class Item(pydantic.BaseModel):
    name: str
    count: int = 1


class Order(pydantic.BaseModel):
    number: int
    items: list[Item] = []
    reference: int | Item | None = None


def raised(do, *arguments):
    try:
        do(*arguments)
    except (ValueError, RecursionError) as error:
        return error
    return None


def decoded(body):
    return body.decode()


def checked(body):
    return Order.model_validate(json.loads(body))


@pytest.mark.parametrize(
    ("do", "body"),
    [
        (json.loads, b"not JSON"),
        (json.loads, b""),
        (json.loads, '{"a": }'.encode("utf-16")),
        (lambda body: json.loads(body.decode()), b"not JSON"),
        (decoded, b"\xff\xfe\xfa"),
        (lambda body: str(memoryview(body), "utf-8"), b"\xff\xfe\xfa"),
        (Order.model_validate_json, b"not JSON"),
        (Order.model_validate_json, b'{"number": "seven"}'),
        (Order.model_validate_json, b"{}"),
        (Order.model_validate_json, b"[1]"),
        (Order.model_validate_json, b'{"number": 7, "items": [{"name": "lamp"}, {"count": 2}]}'),
        (Order.model_validate_json, b'{"number": 7, "items": [{"name": "lamp", "count": null}]}'),
        (Order.model_validate_json, b'{"number": 7, "reference": "x"}'),
        (checked, b'{"number": "seven"}'),
        (checked, b'{"items": []}'),
    ],
)
def test_an_error_about_the_body_is_known(do, body):
    assert blames_body(raised(do, body), body)


OTHERS = [
    raised(json.loads, "<html>bad gateway</html>"),
    raised(json.loads, ""),
    raised(json.loads, b"7 x"),
    raised(decoded, b"\xff"),
    raised(Order.model_validate_json, b'{"number": "eight"}'),
    raised(Order.model_validate_json, b"{}"),
    raised(Order.model_validate, {"number": None}),
    raised(msgspec.json.decode, b"not JSON"),
    ValueError("not JSON"),
    KeyError("number"),
    TypeError("number"),
    UnicodeEncodeError("ascii", "7", 0, 1, "no"),
]


@pytest.mark.parametrize("body", [b'{"number": "7"}', b"7", b"\xfe", b"not JSON at all"])
def test_the_same_error_about_something_else_is_not(body):
    assert [error for error in OTHERS if blames_body(error, body)] == []


class Strange(ValueError):
    doc = property(lambda _self: 1 / 0)
    object = doc


Strange.__module__, Strange.__name__ = "pydantic_core", "ValidationError"


def test_an_error_that_cannot_be_looked_at_is_not_about_the_body():
    assert not blames_body(Strange(), b"{}")


@given(st.binary(max_size=200))
def test_a_body_is_never_a_problem(body):
    errors = [raised(do, body) for do in (json.loads, decoded, Order.model_validate_json)]
    assert all(blames_body(error, body) for error in errors if error is not None)


def test_a_body_nested_too_deeply_is_no_problem_either():
    body = b"[" * 100_000
    assert blames_body(raised(Order.model_validate_json, body), body) in (True, False)


def failed(error, body):
    return HandlerFailure(error=error, queue="orders", message=Message(body))


def test_it_is_poison_as_an_invalid_payload_is():
    bad = failed(raised(json.loads, b"not JSON"), b"not JSON")
    for poison in ((), (KeyError,), ("KeyError",)):
        assert decide(bad, Recoverability(poison=poison)) == RedeliverNow()
    for policy in (Recoverability(), Recoverability(poison=("InvalidPayload", KeyError))):
        assert isinstance(decide(bad, policy), MoveToError)
    assert decide(bad, Recoverability(classify=lambda _error: "retry")) == RedeliverNow()
    assert decide(failed(raised(json.loads, "<html>"), b"{}"), Recoverability()) == RedeliverNow()


async def test_bad_json_inside_a_handler_is_moved_at_once_and_a_bad_answer_of_others_is_not(lab):
    @lab.worker.handler("orders")
    async def handle(body: bytes):
        order = json.loads(body)
        json.loads(order["answer"])

    await lab.broker.send_many("orders", [b"not JSON", b'{"answer": "<html>"}'])
    await lab.start()
    await lab.until(lambda: len(lab.told(HandlerFailed)) == 4)
    assert [event.outcome for event in lab.told(HandlerFailed)] == [
        "moved",
        "redeliver_now",
        "redeliver_now",
        "redeliver_later",
    ]
    assert lab.told(MessageMoved)[0].reason == "Poison"


async def test_it_is_not_retried_in_place_either(lab):
    attempts = []

    @lab.worker.handler("orders", retry_in_place=Fixed(0, max_attempts=5))
    async def handle(body: bytes):
        attempts.append(body)
        json.loads(body)

    await lab.broker.send("orders", b"not JSON")
    await lab.start()
    await lab.until(lambda: lab.told(MessageMoved))
    assert len(attempts) == 1
