# SPDX-License-Identifier: MIT
"""What is known about one failure, as a text in JSON. Pure: no I/O.

A trace is most of it. It is in the headers that a failure was read from, and in the failure, and ends with what the
exception said. So it is stored once, without its end, for all failures of a group that share it (``SharedTrace``). What
a worker wrote into headers is not stored once more as fields then. Of failures that are alike, the other headers are
stored with the trace too, and each has only what is its own: when it was, what the exception said, the host. An attempt
before the last has everything in its details: it stays when all others that shared its trace are gone.
"""

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from hashlib import blake2b
from operator import attrgetter
from typing import Any, NamedTuple

from redrive.broker.headers import FAILED_AT
from redrive.recovery.port import FIELD_HEADERS, Alike, Failure

_FIELDS = (
    *("exception_type", "exception_message", "stack_trace", "source", "reason", "description", "queue"),
    *("host", "worker", "tries", "vocabulary"),
)
_values_of = attrgetter(*_FIELDS)
_MAY_BE_LONG = ("stack_trace", "exception_message", "description")
_LONG = 100
"""A shorter text is not worth the name of its field."""

_SAME, _SHARED, _ALIKE = "same_as", "shared_trace", "alike"

_WORKERS = "redrive"
"""The vocabulary of failures that a worker wrote into headers."""
_TRACE_HEADER = FIELD_HEADERS["stack_trace"]
_OTHERS = {field: header for field, header in FIELD_HEADERS.items() if field != "stack_trace"}
_others_of = attrgetter(*_OTHERS)
_OTHER_HEADERS = tuple(_OTHERS.values())
_OWN = {"at": FAILED_AT, "said": FIELD_HEADERS["exception_message"], "host": FIELD_HEADERS["host"]}
"""The headers, beside the trace, that each of the failures that are alike has in its own details. They are texts.

The host is the same for many, but there are too many hosts over time to store all else once for each.
"""
_DIFFERENT = frozenset({_OWN["at"], _OWN["said"]})
_ALIKE_FIELDS = {field: header for field, header in _OTHERS.items() if header not in _DIFFERENT}


class SharedTrace(NamedTuple):
    """A trace without its end, which failures share, or what all failures that are alike share, in JSON.

    Attributes:
        digest: distinguishes it from the others of its group, which are few.
        text: the trace, or the JSON.
        end: how many newlines follow the trace and what the exception said; -1: the text is all of it.
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
_as_text: Callable[[Any], str] = json.encoder.encode_basestring_ascii


class _Template(NamedTuple):
    """How the details of failures that are alike are stored.

    Attributes:
        digest: that of the text.
        text: what they share, in JSON.
        host: where all of them were, as the end of the details of each.
    """

    digest: int
    text: str
    host: str


@lru_cache(maxsize=500)
def _template(alike: Alike) -> _Template | None:
    """Return how the details of failures that are alike are stored; None: one by one."""
    failure = alike.failure
    headers: dict[str, Any] = {**dict.fromkeys(alike.names), **failure.headers}
    if len(alike.trace) <= _LONG or failure.vocabulary != _WORKERS or not _DIFFERENT.issubset(alike.names):
        return None
    if any(getattr(failure, field) != headers.get(name, "") for field, name in _ALIKE_FIELDS.items()):
        return None
    host = "}"
    if _OWN["host"] in headers:
        headers[_OWN["host"]] = None  # in its place
        host = f', "host": {_as_text(failure.host)}}}'
    text = _as_json({"trace": alike.trace, **_known_of(failure), "headers": headers})
    return _Template(_digest_of(text), text, host)


def shared_by(alike: Alike) -> SharedTrace | None:
    """Return what failures that are alike share; None: the details of each are written alone."""
    template = _template(alike)
    return None if template is None else SharedTrace(template.digest, template.text, -1)


def trace_of(failure: Failure, alike: Alike | None = None) -> SharedTrace | None:
    """Return the trace of a failure as others may share it; None: it stays in the details.

    Args:
        failure: the failure.
        alike: what it shares with others, if it is known.
    """
    if alike is not None and (template := _template(alike)) is not None:
        end = len(failure.stack_trace) - len(alike.trace) - len(failure.exception_message)
        return SharedTrace(template.digest, template.text, end)
    trace, said, headers = failure.stack_trace, failure.exception_message, failure.headers
    if len(trace) <= _LONG or failure.vocabulary != _WORKERS or headers.get(_TRACE_HEADER) != trace:
        return None
    if _others_of(failure) != tuple([headers.get(name, "") for name in _OTHER_HEADERS]):
        return None  # a header has another value than its field
    text, end = trace, -1
    if said and (bare := trace.rstrip("\n")).endswith(said):
        text, end = bare[: -len(said)], len(trace) - len(bare)
    try:
        return SharedTrace(_digest_of(text), text, end)
    except UnicodeEncodeError:  # no database can store it
        return None


@lru_cache(maxsize=500)
def _digest_of(text: str) -> int:
    """Return the digest of a text as a number of 64 bits."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big", signed=True)


