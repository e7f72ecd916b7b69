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

_SAME, _SHARED = "same_as", "shared_trace"

_WORKERS = "redrive"
"""The vocabulary of failures that a worker wrote into headers."""
_TRACE_HEADER = FIELD_HEADERS["stack_trace"]
_OTHERS = {field: header for field, header in FIELD_HEADERS.items() if field != "stack_trace"}
_others_of = attrgetter(*_OTHERS)
_OTHER_HEADERS = tuple(_OTHERS.values())
_DIFFERENT = frozenset({FAILED_AT, FIELD_HEADERS["exception_message"]})
"""The headers, beside the trace, that failures which are alike do not share. They are texts."""
_ALIKE_FIELDS = {field: header for field, header in _OTHERS.items() if header not in _DIFFERENT}


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
_as_text: Callable[[Any], str] = json.encoder.encode_basestring_ascii


class _Template(NamedTuple):
    """The details of failures that are alike, up to what is different in each.

    Attributes:
        digest: that of their trace.
        pieces: the text, without the end of the trace at its beginning, in three pieces.
        different: the headers whose values are between these.
    """

    digest: int
    pieces: tuple[str, str, str]
    different: tuple[str, str]


@lru_cache(maxsize=500)
def _template(alike: Alike) -> _Template | None:
    """Return how the details of failures that are alike are written; None: one by one."""
    failure, digest = alike.failure, _digest_of(alike.trace)
    headers: dict[str, Any] = {**dict.fromkeys(alike.names), **failure.headers}
    alike_in_fields = [(getattr(failure, field), headers.get(name, "")) for field, name in _ALIKE_FIELDS.items()]
    if digest is None or len(alike.trace) <= _LONG or failure.vocabulary != _WORKERS:
        return None
    if any(value != said for value, said in alike_in_fields):
        return None
    different = [name for name in alike.names if name in _DIFFERENT]
    if len(different) != len(_DIFFERENT):
        return None
    whole = _as_json({**_known_of(failure), "headers": headers})
    pieces: list[str] = []
    for name in different:
        before, _, whole = whole.partition(f"{_as_json(name)}: null")
        pieces.append(f"{before}{_as_json(name)}: ")
    return _Template(digest, (pieces[0], pieces[1], whole), (different[0], different[1]))


def shared_by(alike: Alike) -> SharedTrace | None:
    """Return the trace of failures that are alike, without its end; None: the details of each are written alone."""
    template = _template(alike)
    return None if template is None else SharedTrace(template.digest, alike.trace, -1)


def trace_of(failure: Failure, alike: Alike | None = None) -> SharedTrace | None:
    """Return the trace of a failure as others may share it; None: it stays in the details.

    Args:
        failure: the failure.
        alike: what it shares with others, if it is known.
    """
    if alike is not None and (template := _template(alike)) is not None:
        end = len(failure.stack_trace) - len(alike.trace) - len(failure.exception_message)
        return SharedTrace(template.digest, alike.trace, end)
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
    a, b, c = template.pieces
    before = f'{{"{_SHARED}": '
    between = f", {a[1:]}"
    if template.different[0] == FAILED_AT:
        return lambda at, said, end: f"{before}{end}{between}{_as_text(at)}{b}{_as_text(said)}{c}"
    return lambda at, said, end: f"{before}{end}{between}{_as_text(said)}{b}{_as_text(at)}{c}"


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
