# SPDX-License-Identifier: MIT
# ruff: noqa: ARG001, ARG004, ARG005 - each takes an event, as a filter calls it
"""Functions of a program, for filters to call."""

from dataclasses import dataclass
from functools import partial, wraps
from threading import current_thread

from redrive.broker import Message
from redrive.errors import InvalidPayload
from redrive.routes.outcomes import DestinationDown, Rejected, Throttled, TryLater

RESULTS = {
    "down": DestinationDown("off"),
    "rejected": Rejected("bad"),
    "throttled": Throttled("slow", 3.0),
    "later": TryLater("soon"),
}


@dataclass
class Order:
    number: int


def result(message):
    """Return what the subject of the event asks for."""
    return {
        "pass": True,
        "consume": False,
        "nothing": None,
        "message": Message(b"new", id="m-1", subject="changed"),
        "no-id": Message(b"new"),
        "messages": [Message(b"a"), Message(b"b", id="own")],
        "no-messages": [],
        "list": [1, 2],
        "dict": {"a": 1},
        "text": "plain",
        "bytes": b"\xff",
        "dataclass": Order(7),
        "object": object(),
        "zero": 0,
        **RESULTS,
    }[message.subject]


async def later(message):
    return result(message)


def coroutine(message):
    return later(message)


def thread(message):
    return {"thread": current_thread().name}


def fails(message):
    raise KeyError("no such customer")


async def refuses(message):
    raise InvalidPayload("no customer")


def unreachable(message):
    raise ConnectionRefusedError("nothing listens")


def _decorated(function):
    @wraps(function)
    def wrapper(message):
        return function(message)

    return wrapper


@_decorated
def decorated(message):
    return True


def make():
    def inner(message):
        return True

    return inner


class Checks:
    def method(self, message):
        return True

    @staticmethod
    def static(message):
        return True

    def __call__(self, message):
        return True


hidden = make()
nameless = lambda message: True  # noqa: E731 - it is what is tested
half = partial(result)
number = 7
