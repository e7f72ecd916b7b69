# SPDX-License-Identifier: MIT
"""What is known about one failure, as a text in JSON. Pure: no I/O.

A trace is in the headers that a failure was read from, and in the failure. It is most of what is stored, so it is there
once: where a header has the same text as a field, the header's value is an object that names the field.
"""

import json
from collections.abc import Callable
from operator import attrgetter
from typing import Any

from redrive.recovery.port import Failure

_FIELDS = (
    *("exception_type", "exception_message", "stack_trace", "source", "reason", "description", "queue"),
    *("host", "worker", "tries", "vocabulary"),
)
_values_of = attrgetter(*_FIELDS)
_MAY_BE_LONG = ("stack_trace", "exception_message", "description")
_LONG = 100
"""A shorter text is not worth the name of its field."""

_SAME = "same_as"


def _json_encoder() -> Callable[[object], str]:
    """Return ``json.dumps``; where it is in C, without building its encoder anew at each call."""
    plain = json.JSONEncoder(check_circular=False)
    build = getattr(json.encoder, "c_make_encoder", None)
    if build is None:
        return plain.encode
    pieces = build(None, plain.default, json.encoder.encode_basestring_ascii, None, ": ", ", ", False, False, True)  # noqa: FBT003
    return lambda value: "".join(pieces(value, 0))


_as_json = _json_encoder()


def written(failure: Failure) -> str:
    """Return the details of a failure as a text."""
    known: dict[str, Any] = {name: value for name, value in zip(_FIELDS, _values_of(failure), strict=True) if value}
    headers: dict[str, Any] = dict(failure.headers)
    for field in _MAY_BE_LONG:
        text = known.get(field, "")
        if len(text) > _LONG:
            headers.update((name, {_SAME: field}) for name, value in failure.headers.items() if value == text)
    known["headers"] = headers
    return _as_json(known)


def read(text: str) -> dict[str, Any]:
    """Return the details that a text says, also one of a version that stored a trace twice."""
    details: dict[str, Any] = json.loads(text)
    headers = details.get("headers", {})
    for name, value in headers.items():
        if isinstance(value, dict):  # which no header's own value is
            headers[name] = details[value[_SAME]]
    return details
