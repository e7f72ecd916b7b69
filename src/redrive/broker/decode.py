# SPDX-License-Identifier: MIT
"""From a message's body to what a handler takes, by the annotation of its first parameter. Pure: no I/O, no clock.

``bytes``, or no annotation, is the body as it is, ``str`` the body as UTF-8, ``Message`` the whole message. Everything
else is JSON: plain values and collections, ``Any``, dataclasses (fields the body has too many are ignored, as a newer
sender may have added them), and the models of pydantic and msgspec, which check by their own rules.
"""

import json
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from decimal import InvalidOperation
from enum import Enum
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints, is_typeddict

from redrive.broker.encode import AS_TEXT
from redrive.broker.message import Message
from redrive.errors import InvalidPayload, InvalidSetting

Decode: TypeAlias = Callable[[Message], Any]
_Convert: TypeAlias = Callable[[Any, str], Any]
"""Turns a JSON value into what is wanted; the text says where in the body it is."""

_PLAIN: dict[Any, tuple[type, ...]] = {str: (str,), int: (int,), float: (int, float), bool: (bool,)}


def decoder(annotation: Any) -> Decode:  # noqa: ANN401 - an annotation is anything
    """Return the function that turns a message into what a handler's parameter is annotated with.

    Raises:
        InvalidSetting: the annotation is nothing that a body can become.
    """
    if annotation is bytes:
        return lambda message: message.body
    if annotation is Message:
        return lambda message: message
    if annotation is str:
        return lambda message: _decoded(message.body, bytes.decode)
    if hasattr(annotation, "model_validate_json"):  # pydantic
        return lambda message: _decoded(message.body, annotation.model_validate_json)
    if hasattr(annotation, "__struct_fields__"):
        return _msgspec_decoder(annotation)
    convert = _converter(annotation, {})
    return lambda message: convert(_decoded(message.body, json.loads), "body")


def _msgspec_decoder(annotation: Any) -> Decode:  # noqa: ANN401 - a msgspec.Struct
    from importlib import import_module

    decode: Callable[[bytes], Any] = import_module("msgspec.json").Decoder(annotation).decode
    return lambda message: _decoded(message.body, decode)


def _decoded(body: bytes, decode: Callable[[bytes], Any]) -> Any:  # noqa: ANN401 - what the annotation says
    try:
        return decode(body)
    except (ValueError, RecursionError) as error:  # pydantic's, msgspec's and json's errors are ValueErrors
        start = body[:60]
        raise InvalidPayload(f"the body cannot be decoded: {error}; it begins with {start!r}") from error


def _converter(wanted: Any, seen: dict[type, _Convert]) -> _Convert:  # noqa: ANN401, PLR0911 - an annotation is anything, and each kind has its own
    if wanted is Any or wanted is object:
        return lambda value, _: value
    if wanted is None or wanted is type(None):
        return lambda value, where: _checked(value, (type(None),), where)
    if wanted in _PLAIN:
        return lambda value, where: _plain(value, wanted, where)
    if wanted in AS_TEXT:
        return lambda value, where: _from_text(value, wanted, where)
    if isinstance(wanted, type) and issubclass(wanted, Enum):
        return lambda value, where: _enum_member(value, wanted, where)
    if isinstance(wanted, type) and is_dataclass(wanted):
        return seen.get(wanted) or _dataclass_converter(wanted, seen)
    return _collection_converter(wanted, seen)


def _collection_converter(wanted: Any, seen: dict[type, _Convert]) -> _Convert:  # noqa: ANN401 - an annotation is anything
    origin, inside = get_origin(wanted) or wanted, get_args(wanted)
    if origin is Union or origin is types.UnionType:
        return _union_converter([_converter(each, seen) for each in inside])
    if origin is Literal:
        return lambda value, where: _literal(value, inside, where)
    if origin in (list, Sequence):
        item = _converter(inside[0] if inside else Any, seen)
        return lambda value, where: [
            item(each, f"{where}[{at}]") for at, each in enumerate(_checked(value, (list,), where))
        ]
    if is_typeddict(wanted) or (origin in (dict, Mapping) and (not inside or inside[0] in (str, Any))):
        entry = _converter(inside[1] if inside else Any, seen)
        return lambda value, where: {
            name: entry(each, f"{where}[{name!r}]") for name, each in _checked(value, (dict,), where).items()
        }
    raise InvalidSetting(
        "handler", wanted, "cannot be made from a body; take bytes, str, JSON types, a dataclass or a model"
    )


