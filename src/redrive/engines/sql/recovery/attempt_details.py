# SPDX-License-Identifier: MIT
"""What is known about one failure, as a text in JSON. Pure: no I/O.

A trace is most of it. It is in the headers that a failure was read from, and in the failure, and ends with what the
exception said. So it is stored once, without its end, for all failures of a group that share it (``SharedTrace``). What
a worker wrote into headers is not stored once more as fields then. An attempt before the last has everything in its
details: it stays when all others that shared its trace are gone.
"""

import json
from collections.abc import Callable
from functools import lru_cache
from hashlib import blake2b
from operator import attrgetter
from typing import Any, NamedTuple

from redrive.recovery.port import FIELD_HEADERS, Failure

_FIELDS = (
    *("exception_type", "exception_message", "stack_trace", "source", "reason", "description", "queue"),
    *("host", "worker", "tries", "vocabulary"),
)
_values_of = attrgetter(*_FIELDS)
_MAY_BE_LONG = ("stack_trace", "exception_message", "description")
_LONG = 100
"""A shorter text is not worth the name of its field."""

_SAME, _SHARED = "same_as", "shared_trace"

_WORKERS = "redrive"
"""The vocabulary of failures that a worker wrote into headers."""
_TRACE_HEADER = FIELD_HEADERS["stack_trace"]
_OTHERS = {field: header for field, header in FIELD_HEADERS.items() if field != "stack_trace"}
_others_of = attrgetter(*_OTHERS)
_OTHER_HEADERS = tuple(_OTHERS.values())


class SharedTrace(NamedTuple):
    """A trace without its end, which failures share.

    Attributes:
        digest: distinguishes it from the other traces of its group, which are few.
        text: the trace.
        end: how many newlines follow the text and what the exception said; -1: the text is all of it.
    """

    digest: int
    text: str
    end: int


def _json_encoder() -> Callable[[object], str]:
    """Return ``json.dumps``; where it is in C, without building its encoder anew at each call."""
    plain = json.JSONEncoder(check_circular=False)
    build = getattr(json.encoder, "c_make_encoder", None)
    if build is None:
        return plain.encode
    pieces = build(None, plain.default, json.encoder.encode_basestring_ascii, None, ": ", ", ", False, False, True)  # noqa: FBT003
    return lambda value: "".join(pieces(value, 0))


_as_json = _json_encoder()


def trace_of(failure: Failure) -> SharedTrace | None:
    """Return the trace of a failure as others may share it; None: it stays in the details."""
    trace, said, headers = failure.stack_trace, failure.exception_message, failure.headers
    if len(trace) <= _LONG or failure.vocabulary != _WORKERS or headers.get(_TRACE_HEADER) != trace:
        return None
    if _others_of(failure) != tuple([headers.get(name, "") for name in _OTHER_HEADERS]):
        return None  # a header has another value than its field
    text, end = trace, -1
    if said and (bare := trace.rstrip("\n")).endswith(said):
        text, end = bare[: -len(said)], len(trace) - len(bare)
    digest = _digest_of(text)
    return None if digest is None else SharedTrace(digest, text, end)


@lru_cache(maxsize=500)
def _digest_of(text: str) -> int | None:
    """Return the digest of a text as a number of 64 bits; None if no database can store the text."""
    try:
        return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big", signed=True)
    except UnicodeEncodeError:
        return None


def written(failure: Failure, trace: SharedTrace | None = None) -> str:
    """Return the details of a failure as a text.

    Args:
        failure: the failure.
        trace: its trace, if that is stored for all failures that share it.
    """
    headers: dict[str, Any] = dict(failure.headers)
    if trace is not None:
        headers[_TRACE_HEADER] = None  # in its place
        known: dict[str, Any] = {_SHARED: trace.end, "queue": failure.queue, "tries": failure.tries}
        if failure.description:
            known["description"] = failure.description
    else:
        known = {name: value for name, value in zip(_FIELDS, _values_of(failure), strict=True) if value}
        for field in _MAY_BE_LONG:
            text = known.get(field, "")
            if len(text) > _LONG:
                headers.update((name, {_SAME: field}) for name, value in failure.headers.items() if value == text)
    known["headers"] = headers
    return _as_json(known)


def read(text: str, trace: str | None = None) -> dict[str, Any]:
    """Return the details that a text says, also one of a version that stored a trace twice.

    Args:
        text: the text.
        trace: the text of the trace that is not in the details themselves; None: there is none.
    """
    details: dict[str, Any] = json.loads(text)
    headers = details.get("headers", {})
    if (end := details.pop(_SHARED, None)) is not None:
        return _with_trace(details, headers, trace or "", end)
    for name, value in headers.items():
        if isinstance(value, dict):  # which no header's own value is
            headers[name] = details[value[_SAME]]
    return details


def _with_trace(details: dict[str, Any], headers: dict[str, Any], trace: str, end: int) -> dict[str, Any]:
    said = headers.get(FIELD_HEADERS["exception_message"], "")
    headers[_TRACE_HEADER] = trace if end < 0 else trace + said + "\n" * end
    details |= {field: headers.get(header, "") for field, header in FIELD_HEADERS.items()}
    details["vocabulary"] = _WORKERS
    return {**{name: details[name] for name in _FIELDS if details.get(name)}, "headers": headers}


def in_full(text: str, trace: str) -> str:
    """Return details with the trace in them, as ``written`` makes them of a failure whose trace is not shared."""
    details = read(text, trace)
    headers = details["headers"]
    long = {details[field]: field for field in reversed(_MAY_BE_LONG) if len(details.get(field, "")) > _LONG}
    details["headers"] = {n: {_SAME: long[v]} if isinstance(v, str) and v in long else v for n, v in headers.items()}
    return _as_json(details)
