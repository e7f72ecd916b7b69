# SPDX-License-Identifier: MIT
"""Views read back into the records that they were made of."""

import base64
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from functools import cache
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from redrive.broker import DeadLetterInfo, Message, Received, Resubmitted, State, Stayed
from redrive.broker.views import View
from redrive.recovery import FailedAttempt, FailedDetail, FailedMessage, Note, Operation, Part, Plan, SetAside

T = TypeVar("T")

_MESSAGE = ("id", "content_type", "subject", "correlation_id", "reply_to", "to", "session_id", "ttl")


def record(kind: type[T], view: View) -> T:
    """Return the record of a view whose fields are those of the record."""
    hints: dict[str, Any] = _hints(kind)  # type: ignore[arg-type]  # a class can be hashed
    return kind(**{name: _value(hint, view[name]) for name, hint in hints.items() if name in view})


def records(kind: type[T], found: Sequence[View]) -> list[T]:
    """Return the records of a list of views."""
    return [record(kind, each) for each in found]


def operation(view: View) -> Operation:
    """Return an operation."""
    return record(Operation, {**view, "plan": Plan.from_json(view["plan"])})


def message(view: View) -> Message:
    """Return a message."""
    own = {name: view[name] for name in _MESSAGE}
    body = view["body"]
    raw = base64.b64decode(body) if view["body_encoding"] == "base64" else body.encode()
    return Message(raw, headers=view["headers"], **own)


def received(view: View) -> Received:
    """Return a message as it is in a queue."""
    info = view["dead_letter"]
    times = {name: _value(datetime | None, view.get(name)) for name in ("due_at", "locked_until", "expires_at")}
    return Received(
        message=message(view),
        queue=view["queue"],
        sequence=view["sequence"],
        state=State[view["state"].upper()],
        enqueued_at=datetime.fromisoformat(view["enqueued_at"]),
        delivery_count=view["delivery_count"],
        dead_letter_info=info and DeadLetterInfo(info["reason"], info["description"], info["source"]),
        **times,
    )


def resubmitted(view: View) -> Resubmitted:
    """Return how many dead letters were sent again."""
    made = Resubmitted(view["resubmitted"])
    made.stayed = tuple(Stayed(each["number"], each["id"], each["reason"]) for each in view["stayed"])
    made.locked = view["locked"]
    made.locked_until = _value(datetime | None, view["locked_until"])
    return made


def set_aside(view: View) -> SetAside:
    """Return a message that could not be read."""
    return SetAside(
        number=view["number"],
        reason=view["reason"],
        at=_value(datetime | None, view["at"]),
        received=received(view["message"]),
    )


def detail(view: View) -> FailedDetail:
    """Return everything about a failed message."""
    return FailedDetail(
        summary=record(FailedMessage, view),
        message=message(view["message"]),
        attempts=[_attempt(each) for each in view["attempts_kept"]],
        parts=records(Part, view["operations"]),
        notes=records(Note, view["notes"]),
    )


def _attempt(view: View) -> FailedAttempt:
    details = {name: value for name, value in view.items() if name not in ("failed_at", "operation")}
    return FailedAttempt(
        failed_at=datetime.fromisoformat(view["failed_at"]), operation=view["operation"], details=details
    )


@cache
def _hints(kind: type) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {each.name: hints[each.name] for each in fields(kind) if each.init}


def _value(hint: Any, value: Any) -> Any:  # noqa: ANN401 - a type, and what JSON has
    if value is None:
        return None
    if get_origin(hint) in (Union, UnionType):
        return _value(next(each for each in get_args(hint) if each is not type(None)), value)
    if get_origin(hint) is tuple or get_origin(hint) is Sequence:
        return tuple(_value(get_args(hint)[0], each) for each in value)
    return _one(hint, value) if isinstance(hint, type) and not isinstance(value, hint) else value


def _one(kind: type, value: Any) -> Any:  # noqa: ANN401 - as above
    if issubclass(kind, Enum):
        return next(each for each in kind if value in (getattr(each, "word", None), each.value, each.name.lower()))
    if kind is float and isinstance(value, str):  # a time in seconds since 1970, which a view has as a text
        return datetime.fromisoformat(value).timestamp()
    if issubclass(kind, datetime):
        return datetime.fromisoformat(value)
    return record(kind, value) if is_dataclass(kind) and isinstance(value, dict) else value