def _dataclass_converter(wanted: type, seen: dict[type, _Convert]) -> _Convert:
    converters: dict[str, _Convert] = {}

    def convert(value: Any, where: str) -> Any:  # noqa: ANN401 - JSON in, an instance out
        found = _checked(value, (dict,), where)
        missing = [name for name in _required(wanted) if name not in found]
        if missing:
            raise InvalidPayload(f"{where} has no {', '.join(map(repr, missing))}, which {wanted.__name__} needs")
        known = {name: converters[name](each, f"{where}.{name}") for name, each in found.items() if name in converters}
        return _built(wanted, known, where)

    seen[wanted] = convert  # before its fields: a class may contain itself
    hints = get_type_hints(wanted)
    converters.update({each.name: _converter(hints[each.name], seen) for each in fields(wanted) if each.init})
    return convert


def _built(wanted: type, known: dict[str, Any], where: str) -> Any:  # noqa: ANN401 - an instance
    try:
        return wanted(**known)
    except (ValueError, TypeError) as error:  # the class checks its own values
        raise InvalidPayload(f"{where} is no {wanted.__name__}: {error}") from error


def _required(wanted: Any) -> list[str]:  # noqa: ANN401 - a dataclass
    return [
        each.name
        for each in fields(wanted)
        if each.init and each.default is MISSING and each.default_factory is MISSING
    ]


def _union_converter(choices: list[_Convert]) -> _Convert:
    def convert(value: Any, where: str) -> Any:  # noqa: ANN401 - JSON in, whichever fits out
        problems: list[str] = []
        for choice in choices:
            try:
                return choice(value, where)
            except InvalidPayload as error:
                problems.append(str(error))
        raise InvalidPayload(f"{where} fits none of its types: {'; '.join(problems)}")

    return convert


def _checked(value: Any, kinds: tuple[type, ...], where: str) -> Any:  # noqa: ANN401 - JSON in and out
    if not isinstance(value, kinds):
        raise InvalidPayload(f"{where} must be {_JSON_NAMES[kinds[-1]]}, not {_JSON_NAMES[type(value)]}")
    return value


def _plain(value: Any, wanted: type, where: str) -> Any:  # noqa: ANN401 - JSON in and out
    if isinstance(value, bool) and wanted is not bool:
        raise InvalidPayload(f"{where} must be {_JSON_NAMES[wanted]}, not a boolean")
    found = _checked(value, _PLAIN[wanted], where)
    return float(found) if wanted is float else found


def _from_text(value: Any, wanted: Any, where: str) -> Any:  # noqa: ANN401 - JSON in, a value out
    text = _checked(value, (str,), where)
    try:
        return AS_TEXT[wanted][1](text)
    except (ValueError, InvalidOperation) as error:
        raise InvalidPayload(f"{where} is no {wanted.__name__}: {text[:60]!r}") from error


def _enum_member(value: Any, wanted: type[Enum], where: str) -> Any:  # noqa: ANN401 - JSON in, a member out
    try:
        return wanted(value)
    except ValueError as error:
        known = ", ".join(repr(member.value) for member in wanted)
        raise InvalidPayload(f"{where} must be one of {known}, not {value!r}") from error


def _literal(value: Any, allowed: tuple[Any, ...], where: str) -> Any:  # noqa: ANN401 - JSON in and out
    if not any(value == each and type(value) is type(each) for each in allowed):
        raise InvalidPayload(f"{where} must be one of {', '.join(map(repr, allowed))}, not {value!r}")
    return value


_JSON_NAMES: dict[type, str] = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "a boolean",
    list: "a list",
    dict: "an object",
    type(None): "null",
}
