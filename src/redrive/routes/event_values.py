# SPDX-License-Identifier: MIT
"""What filters read of an event with JMESPath, and the events they make of it. Pure: no I/O, no clock, no randomness.

A JMESPath (https://jmespath.org) such as ``body.items[].price`` picks values out of an event, and builds new ones. It
sees the names that expressions see: ``body``, which must be JSON in UTF-8, ``headers``, and the properties ``id``,
``subject``, ``content_type``, ``correlation_id``, ``reply_to``, ``to`` and ``session_id``. What is missing is null.

An error here is about the event, and permanent: the same event gives the same error.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final, cast

from redrive.broker import Message
from redrive.broker.topics import PROPERTIES
from redrive.errors import ExpressionFailed, InvalidExpression, InvalidPayload, InvalidSetting, MissingExtra
from redrive.printable import encodable, one_line

JSON_TYPE: Final = "application/json"
LONGEST_PATH: Final = 4_096
"""How many characters a JMESPath may have."""

_NAMES = ("body", "headers", *PROPERTIES)
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_WHOLE = "@"
"""Stands for all names of an event among those that a path uses."""

_FIRST_CHILD_ONLY = frozenset(
    ("subexpression", "index_expression", "projection", "value_projection", "filter_projection", "flatten", "pipe")
)
"""Of these nodes of a path, only the first child looks at the event; the others look at what the first one found."""


# --- paths


class EventPath:
    """A JMESPath, compiled; any thread may use it. Get it with ``compiled_path``.

    Args:
        text: how it is written.

    Attributes:
        text: how it is written.
        needs_body: whether it looks at the body, which then must be JSON.
    """

    __slots__ = ("_program", "needs_body", "text")

    def __init__(self, text: str) -> None:
        self._program, names = _parsed(text)
        self.text = text
        self.needs_body = "body" in names or _WHOLE in names

    def search(self, values: dict[str, Any]) -> Any:  # noqa: ANN401 - any JSON
        """Return what it finds; None if there is nothing.

        Raises:
            ExpressionFailed: a function in it was given what it does not take.
        """
        try:
            return self._program.search(values)
        except (ValueError, TypeError, ArithmeticError, LookupError, RecursionError) as error:
            raise ExpressionFailed(self.text, one_line(error, 200)) from error


@lru_cache(maxsize=1_000)
def compiled_path(text: str) -> EventPath:
    """Return a JMESPath; it is compiled once.

    Raises:
        InvalidExpression: it cannot be read, or uses a name or a function that does not exist.
        MissingExtra: the extra ``routes`` is not installed.
    """
    return EventPath(text)


@dataclass(frozen=True, slots=True)
class PathSetting:
    """A setting that is a JMESPath; it is checked when it is given."""

    def checked(self, name: str, value: object) -> str:
        """Return it."""
        if not isinstance(value, str):
            raise InvalidSetting(name, value, "must be a JMESPath, such as 'body.customer'")
        if encodable(value) != value:  # a route is stored
            raise InvalidSetting(name, value, "must be a text of whole characters, without half of a surrogate pair")
        compiled_path(value)
        return value


def _parsed(text: str) -> tuple[Any, frozenset[str]]:
    """Return a path that can be searched with, and which names of the event it uses."""
    try:
        import jmespath
        from jmespath.exceptions import JMESPathError
    except ImportError as error:
        raise MissingExtra("a JMESPath", "routes") from error
    if not 1 <= len(text) <= LONGEST_PATH:
        raise InvalidExpression(one_line(text, 80), f"must be a text of 1 to {LONGEST_PATH:,} characters")
    try:
        program = jmespath.compile(text)
        tree = cast("dict[str, Any]", program.parsed)
        _check_functions(text, tree)
        names = frozenset(_names(tree))
    except JMESPathError as error:
        raise _refusal(text, error) from None
    except RecursionError:
        raise InvalidExpression(text, "it is nested too deeply") from None
    for name in sorted(names - {*_NAMES, _WHOLE}):
        raise _unknown_name(text, name)
    return program, names


def _children(node: dict[str, Any]) -> list[dict[str, Any]]:
    return [child for child in node["children"] if isinstance(child, dict)]  # an index has a number there


def _names(node: dict[str, Any]) -> Iterator[str]:
    """Yield the names that a path looks up in the event itself."""
    kind = node["type"]
    if kind == "field":
        yield node["value"]
    elif kind in ("current", "identity"):
        yield _WHOLE
    elif kind != "expref":  # that looks at the items of a list
        for child in _children(node)[: 1 if kind in _FIRST_CHILD_ONLY else None]:
            yield from _names(child)


def _check_functions(text: str, node: dict[str, Any]) -> None:
    """See that the functions of a path exist and have the right number of arguments."""
    from jmespath.functions import Functions

    for child in _children(node):
        _check_functions(text, child)
    if node["type"] != "function_expression":
        return
    name, given = node["value"], len(node["children"])
    known: dict[str, Any] = Functions.FUNCTION_TABLE
    called = re.search(rf"(?<![\w.]){re.escape(name)}\s*\(", text)
    position = called.start() if called else None
    if name not in known:
        raise InvalidExpression(text, f"there is no function {name}(); {_meant(name, sorted(known))}", position)
    signature = known[name]["signature"]
    is_open = bool(signature and signature[-1].get("variadic"))
    if given < len(signature) or (given > len(signature) and not is_open):
        wanted = f"{'at least ' if is_open else ''}{len(signature)}"
        raise InvalidExpression(text, f"{name}() takes {wanted} arguments, not {given}", position)


def _meant(name: str, known: Sequence[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, known, 1)
    return f"did you mean {near[0]}()?" if near else f"these exist: {', '.join(known)}"


def _unknown_name(text: str, name: str) -> InvalidExpression:
    found = re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", text)
    position = found.start() if found else None
    if position and text[position - 1] == '"':
        return InvalidExpression(text, f"double quotes are for names; write '{name}' for a text", position - 1)
    return InvalidExpression(
        text, f"an event has no {name!r}; did you mean 'body.{name}' or 'headers.{name}'?", position
    )


def _refusal(text: str, error: Exception) -> InvalidExpression:
    """Return the error about a text that the library cannot read."""
    position: int | None = getattr(error, "lex_position", None)
    found = str(getattr(error, "token_value", None))
    if found == "-":
        return InvalidExpression(text, """write a name with '-' in double quotes: headers."x-tenant\"""", position)
    if position is None or position >= len(text):
        return InvalidExpression(text, "it ends too early", position)
    if found.startswith(("'", '"', "`")):
        return InvalidExpression(text, "a text begins here that does not end", position)
    return InvalidExpression(text, f"{one_line(found, 80)!r} cannot stand here", position)


