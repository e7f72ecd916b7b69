# SPDX-License-Identifier: MIT
"""JSON bodies, read and written so that all other values stay as they are, and JSON pointers (RFC 6901).

Every number that is not set keeps its digits, every object its order. Pure: no I/O, no clock, no randomness.
"""

import json
import re
from typing import Any

from redrive.errors import TransformFailed

_INDEX = re.compile(r"0|[1-9][0-9]{0,9}")
HALF_PAIR = re.compile("[\ud800-\udfff]")
"""Half of a surrogate pair, which cannot be encoded."""


class _Number(str):
    """A number as written in a body, with all its digits, also those that a float cannot hold."""

    __slots__ = ()


_EXACT: dict[str, Any] = {"parse_float": _Number, "parse_int": _Number}


def read_json(body: bytes) -> tuple[Any, str]:
    """Return a body's value and its encoding. Many .NET programs write a byte order mark."""
    encoding = json.detect_encoding(body)
    try:
        return json.loads(body.decode(encoding), **_EXACT, object_pairs_hook=_object), encoding
    except ValueError as error:
        raise TransformFailed(f"the body is not JSON: {error}") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):  # one of the values would be lost
        raise TransformFailed("the body is JSON with the same key twice in one object")
    return found


def write_json(value: object, line: str | None = None) -> str:
    """Return a value as JSON, without any spaces; or, given how a line begins, in lines."""
    inner = None if line is None else f"{line}  "
    if isinstance(value, dict):
        colon = ":" if line is None else ": "
        pairs = [f"{_write_text(str(key))}{colon}{write_json(each, inner)}" for key, each in value.items()]
        return _enclosed("{", pairs, "}", line)
    if isinstance(value, list):
        return _enclosed("[", [write_json(each, inner) for each in value], "]", line)
    if isinstance(value, str):
        return str(value) if isinstance(value, _Number) else _write_text(value)
    return json.dumps(value)


def _enclosed(opening: str, parts: list[str], closing: str, line: str | None) -> str:
    if line is None or not parts:
        return f"{opening}{','.join(parts)}{closing}"
    return f"{opening}{line}  {f',{line}  '.join(parts)}{line}{closing}"


def _write_text(text: str) -> str:
    return json.dumps(text, ensure_ascii=HALF_PAIR.search(text) is not None)  # half a pair cannot be encoded


def _parts(pointer: str) -> list[str]:
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def _key(holder: object, part: str) -> Any:  # noqa: ANN401 - of an object a text, of a list a number
    """Return the key of an existing value, or None."""
    if isinstance(holder, list):
        return int(part) if _INDEX.fullmatch(part) and int(part) < len(holder) else None
    return part if isinstance(holder, dict) and part in holder else None


def _found(document: Any, way: list[str], pointer: str) -> Any:  # noqa: ANN401 - any JSON
    for part in way:
        key = _key(document, part)
        if key is None:
            raise TransformFailed(_missing(pointer, part, document))
        document = document[key]
    return document


def with_value(document: Any, pointer: str, value: object) -> Any:  # noqa: ANN401 - any JSON
    """Return the document with a value set."""
    if not pointer:
        return value
    *way, last = _parts(pointer)
    holder = _found(document, way, pointer)
    key = last if isinstance(holder, dict) else _key(holder, last)
    if key is not None:
        holder[key] = value
    elif isinstance(holder, list) and last == "-":
        holder.append(value)
    else:
        raise TransformFailed(_missing(pointer, last, holder))
    return document


def _missing(pointer: str, part: str, holder: object) -> str:
    plain = "an object" if isinstance(holder, dict) else "what is neither an object nor a list"
    where = f"a list of {len(holder):,}" if isinstance(holder, list) else plain
    return f"{pointer} is not in the body: there is no {part!r} in {where}"


def remove_values(document: object, pointers: tuple[str, ...]) -> None:
    """Remove values from a document; missing values are ignored."""
    places: list[tuple[Any, Any]] = []
    for pointer in pointers:
        *way, last = _parts(pointer)
        try:
            holder = _found(document, way, pointer)
        except TransformFailed:
            continue
        if _key(holder, last) is not None:
            places.append((holder, _key(holder, last)))
    for holder, key in sorted(places, key=lambda place: place[1] if isinstance(place[1], int) else -1, reverse=True):
        del holder[key]  # from the end of each list, so that no index moves before its turn