def written(failure: Failure, trace: SharedTrace | None = None, alike: Alike | None = None) -> str:
    """Return the details of a failure as a text.

    Args:
        failure: the failure.
        trace: its trace, if that is stored for all failures that share it.
        alike: what it shares with others, if it is known.
    """
    if trace is not None and alike is not None and (writing := written_like(alike)) is not None:
        return writing(failure.headers[FAILED_AT], failure.exception_message, trace.end)
    return _written_alone(failure, trace)


@lru_cache(maxsize=500)
def written_like(alike: Alike) -> Callable[[Any, str, int], str] | None:
    """Return how the details of failures that are alike are written; None: one by one.

    It is given the header that says when a failure was, what the exception said, and how many newlines follow that.
    """
    template = _template(alike)
    if template is None:
        return None
    host = template.host
    return lambda at, said, end: f'{{"{_ALIKE}": {end}, "at": {_as_text(at)}, "said": {_as_text(said)}{host}'


def _known_of(failure: Failure) -> dict[str, Any]:
    """Return what the details of a failure say beside its headers, if its trace is stored for all."""
    known: dict[str, Any] = {"queue": failure.queue, "tries": failure.tries}
    return {**known, "description": failure.description} if failure.description else known


def _written_alone(failure: Failure, trace: SharedTrace | None) -> str:
    headers: dict[str, Any] = dict(failure.headers)
    if trace is not None:
        headers[_TRACE_HEADER] = None  # in its place
        known: dict[str, Any] = {_SHARED: trace.end, **_known_of(failure)}
    else:
        known = {name: value for name, value in zip(_FIELDS, _values_of(failure), strict=True) if value}
        for field in _MAY_BE_LONG:
            text = known.get(field, "")
            if len(text) > _LONG:
                headers.update((name, {_SAME: field}) for name, value in failure.headers.items() if value == text)
    known["headers"] = headers
    return _as_json(known)


def read(text: str, shared: str | None = None) -> dict[str, Any]:
    """Return the details that a text says, also one of a version that stored a trace twice.

    Args:
        text: the text.
        shared: the text that is stored for all that share it; None: there is none.
    """
    details: dict[str, Any] = json.loads(text)
    if (end := details.pop(_ALIKE, None)) is not None:
        return _with_all(details, shared, end)
    headers = details.get("headers", {})
    if (end := details.pop(_SHARED, None)) is not None:
        return _with_trace(details, headers, shared or "", end)
    for name, value in headers.items():
        if isinstance(value, dict):  # which no header's own value is
            headers[name] = details[value[_SAME]]
    return details


def _with_all(own: Mapping[str, str], shared: str | None, end: int) -> dict[str, Any]:
    details: dict[str, Any] = json.loads(shared or '{"trace": "", "headers": {}}')
    headers, trace = details.pop("headers"), details.pop("trace")
    headers |= {header: own[name] for name, header in _OWN.items() if name in own}
    return _with_trace(details, headers, trace, end)


def _with_trace(details: dict[str, Any], headers: dict[str, Any], trace: str, end: int) -> dict[str, Any]:
    said = headers.get(FIELD_HEADERS["exception_message"], "")
    headers[_TRACE_HEADER] = trace if end < 0 else trace + said + "\n" * end
    details |= {field: headers.get(header, "") for field, header in FIELD_HEADERS.items()}
    details["vocabulary"] = _WORKERS
    return {**{name: details[name] for name in _FIELDS if details.get(name)}, "headers": headers}


def in_full(text: str, shared: str) -> str:
    """Return details with all that is shared in them, as ``written`` makes them of a failure that shares nothing."""
    details = read(text, shared)
    headers = details["headers"]
    long = {details[field]: field for field in reversed(_MAY_BE_LONG) if len(details.get(field, "")) > _LONG}
    details["headers"] = {n: {_SAME: long[v]} if isinstance(v, str) and v in long else v for n, v in headers.items()}
    return _as_json(details)