# --- what an event is for a path


class EventValues:
    """An event as paths see it; its body is read when a path looks at it, and once.

    Args:
        message: the event.
    """

    __slots__ = ("_message", "_values")

    def __init__(self, message: Message) -> None:
        self._message = message
        self._values: dict[str, Any] = {name: getattr(message, name) for name in PROPERTIES}
        self._values["headers"] = dict(message.headers)

    def at(self, path: str) -> Any:  # noqa: ANN401 - any JSON
        """Return what is at a JMESPath; None if there is nothing.

        Raises:
            InvalidPayload: the path looks at the body, which is no JSON.
            ExpressionFailed: a function in the path was given what it does not take.
        """
        compiled = compiled_path(path)
        if compiled.needs_body and "body" not in self._values:
            self._values["body"] = body_value(self._message)
        return compiled.search(self._values)

    def required(self, path: str) -> Any:  # noqa: ANN401 - any JSON
        """Return what is at a JMESPath.

        Raises:
            InvalidPayload: the path looks at the body, which is no JSON.
            ExpressionFailed: there is nothing, or a function in the path was given what it does not take.
        """
        found = self.at(path)
        if found is None:
            raise ExpressionFailed(path, "its result is null: this event does not have what it names")
        return found


def value_at(message: Message, path: str) -> Any:  # noqa: ANN401 - any JSON
    """Return what is at a JMESPath of one event; None if there is nothing. Raises what ``EventValues.at`` raises."""
    return EventValues(message).at(path)


def _no_number(name: str) -> Any:  # noqa: ANN401 - it never returns
    raise ValueError(f"{name} is no number of JSON")


_decode = json.JSONDecoder(parse_constant=_no_number).decode


def body_value(message: Message) -> Any:  # noqa: ANN401 - any JSON
    """Return the value of a JSON body.

    Raises:
        InvalidPayload: it is no JSON in UTF-8.
    """
    try:
        return json_value(message.body)
    except ValueError as error:
        raise InvalidPayload(f"the body is no JSON: {error}; it begins with {message.body[:60]!r}") from None


def json_value(data: bytes) -> Any:  # noqa: ANN401 - any JSON
    """Return the value of JSON in UTF-8.

    Raises:
        ValueError: it is none; the text says where.
    """
    try:
        return _decode(data.removeprefix(_BYTE_ORDER_MARK).decode())
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def kind_word(value: object) -> str:
    """Return what a JSON value is, for people: ``a list``."""
    if isinstance(value, bool):
        return "a boolean"
    return next((word for kind, word in _KINDS.items() if isinstance(value, kind)), "null")


_KINDS: dict[Any, str] = {str: "a text", int | float: "a number", list: "a list", dict: "an object"}


# --- what filters make


_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def json_bytes(value: object) -> bytes:
    """Return a value as JSON in UTF-8.

    Raises:
        InvalidPayload: it cannot be written as JSON.
    """
    try:
        return _encode(value).encode()
    except UnicodeEncodeError:  # half of a surrogate pair: only its escape can be written
        return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidPayload(f"what a filter made cannot be written as JSON: {error}") from error


def plain_bytes(value: object) -> bytes:
    """Return a value as bytes that equal values share: a text as UTF-8, all else as JSON with its keys in order."""
    if isinstance(value, str):
        return value.encode(errors="surrogatepass")
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def with_json(message: Message, value: object) -> Message:
    """Return an event with a JSON body instead of the one it has; all else stays."""
    return replace(message, body=json_bytes(value), content_type=JSON_TYPE)


def numbered(message: Message, parts: Iterable[Message]) -> list[Message]:
    """Return the parts of an event, each with an id of its own, which is the same in every replay: ``o-1:0``."""
    if message.id is None:
        return list(parts)
    return [replace(part, id=f"{message.id}:{index}") for index, part in enumerate(parts)]
