# SPDX-License-Identifier: MIT
"""From what a program sends to the body of a message, as ``decode`` reads it. Pure: no I/O, no clock.

Bytes are the body as it is, a text is UTF-8. Everything else becomes JSON: plain values and collections, dates, times,
decimals, UUIDs, enums, dataclasses, and the models of pydantic and msgspec, which neither imports unless the program
has. The content type says which of these a body is.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Any, ClassVar, Final, Protocol, TypeAlias
from uuid import UUID

from redrive.errors import InvalidMessage

JSON: Final = "application/json"
TEXT: Final = "text/plain; charset=utf-8"

AS_TEXT: Final[dict[type, tuple[Callable[[Any], str], Callable[[str], Any]]]] = {
    datetime: (datetime.isoformat, datetime.fromisoformat),
    date: (date.isoformat, date.fromisoformat),
    time: (time.isoformat, time.fromisoformat),
    Decimal: (str, Decimal),
    UUID: (str, UUID),
}
"""What is a text in JSON: how it becomes one, and how it is made of one."""


class DataclassInstance(Protocol):
    """An instance of a dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


class PydanticModel(Protocol):
    """A model of pydantic."""

    def model_dump_json(self) -> str:
        """Return its JSON."""
        ...


class MsgspecStruct(Protocol):
    """A struct of msgspec."""

    __struct_fields__: ClassVar[tuple[str, ...]]


JsonPayload: TypeAlias = (
    Mapping[str, Any]
    | list[Any]
    | tuple[Any, ...]
    | float
    | datetime
    | date
    | time
    | Decimal
    | UUID
    | Enum
    | DataclassInstance
    | PydanticModel
    | MsgspecStruct
)
Encodable: TypeAlias = bytes | str | JsonPayload
"""What a body can be made of."""


def encoded(payload: Encodable) -> tuple[bytes, str | None]:
    """Return the body for what is to be sent, and its content type.

    Raises:
        InvalidMessage: it cannot be sent.
    """
    if isinstance(payload, bytes):
        return payload, None
    if isinstance(payload, str):
        check_encodable("message", payload)
        return payload.encode(), TEXT
    return _json(payload), JSON


def check_encodable(name: str, text: str) -> None:
    """See that a text is valid Unicode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidMessage(name, text, "must be valid Unicode: it has half of a surrogate pair") from None


def _json(payload: Any) -> bytes:  # noqa: ANN401 - whatever a program sends
    if payload is None:
        raise _refused(payload, "for JSON's null send b'null'")
    if isinstance(payload, type):
        raise _refused(payload, f"{payload.__name__} is a class: send an instance of it")
    if isinstance(payload, bytearray | memoryview):
        raise _refused(payload, "copy it: bytes(data)")
    try:
        if hasattr(payload, "model_dump_json"):
            text: str = payload.model_dump_json(by_alias=True)
            return text.encode()
        if hasattr(payload, "__struct_fields__"):
            return _msgspec("json").encode(payload)  # type: ignore[no-any-return]  # bytes
        return json.dumps(payload, default=_value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:  # pydantic's and msgspec's errors are among them
        raise _refused(payload, f"what it holds cannot become JSON: {error}") from error


def _value(part: Any) -> Any:  # noqa: ANN401 - what is inside of a payload
    """Return something that JSON has for something that it does not have."""
    if (as_text := AS_TEXT.get(type(part))) is not None:
        return as_text[0](part)
    if isinstance(part, Enum):
        return part.value
    if hasattr(part, "model_dump"):
        return part.model_dump(mode="json", by_alias=True)
    if hasattr(part, "__struct_fields__"):
        return _msgspec().to_builtins(part)
    if isinstance(part, Mapping):
        return dict(part)
    if isinstance(part, type) or not is_dataclass(part):
        raise TypeError(f"{type(part).__name__} is no JSON type, dataclass or model")
    return {each.name: getattr(part, each.name) for each in fields(part)}


def _msgspec(module: str = "") -> Any:  # noqa: ANN401 - a module
    from importlib import import_module

    return import_module(f"msgspec.{module}" if module else "msgspec")


def _refused(payload: object, problem: str) -> InvalidMessage:
    allowed = "must be bytes, a text, JSON values, a dataclass, a pydantic or msgspec model, or a Message"
    return InvalidMessage("message", type(payload).__name__, f"{allowed}; {problem}")
